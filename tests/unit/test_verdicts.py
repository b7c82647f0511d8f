"""A bad run looks bad: on the terminal, in JSON and on the page."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from boltzport.analysis.evaluation import evaluate
from boltzport.analysis.metrics import Interval, Results, estimate, importance, verdicts
from boltzport.cli import main
from boltzport.experiments import load, request, run_training, train
from boltzport.experiments.compare import compare, comparison_table, write_comparison
from boltzport.experiments.compare.rows import table_rows
from boltzport.flows import CouplingConfig, build_flow
from boltzport.reporting import read_run, write_report
from boltzport.reporting.findings import verdicts as on_the_page
from boltzport.reporting.tables import headline
from boltzport.targets import CountedTarget, toy
from boltzport.training import StepInfo
from boltzport.training.arrival import shortfall
from boltzport.training.methods import CMTConfig
from runs import write_toy_run
from tiny import TOY

BAD = {"ess": 0.615, "ess_unclipped": 1.3e-5, "pareto_k": 0.39, "log_z": 1.5, "log_z_error": 0.9, "largest_weight": 0.8}
BRACKET = {"ess": Interval(0.613, 0.617), "ess_unclipped": Interval(-0.033, 0.6)}


NONE_MISSING = {"missing_mass": {"at_least": 0.0, "message": "no missing mass of 0.1 % or more", "estimates": []}}


def bad() -> Results:
    return Results([estimate(name, value, BRACKET.get(name)) for name, value in BAD.items()], details=NONE_MISSING)


def test_a_run_that_one_sample_carries_gets_verdicts() -> None:
    found = "\n".join(bad().verdicts)
    assert "61.5 % with clipped weights but 0.001 % without" in found
    assert "One sample carries 80.0 %" in found
    assert "goes beyond 0 to 1" in found
    assert "One sample carries" in str(bad())
    assert "whether mass is missing cannot be told" in str(bad())
    assert "no missing mass" not in str(bad())
    assert "no missing mass" in str(Results([estimate("ess", 0.8)], details=NONE_MISSING))
    assert bad().to_json()["verdicts"] == bad().verdicts
    assert Results.from_json(bad().to_json()).verdicts == bad().verdicts


def test_its_headline_is_the_smaller_size_and_k_is_not_praised() -> None:
    top = {row.name: row for row in headline(bad())}
    assert "effective sample size, unclipped" in top
    assert "effective sample size" not in top
    assert "converge quickly" not in top["Pareto k\u0302"].meaning


@pytest.mark.parametrize("ratio", [1.0, 1.9])
def test_a_good_run_gets_none(ratio: float) -> None:
    found = [estimate("ess", 0.8, Interval(0.79, 0.81)), estimate("ess_unclipped", 0.8 / ratio, Interval(0.3, 1.005))]
    found += [estimate("largest_weight", 0.09), estimate("log_z", 3.01), estimate("log_z_exact", 3.0)]
    assert verdicts({one.name: one for one in found}) == []


def test_the_largest_weight_is_its_share() -> None:
    weights = np.array([1.0, 2.0, 5.0, 0.0])
    with np.errstate(divide="ignore"):
        found = importance(np.log(weights), np.random.default_rng(0))
    assert found.largest_weight == pytest.approx(5.0 / 8.0)


def test_the_known_log_z_of_a_toy_is_used() -> None:
    """The initial flow of the mixture has lost almost everything, and only the known constant can tell."""
    mixture = toy("gmm-2d")
    generator = torch.Generator().manual_seed(0)
    flow = build_flow(mixture.layout, CouplingConfig(pairs=1, hidden=(8,)), generator=generator, compiled=False)
    found = evaluate(flow, CountedTarget(mixture), n=4000, generator=torch.Generator().manual_seed(1))
    assert found.value("log_z_exact") == mixture.log_z == 0.0
    assert "nothing to compare" not in found.details["missing_mass"]["message"]
    assert any("is known to be exact" in verdict for verdict in found.verdicts)
    assert found.details["missing_mass"]["at_least"] > 0.1


@pytest.mark.parametrize(
    ("log_z", "why"), [(-0.22, "19.7 % of the probability is missing"), (0.3, "weights are wrong")]
)
def test_either_side_of_the_exact_log_z(log_z: float, why: str) -> None:
    record = {"log_z": log_z, "log_z_error": 0.004, "log_z_exact": 0.0}
    (verdict,) = Results.from_json(record).verdicts
    assert why in verdict
    assert Results.from_json(record | {"log_z_error": 0.07}).verdicts == []


def test_the_page_has_them_in_red_at_the_top(tmp_path: Path) -> None:
    run = write_toy_run(tmp_path / "run")
    record = json.loads((run / "evaluation.json").read_text())
    (run / "evaluation.json").write_text(json.dumps(record | {"ess": 0.6, "ess_unclipped": 1e-4}))
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"warning": "This run has not reached its target: it ends"}))
    assert next(said.split(":")[0] for said in on_the_page(read_run(run))) == "This run has not reached its target"
    page = write_report(read_run(run), tmp_path / "page.html", figures=False).read_text()
    header = page[: page.index("</header>")]
    assert header.count('class="notice verdict" role="alert"') == 2
    assert header.index("has not reached its target") < header.index('class="cards"')


def test_samples_and_comparisons_have_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    run_training(request("gmm-2d", preset="quick", settings=TOY), run, silent=True)
    (run / "evaluation.json").write_text(json.dumps({"ess": 0.6, "ess_unclipped": 1e-4, "log_z": 0.0, "samples": 9}))
    found = compare([run])
    short, apart = found.targets[0].verdicts()
    assert "has not reached its target" in short
    assert "60.0 % with clipped weights but 0.01 % without" in apart
    assert {row.name: row.cells for row in table_rows(found.targets[0])}["missing mass"] == ("cannot be told",)
    console = Console(file=io.StringIO(), width=120)
    console.print(comparison_table(found, width=120))
    assert "use the smaller one" in " ".join(console.file.getvalue().split())
    page = write_comparison(found, tmp_path / "comparison").read_text()
    assert page.count('class="notice verdict" role="alert"') == 2
    with load(run) as model:
        first, second = model.sample(20).notes
    assert first.startswith("warning: This run has not reached its target")
    assert second.startswith("warning: The effective sample size is 60.0 %")
    with pytest.raises(SystemExit):
        main(["sample", str(run), "-n", "20", "-o", str(tmp_path / "s.npz")])
    assert capsys.readouterr().err == f"{first}\n{second}\n"


def test_a_run_that_does_not_arrive_says_so_and_how_far_it_is() -> None:
    few = CMTConfig(steps=2, gradient_steps=2, buffer_size=200, batch_size=50, average=0.0, reuse=0)
    model = train("gmm-2d", method=few, preset="quick", flow=CouplingConfig(pairs=1, hidden=(8,)), progress=False)
    assert model.status.state == "done"
    assert "has not reached its target" in model.status.warning
    share = 100 * model.rows[-1]["beta"]
    assert f"{share:.0f} % of the path" in model.status.warning


def test_arriving_and_refined_runs_lack_nothing() -> None:
    row = StepInfo(step=3, gradient_steps=9)._asdict()
    assert shortfall(row | {"alpha": 1.0, "beta": 0.99, "trust_region_multiplier": 0.01}) == ""
    assert shortfall(row | {"alpha": 0.6, "beta": 1.0, "trust_region_multiplier": 0.0}) != ""
    assert shortfall(row | {"alpha": 1.0, "beta": 0.7, "trust_region_multiplier": None}) == ""
    assert shortfall(row) == ""


def test_samples_say_that_the_flow_misses_mass(tmp_path: Path) -> None:
    """Also defended samples and chains, which do not bring it back."""
    run = tmp_path / "run"
    run_training(request("gmm-2d", preset="quick", settings=TOY), run, silent=True)
    missing = {"at_least": 0.05, "confidence": 0.99, "source": "reference", "message": "at least 5 % is missing"}
    for found, said in ((missing, ["warning: at least 5 % is missing"]), (missing | {"at_least": 0.0}, [])):
        (run / "evaluation.json").write_text(json.dumps({"ess": 0.6, "log_z": 0.0, "missing_mass": found}))
        with load(run) as model:
            for how in ({}, {"defensive": 0.1}, {"mode": "chain"}):
                notes = model.sample(20, **how).notes
                assert [note for note in notes if "missing" in note] == said, how
