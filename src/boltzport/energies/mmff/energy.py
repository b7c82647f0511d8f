"""`MMFF`: energies and forces of batches of any size, in bounded memory."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.energies.checks import check_positions
from boltzport.energies.differentiate import BatchOfEnergies, EnergyAndForces, differentiable_energy
from boltzport.energies.mmff.parameters import MMFFParameters, MMFFTerm, Terms
from boltzport.energies.mmff.terms import FORMULAS

_BLOCK = 200_000
"""Number of terms, summed over configurations, that are evaluated at once: they stay in the cache."""


class MMFF(torch.nn.Module):
    """MMFF94 of a small molecule as a torch module: energies and forces of a batch of configurations.

    Positions are (batch, atoms, 3) in nm; device and precision follow them, and memory does not grow with the batch.
    Energies can be differentiated once with respect to positions.

    Args:
        constants: Terms that `extract_mmff` reads from the molecule's OpenMM System.

    Example:
        >>> from boltzport.molecules import Molecule
        >>> molecule = Molecule("CCO")
        >>> field = MMFF.from_system(molecule.system)
        >>> field(torch.from_numpy(molecule.positions).expand(1000, -1, -1)).shape
        torch.Size([1000])
    """

    def __init__(self, constants: MMFFParameters) -> None:
        super().__init__()
        self.constants = constants
        self._bound: dict[tuple[torch.device, torch.dtype], dict[MMFFTerm, Terms]] = {}

    @classmethod
    def from_system(cls, system: Any) -> "MMFF":
        """Read the terms of the `openmm.System` of a small molecule.

        Raises:
            InputError: A force is not a term of MMFF94; the message names it.
        """
        # Imported here because it needs OpenMM, which is not needed if the constants are given.
        from boltzport.energies.mmff.extract import extract_mmff

        return cls(extract_mmff(system))

    @staticmethod
    def term_of(force: Any) -> MMFFTerm:
        """The term that an OpenMM force of the molecule is."""
        from boltzport.energies.mmff.extract import term_of

        return term_of(force)

    @property
    def differentiable(self) -> bool:
        """Whether there are forces: always true."""
        return True

    @property
    def atoms(self) -> int:
        """Number of atoms."""
        return self.constants.atoms

    def forward(self, positions: Tensor) -> BatchOfEnergies:
        """Energies in kJ/mol of positions in nm; NaN where a position is NaN."""
        self._check(positions)
        if positions.requires_grad and torch.is_grad_enabled():
            return differentiable_energy(positions, self._energy_and_forces)
        energies = positions.new_empty(len(positions))
        with torch.no_grad():
            for block in self._blocks(positions):
                parts = self._terms(positions[block].detach().permute(2, 1, 0).contiguous())
                energies[block] = torch.stack(list(parts.values())).sum(0)
        return energies

    def energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        """Energies in kJ/mol and forces in kJ/mol/nm of positions in nm."""
        self._check(positions)
        return self._energy_and_forces(positions)

    def energy_terms(self, positions: Tensor) -> dict[MMFFTerm, BatchOfEnergies]:
        """Energies in kJ/mol of each kind of term; they add up to the energy."""
        self._check(positions)
        with torch.no_grad():
            parts = [
                self._terms(positions[block].detach().permute(2, 1, 0).contiguous())
                for block in self._blocks(positions)
            ]
        return {
            term: torch.cat([part[term] for part in parts]) if parts else positions.new_empty(0)
            for term in self.constants.terms
        }

    def _energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        energies, forces = positions.new_empty(len(positions)), torch.empty_like(positions)
        for block in self._blocks(positions):
            with torch.enable_grad():
                there = positions[block].detach().permute(2, 1, 0).contiguous().requires_grad_()
                total = torch.stack(list(self._terms(there).values())).sum(0)
                (slope,) = torch.autograd.grad(total.sum(), there)
            energies[block] = total.detach()
            forces[block] = -slope.permute(2, 1, 0)
        return EnergyAndForces(energies, forces)

    def _check(self, positions: Tensor) -> None:
        bonds = self.constants.terms[MMFFTerm.STRETCH]
        check_positions(positions, atoms=self.constants.atoms, bonds=bonds.atoms, lengths=bonds.constants[:, 1])

    def _blocks(self, positions: Tensor) -> list[slice]:
        size = max(1, _BLOCK // max(len(terms.atoms) for terms in self.constants.terms.values()))
        return [slice(start, start + size) for start in range(0, len(positions), size)]

    def _terms(self, positions: Float[Tensor, "3 atoms batch"]) -> dict[MMFFTerm, Tensor]:
        """Energies (batch,) of each kind of term."""
        key = positions.device, positions.dtype
        if key not in self._bound:
            self._bound[key] = {
                term: Terms(atoms=terms.atoms.to(key[0]), constants=terms.constants.to(*key))
                for term, terms in self.constants.terms.items()
            }
        return {
            term: FORMULAS[term](positions, terms.atoms, terms.constants.T[:, :, None]).sum(0)
            for term, terms in self._bound[key].items()
        }
