"""The page of a run: one file that opens offline."""

from pathlib import Path

import jinja2
from markupsafe import Markup

import boltzport
from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, write_atomically
from boltzport.reporting import words
from boltzport.reporting.commands import commands
from boltzport.reporting.findings import (
    diagnostics_rows,
    log_z_rows,
    missing_in_words,
    notices,
    reference_in_words,
    verdicts,
)
from boltzport.reporting.pictures import draw_pictures
from boltzport.reporting.rundata import RunData
from boltzport.reporting.structures import Basin, basins
from boltzport.reporting.tables import headline, ledger_rows, metric_rows, trained_on


def write_report(run: RunData, output: Path | None = None, *, figures: bool = True) -> Path:
    """Write the page of a run.

    Args:
        run: A run, finished or not, evaluated or not.
        output: Output file; `report.html` in the run directory by default.
        figures: Also write the figures as SVG and PNG to `figures` in the run directory.

    Returns:
        Path of the page.

    Raises:
        InputError: There is no such directory.
    """
    directory = RunDirectory(run.path)
    output = directory.report if output is None else output
    if not output.parent.is_dir():
        raise InputError(f"no such directory: {output.parent}; create it first")
    if figures:
        directory.figures.mkdir(exist_ok=True)
    page = render(run, directory.figures if figures else None)
    write_atomically(output, lambda file: file.write(page.encode("utf-8")))
    return output


def render(run: RunData, figures: Path | None) -> str:
    """The HTML of the page.

    Args:
        run: Contents of the run directory.
        figures: Directory of the figure files; None to write none.
    """
    environment = page_environment("boltzport.reporting")
    try:
        pictures = draw_pictures(run, figures)
    except (ValueError, TypeError, LookupError) as error:
        # Arrays of other lengths and types than an evaluation writes.
        reason = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            f"{RunDirectory(run.path).arrays} and the other files of the run do not belong together: "
            f"{reason[0]}; run `evaluate` again"
        ) from error
    shown = _basins(run)
    structures = [{"name": basin.name, "pdb": basin.structure} for basin in shown if basin.structure is not None]
    return environment.get_template("report.html").render(
        run=run,
        version=boltzport.__version__,
        subtitle=_subtitle(run),
        verdicts=verdicts(run),
        notices=notices(run),
        headline=headline(run.metrics),
        pictures=pictures,
        basins=shown,
        structures=structures,
        temperatures=[entry for entry in run.details.get("temperatures") or [] if isinstance(entry, dict)],
        energy_unit="" if run.temperature is None else " / kJ/mol",
        rows=[] if run.results is None else metric_rows(run.results),
        ledger=ledger_rows(run.ledger) if run.ledger else [],
        trained_on=trained_on(run.ledger),
        failed=run.ledger.get("failed", 0),
        reference=reference_in_words(run),
        diagnostics=diagnostics_rows(run),
        estimates=log_z_rows(run),
        missing=missing_in_words(run),
        evaluated=run.results is not None,
        referenced=any(name.endswith("_reference") for name in run.arrays),
        commands=commands(run),
        figures=figures is not None,
    )


def page_environment(package: str) -> jinja2.Environment:
    """Templates of a package, with the macros and styles that all pages share.

    Args:
        package: Name of the package; its templates are in its directory `assets`.
    """
    packages = dict.fromkeys((package, "boltzport.reporting"))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name, "assets") for name in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": words.number, "percent": words.percent, "duration": words.duration}
    environment.globals["asset"] = lambda name: Markup(_asset(name))
    return environment


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def _basins(run: RunData) -> list[Basin]:
    records = [record for record in run.details.get("basins") or [] if isinstance(record, dict)]
    return basins(records, run.structure, run.arrays.get("representative_positions"))


def _subtitle(run: RunData) -> str:
    config = run.config
    parts = [str(config[key]) for key in ("method", "preset") if key in config]
    parts += [f"seed {config['seed']}"] if "seed" in config else []
    if "molecule" in config:
        molecule = config["molecule"]
        field = molecule.get("forcefield", [])
        parts.append(" + ".join(field) if isinstance(field, list) else str(field))
        parts += [f"{run.temperature:g} K"] if run.temperature is not None else []
    return " · ".join(part for part in parts if part)
