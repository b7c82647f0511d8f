"""Hydrogens of a peptide, and what must be there before they can be added: all heavy atoms, without gaps."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import openmm
import openmm.app
import openmm.unit

from boltzport.core.errors import InputError

LONGEST = 0.3
"""Length in nm above which a bond between two residues means that residues are missing between them."""


def add_hydrogens(modeller: openmm.app.Modeller, *, ph: float, variants: Sequence[str | None] | None = None) -> None:
    """Add the missing hydrogens; deterministic.

    Args:
        modeller: Atoms and positions, to which the hydrogens are added.
        ph: pH that decides the protonation.
        variants: Protonation variant of each residue; None where the pH decides.
    """
    with _private_random(seed=0):
        modeller.addHydrogens(pH=ph, variants=variants, platform=openmm.Platform.getPlatform("Reference"))


def check_heavy_atoms(modeller: openmm.app.Modeller, source: str) -> None:
    """Check that the standard residues of a file have all their heavy atoms, and that none is missing between two.

    Raises:
        InputError: Atoms or residues are missing; the message names them.
    """
    missing = [
        f"{residue.name}{residue.id} ({' '.join(absent)})"
        for residue in modeller.topology.residues()
        if (absent := _absent(residue))
    ]
    if missing:
        more = f" and {len(missing) - 4} more residues" if len(missing) > 4 else ""
        raise InputError(
            f"{source} lacks heavy atoms: {', '.join(missing[:4])}{more}; expected complete residues: add them, for "
            "example with PDBFixer"
        )
    positions = np.array(modeller.positions.value_in_unit(openmm.unit.nanometer))
    for first, second in modeller.topology.bonds():
        apart = float(np.linalg.norm(positions[first.index] - positions[second.index]))
        if first.residue is not second.residue and apart > LONGEST:
            ends = " and ".join(f"{atom.residue.name}{atom.residue.id}" for atom in (first, second))
            raise InputError(
                f"{source}: {ends} are {apart:.2f} nm apart, so that residues are missing between them; expected a "
                "chain without gaps"
            )


def _absent(residue: openmm.app.topology.Residue) -> list[str]:
    """Names of the heavy atoms that a standard residue lacks."""
    # The names of OpenMM's own bonds, which reading a file has loaded.
    bonds = openmm.app.Topology._standardBonds.get(residue.name, ())
    expected = {name for bond in bonds for name in bond if name[0] not in "-+H" and not name[0].isdigit()} - {"OXT"}
    names = {atom.name for atom in residue.atoms()}
    if expected and residue is list(residue.chain.residues())[-1] and {"N", "CA", "C"} <= expected:
        carbon = next((atom for atom in residue.atoms() if atom.name == "C"), None)
        # In front of a cap a residue is not the last of its chain; in a ring its carbon has another bond.
        if carbon is not None and not any(carbon in bond for bond in residue.external_bonds()):
            expected |= {"OXT"}
    return sorted(expected - names)


@contextmanager
def _private_random(*, seed: int) -> Iterator[None]:
    """Seed Python's global generator, which Modeller uses, and restore it afterwards."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
