"""The command line."""

import cyclopts

from boltzport import __version__

app = cyclopts.App(name="boltzport", version=__version__, help="Boltzmann ensembles of molecules.")


def main() -> None:
    """Run the command line."""
    app()
