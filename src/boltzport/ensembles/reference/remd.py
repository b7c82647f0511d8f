"""The sampler `openmm`: the paper's protocol, Langevin dynamics with replica exchange between temperatures.

With a single temperature it is plain dynamics. Dynamics has a second-order time step error. With constrained bonds
there is one more difference from fixed bonds in internal coordinates: constrained dynamics samples positions with the
weight of the mass-metric determinant (Fixman 1974), which varies by about 1e-3 with the angles between bonds to
hydrogen; `hmc` has no such weight.
"""

import math
from dataclasses import dataclass

import numpy as np
import openmm
from jaxtyping import Float, Int

from boltzport.core.errors import InputError, RunError
from boltzport.core.interrupt import StopRequest
from boltzport.core.progress import Progress, silent
from boltzport.core.units import thermal_energy
from boltzport.ensembles.reference.among import stop_asked
from boltzport.ensembles.reference.frames import internal_coordinates
from boltzport.ensembles.reference.replicas import Dynamics, Replica, team
from boltzport.ensembles.reference.sampled import Sampled
from boltzport.molecules import Molecule

PAPER_TEMPERATURES = (300.00, 332.27, 368.01, 407.60, 451.44, 500.00)
"""Temperatures of the paper's replicas in K."""


@dataclass(frozen=True, kw_only=True)
class RemdSettings:
    """Settings of the sampler `openmm`; times are per replica.

    Attributes:
        temperatures: Temperatures of the replicas in K, the molecule's first; a single one is plain dynamics.
        equilibration: Equilibration time without exchanges in ps.
        exchange_equilibration: Equilibration time with exchanges in ps.
        length: Production time in ps.
        save_interval: Time between saved frames in ps.
        exchange_every: Interval between exchange attempts, in save intervals.
        friction: Friction coefficient in 1/ps.
        time_step: Time step in fs.
        ladders: Number of independent ladders of replicas.
        processes: Number of processes; None for all cores, and for one for each process of torchrun.
    """

    temperatures: tuple[float, ...] = PAPER_TEMPERATURES
    equilibration: float = 20.0
    exchange_equilibration: float = 20.0
    length: float = 1_000.0
    save_interval: float = 0.1
    exchange_every: int = 1
    friction: float = 1.0
    time_step: float = 1.0
    ladders: int = 1
    processes: int | None = None

    def __post_init__(self) -> None:
        if not self.temperatures or any(
            not 0.0 < low < high for low, high in zip(self.temperatures, self.temperatures[1:], strict=False)
        ):
            raise InputError(f"expected increasing temperatures, the molecule's first, got {self.temperatures}")
        for name in ("length", "save_interval", "friction", "time_step"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise InputError(f"expected {name} above 0, got {getattr(self, name)}")
        for name in ("equilibration", "exchange_equilibration"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InputError(f"expected {name} of at least 0, got {getattr(self, name)}")
        for name in ("exchange_every", "ladders", "processes"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.time_step > 1e3 * self.save_interval:
            raise InputError(f"expected a time step below save_interval = {self.save_interval} ps")

    @property
    def cycle_steps(self) -> int:
        """Number of steps between frames."""
        return round(1e3 * self.save_interval / self.time_step)

    def cycles(self, picoseconds: float) -> int:
        """Number of save intervals in a time."""
        return round(picoseconds / self.save_interval)


class Exchange:
    """Assignment of temperatures in ladders of replicas; even and odd pairs of neighbours alternate.

    Args:
        temperatures: Temperatures of a ladder in K, the coldest first.
        ladders: Number of ladders; replica r of ladder l has the index l * rungs + r.
        seed: Seed of the random generator.
    """

    def __init__(self, temperatures: tuple[float, ...], *, ladders: int, seed: int) -> None:
        self._beta = np.array([1.0 / thermal_energy(temperature) for temperature in temperatures])
        rungs = len(temperatures)
        self.replica_at: Int[np.ndarray, "ladders rungs"] = np.arange(ladders * rungs).reshape(ladders, rungs)
        self._random = np.random.default_rng(seed)
        self._parity = 0
        self._attempts, self._swaps = np.zeros(max(rungs - 1, 0)), np.zeros(max(rungs - 1, 0))
        # As in `mcmc.tempering`: 1 on the way back from the hottest rung, 0 on the way there, -1 not yet cold.
        self._heading = np.full(ladders * rungs, -1)
        self._heading[self.replica_at[:, 0]] = 0
        self.round_trips = 0

    def attempt(self, energies: Float[np.ndarray, " replicas"]) -> list[tuple[int, int]]:
        """Attempt swaps, given the energies (kJ/mol) of the replicas.

        Returns:
            Each replica whose temperature changed, with its new rung.
        """
        changed = []
        rungs = len(self._beta)
        for ladder in self.replica_at:
            for low in range(self._parity, rungs - 1, 2):
                first, second = ladder[low], ladder[low + 1]
                exponent = (self._beta[low] - self._beta[low + 1]) * (energies[first] - energies[second])
                probability = math.exp(min(0.0, float(exponent)))
                self._attempts[low] += 1
                self._swaps[low] += probability
                if self._random.random() < probability:
                    ladder[low], ladder[low + 1] = second, first
                    changed += [(int(second), low), (int(first), low + 1)]
            cold, hot = ladder[0], ladder[-1]
            self.round_trips += int(self._heading[cold] == 1 and rungs > 1)
            self._heading[cold] = 0
            self._heading[hot] = -1 if self._heading[hot] < 0 else 1
        self._parity = 1 - self._parity
        return changed

    @property
    def rates(self) -> list[float]:
        """Mean acceptance rate of each pair of neighbours."""
        return [float(rate) for rate in self._swaps / np.maximum(self._attempts, 1)]


def dynamics_of(molecule: Molecule, settings: RemdSettings) -> Dynamics:
    """What all replicas of a molecule have in common."""
    return Dynamics(
        system=openmm.XmlSerializer.serialize(molecule.system),
        time_step=settings.time_step,
        friction=settings.friction,
    )


def sample_remd(
    molecule: Molecule,
    *,
    settings: RemdSettings,
    seed: int,
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> Sampled:
    """Sample a molecule by molecular dynamics; ranks divide the replicas, and each returns the frames of all.

    Args:
        molecule: The molecule; its temperature is the first of the settings.
        settings: Settings of the sampler.
        seed: Seed of noise, velocities and exchanges.
        progress: Progress callback.
        stop: Stop request, checked between frames.

    Raises:
        InputError: The first temperature is not the molecule's, or there are more ranks than replicas.
        RunError: The dynamics failed, or was stopped before the first frame.
    """
    stop = stop or StopRequest()
    temperatures = settings.temperatures
    if abs(temperatures[0] - molecule.temperature) > 1e-6:
        raise InputError(
            f"expected the first temperature to be the molecule's {molecule.temperature:g} K, got {temperatures[0]:g} K"
        )
    random = np.random.default_rng(seed)
    rungs = len(temperatures)
    seeds = random.integers(1, 2**31 - 1, size=settings.ladders * rungs)
    replicas = [Replica(temperatures[i % rungs], molecule.positions, int(number)) for i, number in enumerate(seeds)]
    exchange = Exchange(temperatures, ladders=settings.ladders, seed=int(random.integers(2**31)))
    dynamics = dynamics_of(molecule, settings)
    stages = [
        ("equilibration", settings.cycles(settings.equilibration), False),
        ("equilibration with exchanges", settings.cycles(settings.exchange_equilibration) if rungs > 1 else 0, True),
        ("dynamics", max(1, settings.cycles(settings.length)), rungs > 1),
    ]
    frames: list[np.ndarray] = []
    energies: list[np.ndarray] = []
    stopped = False
    with team(dynamics, replicas, processes=settings.processes) as together:
        changed: dict[int, float] = {}
        for stage, cycles, exchanging in stages:
            production = stage == stages[-1][0]
            for cycle in range(cycles):
                progress(stage, cycle, cycles)
                stopped = stopped or stop_asked(stop)
                if stopped:
                    break
                coldest = [int(replica) for replica in exchange.replica_at[:, 0]] if production else []
                done = together.run(settings.cycle_steps, coldest, changed)
                changed = {}
                if production:
                    frames.append(np.stack([done.positions[i] for i in coldest]).astype(np.float32))
                    energies.append(done.energies[coldest])
                if exchanging and (cycle + 1) % settings.exchange_every == 0:
                    changed = {replica: temperatures[rung] for replica, rung in exchange.attempt(done.energies)}
            progress(stage, cycles, cycles)
    if not frames:
        raise RunError("interrupted before the first frame: there is nothing to write yet")
    # (ladders, frames, ...): chain after chain.
    positions = np.stack(frames, axis=1).reshape(-1, *molecule.positions.shape)
    return Sampled(
        positions=positions,
        coordinates=internal_coordinates(molecule, positions),
        reduced_energy=np.stack(energies, axis=1).reshape(-1) / thermal_energy(molecule.temperature),
        chain=np.repeat(np.arange(settings.ladders), len(frames)),
        interrupted=stopped,
        swap_rates=exchange.rates,
        round_trips=exchange.round_trips if rungs > 1 else None,
        details={"steps": len(replicas) * len(frames) * settings.cycle_steps},
    )
