"""Peptides with rings, closed head to tail or by a disulfide: a structure in which the bonds have their length.

RDKit embeds the heavy atoms of the peptide with all its bonds. The handedness of each centre is that of the open chain.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.molecules.chemistry import SEED, require_rdkit

CONFORMERS = 30
"""Number of embedded conformers, of which that with the fewest cis peptide bonds and the lowest energy is taken."""


def closed(
    pdb: str, bonds: Sequence[tuple[int, int]], peptide_bonds: Sequence[tuple[int, int, int, int]], name: str
) -> Float[np.ndarray, "atoms 3"]:
    """Positions in nm of the heavy atoms of a peptide with rings.

    Args:
        pdb: The open chain without hydrogens, as a PDB file.
        bonds: The bonds that close rings, by the index of their atoms in the file.
        peptide_bonds: Atoms CA, C, N and CA of each peptide bond.
        name: Name of the peptide in messages.

    Raises:
        InputError: RDKit is not installed, or finds no structure.
    """
    require_rdkit(f"the ring of {name}")
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    with rdBase.BlockLogs():
        chain = Chem.MolFromPDBBlock(pdb)
        Chem.AssignStereochemistryFrom3D(chain)
        ring = Chem.RWMol(chain)
        for first, second in bonds:
            ring.AddBond(first, second, Chem.BondType.SINGLE)
        ring.RemoveAllConformers()
        Chem.SanitizeMol(ring)
        full = Chem.AddHs(ring.GetMol())
        parameters: Any = rdDistGeom.ETKDGv3()
        parameters.randomSeed = SEED
        parameters.useRandomCoords = True
        parameters.useMacrocycle14config = True
        found = list(rdDistGeom.EmbedMultipleConfs(full, CONFORMERS, parameters))
        if not found:
            raise InputError(f"RDKit finds no structure of {name}: is the ring too small?")
        relaxed = rdForceFieldHelpers.MMFFOptimizeMoleculeConfs(full, maxIters=1000)
    frames = [0.1 * np.array(full.GetConformer(place).GetPositions())[: chain.GetNumAtoms()] for place in found]
    cis = [sum(_is_cis(frame[list(atoms)]) for atoms in peptide_bonds) for frame in frames]
    best = min(range(len(frames)), key=lambda place: (cis[place], relaxed[place][1]))
    return frames[best]


def _is_cis(positions: Float[np.ndarray, "4 3"]) -> bool:
    along = positions[2] - positions[1]
    left, right = np.cross(positions[0] - positions[1], along), np.cross(positions[3] - positions[2], along)
    return float(left @ right) > 0.0
