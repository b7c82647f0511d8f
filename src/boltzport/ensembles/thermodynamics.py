"""Thermodynamics against temperature, from one ensemble by reweighting, or from several by MBAR."""

from collections.abc import Sequence

import numpy as np
import torch

from boltzport.analysis.metrics import FACTORS, Sampled, ThermodynamicState, combined_states, states
from boltzport.core.errors import InputError
from boltzport.core.units import thermal_energy
from boltzport.ensembles.ensemble import Ensemble
from boltzport.targets.boltzmann import BoltzmannTarget

AGREEMENT = 0.05
"""Largest difference in kJ/mol, and relative one, between the energies of a frame in two ensembles of one molecule."""
RELATIVE = 1e-4
MARGIN, POINTS = 0.1, 13
"""By default, temperatures from a tenth below the lowest to a tenth above the highest, and their number."""


def thermodynamics(
    ensembles: Ensemble | Sequence[Ensemble], temperatures: Sequence[float] | None = None, *, seed: int = 0
) -> list[ThermodynamicState]:
    """Free energy, energy, entropy and heat capacity of a molecule against temperature, with 95 % intervals.

    They are configurational, in kJ/mol and nm: F = -kT log Z. From one ensemble they are found by reweighting, from
    several at different temperatures by MBAR, with pymbar. Where the weights do not allow it they are None, and
    `reason` says why.

    Args:
        ensembles: Weighted draws of one or several models of a molecule with one energy.
        temperatures: Temperatures in K; by default some around those of the ensembles.
        seed: Seed of the random generator of the bootstrap.

    Raises:
        InputError: The ensembles belong to different molecules or energies, are resampled, or pymbar is missing.

    Example:
        >>> import boltzport as bp
        >>> ensemble = bp.load("alanine-dipeptide").sample(2000, seed=1)
        >>> state = bp.thermodynamics(ensemble, [310.0])[0]
        >>> bool(abs(state.mean_energy - 310.0 * state.entropy - state.free_energy) < 1e-6)
        True
    """
    many = [ensembles] if isinstance(ensembles, Ensemble) else list(ensembles)
    if not many:
        raise InputError("expected at least one ensemble")
    sampled = [_sampled(one) for one in many]
    low, high = (pick(one.temperature for one in sampled) for pick in (min, max))
    if temperatures is None:
        wide = np.linspace((1 - MARGIN) * low, (1 + MARGIN) * high, POINTS).tolist()
        temperatures = [low * factor for factor in FACTORS] if len(many) == 1 else wide
    if not all(0.0 < temperature < np.inf for temperature in temperatures):
        raise InputError(f"temperatures: expected numbers above 0 K, got {list(temperatures)}")
    generator = np.random.default_rng(seed)
    if len(many) > 1:
        for other in many[1:]:
            _check_same(many[0], other)
        return combined_states(sampled, temperatures, generator=generator)
    (alone,) = sampled
    return states(
        alone.log_weights,
        alone.reduced_energy,
        temperature=alone.temperature,
        thermal_energy=alone.thermal_energy,
        generator=generator,
        factors=[temperature / alone.temperature for temperature in temperatures],
    )


def _sampled(ensemble: Ensemble) -> Sampled:
    if not ensemble.weighted:
        raise InputError('expected weighted draws, model.sample(n, mode="weighted"); resampled frames have no weights')
    molecule = ensemble.molecule
    temperature = 1.0 if molecule is None else molecule.temperature
    energy = 1.0 if molecule is None else thermal_energy(temperature)
    return Sampled(ensemble.log_weights, ensemble.reduced_energy, temperature, energy)


def _check_same(one: Ensemble, other: Ensemble) -> None:
    """Check that two ensembles have the same energy, by a frame of the first."""
    targets = (one.target, other.target)
    if not all(isinstance(target, BoltzmannTarget) for target in targets):
        raise InputError("several ensembles: expected those of a molecule, whose temperature is known")
    ours, theirs = targets
    assert isinstance(ours, BoltzmannTarget)
    assert isinstance(theirs, BoltzmannTarget)
    if ours.molecule.topology.elements != theirs.molecule.topology.elements:
        raise InputError(f"expected ensembles of one molecule, got {ours.name} and {theirs.name}")
    frame = one.coordinates_of(int(np.argmax(one.log_weights)))
    with torch.no_grad():
        positions = ours.positions(frame)
        energies = [
            float(target.reduced_energy(positions)[0]) * thermal_energy(target.molecule.temperature)
            for target in (ours, theirs)
        ]
    if abs(energies[0] - energies[1]) > AGREEMENT + RELATIVE * abs(energies[0]):
        raise InputError(
            f"expected ensembles with one energy at different temperatures; a frame has {energies[0]:.4g} kJ/mol in "
            f"the first and {energies[1]:.4g} kJ/mol in another"
        )
