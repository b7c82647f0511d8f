"""The named systems, and `load`: from what a user calls a molecule to the molecule."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import openmm
import openmm.app
import openmm.unit
from jaxtyping import Float

from boltzport.errors import InputError
from boltzport.molecule.chirality import Centre, tetrahedral_centres
from boltzport.molecule.coordinates import CoordinateMap
from boltzport.molecule.parametrise import (
    Constraints,
    constrained_bonds,
    create_system,
    load_forcefield,
    minimise,
    potential_energy,
)
from boltzport.molecule.pdb import check_connected, explain_mismatch, read_pdb
from boltzport.molecule.permutation import PermutationGroup, permutation_groups
from boltzport.molecule.sequence import Peptide, build_peptide, iupac_hydrogens, parse_sequence
from boltzport.molecule.topology import Topology, from_openmm
from boltzport.molecule.zmatrix import ZMatrix, build_zmatrix


@dataclass(frozen=True, kw_only=True)
class NamedSystem:
    """A system of the paper (its table of molecular systems)."""

    name: str
    alias: str
    sequence: str
    forcefield: tuple[str, ...]
    constraints: Constraints


_AMBER99 = ("amber99sbildn.xml", "amber99_obc.xml")

SYSTEMS = (
    # OBC1 is implicit/obc1.xml; amber96_obc.xml is OBC2 and lies 10 kJ/mol away.
    NamedSystem(
        name="alanine-dipeptide",
        alias="aldp",
        sequence="ACE-ALA-NME",
        forcefield=("amber96.xml", "implicit/obc1.xml"),
        constraints=Constraints.NONE,
    ),
    NamedSystem(
        name="alanine-tetrapeptide",
        alias="tetra",
        sequence="ACE-ALA-ALA-ALA-NME",
        forcefield=_AMBER99,
        constraints=Constraints.HBONDS,
    ),
    NamedSystem(
        name="alanine-hexapeptide",
        alias="hexa",
        sequence="ACE-ALA-ALA-ALA-ALA-ALA-NME",
        forcefield=_AMBER99,
        constraints=Constraints.HBONDS,
    ),
    NamedSystem(
        name="elil-tetrapeptide", alias="elil", sequence="ELIL", forcefield=_AMBER99, constraints=Constraints.HBONDS
    ),
)
"""The four systems of the paper."""

_DEFAULT = SYSTEMS[1]
"""Whose force field and constraints a sequence or a PDB file has unless told otherwise."""


def named_system(text: str) -> NamedSystem | None:
    """The system that a name, an alias or a sequence means; none where a sequence has another force field by default.

    Example:
        >>> [found and found.name for found in map(named_system, ["hexa", "ELIL", "ACE-ALA-NME"])]
        ['alanine-hexapeptide', 'elil-tetrapeptide', None]
    """
    by_default = (_DEFAULT.forcefield, _DEFAULT.constraints)
    for entry in SYSTEMS:
        alike = text == entry.sequence and (entry.forcefield, entry.constraints) == by_default
        if alike or text in (entry.name, entry.alias):
            return entry
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Molecule:
    """A molecule, its force field and its reference structure.

    Attributes:
        name: Name of the system, or what the user called it.
        topology: Atoms and bonds.
        openmm_topology: The same for OpenMM and for trajectory files.
        system: The force field on the molecule.
        positions: Reference structure: the energy minimum nearest to the structure as built or read, in nm.
        forcefield: XML names that the system was made from.
        constraints: Which bonds are constant.
        temperature: In K.
    """

    name: str
    topology: Topology
    openmm_topology: openmm.app.Topology
    system: openmm.System
    positions: Float[np.ndarray, "atoms 3"]
    forcefield: tuple[str, ...]
    constraints: Constraints
    temperature: float

    @cached_property
    def zmatrix(self) -> ZMatrix:
        """Which atoms place each atom."""
        return build_zmatrix(self.topology)

    @cached_property
    def constrained(self) -> Mapping[tuple[int, int], float]:
        """Length in nm of each constrained bond."""
        return constrained_bonds(self.system)

    @cached_property
    def centres(self) -> tuple[Centre, ...]:
        """Tetrahedral centres, whose handedness is kept."""
        return tetrahedral_centres(self.topology, self.zmatrix, self.positions)

    @cached_property
    def permutation_groups(self) -> tuple[PermutationGroup, ...]:
        """Equivalent neighbours of tetrahedral centres, whose order is kept."""
        return permutation_groups(self.topology)

    @cached_property
    def coordinates(self) -> CoordinateMap:
        """Internal coordinates of the molecule."""
        signs = {atom: sign for centre in self.centres for atom, sign in centre.signs.items()}
        return CoordinateMap(self.zmatrix, constrained=self.constrained, signs=signs)

    def reference_energy(self) -> float:
        """Energy of the reference structure in kJ/mol, by OpenMM in double precision."""
        return potential_energy(self.system, self.positions)

    def write_pdb(self, path: Path) -> None:
        """Write the reference structure as a PDB file."""
        positions = self.positions * openmm.unit.nanometer
        with path.open("w") as file:
            openmm.app.PDBFile.writeFile(self.openmm_topology, positions, file, keepIds=True)


def load(
    system: str,
    *,
    forcefield: tuple[str, ...] = (),
    constraints: Constraints | None = None,
    ph: float = 7.0,
    temperature: float = 300.0,
) -> Molecule:
    """Molecule by the name of a system, by its sequence, or from a PDB file.

    Args:
        system: `alanine-dipeptide` or another name or alias of `SYSTEMS`; `ELIL` or `ACE-ALA-NME`; a path.
        forcefield: XML names or files; those of the system, or of the paper's larger peptides, by default.
        constraints: Which bonds are constant; those of the system by default.
        ph: Decides the protonation of residues whose name does not; a PDB file keeps the hydrogens it has.
        temperature: In K.

    Raises:
        InputError: The system cannot be made; the message says why.
    """
    if not 0.0 <= ph <= 14.0:
        raise InputError(f"expected a pH from 0 to 14, got {ph:g}")
    if not (temperature > 0.0 and np.isfinite(temperature)):
        raise InputError(f"expected a temperature above 0 K, got {temperature:g}")
    named = next((entry for entry in SYSTEMS if system in (entry.name, entry.alias)), None)
    defaults = named or _DEFAULT
    names = forcefield or defaults.forcefield
    chosen = constraints or defaults.constraints
    field = load_forcefield(names)
    from_file = named is None and _looks_like_path(system)
    if from_file:
        modeller = read_pdb(Path(system))
    else:
        modeller = build_peptide(_peptide(named.sequence if named else system), ph=ph)
    try:
        openmm_system = create_system(modeller.topology, field, constraints=chosen, names="+".join(names))
    except InputError as error:
        if from_file:
            explain_mismatch(Path(system), modeller, field, "+".join(names))
        elif modeller.topology.getNumResidues() == 1:
            raise InputError(
                f"the force field {'+'.join(names)} has no residue with two charged ends; expected two residues, or "
                f"caps such as ACE-{system}-NME"
            ) from error
        raise
    if from_file:
        check_connected(Path(system), modeller)
    topology = from_openmm(modeller.topology)
    positions = minimise(openmm_system, np.array(modeller.positions.value_in_unit(openmm.unit.nanometer)))
    if not from_file:
        positions = iupac_hydrogens(topology, build_zmatrix(topology), positions)
    return Molecule(
        name=named.name if named else system,
        topology=topology,
        openmm_topology=modeller.topology,
        system=openmm_system,
        positions=positions,
        forcefield=names,
        constraints=chosen,
        temperature=temperature,
    )


def _looks_like_path(system: str) -> bool:
    """Whether a file is meant: sequences and names have neither dots nor slashes; a sequence wins over a file."""
    if any(sign in system for sign in "/\\."):
        return True
    try:
        parse_sequence(system)
    except InputError:
        try:
            return Path(system).exists()
        except OSError:  # longer than a file name may be
            return False
    return False


def _peptide(text: str) -> Peptide:
    """A sequence; what is none and not in capitals is more likely a misspelt name of a system."""
    try:
        return parse_sequence(text)
    except InputError as error:
        names = [name for entry in SYSTEMS for name in (entry.name, entry.alias)]
        near = difflib.get_close_matches(text.lower(), names, n=1, cutoff=0.7)
        if near and not text.isupper():
            raise InputError(f"unknown system {text!r}; did you mean {near[0]!r}?") from error
        raise
