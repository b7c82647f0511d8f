"""Devices and threads of a computation; the one place that knows the name of an accelerator."""

import os
from typing import TYPE_CHECKING, Literal

from boltzport.core.errors import InputError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
"""Names of devices on the command line: `auto` is a GPU if there is one."""


def chosen(name: Device = "auto") -> "torch.device":
    """The device of a name.

    Raises:
        InputError: There is no such device here.

    Example:
        >>> chosen("cpu")
        device(type='cpu')
    """
    import torch

    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InputError("device: expected a GPU that torch can use, and there is none; use cpu, or leave it out")
    if name == "cpu" or not available:
        return torch.device("cpu")
    # Of several GPUs of a host, each process of torchrun has its own.
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def use_threads(threads: int | None) -> None:
    """Compute with a number of threads; None for torch's own choice.

    Raises:
        InputError: It is less than one.
    """
    if threads is None:
        return
    if threads < 1:
        raise InputError(f"threads: expected at least 1, got {threads}")
    import torch

    torch.set_num_threads(threads)
