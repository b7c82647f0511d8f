"""Thermodynamics from one ensemble and from several, against quadrature of a double well and of a harmonic density."""

import numpy as np
import pytest

from boltzport.analysis.metrics import (
    BLOCKS,
    BasinSums,
    Sampled,
    ThermodynamicState,
    combined_states,
    conformational_entropy,
    draw_blocks,
    sample_blocks,
    states,
)

BOLTZMANN = 0.0083
"""kJ/mol/K, not quite the true one, so that no other place has it."""
GRID = np.linspace(-3.5, 3.5, 20_001)
NAMES = ("mean_energy", "heat_capacity", "free_energy", "entropy")


def well(x: np.ndarray) -> np.ndarray:
    """Two unequal wells, in kJ/mol."""
    return 6.0 * (x**2 - 1.0) ** 2 + 1.5 * x - 4.0


def exact(temperature: float) -> dict[str, float]:
    thermal = BOLTZMANN * temperature
    energy = well(GRID)
    weights = np.exp(-energy / thermal)
    total = weights.sum() * (GRID[1] - GRID[0])
    mean = (weights * energy).sum() / weights.sum()
    variance = (weights * (energy - mean) ** 2).sum() / weights.sum()
    free = -thermal * np.log(total)
    # -k sum p log p, not (U - F) / T.
    density = weights / total
    entropy = -BOLTZMANN * (density * np.log(np.maximum(density, 1e-300))).sum() * (GRID[1] - GRID[0])
    return dict(zip(NAMES, (mean, variance / (thermal * temperature), free, entropy), strict=True))


def sampled(temperature: float, n: int, seed: int, *, shift: float = 0.1) -> Sampled:
    """Samples of a broad normal density, as of a flow, with their weights to the well."""
    rng = np.random.default_rng(seed)
    x = shift + 1.1 * rng.normal(size=n)
    log_q = -0.5 * ((x - shift) / 1.1) ** 2 - np.log(1.1 * np.sqrt(2 * np.pi))
    reduced = well(x) / (BOLTZMANN * temperature)
    return Sampled(-reduced - log_q, reduced, temperature, BOLTZMANN * temperature)


def check(state: ThermodynamicState, *, widest: float) -> None:
    assert state.reason == ""
    wanted = exact(state.temperature)
    for name, value in wanted.items():
        interval = state.intervals[name]
        assert interval is not None
        error = interval.half_width / 1.96
        found = getattr(state, name)
        assert found == pytest.approx(value, abs=4.5 * error + 1e-9), (name, state.temperature)
        assert error < widest * max(abs(value), abs(wanted["mean_energy"]) / state.temperature), name


def test_one_ensemble_by_reweighting() -> None:
    one = sampled(300.0, 40_000, 1)
    found = states(
        one.log_weights,
        one.reduced_energy,
        temperature=300.0,
        thermal_energy=one.thermal_energy,
        generator=np.random.default_rng(2),
        factors=(0.8, 1.0, 1.3),
    )
    assert [state.temperature for state in found] == pytest.approx([240.0, 300.0, 390.0])
    for state in found:
        check(state, widest=0.05)


def test_several_ensembles_by_mbar() -> None:
    runs = [sampled(250.0, 20_000, 3), sampled(400.0, 15_000, 4, shift=-0.4)]
    found = combined_states(runs, [230.0, 300.0, 380.0], generator=np.random.default_rng(5))
    for state in found:
        check(state, widest=0.1)
    assert found[1].effective_samples > 2000


def test_temperatures_out_of_reach_have_a_reason_and_no_values() -> None:
    one = sampled(300.0, 300, 6)
    far = Sampled(one.log_weights, one.reduced_energy, 300.0, one.thermal_energy)
    (state,) = states(
        far.log_weights,
        far.reduced_energy,
        temperature=300.0,
        thermal_energy=far.thermal_energy,
        generator=np.random.default_rng(7),
        factors=(0.05,),
    )
    assert state.entropy is None
    assert "effective samples" in state.reason


def test_the_conformational_entropy_of_known_populations() -> None:
    rng = np.random.default_rng(8)
    populations = np.array([0.6, 0.3, 0.1])
    codes = rng.choice(3, size=50_000, p=populations)
    weights = rng.gamma(4.0, size=50_000)
    sums = BasinSums(blocks=BLOCKS)
    sums.add(codes, sample_blocks(0, 50_000), weights)
    found = conformational_entropy(sums, draw_blocks(BLOCKS, rng))
    assert found is not None
    assert found.interval is not None
    wanted = float(-(populations * np.log(populations)).sum())
    assert found.value == pytest.approx(wanted, abs=4 * found.interval.half_width / 1.96)
    assert found.interval.half_width < 0.02
    assert conformational_entropy(BasinSums(blocks=BLOCKS), draw_blocks(BLOCKS, rng)) is None
