"""The application that the commands register with, and how it ends."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import cyclopts

from boltzport import __version__
from boltzport.core.errors import InputError, RunError

app = cyclopts.App(
    name="boltzport",
    version=__version__,
    help="Boltzmann ensembles of molecules by constrained mass transport, from energies alone.",
    help_format="markdown",
)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 bad usage or input."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except (cyclopts.CycloptsError, InputError) as error:
        _fail(str(error), code=2)
    except RunError as error:
        _fail(str(error), code=1)
    except KeyboardInterrupt:
        _fail("interrupted", code=1)
    except BrokenPipeError:
        # The reader has closed the pipe (`boltzport systems | head -1`); that is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def _fail(message: str, *, code: int) -> NoReturn:
    sys.stderr.write(f"boltzport: {' '.join(message.split())}\n")
    raise SystemExit(code)
