"""Figures as files and as parts of a page."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from boltzport.report.figures.style import STYLE

DPI = 180
NARROW, WIDE = 1, 3
"""Panels in a row on a phone and on a desk."""


class Picture(NamedTuple):
    """A figure on the page.

    Attributes:
        name: Of its files.
        width: Of the wide one in inches: a small figure is not blown up.
        wide: For a desk and for print, as a data address.
        narrow: For a phone, where that is another one.
        alt: For those who cannot see it.
        caption: What it shows and how to read it.
    """

    name: str
    width: float
    wide: str
    narrow: str | None
    alt: str
    caption: str


def picture(
    name: str, wide: Figure, narrow: Figure | None = None, *, alt: str, caption: str, folder: Path | None
) -> Picture:
    """Make a figure a part of the page, and write it as SVG and PNG where a folder is given.

    Args:
        name: Of the files.
        wide: As it is shown on a desk; this is the one that goes to the files.
        narrow: As it is shown on a phone, if that is not the same.
        alt: For those who cannot see it.
        caption: For all others.
        folder: Where files go; None for none.
    """
    svg = _render(wide, "svg")
    # Panels are laid out once; it takes longer than all the rest.
    wide.set_layout_engine("none")
    if folder is not None:
        (folder / f"{name}.svg").write_bytes(svg)
        (folder / f"{name}.png").write_bytes(_render(wide, "png"))
    small = None if narrow is None else _address(_render(narrow, "svg"))
    return Picture(name, float(wide.get_figwidth()), _address(svg), small, alt, caption)


class Artist(NamedTuple):
    """Draws a figure twice, for a desk and for a phone.

    Attributes:
        folder: Where figures go as files; None for none.
    """

    folder: Path | None

    def __call__(
        self,
        name: str,
        figure: Callable[[int], Figure],
        *,
        alt: str,
        caption: str,
        columns: tuple[int, int] = (WIDE, NARROW),
    ) -> Picture:
        """A figure of several panels, laid out by the number of columns."""
        wide, narrow = (figure(count) for count in columns)
        return picture(name, wide, narrow, alt=alt, caption=caption, folder=self.folder)

    def single(self, name: str, figure: Figure, *, alt: str, caption: str) -> Picture:
        """A figure of one panel, the same everywhere."""
        return picture(name, figure, alt=alt, caption=caption, folder=self.folder)


def _render(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        # Without a date, the same figures give the same file.
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
