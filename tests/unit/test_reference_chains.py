"""R-hat, effective sizes and transitions on draws whose answer is known."""

import math

import numpy as np
import pytest

from boltzport.analysis.metrics.chains import basins, bulk_size, circular_bulk_size, circular_rhat, rhat, transitions
from boltzport.ensembles.reference import diagnose
from boltzport.ensembles.reference.strain import strained
from boltzport.molecules import Column, Kind


def autoregressive(rho: float, *, draws: int, chains: int, seed: int) -> np.ndarray:
    """Stationary chains whose effective share is (1 - rho) / (1 + rho)."""
    random = np.random.default_rng(seed)
    x = random.normal(size=chains)
    rows = []
    for _ in range(draws):
        x = rho * x + math.sqrt(1 - rho**2) * random.normal(size=chains)
        rows.append(x)
    return np.array(rows)


@pytest.mark.parametrize("rho", [-0.3, 0.0, 0.6, 0.9])
def test_effective_size_of_an_autoregression(rho: float) -> None:
    draws = autoregressive(rho, draws=4000, chains=8, seed=1)
    assert bulk_size(draws) == pytest.approx(draws.size * (1 - rho) / (1 + rho), rel=0.1)


def test_rhat_of_chains_that_agree_and_of_one_that_does_not() -> None:
    draws = autoregressive(0.5, draws=1000, chains=4, seed=2)
    assert 1.0 <= rhat(draws) < 1.01
    assert rhat(draws + np.array([0.0, 0.0, 0.0, 0.7])) > 1.05
    # Half of a chain against its other half.
    drift = draws + np.linspace(0, 2, len(draws))[:, None]
    assert rhat(drift) > 1.1
    # Equal means, another width: only folding sees it.
    assert rhat(draws * np.array([1.0, 1.0, 1.0, 3.0])) > 1.05


def test_rhat_does_not_mind_heavy_tails() -> None:
    draws = np.random.default_rng(3).standard_cauchy(size=(2000, 4))
    assert rhat(draws) < 1.01


def test_rhat_of_constant_chains() -> None:
    same = np.zeros((10, 4))
    assert rhat(same) == 1.0
    assert rhat(same + np.arange(4.0)) == math.inf


def test_a_torsion_at_the_cut_of_the_circle_is_no_problem() -> None:
    """Narrow about pi: on the line chains jump between the two ends, on the circle they stay where they are."""
    angles = math.pi + 0.2 * autoregressive(0.5, draws=1000, chains=4, seed=4)
    wrapped = (angles + math.pi) % (2 * math.pi) - math.pi
    assert wrapped.min() < -3
    assert wrapped.max() > 3
    assert circular_rhat(wrapped) < 1.01
    assert circular_rhat(wrapped) == pytest.approx(circular_rhat(angles), abs=1e-9)
    assert circular_bulk_size(wrapped) > 500


def test_transitions_between_the_basins_of_an_angle() -> None:
    random = np.random.default_rng(5)
    basin = np.repeat(np.array([[0, 1, 0, 2, 0], [0, 0, 0, 0, 1]]).T, 200, axis=0)
    angles = np.array([-2.0, 0.5, 2.5])[basin] + 0.1 * random.normal(size=basin.shape)
    assert transitions(angles) == 4 + 1
    assert transitions(0.1 * random.normal(size=(500, 3))) == 0


def test_a_rare_basin_is_a_basin() -> None:
    counts = np.array([0, 0, 500, 90_000, 60_000, 20_000, 0, 1, 40, 300, 60, 2])
    found = basins(counts)
    assert len(set(found[counts > 10])) == 2
    assert found[9] != found[3]


def torsion(name: str) -> Column:
    atoms = (0, 1, 2, 3)
    return Column(kind=Kind.TORSION, name=name, atoms=atoms, sibling=False, sign=0, lower=-math.pi, upper=math.pi)


def ensemble(shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two torsions of four chains, chain after chain; the second torsion of the last chain is shifted."""
    first, second, energy = (autoregressive(0.3, draws=500, chains=4, seed=seed) for seed in (6, 7, 8))
    second = second + np.array([0.0, 0.0, 0.0, shift])
    coordinates = np.stack([0.5 * first.T.ravel(), 0.5 * second.T.ravel()], axis=1)
    return coordinates, energy.T.ravel(), np.repeat(np.arange(4), 500)


def test_the_verdict_in_words() -> None:
    columns = (torsion("ALA2.phi"), torsion("ALA2.psi"))
    good = diagnose(columns, *ensemble(0.0), swap_rates=[0.4, 0.3], round_trips=7)
    assert good.converged
    assert good.message.startswith("converged: the largest R-hat is 1.0")
    assert set(good.rhat) == set(good.ess) == {"ALA2.phi", "ALA2.psi", "energy"}
    bad = diagnose(columns, *ensemble(0.8), swap_rates=[0.4, 0.3], round_trips=7)
    assert not bad.converged
    assert bad.message == f"not converged: R-hat of ALA2.psi is {bad.rhat['ALA2.psi']:.3g}, expected below 1.01"
    assert bad.rhat["ALA2.phi"] < 1.01


@pytest.mark.parametrize(
    ("rates", "trips", "words"),
    [([0.4, 0.001], 7, "temperatures 1 and 2 swap at a rate of 0.001"), ([0.4, 0.3], 0, "no walker went")],
)
def test_a_ladder_that_does_not_mix_is_named(rates: list[float], trips: int, words: str) -> None:
    columns = (torsion("ALA2.phi"), torsion("ALA2.psi"))
    found = diagnose(columns, *ensemble(0.0), swap_rates=rates, round_trips=trips)
    assert not found.converged
    assert words in found.message


def test_few_frames_and_single_chains_are_judged_too() -> None:
    columns = (torsion("ALA2.phi"), torsion("ALA2.psi"))
    coordinates, energy, _ = ensemble(0.0)
    alone = np.zeros(len(energy), dtype=int)
    assert diagnose(columns, coordinates, energy, alone).converged
    drifting = coordinates + np.linspace(0, 1.5, len(energy))[:, None]
    assert not diagnose(columns, drifting, energy, alone).converged
    few = diagnose(columns, coordinates[:3], energy[:3], alone[:3])
    assert few.message == "not converged: there are fewer than 4 frames per chain"
    short = diagnose(columns, coordinates[:200], energy[:200], alone[:200])
    assert not short.converged


def test_a_strained_stretch_of_a_chain_is_found_and_nothing_else() -> None:
    random = np.random.default_rng(9)
    stiff = random.normal(size=(8000, 30)) * np.linspace(0.1, 5.0, 30)
    energy = np.concatenate(list(autoregressive(0.8, draws=1000, chains=8, seed=10).T))
    draws = np.arange(8000).reshape(8, 1000).T
    assert not strained(stiff, energy, draws).any()
    # Bonds and angles of a stretch are half again as wide, and its energy is high.
    stretched, high = stiff.copy(), energy.copy()
    stretched[2250:2375] *= 1.5
    high[2250:2375] += 6.0
    assert strained(stretched, high, draws).nonzero()[0].tolist() == list(range(2250, 2375))
    # A rare conformation of higher energy has its bonds and angles as they should be; and noise alone is no strain.
    assert not strained(stiff, high, draws).any()
    assert not strained(stretched, energy, draws).any()


def test_a_strained_ensemble_is_not_converged() -> None:
    columns = (torsion("ALA2.phi"), torsion("ALA2.psi"))
    coordinates, energy, chain = ensemble(0.0)
    assert diagnose(columns, coordinates, energy, chain).strained == 0.0
    energy[1000:1126] += 30.0
    found = diagnose(columns, coordinates, energy, chain)
    assert not found.converged
    assert found.strained == 0.063
    assert found.message.startswith("not converged: 6.30% of the frames are strained")
