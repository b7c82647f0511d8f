"""The page in a browser: it opens offline, without an error, and shows molecules."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from boltzport.reporting import read_run, write_report
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
    return write_report(read_run(write_molecule_run(tmp_path_factory.mktemp("runs") / "aldp")))


class Opened:
    """A page that was opened without a network, and all that it complained of or asked for."""

    def __init__(self, browser: Browser, path: Path, *, width: int) -> None:
        self.width = width
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900})
        # Graphics in software take long on a busy machine.
        context.set_default_timeout(300_000)
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("window.boltzportViewer !== undefined")


@pytest.fixture(scope="module")
def desk(browser: Browser, report: Path) -> Opened:
    return Opened(browser, report, width=1200)


@pytest.fixture(scope="module")
def phone(browser: Browser, report: Path) -> Opened:
    return Opened(browser, report, width=390)


@pytest.mark.parametrize("device", ["desk", "phone"])
def test_the_page_opens_offline_without_an_error(device: str, report: Path, request: pytest.FixtureRequest) -> None:
    opened: Opened = request.getfixturevalue(device)
    page = opened.page
    for hidden in page.locator("details").all():
        hidden.evaluate("node => node.open = true")
    loaded = "Array.from(document.images).filter(i => i.id !== 'viewer-print').map(i => [i.complete, i.naturalWidth])"
    assert all(complete and natural > 0 for complete, natural in page.evaluate(loaded))
    assert page.evaluate("document.documentElement.scrollWidth") == opened.width, "the page scrolls sideways"
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [report.as_uri()]


def test_the_viewer_shows_every_atom_of_every_basin(desk: Opened) -> None:
    page = desk.page
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
    assert desk.complaints == []


def test_a_phone_gets_the_narrow_figures(desk: Opened, phone: Opened) -> None:
    natural = "image => image.naturalWidth / image.naturalHeight"
    wide, narrow = (opened.page.locator("#ramachandran_ALA2 img").evaluate(natural) for opened in (desk, phone))
    assert wide > 2.0
    assert narrow < 0.6


def test_paper_gets_a_picture_of_the_viewer(desk: Opened) -> None:
    assert desk.page.pdf().startswith(b"%PDF")
    desk.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    desk.page.wait_for_function("document.getElementById('viewer-print').naturalWidth > 100")
    assert desk.complaints == []
