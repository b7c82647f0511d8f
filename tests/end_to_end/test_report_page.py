"""The page in a browser: it opens offline, without an error, and shows molecules."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from boltzport.report import write_report
from runs import write_molecule_run

pytestmark = pytest.mark.slow

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = [
    "--no-sandbox",
    # WebGL without a graphics card.
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install the package `chromium`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(write_molecule_run(tmp_path_factory.mktemp("runs") / "aldp"))


class Opened:
    """A page that was opened without a network, and all that it complained of or asked for."""

    def __init__(self, browser: Browser, path: Path, *, width: int) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900})
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_opens_offline_without_an_error(browser: Browser, report: Path, width: int) -> None:
    opened = Opened(browser, report, width=width)
    page = opened.page
    page.wait_for_function("window.boltzportViewer !== undefined")
    loaded = "Array.from(document.images).filter(i => i.id !== 'viewer-print').map(i => [i.complete, i.naturalWidth])"
    for image in page.locator("details").all():
        image.evaluate("node => node.open = true")
    assert all(complete and natural > 0 for complete, natural in page.evaluate(loaded))
    assert page.evaluate("document.documentElement.scrollWidth") == width, "the page scrolls sideways"
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [report.as_uri()]


def test_the_viewer_shows_every_atom_of_every_basin(browser: Browser, report: Path) -> None:
    page = Opened(browser, report, width=1200).page
    page.wait_for_function("window.boltzportViewer !== undefined")
    pictures = set()
    for button in page.locator("button.basin").all():
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator("button.basin[aria-pressed=true]").count() == 1
        elements = page.evaluate("boltzportViewer.selectedAtoms({}).map(atom => atom.elem)")
        assert len(elements) == 22
        assert elements.count("H") == 12
        pictures.add(page.evaluate("boltzportViewer.pngURI()"))
    # A blank canvas is one picture; four structures are four, each of them more than white.
    assert len(pictures) == 4
    assert min(map(len, pictures)) > 10_000


def test_paper_gets_a_picture_of_the_viewer(browser: Browser, report: Path) -> None:
    page = Opened(browser, report, width=1200).page
    page.wait_for_function("window.boltzportViewer !== undefined")
    assert page.pdf().startswith(b"%PDF")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("document.getElementById('viewer-print').naturalWidth > 100")


def test_a_phone_gets_the_narrow_figures(browser: Browser, report: Path) -> None:
    shapes = {}
    for width in (1200, 390):
        page = Opened(browser, report, width=width).page
        page.wait_for_function("window.boltzportViewer !== undefined")
        natural = "image => image.naturalWidth / image.naturalHeight"
        shapes[width] = page.locator("#ramachandran_ALA2 img").evaluate(natural)
    assert shapes[1200] > 2.0
    assert shapes[390] < 0.6
