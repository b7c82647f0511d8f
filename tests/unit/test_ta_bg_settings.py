"""Temperature-annealed generators: the paper's ladders and tables, budgets, and what is refused."""

import math
from dataclasses import replace

import pytest

from boltzport.core.errors import InputError
from boltzport.experiments import RunConfig, request
from boltzport.training.methods import METHODS, TABG, TABGConfig
from boltzport.training.methods.ta_bg import evaluations, temperatures, within_budget
from boltzport.training.presets import TA_BG_PRESETS

PRINTED = {
    "alanine-dipeptide": "1200 1028.69 881.84 755.95 648.04 555.52 476.22 408.24 349.96 300.00 300.00",
    "alanine-hexapeptide": (
        "1200 1028.69 1028.69 881.84 881.84 755.95 755.95 648.04 648.04 555.52 555.52 476.22 476.22 408.24 408.24 "
        "349.96 349.96 300.00 300.00"
    ),
    "elil-tetrapeptide": (
        "3000.00 2573.09 2573.09 2573.09 2206.93 2206.93 2206.93 1892.88 1892.88 1892.88 1623.52 1623.52 1623.52 "
        "1392.49 1392.49 1392.49 1194.33 1194.33 1194.33 1024.37 1024.37 1024.37 878.60 878.60 878.60 753.57 753.57 "
        "753.57 646.34 646.34 646.34 554.36 554.36 554.36 475.48 475.48 475.48 407.81 407.81 407.81 349.78 349.78 "
        "349.78 300.00 300.00"
    ),
}
PRINTED["alanine-tetrapeptide"] = PRINTED["alanine-dipeptide"]


@pytest.mark.parametrize("system", PRINTED)
def test_the_ladder_of_the_preset_is_the_papers(system: str) -> None:
    found = [300 * value for value in temperatures(TA_BG_PRESETS.paper[system])]
    expected = [float(value) for value in PRINTED[system].split()]
    assert len(found) == len(expected)
    if system == "elil-tetrapeptide":
        # As printed, it is a little off a geometric sequence: 1892.88 K for 1892.872, 1392.49 K for 1392.477.
        assert found == pytest.approx(expected, abs=0.014)
    else:
        assert [round(value, 2) for value in found] == expected


@pytest.mark.parametrize(
    ("system", "pretraining", "annealing"),
    [
        # Temperature, batch, gradient steps, removed; batch, rate, its schedule, all gradient steps, buffer, resampled
        # to, per step.
        (
            "alanine-dipeptide",
            (1200, 256, 100_000, 10),
            (2048, 5e-6, "cosine", 300_000, 7_440_000, 2_000_000, 30_000),
        ),
        (
            "alanine-tetrapeptide",
            (1200, 256, 100_000, 10),
            (4096, 1e-5, "constant", 300_000, 7_440_000, 2_000_000, 30_000),
        ),
        (
            "alanine-hexapeptide",
            (1200, 512, 250_000, 20),
            (2048, 5e-6, "constant", 550_008, 15_111_111, 2_000_000, 30_556),
        ),
        # 44 fits as the sequence is printed, where the table has the gradient steps of 30.
        (
            "elil-tetrapeptide",
            (3000, 512, 250_000, 20),
            (2048, 5e-6, "constant", 1_350_000 // 30 * 44, 22_400_000, 22_400_000, 45_000),
        ),
    ],
)
def test_the_paper_preset_is_the_papers_tables(system: str, pretraining: tuple, annealing: tuple) -> None:
    found = TA_BG_PRESETS.paper[system]
    steps = found.pretrain_steps * found.pretrain_gradient_steps
    assert (300 * found.hot, found.pretrain_batch, steps, found.remove_highest) == pretraining
    assert (found.pretrain_rate, found.weight_decay, found.warmup, found.max_gradient_norm) == (1e-4, 1e-5, 1000, 100.0)
    steps = found.fits * found.gradient_steps
    sizes = (found.buffer_size, found.resampled_to, found.gradient_steps)
    assert (found.batch_size, found.learning_rate, found.schedule, steps, *sizes) == annealing
    assert math.isinf(found.fit_gradient_norm), "the table of the fits has no clipping"


def test_warmup_and_decay_are_of_the_pretraining_alone() -> None:
    config = TA_BG_PRESETS.paper["alanine-tetrapeptide"]
    before, after = config.pretraining, config.annealing
    assert (before.learning_rate, before.warmup, before.weight_decay, before.schedule) == (1e-4, 1000, 1e-5, "cosine")
    assert (after.learning_rate, after.warmup, after.weight_decay, after.schedule) == (1e-5, 0, 0.0, "constant")
    assert (before.max_gradient_norm, after.max_gradient_norm) == (100.0, math.inf)


@pytest.mark.parametrize(("system", "expected"), [("alanine-dipeptide", 1e8), ("alanine-hexapeptide", 4e8)])
def test_the_paper_preset_evaluates_as_often_as_the_paper(system: str, expected: float) -> None:
    assert evaluations(TA_BG_PRESETS.paper[system]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("budget", [1.7e5, 1_234_567.0, 7e6, 1e9])
def test_a_budget_is_kept_and_used(budget: float) -> None:
    config = TA_BG_PRESETS.molecules["laptop"]
    found = within_budget(config, budget)
    assert 0.99 * budget < evaluations(found) <= budget
    assert temperatures(found) == temperatures(config)
    assert found.buffer_size >= 10 * found.batch_size
    assert found.gradient_steps * found.batch_size <= 10 * found.resampled_to
    pretraining = found.pretrain_steps * found.pretrain_gradient_steps
    assert found.warmup <= pretraining / 5
    if budget < evaluations(config):
        before = config.pretrain_steps * config.pretrain_gradient_steps * config.pretrain_batch / evaluations(config)
        assert pretraining * found.pretrain_batch / evaluations(found) == pytest.approx(before, abs=0.05)
    else:
        assert pretraining == config.pretrain_steps * config.pretrain_gradient_steps


@pytest.mark.parametrize("config", [*TA_BG_PRESETS.paper.values(), *TA_BG_PRESETS.molecules.values()])
def test_a_budget_that_settings_use_already_leaves_them_as_they_are(config: TABGConfig) -> None:
    assert within_budget(config, float(evaluations(config))) == config


def test_a_budget_too_small_is_refused_and_the_least_is_named() -> None:
    config = TA_BG_PRESETS.molecules["laptop"]
    with pytest.raises(InputError, match="fewer rungs") as caught:
        within_budget(config, 5e4)
    least = float(str(caught.value).split("at least ")[1].split(" ")[0])
    assert evaluations(within_budget(config, least)) <= least


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hot", 0.5, "hot: expected at least 1, got 0.5"),
        ("hot", math.inf, "hot: expected a finite temperature"),
        ("rungs", 0, "rungs: expected at least 1, got 0"),
        ("remove_highest", 64, "remove_highest: expected 0 to 63, got 64"),
        ("clip", 0.6, "clip: expected 0 to 0.5, got 0.6"),
        ("learning_rate", 0.0, "learning_rate: expected more than 0 and finite, got 0.0"),
    ],
)
def test_what_is_wrong_is_said(name: str, value: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(TABGConfig(pretrain_batch=64), **{name: value})


def test_the_method_is_known_by_name(tmp_path) -> None:
    config = request("gmm-2d", method="ta-bg", settings=["hot=7", "clip=0"], budget=2e5)
    assert config.settings.hot == 7.0
    assert evaluations(config.settings) <= 2e5
    config.save(tmp_path / "config.toml")
    assert RunConfig.load(tmp_path / "config.toml") == config
    assert isinstance(METHODS["ta-bg"].build(config.settings, None), TABG)
