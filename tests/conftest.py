"""What all tests share."""

import signal

import torch
from hypothesis import settings

# Two test processes run side by side, one thread each: more threads than cores are many times slower.
torch.set_num_threads(1)
# Replayable, and never a timing: the same examples on every run, however slow the machine.
settings.register_profile("replayable", derandomize=True, deadline=None)
settings.load_profile("replayable")
# A shell starts background jobs with interrupts ignored, and the programs that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
