"""`boltzport doctor`."""

from rich.console import Console
from rich.table import Table

from boltzport.cli.app import app
from boltzport.cli.options import Json
from boltzport.cli.printing import print_json


@app.command
def doctor(*, json: Json = False) -> None:
    """Check this machine and the installation, and say how to fix what is missing.

    Args:
        json: Print one JSON object instead of a table.
    """
    from boltzport.bench.doctor import examine

    checks = examine()
    failed = any(check.status == "failed" for check in checks)
    if json:
        print_json({"healthy": not failed, "checks": [check._asdict() for check in checks]})
    else:
        table = Table(show_header=False, box=None)
        colours = {"ok": "green", "warning": "yellow", "failed": "red"}
        for check in checks:
            status = f"[{colours[check.status]}]{check.status}[/]"
            table.add_row(check.name, status, check.found + (f"\n-> {check.advice}" if check.advice else ""))
        Console().print(table, highlight=False)
    if failed:
        raise SystemExit(1)
