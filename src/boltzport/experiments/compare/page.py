"""The files of a comparison: JSON, CSV, figures, and one page that opens offline."""

import re
from pathlib import Path
from typing import NamedTuple

import boltzport
from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, write_atomically, write_json
from boltzport.experiments.compare.compare import Comparison, TargetComparison
from boltzport.experiments.compare.pictures import draw_target
from boltzport.experiments.compare.records import to_csv, to_json
from boltzport.experiments.compare.rows import TableRow, caption, table_rows
from boltzport.reporting import Artist, Picture, page_environment


class Section(NamedTuple):
    """One target on the page."""

    target: TargetComparison
    anchor: str
    notices: list[str]
    rows: list[TableRow]
    caption: list[str]
    pictures: list[Picture]


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write `comparison.html`, `.json`, `.csv` and the figures.

    Args:
        comparison: The comparison.
        folder: Output directory, created if necessary; files of an earlier comparison are replaced.

    Returns:
        Path of the page.

    Raises:
        InputError: The directory is a run, or cannot be created.
    """
    if RunDirectory(folder).config.exists():
        raise InputError(f"{folder} is a run directory; choose another directory")
    figures = folder / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}; choose another directory") from error
    page = folder / "comparison.html"
    text = render(comparison, figures)
    write_json(folder / "comparison.json", to_json(comparison))
    write_atomically(folder / "comparison.csv", lambda file: file.write(to_csv(comparison).encode("utf-8")))
    write_atomically(page, lambda file: file.write(text.encode("utf-8")))
    return page


def render(comparison: Comparison, figures: Path) -> str:
    """The HTML of the page.

    Args:
        comparison: The comparison.
        figures: Directory of the figure files.
    """
    artist, several = Artist(figures), len(comparison.targets) > 1
    sections = []
    for target in comparison.targets:
        anchor = re.sub(r"\W+", "-", target.name).strip("-")
        sections.append(
            Section(
                target=target,
                anchor=anchor,
                notices=target.notices(),
                rows=table_rows(target),
                caption=caption(target),
                pictures=draw_target(target, artist, prefix=f"{anchor}_" if several else ""),
            )
        )
    template = page_environment("boltzport.experiments.compare").get_template("comparison.html")
    return template.render(sections=sections, version=boltzport.__version__)
