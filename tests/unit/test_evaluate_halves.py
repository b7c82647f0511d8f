"""Effective sizes of the two halves of a flow, where both are known: a von Mises torsion, and shifted normals."""

import math

import numpy as np
import pytest
import torch
from scipy.special import i0
from torch import Tensor

from boltzport.analysis.evaluation import evaluate
from boltzport.analysis.evaluation.halves import EACH, evaluate_halves, halves
from boltzport.core.layout import Layout, circle, interval
from boltzport.flows import CouplingConfig, Flow, FlowConfig, MolecularConfig, build_flow
from boltzport.reporting.tables import metric_rows
from boltzport.targets import CountedTarget, Density

LAYOUT = Layout(
    [interval(-4.0, 6.0, centre=1.0, width=0.3), circle(), interval(-2.0, 2.0, centre=0.0, width=0.1)],
)
NARROW = 1.5
"""Concentration of the target's torsion; the flow's is uniform."""
SHIFT = 0.4
"""Of one stiff coordinate of the target, in widths; to which side depends on the torsion."""
KNOWN = {"ess_torsions": i0(NARROW) ** 2 / i0(2 * NARROW), "ess_stiff": math.exp(-(SHIFT**2))}
SMALL = MolecularConfig(bins=4, harmonics=1, torsion_hidden=(8,), pairs=1, hidden=(8,))


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fresh(config: FlowConfig = SMALL) -> Flow:
    """A flow that is its initial density."""
    return build_flow(LAYOUT, config, generator=seeded(0), compiled=False)


def log_density(points: Tensor) -> Tensor:
    first, torsion, second = points.double().unbind(1)
    shift = SHIFT * torch.sign(torsion)
    return NARROW * torch.cos(torsion) - 0.5 * ((first - 1.0) / 0.3 - shift) ** 2 - 0.5 * (second / 0.1) ** 2


def target() -> CountedTarget:
    return CountedTarget(Density(log_density, LAYOUT, name="halves"))


def test_both_halves_are_known_and_within_their_intervals() -> None:
    counted = target()
    found = evaluate(fresh(), counted, n=60_000, generator=seeded(1), batch=7000)
    result = found.to_json()
    for name, value in KNOWN.items():
        # Sixteen points for each torsion leave a part in a hundred of noise.
        assert result[name] == pytest.approx(value, abs=0.03)
        lower, upper = result["intervals"][name]
        assert 0.0 < upper - lower < 0.08
        assert lower < result[name] < upper
    assert result["ess"] == pytest.approx(math.prod(KNOWN.values()), abs=0.02)
    assert counted.ledger["evaluation"] == 60_000 + 2000 * EACH
    shown = str(found)
    assert "ess torsions" in shown
    assert "ess stiff" in shown
    rows = {row.name: row for row in metric_rows(found)}
    for half in ("torsions", "stiff coordinates"):
        row = rows[f"effective sample size, {half}"]
        assert row.value.endswith("%")
        assert " to " in row.interval
        assert row.meaning


def test_few_samples_have_few_torsions() -> None:
    counted = target()
    found = evaluate(fresh(), counted, n=400, generator=seeded(2))
    assert counted.ledger["evaluation"] == 400 + 400 // EACH * EACH
    assert 0.0 < found.to_json()["ess_torsions"] < 1.0


def test_other_flows_have_no_halves() -> None:
    counted = target()
    found = evaluate(fresh(CouplingConfig(pairs=1, hidden=(8,))), counted, n=500, generator=seeded(3))
    result = found.to_json()
    assert result["ess_torsions"] is None
    assert result["ess_stiff"] is None
    assert not set(KNOWN) & set(result["intervals"])
    assert counted.ledger["evaluation"] == 500
    assert not any("torsions" in row.name for row in metric_rows(found))


def test_a_flow_without_one_of_the_halves_has_none() -> None:
    layout = Layout([circle(), circle()])
    flow = build_flow(layout, SMALL, generator=seeded(0), compiled=False)
    counted = CountedTarget(Density(lambda x: x.double().cos().sum(1), layout))
    rng = np.random.default_rng(0)
    assert evaluate_halves(flow, counted, n=1000, batch=1000, generator=seeded(1), rng=rng) is None
    assert counted.ledger.total == 0


def test_intervals_cover() -> None:
    repeats, torsions, rng = 60, 150, np.random.default_rng(4)
    between, within = rng.normal(size=(repeats, torsions, 1)), rng.normal(size=(repeats, torsions, EACH))
    found = [halves(torch.from_numpy(weights), rng) for weights in 0.5 * between + 0.6 * within]
    for name in KNOWN:
        truth = np.mean([getattr(each.ess, name.removeprefix("ess_")) for each in found])
        brackets = [each.intervals[name] for each in found]
        covered = sum(bracket is not None and bracket.lower <= truth <= bracket.upper for bracket in brackets)
        assert covered >= 50, name


def test_failed_evaluations_have_no_weight() -> None:
    log_weights = torch.zeros(40, EACH, dtype=torch.float64)
    log_weights[:10] = torch.nan
    found = halves(log_weights, np.random.default_rng(5))
    assert found.ess == pytest.approx((0.75, 1.0))
    nothing = halves(torch.full((40, EACH), torch.nan, dtype=torch.float64), np.random.default_rng(6))
    assert math.isnan(nothing.ess.torsions)
    assert nothing.intervals == {"ess_torsions": None, "ess_stiff": None}
