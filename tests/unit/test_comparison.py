"""Runs side by side: means and errors by hand, who belongs together, what is not hidden, and the files."""

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from boltzport.cli import main
from boltzport.comparison import compare, pictures, to_csv, to_json, write_comparison
from boltzport.comparison.rows import caption, table_rows
from boltzport.errors import InputError
from boltzport.methods import METHODS, Entry
from boltzport.report import Artist, RunCurve, steps_figure, work_figure
from boltzport.report.figures.maps import Panel, density_panels
from runs import write_molecule_run, write_toy_run


def toy_run(
    path: Path, *, seed: int = 0, method: str = "reverse-kl", settings: str = "steps = 500", pairs: int = 2, **figures
) -> Path:
    """An evaluated run on the toy, with some of its figures replaced; with `ess=None` it is not evaluated."""
    write_toy_run(path, evaluated=False)
    config = (path / "config.toml").read_text()
    config = config.replace("seed = 3", f"seed = {seed}").replace('"reverse-kl"', f'"{method}"')
    (path / "config.toml").write_text(config.replace("steps = 500", settings).replace("pairs = 2", f"pairs = {pairs}"))
    if "ess" not in figures or figures["ess"] is not None:
        found = {"samples": 1000, "ess": 0.5, "pareto_k": 0.1, "log_z": 0.0, "log_z_error": 0.001, **figures}
        (path / "evaluation.json").write_text(json.dumps(found))
    return path


def only(*paths: Path):
    (target,) = compare(paths).targets
    return target


def cells(target, name: str) -> tuple[str, ...]:
    return next(row.cells for row in table_rows(target) if row.name == name)


def test_means_and_standard_errors_over_seeds(tmp_path: Path) -> None:
    values = ((0.2, -1.0), (0.3, -2.0), (0.7, -6.0))
    runs = [toy_run(tmp_path / str(seed), seed=seed, ess=ess, log_z=z) for seed, (ess, z) in enumerate(values)]
    target = only(*runs)
    (group,), (found,) = target.groups, target.spreads
    assert group.label == "reverse-kl"
    assert found["log_z"] == pytest.approx((-3.0, math.sqrt((4 + 1 + 9) / 2 / 3), 3))
    assert found["ess"] == pytest.approx((0.4, math.sqrt((0.04 + 0.01 + 0.09) / 2 / 3), 3))
    assert cells(target, "log Z") == ("\u22123.0 ± 1.5",)
    assert cells(target, "runs") == ("3 (seeds 0, 1, 2)",)
    # The same cost for every seed is written without an error, but has one.
    assert found["target_evaluations"] == (2_000_000, 0.0, 3)
    assert cells(target, "energy evaluations") == ("2\u202f000\u202f000",)


def test_one_seed_has_no_error_and_says_so(tmp_path: Path) -> None:
    target = only(toy_run(tmp_path / "a", ess=0.25))
    assert target.spreads[0]["ess"] == (0.25, None, 1)
    assert cells(target, "effective sample size") == ("25\u202f%",)
    assert "One seed only, and so no standard error: reverse-kl." in target.notices()


def test_one_seed_is_written_as_far_as_its_own_interval_knows(tmp_path: Path) -> None:
    figures = {"log_z": -178.68751, "elbo": -178.88431, "intervals": {"log_z": [-178.690, -178.684]}}
    target = only(toy_run(tmp_path / "a", **figures))
    assert cells(target, "log Z") == ("\u2212178.688",)
    assert cells(target, "ELBO") == ("\u2212178.9",)
    # With a second seed the spread between them says how far it is known.
    target = only(tmp_path / "a", toy_run(tmp_path / "b", seed=1, **figures | {"log_z": -178.28751}))
    assert cells(target, "log Z") == ("\u2212178.5 ± 0.2",)


def test_populations_of_basins_are_beside_those_of_the_reference(tmp_path: Path) -> None:
    def basins(**populations: float) -> list[dict[str, object]]:
        reference = {"C5": 0.9, "C7ax": 0.0023}
        return [
            {"name": name, "population": population, "population_reference": reference.get(name)}
            for name, population in populations.items()
        ]

    runs = [
        toy_run(tmp_path / "a", basins=basins(C7ax=0.002, C5=0.89)),
        toy_run(tmp_path / "b", seed=1, basins=basins(C7ax=0.004, C5=0.91)),
        toy_run(tmp_path / "c", method="fab", basins=basins(C5=0.95, epsilon=0.05)),
    ]
    target = only(*runs)
    assert target.spreads[0]["basins.C7ax.population"] == pytest.approx((0.003, 0.001, 2))
    names = [row.name for row in table_rows(target) if row.name.startswith("population")]
    assert names == [
        "population of C5 (reference 90\u202f%)",
        "population of epsilon",
        "population of C7ax (reference 0.23\u202f%)",
    ]
    assert cells(target, names[2]) == ("0.30\u202f% ± 0.10\u202f%", "\u2013")
    assert target.columns.index("basins.C5.population") < target.columns.index("target_evaluations")
    lines = list(csv.DictReader(io.StringIO(to_csv(compare(runs)))))
    assert [line["basins.C7ax.population"] for line in lines] == ["0.003", ""]
    many = toy_run(tmp_path / "d", basins=basins(**{f"b{place}": (20 - place) / 210 for place in range(20)}))
    assert [name for name in only(many).columns if "basins" in name] == [
        f"basins.b{place}.population" for place in range(8)
    ]


def test_the_same_seed_twice_is_no_second_opinion(tmp_path: Path) -> None:
    first, second = toy_run(tmp_path / "a", seed=4), toy_run(tmp_path / "b", seed=4)
    assert any("not independent" in notice for notice in only(first, second).notices())
    assert len(only(first, first, tmp_path / "b" / ".." / "a").members) == 1, "a run that is named twice is one run"
    assert [member.data.path for member in only(first, second, first).members] == [first, second]


def test_groups_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    wide = "trust_region = inf\nsteps = 500"
    target = only(
        toy_run(tmp_path / "b1", seed=1, method="cmt", settings="trust_region = 0.3\nsteps = 500"),
        toy_run(tmp_path / "a", method="fab", settings="trust_region = 7.0\nsteps = 20"),
        toy_run(tmp_path / "b2", seed=2, method="cmt", settings="trust_region = 0.3\nsteps = 500"),
        toy_run(tmp_path / "b3", method="cmt", settings=wide),
        toy_run(tmp_path / "b4", method="cmt", settings=wide, pairs=4),
    )
    labels = [
        "cmt, flow.pairs=2, trust_region=0.3",
        "fab, flow.pairs=2",
        "cmt, flow.pairs=2, trust_region=inf",
        "cmt, flow.pairs=4, trust_region=inf",
    ]
    assert [group.label for group in target.groups] == labels
    assert [member.seed for member in target.groups[0].members] == [1, 2]
    record = json.loads(json.dumps(to_json(compare([tmp_path / "b1", tmp_path / "b3"])), allow_nan=False))
    assert record["systems"][0]["groups"][1]["settings"] == {"trust_region": "inf"}


def test_a_run_without_evaluation_gives_its_last_step_and_a_command(tmp_path: Path) -> None:
    target = only(toy_run(tmp_path / "a", ess=None))
    last = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[-1])
    assert target.spreads[0]["ess"] == (last["ess"], None, 1)
    assert cells(target, "log Z")[0].endswith("†")
    assert cells(target, "missing mass") == ("not checked",)
    assert any(line.startswith("†") for line in caption(target))
    assert any(f"boltzport evaluate {tmp_path / 'a'}" in notice for notice in target.notices())


def test_training_figures_are_not_mixed_with_evaluations(tmp_path: Path) -> None:
    target = only(toy_run(tmp_path / "a", seed=0, ess=0.25), toy_run(tmp_path / "b", seed=1, ess=None))
    (found,) = target.spreads
    assert found["ess"] == (0.25, None, 1)
    assert found["wall_seconds"].runs == 2, "what a run cost is known without an evaluation"
    assert cells(target, "effective sample size") == ("25\u202f% (1 of 2)",)
    assert any("1 of 2 runs are evaluated" in notice for notice in target.notices())


def test_an_evaluation_of_an_earlier_flow_is_named(tmp_path: Path) -> None:
    now = json.loads((toy_run(tmp_path / "a") / "status.json").read_text())["gradient_steps"]
    for then, stale in ((now, False), (now - 1, True)):
        notices = only(toy_run(tmp_path / str(then), gradient_steps=then)).notices()
        assert any("was trained on after its evaluation" in notice for notice in notices) == stale


def test_a_run_that_found_less_than_others_is_marked(tmp_path: Path) -> None:
    lost = toy_run(tmp_path / "lost", method="reverse-kl", ess=0.99, log_z=math.log(0.5))
    good = toy_run(tmp_path / "good", method="cmt", log_z=0.0)
    heavy = toy_run(tmp_path / "heavy", method="fab", log_z=5.0, log_z_error=0.01, pareto_k=1.4)
    for runs in ((lost, good), (good, heavy, lost)):
        target = only(*runs)
        verdicts = {member.data.path.name: member.missing for member in target.members}
        assert verdicts["lost"].at_least == pytest.approx(0.5, abs=0.01)
        assert verdicts["good"].at_least == 0.0, "a run with a heavy tail says nothing of others"
        place = [group.method for group in target.groups].index("reverse-kl")
        assert cells(target, "missing mass")[place].startswith("! at least 49.")
    # One of two seeds: the group is marked all the same.
    target = only(lost, toy_run(tmp_path / "kept", seed=1, log_z=0.0))
    assert cells(target, "missing mass")[0].endswith("%, 1 of 2")


def test_the_most_that_is_missing_is_written(tmp_path: Path) -> None:
    shares = (0.2, 0.5, 0.0)
    runs = [toy_run(tmp_path / str(seed), seed=seed, log_z=math.log(1 - share)) for seed, share in enumerate(shares)]
    found = compare(runs)
    assert cells(found.targets[0], "missing mass")[0].startswith("! at least 49.")
    assert cells(found.targets[0], "missing mass")[0].endswith("2 of 3")
    missing = to_json(found)["systems"][0]["groups"][0]["missing_mass"]
    assert missing == {"at_least": pytest.approx(0.5, abs=0.01), "fired": 2, "checked": 3}
    (line,) = csv.DictReader(io.StringIO(to_csv(found)))
    columns = ("missing_mass_at_least", "missing_mass_fired", "missing_mass_checked")
    assert [float(line[name]) for name in columns] == [missing["at_least"], 2, 3]


def test_what_is_evaluated_has_the_cost_of_then(tmp_path: Path) -> None:
    cost = {"target_evaluations": 11, "gradient_steps": 12, "wall_seconds": 13.0}
    (found,) = only(toy_run(tmp_path / "a", **cost)).spreads
    assert {name: found[name].mean for name in cost} == cost


def test_other_runs_show_missing_mass_where_nothing_is_known(tmp_path: Path) -> None:
    runs = [write_molecule_run(tmp_path / name, reference=False) for name in ("a", "b")]
    assert {member.missing.at_least for member in only(*runs).members} == {0.0}
    record = json.loads((runs[0] / "evaluation.json").read_text())
    (runs[0] / "evaluation.json").write_text(json.dumps(record | {"log_z": record["log_z"] - 1.0}))
    low, high = only(*runs).members
    # The lower end of the difference: 1 less 2.33 standard errors of it.
    assert low.missing.at_least == pytest.approx(1 - math.exp(-(1 - 2.326 * 0.0024 * math.sqrt(2))), abs=1e-4)
    assert high.missing.at_least == 0.0
    assert only(runs[0]).members[0].missing.at_least is None, "alone, nobody can look"
    looked = {"at_least": 0.0, "message": "none", "estimates": [], "uncovered": 0.002}
    (runs[0] / "evaluation.json").write_text(json.dumps(record | {"missing_mass": looked}))
    assert only(runs[0]).members[0].missing == (0.0, "none"), "a reference has looked"


def test_the_verdict_of_an_evaluation_is_kept(tmp_path: Path) -> None:
    missing = {"at_least": 0.3, "message": "at least 30.0 % of the probability is missing", "estimates": []}
    target = only(toy_run(tmp_path / "a", missing_mass=missing))
    assert target.members[0].missing == (0.3, missing["message"])
    assert any("30.0 %" in notice for notice in target.notices())


def test_what_a_method_learns_from_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(config=object, build=lambda *_: None, within=lambda config, _: config, needs_samples=True)
    monkeypatch.setitem(METHODS, "forward-kl", entry)
    runs = [toy_run(tmp_path / name, method=name) for name in ("cmt", "fab", "forward-kl", "ta-bg")]
    for run, ledger in zip(
        runs,
        ({"startup_gradients": 0}, {"training_gradients": 9, "startup_gradients": 3}, {}, {"startup_gradients": 5}),
        strict=True,
    ):
        (run / "ledger.json").write_text(json.dumps({"training": 100, **ledger}))
    target = only(*runs)
    expected = ("energies", "energies and forces", "reference samples", "energies; forces at the start")
    assert cells(target, "trained on") == expected
    assert cells(target, "force evaluations") == ("0", "12", "0", "5")
    assert "What reference samples cost is not among the evaluations." in caption(target)
    assert not any("reference samples" in line for line in caption(only(*runs[:2])))


def test_systems_are_kept_apart(tmp_path: Path) -> None:
    cold, warm = (write_molecule_run(tmp_path / name) for name in ("cold", "warm"))
    (warm / "config.toml").write_text((warm / "config.toml").read_text().replace("300.0", "310.0"))
    found = compare([cold, toy_run(tmp_path / "toy"), warm])
    names = ["alanine-dipeptide (temperature 300.0)", "gmm-2d", "alanine-dipeptide (temperature 310.0)"]
    assert [target.name for target in found.targets] == names
    assert [target.exact_log_z for target in found.targets] == [None, pytest.approx(0.0), None]


def test_evaluations_that_differ_are_named(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path / str(count), samples=count, seed=count) for count in (1000, 5000)]
    assert any("(1000, 5000)" in notice for notice in only(*runs).notices())
    first = toy_run(tmp_path / "a", reference={"checksum": "1"})
    assert "same reference" in " ".join(only(first, runs[0]).notices())
    assert "same reference" not in " ".join(only(first).notices())


def test_folders_that_are_no_runs_are_named(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    for other in ("empty", "nowhere"):
        with pytest.raises(InputError, match=f"{other} has no config.toml"):
            compare([run, tmp_path / other])
    with pytest.raises(InputError, match="at least one run"):
        compare([])
    with pytest.raises(InputError, match="is a run; choose another"):
        write_comparison(compare([run]), run)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be made"):
        write_comparison(compare([run]), tmp_path / "file")


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
        for name, figure in group["figures"].items():
            assert float(line[name]) == figure["mean"]


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
    assert text.index("of the probability is missing") < text.index("effective sample size share of the samples")
    assert not re.search(r"\b(best|winner|wins|outperform)", text, flags=re.IGNORECASE)
    assert page.count('<table class="figures">') == 2
    assert all(len(alt) > 20 for alt in re.findall(r'<img [^>]*alt="([^"]*)"', page))


def test_figures_are_files_too(written: Path) -> None:
    names = {path.name for path in (written.parent / "figures").iterdir()}
    # The toy's runs have no path, so there is no picture of it.
    expected = ["gmm-2d_work", "gmm-2d_density_2d"]
    expected += [f"alanine-dipeptide_{name}" for name in ("work", "steps", "ramachandran_ALA2")]
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
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "log Z as it is known"]
    assert work_figure([RunCurve(group="a", place=0, steps={})]) is None


def test_groups_of_one_colour_have_lines_of_their_own() -> None:
    styles = {(run.colour, run.dashes) for run in (curve("x", place, 0.5) for place in range(28))}
    assert len(styles) == 28


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
    pictures.draw_target(only(*runs), Artist(tmp_path))
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
    assert found["systems"][0]["groups"][0]["figures"]["ess"] == {"mean": 0.5, "error": None, "runs": 1}
    assert Path(found["page"]) == Path("comparison/comparison.html")
    monkeypatch.setattr("boltzport.comparison.page.draw_target", lambda *_, **__: [])
    code, out, err = call("compare", run, other, "--out", "there")
    assert code == 0
    assert "effective sample size" in out
    assert "page: there/comparison.html" in out
    assert call("compare", run, "nowhere")[::2] == (
        2,
        "boltzport: nowhere has no config.toml; expected a folder that `boltzport train` made\n",
    )
    assert call("compare")[0] == 2
