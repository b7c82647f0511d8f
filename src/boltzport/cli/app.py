"""The application that the commands register with, and how it ends."""

import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import cyclopts

from boltzport import __version__
from boltzport.core.errors import InputError, LostProcess, RunError

app = cyclopts.App(
    name="boltzport",
    version=__version__,
    help="Boltzmann ensembles of molecules by constrained mass transport, without samples to start from.",
    help_format="markdown",
)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 bad usage or input."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe of another encoding gets a question mark where it has no such character.
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")
    try:
        with _terminations(), _together(sys.argv[1:] if arguments is None else arguments):
            app(arguments, exit_on_error=False, print_error=False)
    except (cyclopts.CycloptsError, InputError) as error:
        _fail(str(error), code=2)
    except (RunError, LostProcess) as error:
        _fail(str(error), code=1)
    except KeyboardInterrupt:
        _fail("interrupted", code=1)
    except BrokenPipeError:
        # The reader has closed the pipe (`boltzport systems | head -1`); that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except MemoryError:
        _fail("there is not enough memory for this; ask for less at once", code=1)
    except OSError as error:
        # A full disk, a folder without permission: nothing that a traceback would explain better.
        where = f"{error.filename}: " if error.filename else ""
        _fail(f"{where}{error.strerror or error}", code=1)
    raise SystemExit(0)


TOGETHER = ("train", "evaluate", "sample", "reference", "bench train")
"""Commands that many processes work on together."""


@contextmanager
def _together(arguments: Sequence[str]) -> Iterator[None]:
    """Join the other processes of torchrun, if there are any; one of them says why the command fails."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    # This imports torch, which most commands need late or not at all.
    from boltzport.core.meeting import joined

    command = " ".join(arguments[: 2 if arguments[:1] == ["bench"] else 1])
    with joined() as ranks:
        try:
            if command not in TOGETHER:
                raise InputError(
                    f"`boltzport {command}` runs in one process, and {ranks.world} were started; leave out torchrun"
                )
            yield
        except Exception as error:
            if ranks.first():
                raise
            raise SystemExit(2 if isinstance(error, InputError) else 1) from None


@contextmanager
def _terminations() -> Iterator[None]:
    """Treat a request to terminate like Ctrl-C, so that temporary files are removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = {}
    # Signal handlers can only be set in the main thread.
    with suppress(ValueError):
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            # nohup ignores the signal, and that must stay.
            if signal.getsignal(number) is signal.SIG_DFL:
                former[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _fail(message: str, *, code: int) -> NoReturn:
    sys.stderr.write(f"boltzport: {' '.join(message.split())}\n")
    raise SystemExit(code)
