"""What a comparison leaves behind: CSV and JSON, the page, its figures, and the command that makes them."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from boltzport.cli import main
from boltzport.experiments.compare import compare, comparison_table, pictures, to_csv, to_json, write_comparison
from boltzport.experiments.compare.rows import table_rows
from boltzport.reporting import Artist, RunCurve, steps_figure, work_figure
from boltzport.reporting.figures.maps import Panel, density_panels
from runs import compared_toy_run as toy_run
from runs import write_molecule_run, write_toy_run


def test_the_csv_has_what_the_json_has(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path / "a", seed=1, ess=0.25), toy_run(tmp_path / "b", seed=2, ess=0.5)]
    runs.append(toy_run(tmp_path / "c", method="cmt", settings='name = "x, \\"y\\""', nll=-3.5))
    found = compare([*runs, write_molecule_run(tmp_path / "aldp")])
    lines = list(csv.DictReader(io.StringIO(to_csv(found))))
    groups = [group for system in to_json(found)["systems"] for group in system["groups"]]
    assert [line["group"] for line in lines] == [group["label"] for group in groups]
    assert lines[0]["seeds"] == "1 2"
    assert float(lines[0]["ess"]) == 0.375
    assert float(lines[0]["ess_error"]) == pytest.approx(0.125)
    assert lines[0]["ess_runs"] == "2"
    assert (lines[0]["nll"], lines[0]["nll_runs"], lines[1]["nll"], lines[1]["nll_error"]) == ("", "0", "-3.5", "")
    assert float(lines[2]["ramachandran.mean.kl_reweighted"]) == 0.0031
    for line, group in zip(lines, groups, strict=True):
        for name, metric in group["metrics"].items():
            assert float(line[name]) == metric["mean"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of a good run with one that lost a mode, and one on a molecule."""
    folder = tmp_path_factory.mktemp("compared")
    lost = write_toy_run(folder / "lost")
    good = toy_run(folder / "good", method="cmt", settings='note = "<b>&"')
    return write_comparison(compare([lost, good, write_molecule_run(folder / "aldp")]), folder / "out")


def test_the_page_loads_nothing_and_says_first_what_is_missing(written: Path) -> None:
    page = written.read_text()
    addresses = re.findall(r'(?:src|href|srcset)="([^"]*)"', page)
    assert addresses
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert "default-src 'none'" in page
    text = " ".join(re.sub(r"<[^>]*>", " ", re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)).split())
    assert text.index("of the probability is missing") < text.index("effective sample size fraction of the samples")
    assert not re.search(r"\b(best|winner|wins|outperform)", text, flags=re.IGNORECASE)
    assert page.count('<table class="metrics">') == 2
    assert all(len(alt) > 20 for alt in re.findall(r'<img [^>]*alt="([^"]*)"', page))


def test_figures_are_files_too(written: Path) -> None:
    names = {path.name for path in (written.parent / "figures").iterdir()}
    # The toy's runs have no path, so there is no picture of it.
    expected = ["gmm-2d_work", "gmm-2d_density_2d", "gmm-2d_energy"]
    expected += [f"alanine-dipeptide_{name}" for name in ("work", "steps", "ramachandran_ALA2", "tica", "energy")]
    assert names == {f"{name}.{form}" for name in expected for form in ("svg", "png")}
    assert json.loads((written.parent / "comparison.json").read_text())["systems"][1]["system"] == "alanine-dipeptide"


def curve(group: str, place: int, end: float, **found: float) -> RunCurve:
    steps = {
        "step": np.arange(1.0, 5.0),
        "evaluations": np.array([10.0, 100.0, 1000.0, 10_000.0]),
        "gradient_steps": np.array([50.0, 60.0, 90.0, 95.0]),
        "seconds": np.arange(1.0, 5.0) * 60,
        "ess": np.linspace(0.0, end, 4),
        "log_z": np.array([-1e6, -3.0, -1.0, end]),
        "step_ess": np.full(4, 0.5),
        "step_ess_bound": np.full(4, 0.6),
    }
    return RunCurve(group=group, place=place, steps=steps, **found)


def test_one_line_a_run_and_one_colour_a_group() -> None:
    curves = [curve("a", 0, 0.5, ess=0.4, log_z=0.3), curve("a", 0, 0.7), curve("b", 1, 0.9)]
    figure = work_figure(curves, exact_log_z=0.25)
    assert figure is not None
    by_evaluations, by_gradient_steps, by_time, log_z, *_ = figure.axes
    np.testing.assert_allclose(by_gradient_steps.lines[0].get_xdata(), [50.0, 60.0, 90.0, 95.0])
    assert (by_evaluations.get_xscale(), by_time.get_xscale()) == ("log", "linear")
    lines = [line for line in by_time.lines if len(line.get_xdata()) == 4]
    np.testing.assert_allclose(lines[2].get_ydata(), np.linspace(0.0, 0.9, 4))
    np.testing.assert_allclose(lines[2].get_xdata(), [1.0, 2.0, 3.0, 4.0])
    colours = [line.get_color() for line in lines]
    assert colours[0] == colours[1] != colours[2]
    dots = [line for line in by_time.lines if len(line.get_xdata()) == 1]
    assert [(dot.get_xdata()[0], dot.get_ydata()[0]) for dot in dots] == [(4.0, 0.4)]
    assert log_z.get_ylim()[0] > -10, "the first flows do not flatten all that follows"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "exact log Z"]
    assert work_figure([RunCurve(group="a", place=0, steps={})]) is None


def test_a_run_that_did_not_arrive_does_not_flatten_the_others() -> None:
    lost = curve("b", 1, 0.5, ess=1e-4, log_z=-300.0)
    lost.steps["log_z"][:] = -300.0
    figure = work_figure([curve("a", 0, 0.5, ess=0.4, log_z=0.3), lost])
    assert figure is not None
    assert figure.axes[3].get_ylim()[0] > -10


def test_metrics_of_a_step_are_drawn_at_the_work_behind_their_flow() -> None:
    """At the beginning of the step, all along, or at its end; the evaluation's dot is at the end of all."""
    run = curve("a", 0, 0.5, ess=0.4)
    run.steps["drawn"] = np.array([0.0, 0.5, 1.0, np.nan])
    figure = work_figure([run])
    assert figure is not None
    _, by_gradient_steps, by_time, *_ = figure.axes
    np.testing.assert_allclose(by_gradient_steps.lines[0].get_xdata(), [0.0, 55.0, 90.0, 95.0])
    assert by_time.lines[1].get_xdata()[0] == 4.0


def test_groups_of_one_colour_have_lines_of_their_own() -> None:
    styles = {(run.colour, run.dashes) for run in (curve("x", place, 0.5) for place in range(28))}
    assert len(styles) == 28


def test_lines_that_coincide_are_told_apart_by_their_dashes() -> None:
    for place in range(4, 28):
        assert len({curve("x", place - k, 0.5).dashes for k in range(2)}) == 2
    assert len({curve("x", place, 0.5).dashes for place in range(4)}) == 4


def test_steps_are_drawn_with_their_bound() -> None:
    figure = steps_figure([curve("a", 0, 0.5), curve("b", 1, 0.6)])
    assert figure is not None
    (panel,) = figure.axes
    assert [line.get_ydata()[0] for line in panel.lines] == [0.5, 0.6, 0.5, 0.6]
    assert steps_figure([RunCurve(group="a", place=0, steps={"step": np.arange(3.0), "ess": np.ones(3)})]) is None


def test_maps_of_runs_are_densities_whatever_their_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform on the same square, once by 4 bins and once by 16 of half the width."""
    runs, drawn = [], []
    for place, bins in enumerate((2, 4)):
        runs.append(toy_run(tmp_path / str(bins), seed=place))
        edges = np.linspace(0.0, 2.0, bins + 1)
        values = {"density_2d_model": np.full((bins, bins), 1.0 / bins**2)}
        np.savez(runs[-1] / "evaluation.npz", density_2d_edges_0=edges, density_2d_edges_1=edges, **values)
    for name in ("work_figure", "steps_figure"):
        monkeypatch.setattr(pictures, name, lambda *_, **__: None)

    def recorded(panels: list[Panel], **layout: int) -> Figure:
        drawn.extend(panels)
        return density_panels(panels, **layout)

    monkeypatch.setattr(pictures, "density_panels", recorded)
    pictures.draw_target(compare(runs).targets[0], Artist(tmp_path))
    # For a desk, and for a phone.
    assert [panel.values.shape for panel in drawn] == [(2, 2), (4, 4)] * 2
    for panel in drawn:
        np.testing.assert_allclose(panel.values, 0.25)


def test_maps_with_bins_of_their_own_share_one_range() -> None:
    values = np.zeros((4, 4))
    values[1, 2] = 1.0
    panels = [
        Panel("a", "black", values, (np.linspace(0, 4, 5), np.linspace(0, 4, 5))),
        Panel("b", "black", values, (np.linspace(0, 8, 5), np.linspace(-4, 4, 5))),
    ]
    figure = density_panels(panels, labels=("x", "y"), columns=2)
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim() == pytest.approx((1 - 0.15, 4 + 0.15))
    assert figure.axes[0].get_ylim() == pytest.approx((0 - 0.15, 3 + 0.15))


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run, other = toy_run(tmp_path / "a", ess=0.5), toy_run(tmp_path / "b", method="cmt", settings="x = [1, 2]")

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        done = capfd.readouterr()
        return int(stop.value.code or 0), done.out, done.err

    code, out, err = call("compare", run, other, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["systems"][0]["groups"][0]["metrics"]["ess"] == {"mean": 0.5, "error": None, "runs": 1}
    assert Path(found["page"]) == Path("comparison/comparison.html")
    monkeypatch.setattr("boltzport.experiments.compare.page.draw_target", lambda *_, **__: [])
    code, out, err = call("compare", run, other, "--out", "there")
    assert code == 0
    assert "effective sample size" in out
    assert "page: there/comparison.html" in out
    code, _, err = call("compare", run, "nowhere")
    assert (code, err.split(";")[0]) == (2, "boltzport: no such run: nowhere")
    assert call("compare")[0] == 2
    # What a pattern takes along is named and left out; nothing but that is refused.
    code, out, err = call("compare", run, "there", "--json")
    assert (code, err, len(json.loads(out)["systems"][0]["groups"])) == (0, "skipped, not run directories: there\n", 1)
    code, _, err = call("compare", "there")
    assert (code, err) == (2, "boltzport: there has no config.toml; expected a directory made by `boltzport train`\n")
    code, out, _ = call("compare", "alanine-dipeptide", "--json")
    assert (code, json.loads(out)["systems"][0]["system"]) == (0, "alanine-dipeptide")


def test_a_narrow_terminal_has_fewer_groups_beside_each_other_and_every_figure_whole(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path / str(k), settings=f"learning_rate = {k}.5", log_z=-1.2345) for k in range(7)]
    found = compare(runs)
    cells = [cell for row in table_rows(found.targets[0]) if not row.words for cell in row.cells]
    for width, tables in ((70, 4), (240, 2)):
        console = Console(width=width, file=io.StringIO())
        console.print(comparison_table(found, width=width))
        text = console.file.getvalue()
        assert text.count("effective sample size  ") == tables
        assert all(cell in text for cell in cells)
        assert "…" not in text
        assert all(f"learning_rate={k}.5" in text for k in range(7))


def test_a_run_without_any_figure_has_a_table(tmp_path: Path) -> None:
    run = write_molecule_run(tmp_path / "bare", evaluated=False)
    for file in run.iterdir():
        if file.is_file() and file.name != "config.toml":
            file.unlink()
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(comparison_table(compare([run]), width=120))
    assert "is not evaluated" in " ".join(console.export_text().split())
