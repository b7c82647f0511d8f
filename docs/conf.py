"""Configuration of the documentation site: `make docs`."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import boltzport

project = "boltzport"
author = "The boltzport developers"
version = release = boltzport.__version__

extensions = ["myst_nb"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["examples/*.py"]

# The tests execute the notebooks; the site shows them as they are in the repository.
nb_execution_mode = "off"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"boltzport {release}"
html_show_copyright = False
# MathML is rendered by the browser itself: the site loads nothing from elsewhere.
html_math_renderer = "mathml"


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    writer.body.append(f'<p style="overflow: auto hidden">{convert(node.astext(), display="block")}</p>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer of equations."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
