"""`Molecule`: atoms, forces, a reference structure and exact internal coordinates."""

import copy
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import openmm
import openmm.app
import openmm.unit
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.core.files import write_text
from boltzport.core.records import member_of
from boltzport.molecules.build import Built, build_by_name, build_from_file, build_from_system
from boltzport.molecules.chirality import Centre, tetrahedral_centres
from boltzport.molecules.coordinates import CoordinateMap
from boltzport.molecules.double_bonds import double_bond_sides
from boltzport.molecules.parametrise import Constraints, constrained_bonds, potential_energy, total_charge
from boltzport.molecules.pdb import check_connected, read_structure, read_xml, write_pdb
from boltzport.molecules.permutation import PermutationGroup, permutation_groups
from boltzport.molecules.sanity import HOTTEST, Amide, amides, charged_in_vacuum, handedness
from boltzport.molecules.topology import from_openmm
from boltzport.molecules.zmatrix import ZMatrix, build_zmatrix


class Made(NamedTuple):
    """Arguments with which a molecule was built by name, so that it can be rebuilt.

    Attributes:
        forcefield: XML names or files; empty for the system's default.
        constraints: `none` or `hbonds`; None for the system's default.
        ph: pH that sets the protonation.
        temperature: Temperature in K.
        keep: Chains of a PDB file that were kept; all atoms by default.
        add_hydrogens: Whether missing hydrogens were added.
    """

    forcefield: tuple[str, ...]
    constraints: str | None
    ph: float
    temperature: float
    keep: tuple[str, ...] = ()
    add_hydrogens: bool = False


class Molecule:
    """A molecule with its force field and its reference structure.

    Args:
        system: Name of a system (`alanine-dipeptide`), sequence (`ELIL`, `ACE-ALA-NME`), path of a PDB file or of an
            SDF or MOL2 file, SMILES (`CC(=O)N`; `smiles:CCCC` if it could be a sequence), or `openmm.System`, which
            needs `topology` and `positions`.
        topology: OpenMM topology, if `system` is an `openmm.System`.
        positions: Structure (atoms, 3) in nm, if `system` is an `openmm.System`; it is minimised.
        forcefield: Names of OpenMM's XML force fields, or XML files; by default those of the system.
        constraints: Which bonds have a constant length; by default those of the system.
        ph: pH that sets the protonation of a sequence, and of added hydrogens.
        keep: Chain of a PDB file to keep, or several, without waters, ions, ligands and alternate locations.
        add_hydrogens: Whether to add missing hydrogens to a PDB file.
        temperature: Temperature in K.
        name: Name in messages and files, if `system` is an `openmm.System`.

    Attributes:
        name: Name of the system, or the name given by the user.
        topology: Atoms and bonds.
        openmm_topology: OpenMM topology, for OpenMM and for trajectory files.
        system: The parametrised molecule, an `openmm.System`.
        positions: Reference structure in nm: the energy minimum nearest to the initial structure.
        forcefield: XML names that the system was built from, or `MMFF94` of a small molecule; empty for a user's
            `openmm.System`.
        constraints: Which bonds have a constant length.
        temperature: Temperature in K.
        made: Arguments that it was built from; None for a user's `openmm.System`.
        stereo: Double bonds and pyramids that a small molecule keeps.
        sdf: The small molecule as an SDF file; None for others.

    Raises:
        InputError: The molecule cannot be built; the message says why.

    Example:
        >>> molecule = Molecule("ACE-ALA-NME", temperature=310.0)
        >>> molecule.topology.n_atoms, molecule.coordinates.dimension, molecule.temperature
        (22, 48, 310.0)
        >>> Molecule("F/C=C/F").topology.n_atoms
        6
    """

    def __init__(
        self,
        system: str | openmm.System,
        *,
        topology: openmm.app.Topology | None = None,
        positions: Float[np.ndarray, "atoms 3"] | None = None,
        forcefield: tuple[str, ...] = (),
        constraints: Constraints | str | None = None,
        ph: float = 7.0,
        keep: str | tuple[str, ...] = (),
        add_hydrogens: bool = False,
        temperature: float = 300.0,
        name: str = "molecule",
    ) -> None:
        _check_temperature(temperature)
        self.made: Made | None = None
        if isinstance(system, str):
            if topology is not None or positions is not None:
                raise InputError("topology and positions belong to an openmm.System; leave them out with a name")
            chosen = None if constraints is None else member_of(Constraints, constraints, "constraints")
            chains = (keep,) if isinstance(keep, str) else tuple(keep)
            built = build_by_name(
                system, forcefield=forcefield, constraints=chosen, ph=ph, keep=chains, add_hydrogens=add_hydrogens
            )
            named = None if chosen is None else chosen.value
            self.made = Made(forcefield, named, ph, temperature, chains, add_hydrogens)
        elif topology is None or positions is None:
            raise InputError("expected an openmm.System with its topology and positions (nm)")
        elif forcefield or constraints is not None or keep or add_hydrogens:
            raise InputError(
                "an openmm.System has its forces, constraints and atoms; leave out forcefield, constraints, keep and "
                "add_hydrogens"
            )
        else:
            built = build_from_system(system, topology, positions, name=name)
        self._take(built, temperature)

    def _take(self, built: Built, temperature: float) -> None:
        self.name = built.name
        self.topology = built.topology
        self.openmm_topology = built.openmm_topology
        self.system = built.system
        self.stereo = built.stereo
        self.sdf = built.sdf
        self._formal_charge = built.charge
        self._remarks = built.remarks
        self.positions: Float[np.ndarray, "atoms 3"] = built.positions
        self.forcefield = built.forcefield
        self.constraints = built.constraints
        self.temperature = temperature

    @classmethod
    def from_sdf(cls, path: Path, *, name: str, temperature: float = 300.0) -> "Molecule":
        """Read a small molecule from the SDF file of a run, with the structure that it has there.

        Args:
            path: File that holds `Molecule.sdf`.
            name: Name of the molecule: its SMILES, or the file that it came from.
            temperature: Temperature in K.
        """
        molecule = cls.__new__(cls)
        molecule.made = Made((), None, 7.0, temperature)
        molecule._take(build_from_file(path, name=name), temperature)
        return molecule

    def __repr__(self) -> str:
        return f"Molecule({self.name!r}, {self.topology.n_atoms} atoms, {self.temperature:g} K)"

    @cached_property
    def zmatrix(self) -> ZMatrix:
        """Z-matrix of the molecule: the atoms that place each atom."""
        return build_zmatrix(self.topology, uncut=self.stereo.double_bonds)

    @cached_property
    def constrained(self) -> Mapping[tuple[int, int], float]:
        """Length in nm of each constrained bond."""
        return constrained_bonds(self.system)

    @cached_property
    def centres(self) -> tuple[Centre, ...]:
        """Tetrahedral centres, whose chirality is fixed."""
        return tetrahedral_centres(self.topology, self.zmatrix, self.positions, pyramids=self.stereo.pyramids)

    @cached_property
    def handedness(self) -> Mapping[str, str]:
        """L or D for each residue with a chiral alpha carbon, in the reference structure."""
        return handedness(self.topology, self.positions)

    @cached_property
    def amides(self) -> tuple[Amide, ...]:
        """Peptide bonds, `cis` or `trans` in the reference structure."""
        return amides(self.topology, self.positions)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What may not be meant, one sentence each."""
        charged = charged_in_vacuum(self.topology, self.system)
        if not charged:
            return self._remarks
        field = " + ".join(self.forcefield) or "the force field"
        return (
            *self._remarks,
            f"{', '.join(charged)} {'are' if len(charged) > 1 else 'is'} charged, and {field} has no implicit solvent: "
            "charges in vacuum fold the molecule onto itself; add one, such as implicit/gbn2.xml, unless that is meant",
        )

    @cached_property
    def permutation_groups(self) -> tuple[PermutationGroup, ...]:
        """Equivalent neighbours of tetrahedral centres, whose order is fixed."""
        return permutation_groups(self.topology)

    @cached_property
    def coordinates(self) -> CoordinateMap:
        """Internal coordinates of the molecule."""
        signs = {atom: sign for centre in self.centres for atom, sign in centre.signs.items()}
        sides = double_bond_sides(self.zmatrix, self.positions, self.stereo.double_bonds)
        return CoordinateMap(self.zmatrix, constrained=self.constrained, signs=signs, sides=sides)

    @cached_property
    def charge(self) -> int:
        """Total charge in elementary charges: the formal one of a small molecule, else the force field's.

        Raises:
            InputError: The force field has no charges, or their sum is not a whole number.
        """
        if self._formal_charge is not None:
            return self._formal_charge
        total = total_charge(self.system)
        if total is None or abs(total - round(total)) > 0.01:
            got = "no charges" if total is None else f"{total:.3f}"
            raise InputError(
                f"the total charge of {self.name} is unknown: expected charges with a whole sum, got {got}"
            )
        return round(total)

    def with_structure(self, positions: Float[np.ndarray, "atoms 3"]) -> "Molecule":
        """The same molecule with another reference structure, in nm; it is not minimised."""
        moved = copy.copy(self)
        for name in ("centres", "coordinates"):
            moved.__dict__.pop(name, None)
        moved.positions = positions
        return moved

    def at_temperature(self, temperature: float) -> "Molecule":
        """The same molecule at another temperature in K.

        Raises:
            InputError: The temperature is not above 0 K.
        """
        _check_temperature(temperature)
        other = copy.copy(self)
        other.temperature = temperature
        other.made = None if self.made is None else self.made._replace(temperature=temperature)
        return other

    def reference_energy(self) -> float:
        """Energy of the reference structure in kJ/mol, computed by OpenMM in double precision."""
        return potential_energy(self.system, self.positions)

    def write_system(self, path: Path) -> None:
        """Write the OpenMM System as an XML file.

        Raises:
            InputError: There is no such directory.
            RunError: The file cannot be written, for example because the disk is full.
        """
        write_text(path, openmm.XmlSerializer.serialize(self.system))

    def write_pdb(self, path: Path) -> None:
        """Write the reference structure as a PDB file.

        Raises:
            InputError: There is no such directory.
            RunError: The file cannot be written, for example because the disk is full.
        """
        write_text(path, self.to_pdb())

    def to_pdb(self) -> str:
        """Return the reference structure in PDB format."""
        return write_pdb(self.openmm_topology, self.positions)


def _check_temperature(temperature: float) -> None:
    if not 0.0 < temperature <= HOTTEST:
        raise InputError(f"expected a temperature above 0 K, up to {HOTTEST:g} K, got {temperature:g}")


def read_system(system: Path, structure: Path, *, temperature: float = 300.0, name: str | None = None) -> Molecule:
    """Read a molecule from a serialized OpenMM System and a structure, such as `write_system` and `write_pdb` write.

    Args:
        system: XML file of the OpenMM System.
        structure: PDB or PDBx/mmCIF file with the atoms, their bonds and positions.
        temperature: Temperature in K.
        name: Name of the molecule; by default that of the structure's file.

    Raises:
        InputError: A file cannot be read, or the two do not match; the message says why.
    """
    parts = read_structure(structure)
    forces = read_xml(system)
    atoms, particles = parts.topology.getNumAtoms(), forces.getNumParticles()
    if atoms != particles:
        raise InputError(
            f"{system} has {particles} particles and {structure} has {atoms} atoms; expected the System of these atoms"
        )
    check_connected(structure, parts)
    labelled = from_openmm(parts.topology)
    for pair in constrained_bonds(forces).keys() - set(labelled.bonds):
        first, second = (labelled.label(atom) for atom in pair)
        raise InputError(
            f"{system} constrains the distance of {first} and {second}, which are not bonded in {structure}; "
            "expected constraints of bonds only"
        )
    return Molecule(
        forces,
        topology=parts.topology,
        positions=np.array(parts.positions.value_in_unit(openmm.unit.nanometer)),
        temperature=temperature,
        name=name or structure.stem,
    )
