"""The two samplers agree: what `hmc` calls the ensemble of the dipeptide is what OpenMM's dynamics leaves alone."""

import math
from collections.abc import Sequence

import numpy as np
import openmm
import pytest
import torch

from boltzport.core.errors import InputError
from boltzport.core.units import thermal_energy
from boltzport.energies import ForceField, extract
from boltzport.ensembles.reference import HmcSettings, RemdSettings, make_reference, sample_remd
from boltzport.ensembles.reference import replicas as replicas_module
from boltzport.ensembles.reference.frames import internal_coordinates
from boltzport.ensembles.reference.remd import Exchange
from boltzport.ensembles.reference.replicas import Dynamics, Propagator, Replica, Team
from boltzport.molecules import Kind, Molecule
from molecules import molecule
from ranks import on_ranks


class InProcess(Propagator):
    """A team without processes of its own."""

    def __init__(self, dynamics: Dynamics, replicas: Sequence[Replica], *, processes: int) -> None:
        del processes
        super().__init__(dynamics, replicas)

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *exception: object) -> None:
        del exception


def features(system: Molecule, coordinates: np.ndarray, reduced_energy: np.ndarray) -> np.ndarray:
    """Cosine and sine of torsions, bonds and angles with their squares, and the energy: (frames, features)."""
    centre = internal_coordinates(system, system.positions[None])[0]
    offset = coordinates - centre
    columns = [reduced_energy[:, None]]
    for i, column in enumerate(system.coordinates.columns):
        x = offset[:, i : i + 1].astype(np.float64)
        columns += [np.cos(x), np.sin(x)] if column.kind is Kind.TORSION else [x, x**2]
    return np.concatenate(columns, axis=1)


def z_scores(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Differences of means of independent rows in units of their standard error."""
    error = np.sqrt(first.var(0, ddof=1) / len(first) + second.var(0, ddof=1) / len(second))
    return np.abs(first.mean(0) - second.mean(0)) / error


def test_exchanges_are_by_energy_and_counted() -> None:
    exchange = Exchange((300.0, 400.0, 500.0), ladders=2, seed=0)
    # The colder replica has the higher energy: always taken. In the other ladder never, for all that chance can do.
    changed = exchange.attempt(np.array([90.0, 10.0, 0.0, -5e4, 10.0, 0.0]))
    assert sorted(changed) == [(0, 1), (1, 0)]
    assert exchange.replica_at.tolist() == [[1, 0, 2], [3, 4, 5]]
    assert exchange.rates == [0.5, 0.0]
    exchange.attempt(np.array([90.0, 10.0, 0.0, -5e4, 10.0, 1e5]))
    assert exchange.replica_at.tolist() == [[1, 2, 0], [3, 4, 5]]
    assert exchange.round_trips == 0
    for _ in range(4):
        # Whoever was hot is cold, step by step: energies that favour replica 0 at the bottom.
        exchange.attempt(np.array([-5e4, 1e4, 2e4, -5e4, 10.0, 1e5]))
    assert exchange.replica_at[0, 0] == 0
    assert exchange.round_trips == 1


def test_exchange_probability_is_metropolis() -> None:
    exchange = Exchange((300.0, 400.0), ladders=4000, seed=1)
    energies = np.tile([10.0, 14.0], 4000)
    exchange.attempt(energies)
    expected = math.exp((1 / thermal_energy(300.0) - 1 / thermal_energy(400.0)) * (10.0 - 14.0))
    assert exchange.rates[0] == pytest.approx(expected)
    taken = float((exchange.replica_at[:, 0] % 2 == 1).mean())
    assert abs(taken - expected) < 4.5 * math.sqrt(expected * (1 - expected) / 4000)


@pytest.mark.slow
def test_replica_exchange_runs_and_replays() -> None:
    system = molecule("alanine-dipeptide")
    settings = RemdSettings(
        equilibration=0.1, exchange_equilibration=0.1, length=0.4, save_interval=0.05, ladders=2, processes=2
    )
    first, second = (sample_remd(system, settings=settings, seed=5) for _ in range(2))
    assert first.positions.shape == (16, 22, 3)
    assert first.chain.tolist() == [0] * 8 + [1] * 8
    assert len(first.swap_rates) == 5
    assert min(first.swap_rates) > 0.05
    np.testing.assert_array_equal(first.positions, second.positions)
    energies = ForceField(extract(system.system), compiled=False)(torch.from_numpy(first.positions).double())
    np.testing.assert_allclose(first.reduced_energy, energies / thermal_energy(300.0), atol=5e-3)


@pytest.mark.slow
def test_ranks_divide_the_replicas_and_have_the_frames_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference platform has one stream of noise for all threads, so the trajectories are not those of one rank."""
    monkeypatch.setattr(replicas_module, "_fastest_platform", lambda *_: "Reference")
    monkeypatch.setattr(replicas_module, "Team", InProcess)
    system = molecule("alanine-dipeptide")
    times = {"equilibration": 0.1, "exchange_equilibration": 0.1, "length": 0.3, "save_interval": 0.05}
    settings = RemdSettings(**times, temperatures=(300.0, 320.0, 340.0), ladders=2)
    first, *others = on_ranks(4, lambda: sample_remd(system, settings=settings, seed=5))
    assert first.chain.tolist() == [0] * 6 + [1] * 6
    energies = ForceField(extract(system.system), compiled=False)(torch.from_numpy(first.positions).double())
    np.testing.assert_allclose(first.reduced_energy, energies / thermal_energy(300.0), atol=5e-3)
    for found in others:
        np.testing.assert_array_equal(found.positions, first.positions)
        assert found.swap_rates == first.swap_rates
        assert found.round_trips == first.round_trips
    with pytest.raises(InputError, match="expected at most 6 processes, one for each replica, got 7"):
        on_ranks(7, lambda: sample_remd(system, settings=settings, seed=5))


@pytest.mark.slow
def test_dynamics_leaves_the_ensemble_of_hmc_alone() -> None:
    """Independent trajectories of OpenMM start from frames of `hmc`; a picosecond later every marginal is the same.

    Stiff coordinates forget where they were within that time, so that a wrong measure, force or temperature of either
    sampler would show; that slow torsions are sampled right is for the diagnostics to say.
    """
    system = molecule("alanine-dipeptide")
    field = ForceField(extract(system.system))
    settings = HmcSettings(samples=4_000, ladders=40, iterations=150, warm_up=100, rungs=4)
    ensemble = make_reference(system, field, settings=settings, seed=0)
    frames = ensemble.positions[::100].astype(np.float64)
    replicas = [Replica(300.0, frame, seed + 1) for seed, frame in enumerate(frames)]
    dynamics = Dynamics(openmm.XmlSerializer.serialize(system.system), time_step=1.0, friction=10.0)
    with Team(dynamics, replicas, processes=1) as team:
        everyone = range(len(replicas))
        runs = [team.run(100, everyone) for _ in range(12)][6:]
    positions = np.stack([[run.positions[i] for i in everyone] for run in runs], axis=1)
    energies = np.stack([run.energies for run in runs], axis=1) / thermal_energy(300.0)
    by_dynamics = features(
        system, internal_coordinates(system, positions.reshape(-1, *system.positions.shape)), energies.ravel()
    )
    by_hmc = features(system, ensemble.coordinates, ensemble.reduced_energy)
    # Means of each trajectory and of each ladder: independent of each other, whatever happens inside of one.
    scores = z_scores(
        by_dynamics.reshape(len(replicas), 6, -1).mean(1), by_hmc.reshape(settings.ladders, 100, -1).mean(1)
    )
    # 121 comparisons with some 80 degrees of freedom: 4.8 is passed by chance once in a thousand seeds.
    assert scores.max() < 4.8
