"""What may not be meant by the name or the file of a molecule."""

import re
from pathlib import Path

from boltzport.core.errors import InputError
from boltzport.molecules.deposited import contents
from boltzport.molecules.torsions import D_RESIDUES

_MIRRORED = {name: mirrored for mirrored, name in D_RESIDUES.items()}
_PREFIX = re.compile(r"(?:^|-)([DL])-([A-Z]{3})(?=-|$)")


def on_sequence(text: str) -> tuple[str, ...]:
    """Remarks on a sequence: a D or L before a residue is a residue itself.

    Example:
        >>> print(*on_sequence("ACE-D-ALA-NME"))
        the D before ALA is a residue, ASP; D-ALA is DAL
        >>> on_sequence("ACE-DAL-NME"), on_sequence("ACE-D-E-NME")
        ((), ())
    """
    found = []
    for letter, residue in _PREFIX.findall(text):
        if residue not in _MIRRORED:
            continue
        meant, read = (_MIRRORED[residue], "ASP") if letter == "D" else (residue, "LEU")
        found.append(f"the {letter} before {residue} is a residue, {read}; {letter}-{residue} is {meant}")
    return tuple(found)


def on_pdb(path: Path, keep: tuple[str, ...]) -> tuple[str, ...]:
    """Remarks on a PDB file: which of its models, and which of the alternate locations, are read.

    Args:
        path: A file that can be read.
        keep: Chains that are kept.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    found = []
    models = sum(line.startswith("MODEL ") for line in text.splitlines())
    if models > 1:
        found.append(f"{path} has {models} models; the first is used")
    locations = contents(text).locations if keep else {}
    if locations:
        atoms = ", ".join(list(locations)[:3]) + " and others" * (len(locations) > 3)
        found.append(
            f"{path} has alternate locations of {atoms}; of each residue that with the highest occupancy is used"
        )
    return tuple(found)
