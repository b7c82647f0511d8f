"""Comparisons from nothing: what is planned, what is skipped, resumed or recorded as failed."""

import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from boltzport.cli import main
from boltzport.core.errors import InputError, RunError
from boltzport.experiments import (
    VARIANTS,
    EvaluationEffort,
    MoleculeConfig,
    RunConfig,
    Variant,
    every_method,
    make_plan,
    run_campaign,
    variants_named,
)
from boltzport.experiments import campaign as campaign_module
from boltzport.experiments.exact import exact_samples
from boltzport.experiments.samples import SEED as SAMPLES_SEED
from boltzport.experiments.variants import STEPS
from boltzport.targets import toy
from boltzport.training import Status
from boltzport.training.methods import METHODS, CMTConfig
from boltzport.training.presets import CMT_PRESETS, METHOD_PRESETS, MethodPresets

TINY = ("steps=2", "gradient_steps=5", "buffer_size=400", "batch_size=100", "pairs=1", "hidden=8", "warmup=1")
EFFORT = EvaluationEffort(samples=500, transport=50, exact=500)
BOTH = (Variant("wide", "cmt", ("trust_region=inf",)), Variant("narrow", "cmt", ("trust_region=0.1",)))


@dataclass(frozen=True, kw_only=True)
class LearnerConfig(CMTConfig):
    """Settings of a method that learns from samples."""

    data: str = ""


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch) -> str:
    """A second method, which learns from samples."""
    monkeypatch.setitem(METHODS, "learner", replace(METHODS["cmt"], config=LearnerConfig, needs_samples=True))
    presets = {preset: LearnerConfig(steps=7) for preset in CMT_PRESETS.molecules}
    made = MethodPresets(paper={}, molecules=presets, toys={}, small=LearnerConfig(steps=7))
    monkeypatch.setitem(METHOD_PRESETS, "learner", made)
    return "learner"


def test_every_method_has_every_seed_and_the_same_budget(learner: str, tmp_path: Path) -> None:
    methods = every_method(["cmt", learner])
    plan = make_plan(
        "gmm-2d", methods, tmp_path, seeds=3, budget=5e4, settings=["learner.steps=5", "cmt.steps=4", "pairs=2"]
    )
    names = [f"{name}-seed{seed}" for seed in range(3) for name in ("cmt", "learner")]
    assert [planned.name for planned in plan.runs] == names, "one seed of everything comes before the next"
    assert [planned.path for planned in plan.runs] == [tmp_path / name for name in names]
    assert [planned.config.seed for planned in plan.runs] == [0, 0, 1, 1, 2, 2]
    settings = [planned.config.settings for planned in plan.runs[:2]]
    assert [(found.steps, found.steps * found.buffer_size) for found in settings] == [(4, 50_000), (5, 50_000)]
    assert {planned.config.flow.pairs for planned in plan.runs} == {2}
    assert {variant.method for variant in every_method()} == set(METHODS)


def reference_folder(path: Path) -> Path:
    """A folder with as much of a reference as plans look at."""
    path.mkdir()
    (path / "dataset.json").write_text(json.dumps({"checksum": f"of {path.name}"}))
    return path


def test_methods_that_learn_from_samples_need_a_reference_of_a_molecule(learner: str, tmp_path: Path) -> None:
    methods = every_method(["cmt", learner])
    plan = make_plan("alanine-dipeptide", methods, tmp_path, seeds=1)
    assert [planned.name for planned in plan.runs] == ["cmt-seed0"]
    (sentence,) = plan.left_out
    assert sentence.startswith("learner is left out")
    assert "boltzport reference alanine-dipeptide --out DIR" in sentence
    with pytest.raises(InputError, match="nothing to run: learner is left out"):
        make_plan("alanine-dipeptide", every_method([learner]), tmp_path)
    made = reference_folder(tmp_path / "made")
    plan = make_plan("aldp", methods, tmp_path, seeds=1, reference=made, molecule=MoleculeConfig(temperature=310.0))
    assert plan.left_out == ()
    assert plan.reference == made
    assert [getattr(planned.config.settings, "data", None) for planned in plan.runs] == [None, str(made)]
    assert {planned.config.molecule.temperature for planned in plan.runs} == {310.0}
    for own in (f"{learner}.data=elsewhere", f"{learner}.method.data = elsewhere"):
        for reference in (made, None):
            plan = make_plan("aldp", methods, tmp_path, seeds=1, settings=[own], reference=reference)
            assert [getattr(planned.config.settings, "data", None) for planned in plan.runs] == [None, "elsewhere"]


@pytest.mark.parametrize("name", list(VARIANTS))
def test_an_ablation_is_not_refined(name: str, tmp_path: Path) -> None:
    plan = make_plan("alanine-dipeptide", variants_named(name), tmp_path, seeds=1)
    assert {planned.config.settings.refine for planned in plan.runs} == {0}


@pytest.mark.parametrize("name", list(VARIANTS))
def test_variants_of_a_flow_that_arrives_have_the_same_number_of_steps(name: str, tmp_path: Path) -> None:
    """Else one without constraints would be a single step."""

    def planned(*settings: str, **options: float) -> list[CMTConfig]:
        runs = make_plan("tetra", variants_named(name), tmp_path, seeds=1, settings=settings, **options).runs
        return [run.config.settings for run in runs]

    assert planned("arrive=true")[0].arrive, "the user may ask for it"
    assert {(found.arrive, found.steps) for found in planned()} == {(False, STEPS)}
    assert {(found.arrive, found.steps) for found in planned("steps=7")} == {(False, 7)}
    for found in planned(budget=1e6):
        assert found.steps * found.step_evaluations(refining=False) <= 1e6
        assert not found.arrive
    # Flows of couplings, and methods as they are, keep the steps of their preset.
    assert {found.steps for found in planned("flow=couplings")} == {12}
    assert make_plan("tetra", every_method(["cmt"]), tmp_path, seeds=1).runs[0].config.settings.arrive


@pytest.mark.parametrize("name", list(VARIANTS))
def test_variants_are_settings_that_differ(name: str, tmp_path: Path) -> None:
    plan = make_plan("gmm-2d", variants_named(name), tmp_path, seeds=1)
    assert len({planned.name for planned in plan.runs}) == len(VARIANTS[name]) >= 4
    assert len({planned.config.settings for planned in plan.runs}) == len(VARIANTS[name])


def test_a_setting_for_all_does_not_change_what_makes_a_variant(tmp_path: Path) -> None:
    plan = make_plan("gmm-2d", variants_named("constraints"), tmp_path, seeds=1, settings=["cmt.trust_region=0.2"])
    found = {planned.name: planned.config.settings for planned in plan.runs}
    bounds = {name.removesuffix("-seed0"): (run.trust_region, run.entropy) for name, run in found.items()}
    inf = float("inf")
    assert bounds == {
        "both": (0.2, "auto"),
        "trust-region": (0.2, inf),
        "entropy": (inf, "auto"),
        "none": (inf, inf),
    }
    with pytest.raises(InputError, match="every variant has its own trust_region"):
        make_plan("gmm-2d", variants_named("trust-region"), tmp_path, settings=["trust_region=0.2"])


def test_the_papers_ablations(tmp_path: Path) -> None:
    """Bounds of its figure; and the constant multiplier of its hexapeptide, which has no entropy constraint."""
    runs = make_plan("aldp", variants_named("trust-region"), tmp_path, seeds=1).runs
    bounds = [planned.config.settings for planned in runs]
    assert [found.trust_region for found in bounds] == [0.1, 0.3, 1.0, float("inf")]
    assert len({replace(found, trust_region=1.0) for found in bounds}) == 1, "all else is equal"
    runs = make_plan("aldp", variants_named("multiplier"), tmp_path, seeds=1).runs
    assert [planned.config.settings.multiplier for planned in runs] == [0.0, 1.0, 10.0, 43.3]
    assert {planned.config.settings.entropy for planned in runs} == {float("inf")}
    assert [math.isinf(planned.config.settings.trust_region) for planned in runs] == [False, True, True, True]


def test_bad_plans(tmp_path: Path, learner: str) -> None:
    cmt = every_method(["cmt"])
    with pytest.raises(InputError, match="variants: expected constraints, trust-region, "):
        variants_named("constraint")
    with pytest.raises(InputError, match=r"method: expected cmt, .*got adsm"):
        every_method(["cmt", "adsm"])
    with pytest.raises(InputError, match="at least 1, got 0"):
        make_plan("gmm-2d", cmt, tmp_path, seeds=0)
    with pytest.raises(InputError, match="has exact samples"):
        make_plan("gmm-2d", cmt, tmp_path, reference=tmp_path)
    with pytest.raises(InputError, match=f"{learner} is not among the methods cmt"):
        make_plan("gmm-2d", cmt, tmp_path, settings=["learner.steps=3"])
    with pytest.raises(InputError, match=f"{learner} is not among the methods cmt"):
        make_plan("gmm-2d", cmt, tmp_path, settings=["learner.flow.pairs=3"])
    # Also a folder that is there and holds something else, before hours of training.
    for nothing in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError, match=r"is not a reference.*make one with `boltzport reference`"):
            make_plan("aldp", cmt, tmp_path, reference=nothing)
    with pytest.raises(InputError, match="gmm-2d is a toy: it has no force field"):
        make_plan("gmm-2d", cmt, tmp_path, molecule=MoleculeConfig(temperature=310.0))
    for budget in (float("inf"), float("nan"), -1.0):
        for method in METHODS:
            with pytest.raises(InputError, match="budget: expected a number of evaluations above 0"):
                make_plan("gmm-2d", every_method([method]), tmp_path, budget=budget)
    with pytest.raises(InputError, match="did you mean steps"):
        make_plan("gmm-2d", cmt, tmp_path, settings=["cmt.stepz=3"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two variants of a small run, made from nothing."""
    folder = tmp_path_factory.mktemp("campaign")
    results = run_campaign(
        make_plan("gaussian-skewed", BOTH, folder, seeds=1, settings=TINY), effort=EFFORT, silent=True
    )
    assert [(result.name, result.state) for result in results] == [("wide-seed0", "done"), ("narrow-seed0", "done")]
    return folder


def stamps(folder: Path) -> dict[str, int]:
    names = ("checkpoint.pt", "metrics.jsonl", "evaluation.json")
    return {f"{run.name}/{name}": (run / name).stat().st_mtime_ns for run in folder.glob("*-seed0") for name in names}


def test_runs_are_trained_and_evaluated_against_exact_samples(finished: Path) -> None:
    for name in ("wide-seed0", "narrow-seed0"):
        found = json.loads((finished / name / "evaluation.json").read_text())
        assert found["samples"] == 500
        assert found["target_evaluations"] == 800
        assert found["reference"]["sampler"] == "exact"
        assert found["nll"] is not None
        assert 0 < found["density_2d"]["tv_reweighted"] < 1
    assert RunConfig.load(finished / "wide-seed0" / "config.toml").settings.trust_region == float("inf")


def test_exact_samples_are_of_a_stream_of_their_own() -> None:
    """Torch's generator drops all but the last 32 bits of a seed."""
    found = exact_samples(toy("gmm-2d"), 100, seed=1)
    for other in (0, SAMPLES_SEED, 2**31):
        points = toy("gmm-2d").sample(100, generator=torch.Generator().manual_seed(other + 1))
        assert not np.isclose(found.coordinates, points.numpy()).any()
    assert found.reduced_energy == pytest.approx(
        -toy("gmm-2d").log_density(torch.from_numpy(found.coordinates)).numpy()
    )


def test_what_is_done_is_skipped(finished: Path) -> None:
    before = stamps(finished)
    plan = make_plan("gaussian-skewed", BOTH, finished, seeds=1, settings=TINY)
    results = run_campaign(plan, effort=EFFORT, silent=True)
    assert [result.state for result in results] == ["skipped", "skipped"]
    assert stamps(finished) == before
    (finished / "wide-seed0" / "evaluation.json").unlink()
    results = run_campaign(plan, effort=EFFORT, silent=True)
    assert [result.state for result in results] == ["done", "skipped"]
    after = stamps(finished)
    assert {name for name in after if after[name] != before[name]} == {"wide-seed0/evaluation.json"}


def test_a_folder_with_another_run_is_not_touched(finished: Path) -> None:
    with pytest.raises(InputError, match="wide-seed0 holds a run with other settings"):
        make_plan("gaussian-skewed", BOTH, finished, seeds=1, settings=[*TINY, "learning_rate=0.5"])


class Stub:
    """A model that is not there: it notes how it is evaluated, and writes what its evaluation would leave."""

    def __init__(self, path: Path, asked: list[tuple[Path, dict]], state: str = "done") -> None:
        self.path, self.asked, self.status = path, asked, Status(state=state)

    def __enter__(self) -> "Stub":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def evaluate(self, **how: object) -> None:
        self.asked.append((self.path, how))

    def save(self) -> None:
        how = self.asked[-1][1]
        self.path.mkdir(parents=True, exist_ok=True)
        for name in ("flow.safetensors", "evaluation.npz"):
            (self.path / name).touch()
        used = {"sampler": "exact"}
        if how["reference"] is not None:
            used = json.loads((how["reference"] / "dataset.json").read_text())
        (self.path / "evaluation.json").write_text(json.dumps({"samples": how["n"], "reference": used}))


def test_the_rest_goes_on_where_a_run_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, bool]] = []
    asked: list[tuple[Path, dict]] = []

    def train(config: RunConfig, path: Path, *, resume: bool, **_: object) -> object:
        made.append((path.name, resume))
        path.mkdir(exist_ok=True)
        config.save(path / "config.toml")
        if path.name.startswith("wide"):
            raise ValueError("no such\nluck")
        (path / "status.json").write_text(json.dumps({"state": "done"}))
        return Stub(path, asked)

    monkeypatch.setattr(campaign_module, "run_training", train)
    monkeypatch.setattr(campaign_module, "load", lambda path: Stub(path, asked))
    plan = make_plan("gmm-2d", BOTH, tmp_path, seeds=2)
    results = run_campaign(plan, silent=True)
    assert [result.state for result in results] == ["failed", "done", "failed", "done"]
    assert results[0].message == "ValueError: no such luck"
    assert "Traceback" in (tmp_path / "campaign.log").read_text(), "a bug is not lost"
    # The same again: only what failed is tried once more, from where it was.
    made.clear()
    assert [result.state for result in run_campaign(plan, silent=True)] == ["failed", "skipped", "failed", "skipped"]
    assert made == [("wide-seed0", True), ("wide-seed1", True)]
    # An evaluation that falls short of what is asked for now is made again: fewer samples, another flow, no reference.
    asked.clear()
    run_campaign(plan, effort=EvaluationEffort(samples=50_000), silent=True)
    assert asked == [], "one with more samples is kept"
    run_campaign(plan, effort=EvaluationEffort(samples=200_000), silent=True)
    assert [path.name for path, _ in asked] == ["narrow-seed0", "narrow-seed1"]
    record, flow = (tmp_path / "narrow-seed1" / name for name in ("evaluation.json", "flow.safetensors"))
    later = record.stat().st_mtime_ns + 1
    os.utime(flow, ns=(later, later))
    (tmp_path / "narrow-seed0" / "evaluation.json").write_text(json.dumps({"samples": 200_000, "reference": None}))
    run_campaign(plan, effort=EvaluationEffort(samples=200_000), silent=True)
    assert [path.name for path, _ in asked] == ["narrow-seed0", "narrow-seed1"] * 2


def test_runs_are_evaluated_as_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(campaign_module, "run_training", lambda _config, path, **_: Stub(path, asked))
    reference = reference_folder(tmp_path / "reference")
    plan = make_plan("aldp", every_method(["cmt"]), tmp_path / "runs", seeds=1, reference=reference)
    run_campaign(plan, effort=EvaluationEffort(samples=10, transport=20, exact=30), silent=True)
    ((path, how),) = asked
    assert path == plan.runs[0].path
    assert how.pop("progress")
    assert how == {"n": 10, "reference": reference, "transport_samples": 20, "exact": 30}


def test_runs_are_evaluated_again_with_another_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, dict]] = []

    def train(config: RunConfig, path: Path, **_: object) -> object:
        path.mkdir(parents=True, exist_ok=True)
        config.save(path / "config.toml")
        (path / "flow.safetensors").touch()
        (path / "status.json").write_text(json.dumps({"state": "done"}))
        return Stub(path, asked)

    monkeypatch.setattr(campaign_module, "run_training", train)
    monkeypatch.setattr(campaign_module, "load", lambda path: Stub(path, asked))
    first, second = (reference_folder(tmp_path / name) for name in ("first", "second"))
    for reference in (first, first, second, second):
        plan = make_plan("aldp", every_method(["cmt"]), tmp_path / "runs", seeds=1, reference=reference)
        assert [result.message for result in run_campaign(plan, silent=True)] == [""]
    assert [how["reference"] for _, how in asked] == [first, second]


def test_an_interruption_ends_the_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_module, "run_training", lambda _config, path, **_: Stub(path, [], "interrupted"))
    with pytest.raises(RunError, match="interrupted in wide-seed0; the same command resumes it"):
        run_campaign(make_plan("gmm-2d", BOTH, tmp_path), silent=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "gmm-2d"], "expected a budget"),
        (["--system", "gmm-2d", "--variants", "entropy", "--methods", "cmt"], "got both"),
        (["--system", "gmm-2d", "--variants", "entropie"], "variants: expected constraints"),
        (["--system", "gmm-2d", "--methods", "cmt,adsm", "--budget", "1e5"], "got adsm"),
        (["--system", "gmm-2d", "--budget", "10", "--methods", "cmt"], "expected at least 5000 evaluations"),
        (["--system", "gmm-2d", "--budget", "1e5", "--methods", "cmt", "-n", "inf"], "-n: expected a whole number"),
        (
            ["--system", "nothing-such", "--budget", "1e6", "--methods", "cmt", "--preset", "quick"],
            "unknown letter",
        ),
        (["--system", "aldp", "--budget", "1e6", "--methods", "forward-kl", "--set", "data=nowhere"], "a directory"),
        (
            ["--system", "gmm-2d", "--budget", "1e6", "--methods", "cmt,fab,ta-bg", "--set", "leapfrog=2"],
            "not all methods have this setting; for those that do: --set fab.leapfrog=2",
        ),
        (
            ["--system", "gmm-2d", "--budget", "1e4", "--methods", "reverse-kl,ta-bg"],
            "ta-bg: budget: expected at least",
        ),
        (["--system", "gmm-2d", "--budget", "1e6", "--methods", "cmt", "--out", "file"], "cannot be created: File"),
    ],
)
def test_bad_usage(arguments: list[str], message: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as caught:
        main(["bench", "train", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err
