"""Parity check before a run: the tensors must reproduce OpenMM's energies, term by term."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.energies.mmff import MMFF, MMFFTerm
from boltzport.energies.tensors.energy import ForceField
from boltzport.energies.tensors.parameters import Term
from boltzport.energies.workers import context_of, evaluate, evaluate_groups

# In float64 both sides have similar rounding errors. In float32 an energy is a sum of thousands of numbers of
# about 100 kJ/mol; 0.025 kJ/mol is a hundredth of kT.
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
_SMALLEST_SIZE = {torch.float64: 1.0, torch.float32: 2500.0}


class ParityError(RunError):
    """The tensors do not reproduce OpenMM's energies."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Largest difference between tensors and OpenMM in one quantity.

    Attributes:
        name: name of the quantity.
        largest: absolute difference in kJ/mol (forces: kJ/mol/nm, norm over a configuration).
        relative: difference relative to the quantity's size.
        tolerance: largest allowed value of ``relative``.
    """

    name: str
    largest: float
    relative: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the tolerance; NaN never is."""
        return self.relative <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Comparison of a force field with OpenMM on some configurations."""

    configurations: int
    differences: tuple[Difference, ...]

    @property
    def largest(self) -> Difference:
        """Largest difference relative to its tolerance; if a single term exceeds it, that term and not a sum."""
        terms = {term.value for term in (*Term, *MMFFTerm)}

        def rank(difference: Difference) -> tuple[bool, float]:
            excess = difference.relative / difference.tolerance
            guilty = difference.name in terms and not difference.agrees
            return guilty, np.inf if np.isnan(excess) else excess

        return max(self.differences, key=rank)

    @property
    def message(self) -> str:
        """One line for a log."""
        worst = self.largest
        state = "agrees with" if worst.agrees else "DIFFERS from"
        return (
            f"the force field {state} OpenMM on {self.configurations} configurations; largest difference "
            f"{worst.largest:.2g} kJ/mol ({worst.relative:.1g} of its size) in {worst.name}"
        )


def check_parity(
    system: Any,
    force_field: ForceField | MMFF,
    positions: Float[Tensor, "batch atoms 3"],
    *,
    tolerance: float | None = None,
) -> Parity:
    """Compare a force field with OpenMM's Reference platform.

    Every term is compared in float64. Energy and forces are compared as in the run: in the precision of
    ``positions``, and compiled if the force field is.

    Args:
        system: the ``openmm.System``.
        force_field: its translation.
        positions: some configurations in nm, without clashes (whose energies differ by more than the rounding
            of a sum).
        tolerance: allowed difference relative to a term's size, at least 1 kJ/mol (float32: of 0.01 kT).

    Returns:
        The differences.

    Raises:
        ParityError: a difference is above the tolerance; the message names the term.
    """
    exact = positions.detach().to("cpu", torch.float64)
    terms = force_field.energy_terms(exact)
    present: list[Term | MMFFTerm] = list(terms)
    groups = [_group(force_field.term_of(force), present) for force in system.getForces()]
    reference = evaluate_groups(system, groups, exact.numpy())
    fine = _TOLERANCE[torch.float64] if tolerance is None else tolerance
    differences = [
        _difference(term.value, values.numpy() - reference[:, k], reference[:, k], fine, 1.0)
        for k, (term, values) in enumerate(terms.items())
    ]
    whole = evaluate(context_of(system, "Reference"), exact.numpy(), forces=True)
    assert whole.forces is not None
    energies, forces = (
        part.detach().to("cpu", torch.float64).numpy() for part in force_field.energy_and_forces(positions)
    )
    plain = force_field(positions.detach()).to("cpu", torch.float64).numpy()
    coarse, size = (
        _TOLERANCE[positions.dtype] if tolerance is None else tolerance,
        _SMALLEST_SIZE[positions.dtype],
    )
    norm = np.sqrt((whole.forces**2).sum(axis=(1, 2)))
    error = np.sqrt(((forces - whole.forces) ** 2).sum(axis=(1, 2)))
    differences += [
        _difference("the energy", plain - whole.energies, whole.energies, coarse, size),
        _difference("the energy with forces", energies - whole.energies, whole.energies, coarse, size),
        _difference("the forces", error, norm, coarse * (10.0 if positions.dtype == torch.float32 else 1.0), 1.0),
    ]
    parity = Parity(configurations=len(exact), differences=tuple(differences))
    if not all(difference.agrees for difference in differences):
        raise ParityError(parity.message)
    return parity


def _group(term: Term | MMFFTerm | None, present: list[Term | MMFFTerm]) -> int:
    return present.index(term) if term in present else -1


def _difference(name: str, difference: np.ndarray, reference: np.ndarray, tolerance: float, size: float) -> Difference:
    relative = np.abs(difference) / np.maximum(np.abs(reference), size)
    return Difference(
        name=name,
        largest=float(np.max(np.abs(difference), initial=0.0)),
        relative=float(np.max(relative, initial=0.0)),
        tolerance=tolerance,
    )
