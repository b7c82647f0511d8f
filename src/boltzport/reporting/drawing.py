"""Write figures as files and embed them in a page."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from boltzport.core.files import write_atomically
from boltzport.reporting.figures.style import STYLE

DPI = 180
NARROW, WIDE = 1, 3
"""Number of panels in a row, on a phone and on a desktop."""


class Picture(NamedTuple):
    """A figure on the page.

    Attributes:
        name: Name of its files.
        width: Width of the wide figure in inches; a small figure is not enlarged.
        wide: Figure for desktop and print, as a data URL.
        narrow: Figure for a phone, as a data URL; None if it is the same.
        alt: Alternative text.
        caption: What the figure shows and how to read it.
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
    """Embed a figure in the page, and write it as SVG and PNG if a directory is given.

    Args:
        name: Name of the files.
        wide: Figure for desktop, which is also written to the files.
        narrow: Figure for a phone; None if it is the same.
        alt: Alternative text.
        caption: Caption.
        folder: Directory of the files; None to write none.
    """
    svg = _render(wide, "svg")
    # The layout is computed once, since it takes longer than everything else.
    wide.set_layout_engine("none")
    if folder is not None:
        png = _render(wide, "png")
        write_atomically(folder / f"{name}.svg", lambda file: file.write(svg))
        write_atomically(folder / f"{name}.png", lambda file: file.write(png))
    small = None if narrow is None else _address(_render(narrow, "svg"))
    return Picture(name, float(wide.get_figwidth()), _address(svg), small, alt, caption)


class Artist(NamedTuple):
    """Draws a figure twice, for a desktop and for a phone.

    Attributes:
        folder: Directory of the figure files; None to write none.
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
        """A figure of several panels, laid out in a number of columns."""
        wide, narrow = (figure(count) for count in columns)
        return picture(name, wide, narrow, alt=alt, caption=caption, folder=self.folder)

    def single(self, name: str, figure: Figure, *, alt: str, caption: str) -> Picture:
        """A figure of one panel, the same on all screens."""
        return picture(name, figure, alt=alt, caption=caption, folder=self.folder)


def _render(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        # Without a date, the same figure gives the same file.
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=DPI, metadata=metadata)
    return buffer.getvalue()


def _address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
