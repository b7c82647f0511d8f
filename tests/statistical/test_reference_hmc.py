"""The sampler `hmc` on a molecule whose marginals are known: independent internal coordinates, by quadrature."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.interrupt import StopRequest
from boltzport.core.layout import Axis, Layout, circle, interval
from boltzport.core.parallel import ranks
from boltzport.core.units import thermal_energy
from boltzport.energies import ForceField, extract
from boltzport.ensembles.reference import HmcSettings, sample_hmc
from boltzport.ensembles.reference import hmc as hmc_module
from boltzport.ensembles.reference import start as start_module
from boltzport.ensembles.reference.density import boltzmann_density, support_of
from boltzport.ensembles.reference.flips import flip
from boltzport.ensembles.reference.hmc import _kept
from boltzport.ensembles.reference.sampled import Sampled
from boltzport.ensembles.reference.start import descend, dispersed_start, free_torsions, harmonic_scales
from boltzport.ensembles.reference.symmetry import cycle_randomly, methyl_cycles
from boltzport.mcmc import hmc, tempering
from boltzport.molecules import Column, Kind, Molecule
from boltzport.targets import Ledger
from boltzport.targets.boltzmann import BoltzmannTarget, flat_rotors
from boltzport.targets.boltzmann import layout as layout_module
from boltzport.targets.boltzmann.stiffness import stiffness
from molecules import molecule
from ranks import on_ranks

BOND, ANGLE, STIFF, FREE = 0.01, 0.15, 20.0, 0.8
"""Widths of bonds and angles; concentrations of torsions that keep a sign, and of those that do not."""


class Toy:
    """A molecule with the energy sum of bonds and angles squared and von Mises torsions, about the reference."""

    def __init__(self, system: Molecule) -> None:
        self.molecule, self.columns = system, system.coordinates.columns
        self.centre = system.coordinates.to_internal(torch.from_numpy(system.positions)[None]).coordinates[0]

        kinds = [column.kind for column in self.columns]
        self.turns = torch.tensor([kind is Kind.TORSION for kind in kinds])
        self.width = torch.tensor([BOND if kind is Kind.BOND else ANGLE for kind in kinds], dtype=torch.float64)
        self.strength = torch.tensor([STIFF if column.sign else FREE for column in self.columns], dtype=torch.float64)

    def reduced(self, z: Tensor) -> Tensor:
        """Reduced energy of each coordinate."""
        offset = z - self.centre
        return torch.where(self.turns, self.strength * (1 - offset.cos()), 0.5 * (offset / self.width) ** 2)

    def energy(self, positions: Tensor) -> Tensor:
        z = self.molecule.coordinates.to_internal(positions).coordinates
        return thermal_energy(self.molecule.temperature) * self.reduced(z).sum(1)

    def axis(self, column: Column, centre: float) -> Axis:
        if column.kind is Kind.TORSION and column.sign == 0:
            return circle()
        if column.kind is Kind.TORSION:
            return interval(column.lower, column.upper, centre=centre, width=1.3 / STIFF**0.5, period=2 * math.pi)
        width = BOND if column.kind is Kind.BOND else ANGLE
        return interval(max(0.0, centre - 8 * width), centre + 8 * width, centre=centre, width=1.3 * width)

    def target(self) -> BoltzmannTarget:
        pairs = zip(self.columns, self.centre.tolist(), strict=True)
        return BoltzmannTarget(self.molecule, self.energy, Layout(self.axis(*pair) for pair in pairs))

    def features(self, i: int, values: Tensor) -> Tensor:
        """Two functions of a coordinate, of the order of one."""
        offset = values - self.centre[i]
        if self.columns[i].kind is Kind.TORSION:
            return torch.stack([offset.cos(), offset.sin()], -1)
        scaled = offset / self.width[i]
        return torch.stack([scaled, scaled**2], -1)

    def expected(self, i: int) -> Tensor:
        """Means of the features: the volume of a bond is b^2, that of an angle is its sine."""
        column = self.columns[i]
        upper = 0.5 if column.kind is Kind.BOND else column.upper
        grid = torch.linspace(column.lower, upper, 4_001, dtype=torch.float64)[1:-1]
        volume = {Kind.BOND: grid**2, Kind.ANGLE: grid.sin(), Kind.TORSION: torch.ones_like(grid)}[column.kind]
        weights = volume * (-self.reduced(grid[:, None].expand(-1, len(self.columns)))[:, i]).exp()
        return (weights[:, None] * self.features(i, grid)).sum(0) / weights.sum()


def test_every_marginal_of_a_molecule_with_known_ones() -> None:
    toy = Toy(molecule("alanine-dipeptide"))
    settings = HmcSettings(samples=4_000, ladders=80, iterations=50, warm_up=40, rungs=3, hottest=1.5, leapfrogs=4)
    found = sample_hmc(toy.target(), toy.energy, torch.Generator().manual_seed(0), settings=settings)
    z = torch.from_numpy(found.coordinates).double().reshape(80, 50, -1)
    scores, shifts = [], []
    for i in range(z.shape[-1]):
        ladders = toy.features(i, z[..., i]).mean(1)
        scores.append((ladders.mean(0) - toy.expected(i)) / (ladders.std(0) / 80**0.5))
        shifts.append(float(toy.expected(i)[0]))
    assert max(shifts[:21]) > 0.1  # the volume moves bonds by a good part of their width
    # 120 comparisons with 79 degrees of freedom: 4.8 is passed by chance once in a thousand seeds.
    assert float(torch.stack(scores).abs().max()) < 4.8
    assert min(found.swap_rates) > 0.2
    assert found.round_trips is not None
    assert found.round_trips > 40
    reduced = toy.energy(torch.from_numpy(found.positions).double()) / thermal_energy(300.0)
    np.testing.assert_allclose(found.reduced_energy, reduced, atol=1e-3)


@pytest.mark.parametrize("rungs", [1, 2])
def test_a_stop_keeps_what_there_is_and_the_same_seed_gives_the_same(rungs: int) -> None:
    toy = Toy(molecule("alanine-dipeptide"))
    settings = HmcSettings(samples=40, ladders=4, iterations=10, warm_up=4, rungs=rungs, hottest=1.2, leapfrogs=2)
    runs = []
    for _ in range(2):
        stop = StopRequest()

        def after_six(stage: str, done: int, total: int, stop: StopRequest = stop) -> None:
            stop.asked = stage == "sampling" and done == 6 and total == 10

        generator = torch.Generator().manual_seed(1)
        runs.append(sample_hmc(toy.target(), toy.energy, generator, settings=settings, progress=after_six, stop=stop))
    assert runs[0].interrupted
    assert runs[0].chain.tolist() == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6
    np.testing.assert_array_equal(runs[0].positions, runs[1].positions)
    stop = StopRequest()
    stop.asked = True
    with pytest.raises(RunError, match="during the warm-up"):
        sample_hmc(toy.target(), toy.energy, torch.Generator(), settings=settings, stop=stop)


def test_frames_are_kept_evenly_to_the_last() -> None:
    settings = HmcSettings(samples=2_100, ladders=100, iterations=100, warm_up=4)
    kept = _kept(settings)
    assert len(kept) == 21
    assert kept[-1] == 99
    assert set(np.diff(kept)) <= {4, 5}


def test_the_support_is_angles_and_halves_and_torsions_wrap() -> None:
    toy = Toy(molecule("alanine-dipeptide"))
    support = support_of(toy.molecule)
    signed = next(i for i, column in enumerate(toy.columns) if column.sign != 0)
    angle = next(i for i, column in enumerate(toy.columns) if column.kind is Kind.ANGLE)
    turning = next(i for i, column in enumerate(toy.columns) if column.circular)
    z = toy.centre.repeat(5, 1)
    z[1, signed] *= -1
    z[2, angle] = math.pi + 0.1
    z[3, turning] += 2 * math.pi
    z[4, angle] = math.nan
    assert support.contains(z).tolist() == [True, False, False, True, False]
    density = boltzmann_density(toy.target(), support)
    assert density.logs is not None
    found = density.logs(z)
    assert found.log_p.isfinite().tolist() == [True, False, False, True, False]
    torch.testing.assert_close(found.log_p[3], found.log_p[0])
    torch.testing.assert_close(support.wrap(z)[3], support.wrap(z)[0])
    parts = density.parts(z)
    assert parts.p_gradient.isfinite().all()


def test_starts_are_dispersed_in_what_turns_and_only_there() -> None:
    toy = Toy(molecule("alanine-dipeptide"))
    target = toy.target()
    start = dispersed_start(target, 200, torch.Generator().manual_seed(2))
    free = free_torsions(target)
    assert torch.equal(start[:, ~free], toy.centre[~free].expand(200, -1))
    # Of 16 candidates the best: drawn to the minimum, and still on both sides of it and away from it.
    offsets = torch.remainder(start[:, free] - toy.centre[free] + math.pi, 2 * math.pi) - math.pi
    assert bool((offsets.std(0) > 0.5).all())


@pytest.mark.parametrize("margin", [1.3, 1.7])
def test_scales_are_the_widths_of_the_force_field(monkeypatch: pytest.MonkeyPatch, margin: float) -> None:
    """The margin of the layout is written once: the chains' scales do not change with it."""
    for module in (layout_module, start_module):
        monkeypatch.setattr(module, "INFORMED_MARGIN", margin)
    system = molecule("alanine-dipeptide")
    energy = ForceField(extract(system.system), compiled=False)
    target = BoltzmannTarget(system, energy, layout_module.informed_layout(system, energy))
    beta = torch.tensor([1.0, 0.25], dtype=torch.float64)
    scales = harmonic_scales(target, beta)
    indices, covariance = stiffness(system, energy)
    widths = torch.from_numpy(np.diagonal(covariance).copy()).sqrt()
    torch.testing.assert_close(scales[:, indices], widths * torch.tensor([[1.0], [2.0]]).double())
    assert len(indices) == 55


def test_descent_takes_starts_out_of_clashes_and_leaves_the_others_alone() -> None:
    toy = Toy(molecule("alanine-dipeptide"))
    target = toy.target()
    density = boltzmann_density(target, support_of(toy.molecule))
    start = dispersed_start(target, 20, torch.Generator().manual_seed(4))
    start[:10, 3] += 0.2  # a bond: 200 kT
    end = descend(start, density, harmonic_scales(target, torch.ones(1, dtype=torch.float64))[0])
    before, after = (density.exact_parts(points).log_p for points in (start, end))
    assert float(before[:10].max()) < -150
    assert float(after[:10].min()) > float(before[10:].max()) - 60
    assert torch.equal(end[10:], start[10:])


def test_methyls_turn_only_where_the_energy_does_not_notice() -> None:
    system = molecule("alanine-dipeptide")
    toy = Toy(system)

    def distances(positions: Tensor) -> Tensor:
        """Symmetric in all atoms of one element."""
        return torch.cdist(positions, positions).sum((1, 2))

    assert methyl_cycles(system, toy.energy) == []
    triples = methyl_cycles(system, distances)
    assert len(triples) == 3
    assert all(system.topology.elements[atom] == 1 for triple in triples for atom in triple)
    positions = torch.from_numpy(system.positions).expand(300, -1, -1)
    cycled = cycle_randomly(positions, triples, torch.Generator().manual_seed(3))
    torch.testing.assert_close(distances(cycled), distances(positions))
    z = system.coordinates.to_internal(cycled).coordinates
    assert bool(support_of(system).contains(z).all())
    for triple in triples:
        shares = [float((cycled[:, triple[0]] == positions[:, atom]).all(1).double().mean()) for atom in triple]
        assert sum(shares) == pytest.approx(1.0)
        assert min(shares) > 0.2


def test_half_turns_of_amides_leave_the_density_unchanged() -> None:
    """Chains that start trans end with the cis share of the von Mises density, at each temperature its own."""
    toy = Toy(molecule("alanine-dipeptide"))
    target = toy.target()
    omegas = [i for i, column in enumerate(toy.columns) if column.name.endswith("omega")]
    flat = torch.tensor(flat_rotors(toy.molecule))
    assert flat.tolist() == omegas
    density = boltzmann_density(target, support_of(toy.molecule))
    n, generator = 3000, torch.Generator().manual_seed(5)
    start = toy.centre.repeat(n, 1)
    start[:, omegas] += 0.7
    beta = torch.where(torch.arange(n) < n // 2, 1.0, 0.25).double()
    chains = hmc.init(start, density)
    for _ in range(24):
        chains, acceptance = flip(chains, flat, generator, density=density, beta=beta)
    # Each of the two torsions is at c + 0.7 or at c + 0.7 + pi, with odds exp(2 b k cos 0.7).
    trans = (chains.coordinates[:, omegas] - toy.centre[omegas]).cos() > 0
    for part, b in ((slice(0, n // 2), 1.0), (slice(n // 2, n), 0.25)):
        expected = 1 / (1 + math.exp(-2 * b * FREE * math.cos(0.7)))
        assert float(trans[part].double().mean()) == pytest.approx(expected, abs=5 * math.sqrt(0.25 / n))
    assert 0.1 < float(acceptance.mean()) < 1.0
    torch.testing.assert_close(chains.parts.log_p, density.exact_parts(chains.coordinates).log_p)


def test_rings_are_not_offered_half_turns() -> None:
    system = molecule("ACE-PHE-NME")
    names = [system.coordinates.columns[i].name for i in flat_rotors(system)]
    assert names == ["ACE1.omega", "PHE2.omega"]


def test_chains_start_hot_and_are_cooled_before_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, seen = Toy(molecule("alanine-dipeptide")), []
    step = tempering.step

    def watched(state, generator, *, beta, **rest):
        seen.append(beta)
        return step(state, generator, beta=beta, **rest)

    monkeypatch.setattr(hmc_module.tempering, "step", watched)
    settings = HmcSettings(samples=24, ladders=3, iterations=8, warm_up=10, rungs=3, hottest=2.0, leapfrogs=1)
    found = sample_hmc(toy.target(), toy.energy, torch.Generator().manual_seed(1), settings=settings)
    wanted = settings.inverse_temperatures(60)
    assert all(torch.allclose(beta, wanted[-1].expand(3)) for beta in seen[:4])
    assert bool((seen[5][0] > wanted[-1]) & (seen[5][0] < wanted[0]))
    assert all(torch.allclose(beta, wanted) for beta in seen[6:])
    # Nobody has gone up and down again in so few steps by having been everywhere while all rungs were equally hot.
    assert found.round_trips is not None
    assert found.round_trips <= 8


def test_ranks_divide_the_ladders_and_one_has_the_frames_of_all() -> None:
    """Marginals, round trips and evaluations are those of all ladders, and every rank has the same step sizes."""
    toy = Toy(molecule("alanine-dipeptide"))
    settings = HmcSettings(samples=3_000, ladders=75, iterations=40, warm_up=40, rungs=2, hottest=1.3, leapfrogs=4)

    def work() -> tuple[Sampled, Ledger, int]:
        generator, ledger = torch.Generator().manual_seed(ranks().rank), Ledger()
        found = sample_hmc(toy.target(), toy.energy, generator, settings=settings, ledger=ledger)
        return found, ledger, len(found.chain)

    (found, ledger, frames), (other, same, its) = on_ranks(2, work)
    assert (frames, its) == (75 * 40, 37 * 40)
    assert np.unique(found.chain, return_counts=True)[1].tolist() == [40] * 75
    np.testing.assert_array_equal(found.positions.reshape(75, 40, 22, 3)[1::2], other.positions.reshape(37, 40, 22, 3))
    first = found.reduced_energy.reshape(75, 40)[::2]
    assert not set(first.ravel()) & set(other.reduced_energy)
    assert found.details == other.details
    assert found.details["evaluations"] == ledger.total == same.total
    # 16 candidates of a start and one point of a proposal for each chain, at least.
    assert ledger.total > 75 * 2 * (16 + 80)
    assert found.swap_rates == other.swap_rates
    assert found.round_trips == other.round_trips
    z = torch.from_numpy(found.coordinates).double().reshape(75, 40, -1)
    for i in range(z.shape[-1]):
        means = toy.features(i, z[..., i]).mean(1)
        scores = (means.mean(0) - toy.expected(i)) / (means.std(0) / 75**0.5)
        assert float(scores.abs().max()) < 4.8
    few = HmcSettings(samples=16, ladders=2, iterations=8, warm_up=4)
    with pytest.raises(InputError, match="expected at most 2 processes, one for each ladder of chains, got 3"):
        on_ranks(3, lambda: sample_hmc(toy.target(), toy.energy, torch.Generator(), settings=few))


def test_a_stop_of_one_rank_stops_all() -> None:
    toy = Toy(molecule("alanine-dipeptide"))
    settings = HmcSettings(samples=40, ladders=4, iterations=10, warm_up=4, rungs=2, hottest=1.2, leapfrogs=2)

    def work() -> Sampled:
        stop = StopRequest()

        def progress(stage: str, done: int, total: int) -> None:
            stop.asked |= stage == "sampling" and done == 6 and total == 10 and not ranks().leads

        generator = torch.Generator().manual_seed(ranks().rank)
        return sample_hmc(toy.target(), toy.energy, generator, settings=settings, progress=progress, stop=stop)

    found, other = on_ranks(2, work)
    assert found.interrupted
    assert other.interrupted
    assert found.chain.tolist() == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6
