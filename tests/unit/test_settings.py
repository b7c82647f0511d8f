"""Settings by name."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from boltzport.core.errors import InputError
from boltzport.core.layout import LayoutKind, Shape
from boltzport.core.preset import Preset
from boltzport.experiments import Given, MoleculeConfig, RunConfig, inspect_molecule, open_target, request
from boltzport.experiments.settings import with_settings
from boltzport.flows import LAPTOP, PAPER, Activation, CouplingConfig, MolecularConfig, build_flow
from boltzport.training import Schedule
from boltzport.training.methods import METHODS, CMTConfig
from boltzport.training.methods.cmt import within_budget
from boltzport.training.presets import CMT_PRESETS, FORWARD_KL_PRESETS, METHOD_PRESETS, REVERSE_KL_PRESETS
from molecules import molecule

PARTS = {"flow": CouplingConfig(), "method": CMTConfig()}


def test_every_kind_of_value() -> None:
    texts = [
        "pairs=3",
        "hidden=32,64",
        "activation=relu",
        "method.trust_region=inf",
        "entropy=0.5",
        "steps=1e2",
        "schedule=constant",
    ]
    found = with_settings(PARTS, texts)
    assert found["flow"] == CouplingConfig(pairs=3, hidden=(32, 64), activation=Activation.RELU)
    assert found["method"].trust_region == math.inf
    assert found["method"].entropy == 0.5
    assert found["method"].steps == 100
    assert found["method"].schedule is Schedule.CONSTANT
    assert with_settings(found, ["entropy=auto"])["method"].entropy == "auto"
    assert PARTS["method"] == CMTConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trust_regio=1", "did you mean trust_region?"),
        ("method.pairs=1", "did you mean pairs?"),
        ("trust_region", "expected key=value"),
        ("steps=1.5", "expected a whole number, got 1.5"),
        ("steps=many", "expected a whole number, got many"),
        ("steps=inf", "expected a whole number, got inf"),
        ("steps=0", "steps: expected at least 1, got 0"),
        ("average=1", "average: expected 0 to 0.999999, got 1.0"),
        ("trust_region=0", "trust_region: expected more than 0, got 0.0"),
        ("trust_region=nan", "trust_region: expected more than 0, got nan"),
        ("entropy=none", "expected a number or auto, got none"),
        ("schedule=step", "expected cosine or constant, got step"),
        ("bins=1", "bins: expected 2 to 64, got 1"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        with_settings(PARTS, [text])
    assert message in str(caught.value)


def test_a_configuration_survives_its_file(tmp_path) -> None:
    config = request("gmm-2d", settings=["entropy=inf", "trust_region=0.25", "hidden=8,16"], seed=3)
    config.save(tmp_path / "config.toml")
    assert RunConfig.load(tmp_path / "config.toml") == config
    molecule = request("aldp", preset=Preset.PAPER, molecule=MoleculeConfig(forcefield=("a.xml",), temperature=310.0))
    assert molecule.system == "alanine-dipeptide"
    molecule.save(tmp_path / "config.toml")
    assert RunConfig.load(tmp_path / "config.toml") == molecule
    (tmp_path / "config.toml").write_text("system = 3")
    with pytest.raises(InputError, match="not a configuration"):
        RunConfig.load(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("system", "row"),
    [
        # batch size, learning rate, gradient steps, entropy bound, buffer size, annealing steps: the paper's tables.
        ("alanine-dipeptide", (1000, 4e-5, 400_000, 0.8, 500_000, 200)),
        ("alanine-tetrapeptide", (1000, 5e-5, 400_000, 1.8, 500_000, 200)),
        ("alanine-hexapeptide", (2000, 5e-5, 800_000, 1.4, 1_000_000, 400)),
        ("elil-tetrapeptide", (2000, 5e-5, 1_600_000, 0.7, 1_000_000, 800)),
    ],
)
def test_the_paper_preset_is_the_papers_tables(system: str, row: tuple) -> None:
    found = CMT_PRESETS.paper[system]
    steps = found.steps * found.gradient_steps
    assert (found.batch_size, found.learning_rate, steps, found.entropy, found.buffer_size, found.steps) == row
    assert (found.trust_region, found.weight_decay, found.warmup, found.max_gradient_norm) == (0.3, 1e-5, 1000, 100.0)
    assert found.gradient_steps == 2000
    assert found.schedule is Schedule.COSINE
    assert (found.hold_out, found.learned, found.reuse, found.average, found.multiplier) == (0.0, 0.0, 0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("system", "gradient_steps"),
    [
        ("alanine-dipeptide", 100_000),
        ("alanine-tetrapeptide", 100_000),
        ("alanine-hexapeptide", 120_000),
        ("elil-tetrapeptide", 140_000),
    ],
)
def test_the_paper_preset_of_forward_kl_is_the_papers_table(system: str, gradient_steps: int) -> None:
    found = FORWARD_KL_PRESETS.paper[system]
    assert (found.batch_size, found.learning_rate, found.schedule) == (1024, 5e-5, Schedule.COSINE)
    assert found.steps * found.gradient_steps == gradient_steps
    # The table has no more; the data sets have a million samples.
    assert (found.weight_decay, found.warmup, found.max_gradient_norm, found.average) == (0.0, 0, math.inf, 0.0)
    assert (found.samples, found.hold_out) == (1_000_000, 0.0)


def test_the_paper_preset_of_reverse_kl_is_the_papers_table() -> None:
    papers = {"alanine-dipeptide", "alanine-tetrapeptide", "alanine-hexapeptide", "elil-tetrapeptide"}
    assert set(REVERSE_KL_PRESETS.paper) == papers
    for found in REVERSE_KL_PRESETS.paper.values():
        assert (found.batch_size, found.learning_rate, found.schedule) == (1024, 1e-4, Schedule.COSINE)
        assert found.steps * found.gradient_steps == 250_000
        assert (found.weight_decay, found.warmup, found.max_gradient_norm) == (1e-5, 1000, 100.0)
        assert (found.remove_highest, found.path_gradient, found.average) == (40, False, 0.0)


@pytest.mark.parametrize("budget", [1e4, 123_456.0, 2e6, 1e9])
def test_a_budget_is_kept_and_used(budget: float) -> None:
    found = within_budget(CMTConfig(steps=40, gradient_steps=250, batch_size=1000), budget)
    assert found.steps * found.buffer_size <= budget
    assert found.steps * found.buffer_size > budget - found.steps
    assert found.buffer_size >= 10 * found.batch_size
    assert found.gradient_steps * found.batch_size <= 10 * found.buffer_size
    assert found.warmup == min(100, found.steps * found.gradient_steps // 10)


@pytest.mark.parametrize("budget", [1e4, 4e5, 2e6, 1e9])
def test_a_budget_covers_the_refinement(budget: float) -> None:
    config = CMTConfig(steps=12, gradient_steps=150, batch_size=1000, refine=50, refine_batch=1000, anchors=200_000)
    found = within_budget(config, budget)
    refining = found.refine * found.gradient_steps * found.refine_batch
    assert found.steps * found.buffer_size + refining + found.anchors <= budget
    assert found.steps * found.buffer_size >= min(budget / 3, 12 * config.buffer_size)
    assert found.refine > 0 or budget < 3e5


@pytest.mark.parametrize("method", METHODS)
def test_laptop_presets_of_molecules_use_the_same_budget(method: str) -> None:
    entry, config = METHODS[method], METHOD_PRESETS[method].molecules[Preset.LAPTOP]
    assert entry.within_budget(config, 5.4e6) == config
    if not entry.needs_samples:
        assert entry.within_budget(config, 5.39e6) != config, "all of it"


def test_a_larger_budget_goes_to_the_refinement() -> None:
    config = CMT_PRESETS.molecules[Preset.LAPTOP]
    assert within_budget(config, 7.4e6) == replace(config, refine=60)


def test_a_budget_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="at least 10000"):
        within_budget(CMTConfig(), 9_999.0)


def test_the_layout_is_a_setting_of_molecules() -> None:
    assert request("aldp").layout is LayoutKind.HARMONIC
    assert request("aldp", settings=["layout=paper"]).layout is LayoutKind.PAPER
    assert request("aldp", preset=Preset.PAPER, settings=["layout=informed"]).layout is LayoutKind.INFORMED
    for system, layout in (("aldp", "own"), ("gmm-2d", "harmonic")):
        with pytest.raises(InputError, match=f"molecule harmonic or informed or paper; got {layout} for {system}"):
            request(system, settings=[f"layout={layout}"])


def test_the_kind_of_flow_is_a_setting() -> None:
    assert request("aldp").flow == MolecularConfig()
    assert request("aldp", preset=Preset.QUICK).flow == MolecularConfig()
    assert request("aldp", settings=["flow=couplings"]).flow == LAPTOP
    assert request("aldp", preset=Preset.PAPER).flow == PAPER
    assert request("aldp", preset=Preset.PAPER, settings=["flow=molecular"]).flow == MolecularConfig()
    assert isinstance(request("gmm-2d").flow, CouplingConfig)
    assert request("gmm-2d", settings=["flow=molecular"]).flow == MolecularConfig()


@pytest.mark.parametrize(
    "texts",
    [
        ["flow=couplings", "flow.bins=12", "activation=relu"],
        ["flow.bins=12", "activation=relu", "flow=couplings"],
        ["bins = 12", "flow=molecular", "activation=relu", " flow = couplings "],
    ],
)
def test_the_kind_may_come_before_or_after_its_sizes(texts: list[str]) -> None:
    assert request("aldp", settings=texts).flow == replace(LAPTOP, bins=12, activation=Activation.RELU)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["flow=x"], "flow: expected molecular or couplings, got x"),
        (["flow"], "expected key=value"),
        (["flwo=couplings"], "did you mean flow?"),
        (["activation=relu"], "--set activation: this setting exists only with --set flow=couplings"),
        (["flow.harmonics=2", "flow=couplings"], "only with --set flow=molecular"),
        (["flow.bins=1"], "bins: expected 2 to 64, got 1"),
    ],
)
def test_what_is_wrong_with_a_flow_is_said(texts: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        request("aldp", settings=texts)
    assert message in str(caught.value)


def test_a_configuration_has_the_kind_of_its_flow(tmp_path) -> None:
    path = tmp_path / "config.toml"
    for settings in ([], ["flow=couplings"]):
        config = request("aldp", settings=settings)
        config.save(path)
        assert RunConfig.load(path) == config
    text = path.read_text()
    assert 'kind = "couplings"' in text
    path.write_text(text.replace('kind = "couplings"', ""))
    assert RunConfig.load(path) == config, "one that names no kind is of couplings"
    path.write_text(text.replace('kind = "couplings"', 'kind = "x"'))
    with pytest.raises(InputError, match="flow: expected molecular or couplings, got x"):
        RunConfig.load(path)


def test_a_configuration_from_before_there_were_kinds_is_of_couplings() -> None:
    assert RunConfig.load(Path(__file__).parents[1] / "data" / "config-without-kind.toml").flow == LAPTOP


@pytest.mark.parametrize("preset", list(Preset))
def test_inspect_counts_the_flow_that_is_trained(preset: Preset) -> None:
    found = inspect_molecule(molecule("alanine-dipeptide"), preset)
    config = request("alanine-dipeptide", preset=preset)
    with open_target(config, given=Given(molecule=molecule("alanine-dipeptide"))) as target:
        flow = build_flow(target.counted.layout, config.flow, generator=torch.Generator().manual_seed(0))
    assert found.flow_parameters == sum(parameter.numel() for parameter in flow.parameters())
    assert found.circles == sum(axis.shape is Shape.CIRCLE for axis in flow.layout)


def test_large_molecules_have_settings_of_their_own(tmp_path: Path) -> None:
    """By atoms, however the molecule is called; what a user sets is kept."""
    small = request("alanine-tetrapeptide").settings
    assert isinstance(small, CMTConfig)
    assert small == CMT_PRESETS.by_flow["molecular"][Preset.LAPTOP]
    assert small.chains == 0
    large = CMT_PRESETS.large["molecular"][Preset.LAPTOP]
    assert large.chains > 0
    structure = tmp_path / "elil.pdb"
    molecule("elil-tetrapeptide").write_pdb(structure)
    for system in ("hexa", "ELIL", "ACE-ALA-ALA-ALA-ALA-ALA-NME", str(structure)):
        assert request(system).settings == large
    assert request("hexa", settings=["chains=0"]).settings == replace(large, chains=0)
    assert request("anything", kind="molecule", atoms=75).settings == large
    assert request("hexa", settings=["flow=couplings"]).settings == CMT_PRESETS.molecules[Preset.LAPTOP]
    paper = request("hexa", preset=Preset.PAPER).settings
    assert isinstance(paper, CMTConfig)
    assert paper.chains == 0
