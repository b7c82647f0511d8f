"""`boltzport settings`."""

from rich.console import Console
from rich.table import Table

from boltzport.cli.app import app
from boltzport.cli.options import Json
from boltzport.cli.printing import print_json
from boltzport.core.preset import Preset


@app.command
def settings(
    method: str = "cmt",
    /,
    *,
    preset: Preset = Preset.LAPTOP,
    system: str = "alanine-dipeptide",
    json: Json = False,
) -> None:
    """List the settings that --set changes: those of a method, and the sizes of each kind of flow.

    Args:
        method: Training method.
        preset: Preset whose values are shown.
        system: System that the values are for; presets depend on it.
        json: Print one JSON object instead of tables.
    """
    from boltzport.experiments import settings_of

    found = settings_of(method, preset=preset, system=system)
    if json:
        print_json({"settings": [one._asdict() | {"value": str(one.value)} for one in found]})
        return
    console = Console()
    console = console if console.is_terminal else Console(width=140)
    for part in dict.fromkeys(one.part for one in found):
        title = f"--set of {method}" if part == "method" else f"--set with {part}"
        table = Table("key", "value", "takes", "range", "meaning", title=title, title_justify="left", box=None)
        for one in found:
            if one.part == part:
                value = f"{one.value:g}" if isinstance(one.value, float) else str(one.value)
                table.add_row(one.key, value, one.kind, one.range, one.meaning)
        console.print(table, highlight=False, markup=False)
