"""Drug-like molecules that nobody chose by hand, and RDKit's energies of them.

`Data/NCI/first_5K.smi` in the RDKit wheel (BSD licence) has 5000 compounds of the open database of the National Cancer
Institute, in the order of their registration. The first ones that are drug-like are taken: one molecule of 10 to 40
heavy atoms that satisfies Lipinski's rule of five. Molecules that RDKit cannot embed, or that MMFF94 has no parameters
for, are skipped.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rdkit import Chem, RDConfig, rdBase
from rdkit.Chem import Crippen, Descriptors, Lipinski, rdDistGeom, rdForceFieldHelpers

from boltzport.energies import MMFFTerm

KCAL = 4.184
SWITCHES = {
    MMFFTerm.STRETCH: "Bond",
    MMFFTerm.BEND: "Angle",
    MMFFTerm.LINEAR: "Angle",
    MMFFTerm.STRETCH_BEND: "StretchBend",
    MMFFTerm.OUT_OF_PLANE: "Oop",
    MMFFTerm.TORSION: "Torsion",
    MMFFTerm.VAN_DER_WAALS: "VdW",
    MMFFTerm.ELECTROSTATICS: "Ele",
}


def drug_like(count: int) -> Iterator[Chem.Mol]:
    """The first drug-like molecules of the list, with hydrogens and a structure."""
    found = 0
    for line in (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines():
        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(line.split()[0])
            if molecule is None or not _is_drug_like(molecule):
                continue
            molecule = embedded(molecule)
        if molecule is None:
            continue
        yield molecule
        found += 1
        if found == count:
            return


def embedded(molecule: Chem.Mol) -> Chem.Mol | None:
    """The molecule with hydrogens and a structure; None if RDKit finds none, or has no parameters."""
    whole = Chem.AddHs(molecule)
    if not rdForceFieldHelpers.MMFFHasAllMoleculeParams(whole):
        return None
    return whole if rdDistGeom.EmbedMolecule(whole, randomSeed=7) == 0 else None


def rdkit_energy(molecule: Chem.Mol, positions: np.ndarray, switch: str | None = None) -> float:
    """RDKit's energy in kJ/mol of positions in nm: of all terms, or of one kind."""
    field = _field(molecule, switch)
    return field.CalcEnergy((10.0 * positions).ravel().tolist()) * KCAL


def rdkit_gradient(molecule: Chem.Mol, positions: np.ndarray) -> np.ndarray:
    """RDKit's gradient in kJ/mol/nm of positions in nm."""
    field = _field(molecule, None)
    return 10.0 * KCAL * np.array(field.CalcGrad((10.0 * positions).ravel().tolist())).reshape(-1, 3)


def _field(molecule: Chem.Mol, switch: str | None):
    properties = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule)
    for name in set(SWITCHES.values()):
        getattr(properties, f"SetMMFF{name}Term")(switch in (None, name))
    return rdForceFieldHelpers.MMFFGetMoleculeForceField(molecule, properties, nonBondedThresh=1e4)


def _is_drug_like(molecule: Chem.Mol) -> bool:
    return (
        len(Chem.GetMolFrags(molecule)) == 1
        and 10 <= molecule.GetNumHeavyAtoms() <= 40
        and Descriptors.MolWt(molecule) <= 500
        and Crippen.MolLogP(molecule) <= 5
        and Lipinski.NumHDonors(molecule) <= 5
        and Lipinski.NumHAcceptors(molecule) <= 10
    )
