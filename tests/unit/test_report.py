"""The page of a run: what it says of runs in every state, and that its figures show the data they are given."""

import json
import math
import re
import shlex
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from boltzport.analysis.metrics import Results
from boltzport.cli.app import app
from boltzport.core.errors import InputError
from boltzport.reporting import read_run, write_report
from boltzport.reporting.commands import commands
from boltzport.reporting.figures import (
    Marginal,
    Triple,
    density_figure,
    marginal_figure,
    path_figure,
    profile_figure,
    progress_figure,
    ramachandran_figure,
    weights_figure,
)
from boltzport.reporting.figures.distributions import cut_where_empty, support
from boltzport.reporting.figures.maps import free_energy
from boltzport.reporting.findings import diagnostics_rows, log_z_rows, notices, reference_in_words
from boltzport.reporting.structures import superpose, with_positions
from boltzport.reporting.tables import headline, ledger_rows, metric_rows, trained_on
from runs import write_molecule_run, write_toy_run


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a toy that lost a mode, with its page beside it."""
    run = write_toy_run(tmp_path_factory.mktemp("runs") / "toy")
    return write_report(read_run(run), run.with_name("page.html"))


@pytest.fixture(scope="module")
def toy(lost: Path) -> str:
    """The page of that run."""
    return lost.read_text()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run that is still going."""
    run = tmp_path_factory.mktemp("runs") / "toy"
    return write_report(read_run(write_toy_run(run, evaluated=False, state="running"))).read_text()


def text_of(page: str) -> str:
    """What a reader sees of a page."""
    body = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_missing_mass_is_said_before_any_figure(toy: str) -> None:
    text = text_of(toy)
    assert text.index("At least 27.3 % of the probability is missing") < text.index("effective sample size")


def test_a_toy_has_densities_and_no_viewer(toy: str) -> None:
    assert 'id="density_2d"' in toy
    assert "ramachandran" not in toy
    assert "3Dmol" not in toy
    assert "Multipliers" not in text_of(toy)


def test_figures_are_files_too(lost: Path) -> None:
    run = lost.with_name("toy")
    names = {"density_2d", "energy", "weights", "marginals_coordinates", "progress"}
    files = {path.name for path in (run / "figures").iterdir()}
    assert files == {f"{name}.{form}" for name in names for form in ("svg", "png")}
    assert (run / "figures" / "energy.png").read_bytes().startswith(b"\x89PNG")
    assert not (run / "report.html").exists()


def test_a_page_loads_nothing(toy: str, running: str) -> None:
    for page in (toy, running):
        addresses = re.findall(r'(?:src|href|srcset)="([^"]*)"', page)
        assert addresses
        assert all(address.startswith(("data:", "#")) for address in addresses)
        assert "default-src 'none'" in page


def test_every_picture_is_described(toy: str) -> None:
    images = re.findall(r"<img [^>]*>", toy)
    assert len(images) == 5
    assert all(len(re.findall(r'alt="([^"]+)"', image)[0]) > 20 for image in images)


def test_a_run_that_goes_on_says_so_and_what_makes_the_rest(running: str) -> None:
    text = text_of(running)
    assert "still running at step 20 of 60" in text
    assert "has not been evaluated" in text
    assert "boltzport evaluate" in text
    assert "Training" in text


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False, state="failed")
    (run / "metrics.jsonl").write_text("")
    text = text_of(write_report(read_run(run)).read_text())
    assert "failed at step 20 of 60: the flow drew no sample of finite energy" in text
    assert "No training step has been logged yet" in text


def test_a_finished_run_without_its_log_is_not_said_to_go_on(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    (run / "metrics.jsonl").unlink()
    text = text_of(write_report(read_run(run)).read_text())
    assert "The log of the training steps is not part of this run" in text
    assert "No training step has been logged yet" not in text


def test_the_command_of_a_reference_builds_the_same_molecule(tmp_path: Path) -> None:
    """From the run's copies of files that are not there any more, and with every option."""
    run = write_molecule_run(tmp_path / "run", reference=False)
    config = (run / "config.toml").read_text().replace('system = "alanine-dipeptide"', 'system = "gone/mine.pdb"')
    made = 'keep = ["A"]\nadd_hydrogens = true\nenergy = "gfn2-xtb"\nforcefield = ["amber14-all.xml", "field.xml"]'
    (run / "config.toml").write_text(config.replace("forcefield = []", made).replace("300.0", "350.0"))
    files = {"gone/mine.pdb": {"file": "0-mine.pdb"}, "field.xml": {"file": "1-field.xml"}}
    (run / "checksums.json").write_text(json.dumps({"inputs": files}))
    words = shlex.split(commands(read_run(run))["reference"])
    assert words[:3] == ["boltzport", "reference", f"{run}/inputs/0-mine.pdb"]
    assert words[3:] == [
        *("--forcefield", "amber14-all.xml", "--forcefield", f"{run}/inputs/1-field.xml", "--keep", "A"),
        *("--add-hydrogens", "--energy", "gfn2-xtb", "--temperature", "350", "--out", "reference"),
    ]
    assert app.parse_args(words[1:], exit_on_error=False, print_error=False)
    (run / "config.toml").write_text(config.replace("forcefield = []", 'source = "system"'))
    words = shlex.split(commands(read_run(run))["reference"])
    assert words[2:5] == [f"{run}/reference.pdb", "--system-xml", f"{run}/system.xml"]


def test_the_command_and_configuration_are_escaped(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    (run / "metrics.jsonl").unlink()
    config = (run / "config.toml").read_text().replace("--seed 3", "--set name=<b>&")
    (run / "config.toml").write_text(config)
    page = write_report(read_run(run)).read_text()
    assert "--set name=&lt;b&gt;&amp;" in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.toml", None, "has no config.toml; expected a directory made by `boltzport train`"),
        ("config.toml", "a = ", "is not TOML"),
        ("evaluation.json", "{", "is not JSON"),
        ("status.json", "[]", "expected a JSON object, got list"),
        ("evaluation.npz", "zip", "run `evaluate` again"),
        # The start of an archive without its end.
        ("evaluation.npz", "PK\x03\x04", "run `evaluate` again"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    run = write_toy_run(tmp_path / "toy")
    (run / name).unlink() if content is None else (run / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_run(run)


def test_a_page_needs_a_folder(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    with pytest.raises(InputError, match="no such directory"):
        write_report(read_run(run), tmp_path / "nowhere" / "page.html")


def test_a_last_line_cut_short_is_not_read(tmp_path: Path) -> None:
    run = read_run(write_toy_run(tmp_path / "toy", evaluated=False, state="running"))
    assert run.steps["step"].tolist() == list(range(20))
    assert np.isfinite(run.steps["ess"]).all()
    assert np.isnan(run.steps["alpha"]).all(), "what was logged as null is not a number"


def test_figures_leave_the_style_of_others_alone() -> None:
    before = dict(mpl.rcParams)
    steps = {"step": np.arange(3.0), "ess": np.array([0.1, np.nan, 0.3]), "seconds": np.arange(3.0)}
    assert isinstance(progress_figure(steps), Figure)
    assert dict(mpl.rcParams) == before


def test_a_method_without_a_path_has_no_picture_of_it() -> None:
    nothing = {"step": np.arange(3.0), "alpha": np.full(3, np.nan)}
    assert path_figure(nothing) is None
    assert progress_figure(nothing) is None
    drawn = path_figure({"step": np.arange(3.0), "alpha": np.array([0.1, 0.5, 1.0])}, temperature=300.0)
    assert drawn is not None
    np.testing.assert_allclose(drawn.axes[1].lines[0].get_ydata(), [3000.0, 600.0, 300.0])


def test_ramachandran_maps_are_free_energies_with_phi_to_the_right() -> None:
    probability = np.full((100, 100), 1e-6)
    probability[30, 80] = 0.5
    probability[60, 10] = 0.0
    assert free_energy(probability)[30, 80] == 0.0
    assert free_energy(probability)[0, 0] == pytest.approx(math.log(0.5e6))
    assert np.isnan(free_energy(probability)[60, 10])
    figure = ramachandran_figure("ALA2", Triple(model=probability, reference=probability))
    image = figure.axes[0].images[0]
    shown = np.asarray(image.get_array())
    assert np.unravel_index(np.argmin(np.nan_to_num(shown, nan=99)), shown.shape) == (80, 30)
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["ALA2, model", "ALA2, reference"]


def test_weights_are_shown_about_their_mean() -> None:
    figure = weights_figure(np.append(np.log([1.0, 3.0] * 500), -np.inf))
    samples, mass = (patch.get_data() for patch in figure.axes[0].patches)
    middle = 0.5 * (samples.edges[1:] + samples.edges[:-1])
    heavy = middle > 0
    width = np.diff(samples.edges)
    assert (samples.values * width)[heavy].sum() == pytest.approx(0.5, abs=0.01)
    assert (mass.values * width)[heavy].sum() == pytest.approx(0.75, abs=0.01)


def test_the_error_of_a_profile_is_about_the_weighted_model() -> None:
    edges = np.linspace(-np.pi, np.pi, 7)
    profile = np.array([0.0, 1.0, np.inf, 2.0, 3.0, 1.0])
    figure = profile_figure("ALA2", edges, Triple(model=profile + 5, reweighted=profile), error=np.full(6, 0.5))
    (band,) = figure.axes[0].collections
    ends = np.concatenate([path.vertices[:, 1] for path in band.get_paths()])
    assert (ends.min(), ends.max()) == (-0.5, 3.5)


@pytest.mark.parametrize(("highest", "ends"), [(5.0, (-0.25, 5.25)), (120.0, (-0.8, 16.0))])
def test_a_single_sample_of_tiny_weight_does_not_flatten_a_profile(highest: float, ends: tuple[float, float]) -> None:
    figure = profile_figure("ALA2", np.linspace(-np.pi, np.pi, 5), Triple(model=np.array([0.0, 2.0, highest, 1.0])))
    assert figure.axes[0].get_ylim() == pytest.approx(ends)


@pytest.mark.parametrize("centre", [-3.1, -1.0, 0.0, 2.0, 3.1])
def test_a_peak_on_a_circle_is_not_split(centre: float) -> None:
    edges = np.linspace(-np.pi, np.pi, 101)
    middle = 0.5 * (edges[1:] + edges[:-1])
    density = np.exp(40 * np.cos(middle - centre))
    cut = cut_where_empty(Marginal("phi", edges, Triple(model=density)))
    assert cut.densities.model is not None
    shifted = 0.5 * (cut.edges[1:] + cut.edges[:-1])
    np.testing.assert_allclose(cut.densities.model, np.exp(40 * np.cos(shifted - centre)), rtol=1e-6)
    lower, upper = support(cut)
    assert upper - lower < 2.0
    assert marginal_figure([cut]).axes[0].get_xlim() == (lower, upper)


def test_an_open_range_is_not_cut() -> None:
    marginal = Marginal("bond", np.linspace(0.1, 0.2, 11), Triple(model=np.arange(10.0)))
    assert cut_where_empty(marginal) is marginal


def test_structures_keep_atoms_and_handedness() -> None:
    generator = np.random.default_rng(0)
    reference = generator.normal(size=(9, 3))
    turn, _ = np.linalg.qr(generator.normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    np.testing.assert_allclose(superpose(reference @ turn + 3.0, reference), reference - reference.mean(0), atol=1e-12)
    mirrored = superpose(reference * [1, 1, -1], reference)
    assert np.abs(mirrored - (reference - reference.mean(0))).max() > 0.1
    pdb = "REMARK\nATOM      1  N   ALA A   1       1.000   2.000   3.000  1.00  0.00           N\nEND\n"
    moved = with_positions(pdb, np.array([[-0.12346, 0.5, 10.0]]))
    assert moved.splitlines()[1][30:54] == "  -1.235   5.000 100.000"
    assert moved.splitlines()[1][54:] == pdb.splitlines()[1][54:]
    with pytest.raises(InputError, match="expected positions of 1 atoms"):
        with_positions(pdb, np.zeros((2, 3)))


def test_numbers_are_written_as_far_as_they_are_known() -> None:
    evaluation = {
        "log_z": -178.7123,
        "log_z_error": 0.0024,
        "ess": 0.3124,
        "ramachandran": [{"name": "ALA2", "kl": 1.0}, {"name": "mean", "kl_reweighted": 0.0031}],
        "tica": {"kl": 0.25, "correlations": [0.9, 0.5], "reason": ""},
        "wasserstein": {"energy": 0.5, "energy_reweighted": 0.25},
        "phi_profile": [{"name": "ALA2", "mae": 0.125, "unvisited": 3}],
        "basins": [{"name": "C5", "population": 1.0}],
        "warnings": ["careful"],
        "intervals": {"ess": [0.3051, 0.3192], "ramachandran.mean.kl_reweighted": [0.0024, 0.004]},
        "noise_floor": {"wasserstein.energy": 0.0625},
    }
    results = Results.from_json(evaluation)
    top = {row.name: row for row in headline(results)}
    assert top["log Z"][1:3] == ("\u2212178.712", "± 0.002")
    assert top["effective sample size"][1:3] == ("31.2\u202f%", "30.5\u202f% to 31.9\u202f%")
    assert top["Ramachandran KL, reweighted"][1:3] == ("0.0031", "0.0024 to 0.0040")
    rows = {row.name: row for row in metric_rows(results)}
    assert list(rows) == [
        "log Z", "effective sample size", "ALA2, Ramachandran KL", "mean, Ramachandran KL, reweighted", "TICA KL",
        "energy W₂", "energy W₂, reweighted", "ALA2, free energy along φ", "ALA2, bins along φ not visited",
    ]  # fmt: skip
    assert rows["energy W₂"].floor == "0.0625"
    assert rows["ALA2, bins along φ not visited"].value == "3"


def test_the_ledger_adds_up() -> None:
    rows = ledger_rows({"startup": 5, "startup_gradients": 2, "training": 1000, "training_gradients": 0, "failed": 7})
    assert [row.purpose for row in rows] == ["startup", "training", "all"]
    assert rows[-1].evaluations == "1\u202f005"
    assert rows[-1].gradients == "2"


def test_the_page_says_whether_forces_were_used() -> None:
    assert trained_on({"training": 1000, "training_gradients": 0}) == ("Trained on energies alone, without forces.")
    assert "on forces at 300 points" in trained_on({"training": 1000, "training_gradients": 300})
    assert trained_on({}) == ""


@pytest.mark.parametrize(
    ("evaluation", "said", "warned"),
    [
        ({}, "", False),
        ({"reference": {"converged": True}}, "The reference is converged.", False),
        ({"reference": {"converged": False, "message": "R-hat 1.2"}}, "is not converged", True),
        (
            {"reference": {"diagnostics": {"converged": False, "message": "not converged: R-hat of psi is 1.2"}}},
            "The reference is not converged: R-hat of psi is 1.2.",
            True,
        ),
        ({"reference": {"frames": 10}}, "It is not known whether the reference is converged.", False),
    ],
)
def test_a_reference_that_is_not_converged_is_called_so(
    tmp_path: Path, evaluation: dict[str, object], said: str, warned: bool
) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    data = read_run(run)
    assert said in reference_in_words(data)
    assert (reference_in_words(data) in notices(data)) == warned


def test_what_the_evaluation_warns_of_is_said_first(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    evaluation = {"warnings": ["3 of 9 evaluations failed"], "missing_mass": {"at_least": 0.25, "message": ""}}
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    missing = "At least 25\u202f% of the probability is missing."
    assert notices(read_run(run)) == ["3 of 9 evaluations failed.", missing]


def test_a_run_has_its_cost_without_an_evaluation(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    metrics = read_run(run).metrics
    assert metrics.value("target_evaluations") == 2_002_000, "with those before the first step"
    assert metrics.value("wall_seconds") == 61.0 * 20
    assert metrics.value("ess") == json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["ess"]
    (run / "evaluation.json").write_text(json.dumps({"wall_seconds": 7.0, "target_evaluations": None, "log_z": -1.0}))
    metrics = read_run(run).metrics
    assert (metrics.value("wall_seconds"), metrics.value("target_evaluations")) == (7.0, 2_002_000)
    assert "ess" not in metrics, "that of a training step is not an evaluation"


def test_densities_are_cut_to_what_was_visited() -> None:
    edges = np.linspace(0.0, 100.0, 101)
    first, second = np.zeros((100, 100)), np.zeros((100, 100))
    first[20, 40], second[30, 60] = 1.0, 2.0
    figure = density_figure(Triple(model=first, reference=second), (edges, edges), labels=("x", "y"))
    assert figure.axes[1].get_xlim() == pytest.approx((20 - 0.55, 31 + 0.55))
    assert figure.axes[0].get_ylim() == pytest.approx((40 - 1.05, 61 + 1.05))


def test_estimates_and_diagnostics_come_as_rows(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "toy", evaluated=False)
    evaluation = {
        "missing_mass": {
            "at_least": 0.0,
            "estimates": [{"name": "own", "value": -1.23456, "error": 0.012}, {"name": "path", "value": -1.2}],
        },
        "reference": {"rhat": {"energy": 1.001, "phi": 1.2}, "ess": {"energy": 900.0, "phi": 12.0}},
    }
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    data = read_run(run)
    assert log_z_rows(data) == [("own", "\u22121.235", "± 0.012"), ("path", "\u22121.2", "")]
    assert diagnostics_rows(data) == [("phi", "1.2", "12"), ("energy", "1.001", "900")]
