"""PDB files as they come from the data bank: what they hold besides one molecule, and one chain of it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from boltzport.core.errors import InputError

WATERS = frozenset({"HOH", "WAT", "DOD", "H2O", "SOL", "TIP", "TIP3", "TIP4", "SPC"})
"""Residue names of water."""
BLANK = "_"
"""Name of the chain of atoms without a chain identifier."""
_SHOWN = 4


class Atom(NamedTuple):
    """One line of a PDB file that describes an atom; the attributes are those of the format."""

    line: str
    serial: str
    name: str
    location: str
    residue: str
    chain: str
    number: str
    occupancy: float


class Contents(NamedTuple):
    """What the first model of a PDB file holds.

    Attributes:
        chains: Number of residues of each chain, without waters, ions and ligands.
        waters: Number of waters.
        ions: Number of ions by name.
        ligands: Number of other molecules by name: residues after the end of their chain.
        locations: Label of each atom with alternate locations, such as `SER5.OG`, and its locations.
    """

    chains: dict[str, int]
    waters: int
    ions: dict[str, int]
    ligands: dict[str, int]
    locations: dict[str, str]

    @property
    def surroundings(self) -> list[str]:
        """Waters, ions and ligands in words."""
        found = [_count(self.waters, "water")] if self.waters else []
        for kind, names in (("ion", self.ions), ("ligand", self.ligands)):
            if names:
                found.append(f"{_count(sum(names.values()), kind)} ({_list(names)})")
        return found


def contents(text: str) -> Contents:
    """What a PDB file holds.

    Example:
        >>> line = "HETATM    1  O   HOH A 101      10.000  10.000  10.000  1.00  0.00           O"
        >>> contents(line).waters, contents(line).surroundings
        (1, ['1 water'])
    """
    polymer, others = _parts(text)
    chains: Counter[str] = Counter(chain for chain, _ in _residues(polymer))
    ions, ligands, waters = Counter[str](), Counter[str](), 0
    for residue in _residues(others).values():
        name = residue[0].residue
        if name in WATERS:
            waters += 1
        else:
            (ions if len({atom.name for atom in residue}) == 1 else ligands)[name] += 1
    locations: defaultdict[str, str] = defaultdict(str)
    for atom in polymer:
        if atom.location != " ":
            locations[f"{atom.residue}{atom.number}.{atom.name}"] += atom.location
    return Contents(dict(chains), waters, dict(ions), dict(ligands), dict(locations))


def check_alone(text: str, source: str) -> None:
    """Check that a PDB file holds no waters, ions and alternate locations.

    Raises:
        InputError: It does; the message names them, and says how to leave them out.
    """
    found = contents(text)
    waters = [words for words in found.surroundings if "ligand" not in words]
    chain = next(iter(found.chains), "A")
    how = f"keep='{chain}' (--keep {chain}) keeps that chain alone"
    if waters:
        raise InputError(f"{source} holds {' and '.join(waters)}; expected one molecule without solvent: {how}")
    if found.locations:
        raise InputError(
            f"{source} has alternate locations of {_list(found.locations)}; expected one location of each atom: {how}, "
            "with the locations of highest occupancy"
        )


def keep_chains(text: str, chains: Sequence[str], source: str) -> str:
    """Some chains of the first model of a PDB file, without waters, ions and ligands, as another PDB file.

    Of the alternate locations of a residue, those with the highest occupancy are kept. Bonds between kept atoms stay.

    Args:
        text: The file.
        chains: Identifiers of the chains; `_` is that of atoms without one.
        source: Name of the file in messages.

    Raises:
        InputError: There is no such chain; the message has the chains of the file.
    """
    found = contents(text)
    for chain in chains:
        if chain not in found.chains:
            known = ", ".join(f"{name} ({_count(number, 'residue')})" for name, number in found.chains.items())
            raise InputError(f"{source} has no chain {chain!r}; expected one of {known}")
    polymer, _ = _parts(text)
    kept: list[str] = []
    serials: set[str] = set()
    last = ""
    for atoms in _residues([atom for atom in polymer if atom.chain in chains]).values():
        if last and atoms[0].chain != last:
            kept.append("TER")
        last = atoms[0].chain
        location = _fullest(atoms)
        for atom in atoms:
            if atom.location in (" ", location):
                kept.append(atom.line[:16] + " " + atom.line[17:])
                serials.add(atom.serial)
    bonds = [line for line in _conect(text) if sum(serial in serials for serial in _serials(line)) > 1]
    return "\n".join([*kept, "TER", *(_among(line, serials) for line in bonds), "END", ""])


def _parts(text: str) -> tuple[list[Atom], list[Atom]]:
    """Atoms of the chains, and those of waters, ions and ligands."""
    polymer, others, ended = list[Atom](), list[Atom](), set[str]()
    for line in text.splitlines():
        if line.startswith("ENDMDL"):
            break
        if line.startswith("TER"):
            # A bare TER ends the chain of the line before it.
            ended.add((line[21:22].strip() or BLANK) if len(line) > 21 else (polymer[-1].chain if polymer else BLANK))
        if not line.startswith(("ATOM  ", "HETATM")):
            continue
        atom = _atom(line)
        (others if atom.residue in WATERS or (line.startswith("HETATM") and atom.chain in ended) else polymer).append(
            atom
        )
    # Without TER records, an ion is a residue of one atom.
    lone = {key for key, atoms in _residues(polymer).items() if len({atom.name for atom in atoms}) == 1}
    lone &= {_key(atom) for atom in polymer if atom.line.startswith("HETATM")}
    return (
        [atom for atom in polymer if _key(atom) not in lone],
        others + [atom for atom in polymer if _key(atom) in lone],
    )


def _atom(line: str) -> Atom:
    line = line.ljust(80)
    try:
        occupancy = float(line[54:60])
    except ValueError:
        occupancy = 1.0
    return Atom(
        line=line,
        serial=line[6:11].strip(),
        name=line[12:16].strip(),
        location=line[16],
        residue=line[17:21].strip(),
        chain=line[21].strip() or BLANK,
        number=line[22:27].strip(),
        occupancy=occupancy,
    )


def _key(atom: Atom) -> tuple[str, str]:
    return atom.chain, atom.number


def _residues(atoms: Sequence[Atom]) -> dict[tuple[str, str], list[Atom]]:
    found: dict[tuple[str, str], list[Atom]] = {}
    for atom in atoms:
        found.setdefault(_key(atom), []).append(atom)
    return found


def _fullest(atoms: Sequence[Atom]) -> str:
    """Alternate location of a residue with the highest occupancy; the first of several."""
    occupancy: defaultdict[str, float] = defaultdict(float)
    for atom in atoms:
        if atom.location != " ":
            occupancy[atom.location] += atom.occupancy
    return min(occupancy, key=lambda location: (-occupancy[location], location), default=" ")


def _conect(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith("CONECT"))


def _serials(line: str) -> list[str]:
    return [serial for start in range(6, 31, 5) if (serial := line[start : start + 5].strip())]


def _among(line: str, serials: set[str]) -> str:
    return "CONECT" + "".join(f"{serial:>5}" for serial in _serials(line) if serial in serials)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _list(names: Sequence[str] | dict[str, int] | dict[str, str]) -> str:
    shown = list(names)[:_SHOWN]
    return ", ".join(shown) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
