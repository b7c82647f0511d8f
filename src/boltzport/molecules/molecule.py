"""`Molecule`: atoms, forces, a reference structure and exact internal coordinates."""

import io
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
from boltzport.core.records import member_of
from boltzport.molecules.build import build_by_name, build_from_system
from boltzport.molecules.chirality import Centre, tetrahedral_centres
from boltzport.molecules.coordinates import CoordinateMap
from boltzport.molecules.parametrise import Constraints, constrained_bonds, potential_energy
from boltzport.molecules.permutation import PermutationGroup, permutation_groups
from boltzport.molecules.sanity import HOTTEST, Amide, amides, charged_in_vacuum, handedness
from boltzport.molecules.zmatrix import ZMatrix, build_zmatrix


class Made(NamedTuple):
    """Arguments with which a molecule was built by name, so that it can be rebuilt.

    Attributes:
        forcefield: XML names or files; empty for the system's default.
        constraints: `none` or `hbonds`; None for the system's default.
        ph: pH that sets the protonation.
        temperature: Temperature in K.
    """

    forcefield: tuple[str, ...]
    constraints: str | None
    ph: float
    temperature: float


class Molecule:
    """A molecule with its force field and its reference structure.

    Args:
        system: Name of a system (`alanine-dipeptide`), sequence (`ELIL`, `ACE-ALA-NME`), path of a PDB file with
            hydrogens, or `openmm.System`, which needs `topology` and `positions`.
        topology: OpenMM topology, if `system` is an `openmm.System`.
        positions: Structure (atoms, 3) in nm, if `system` is an `openmm.System`; it is minimised.
        forcefield: Names of OpenMM's XML force fields, or XML files; by default those of the system.
        constraints: Which bonds have a constant length; by default those of the system.
        ph: pH that sets the protonation of a sequence.
        temperature: Temperature in K.
        name: Name in messages and files, if `system` is an `openmm.System`.

    Attributes:
        name: Name of the system, or the name given by the user.
        topology: Atoms and bonds.
        openmm_topology: OpenMM topology, for OpenMM and for trajectory files.
        system: The parametrised molecule, an `openmm.System`.
        positions: Reference structure in nm: the energy minimum nearest to the initial structure.
        forcefield: XML names that the system was built from; empty for a user's `openmm.System`.
        constraints: Which bonds have a constant length.
        temperature: Temperature in K.
        made: Arguments that it was built from; None for a user's `openmm.System`.

    Raises:
        InputError: The molecule cannot be built; the message says why.

    Example:
        >>> molecule = Molecule("ACE-ALA-NME", temperature=310.0)
        >>> molecule.topology.n_atoms, molecule.coordinates.dimension, molecule.temperature
        (22, 48, 310.0)
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
        temperature: float = 300.0,
        name: str = "molecule",
    ) -> None:
        if not 0.0 < temperature <= HOTTEST:
            raise InputError(f"expected a temperature above 0 K, up to {HOTTEST:g} K, got {temperature:g}")
        self.made: Made | None = None
        if isinstance(system, str):
            if topology is not None or positions is not None:
                raise InputError("topology and positions belong to an openmm.System; leave them out with a name")
            chosen = None if constraints is None else member_of(Constraints, constraints, "constraints")
            built = build_by_name(system, forcefield=forcefield, constraints=chosen, ph=ph)
            self.made = Made(forcefield, None if chosen is None else chosen.value, ph, temperature)
        elif topology is None or positions is None:
            raise InputError("expected an openmm.System with its topology and positions (nm)")
        elif forcefield or constraints is not None:
            raise InputError("an openmm.System has its forces and constraints; leave out forcefield and constraints")
        else:
            built = build_from_system(system, topology, positions, name=name)
        self.name = built.name
        self.topology = built.topology
        self.openmm_topology = built.openmm_topology
        self.system = built.system
        self.positions: Float[np.ndarray, "atoms 3"] = built.positions
        self.forcefield = built.forcefield
        self.constraints = built.constraints
        self.temperature = temperature

    def __repr__(self) -> str:
        return f"Molecule({self.name!r}, {self.topology.n_atoms} atoms, {self.temperature:g} K)"

    @cached_property
    def zmatrix(self) -> ZMatrix:
        """Z-matrix of the molecule: the atoms that place each atom."""
        return build_zmatrix(self.topology)

    @cached_property
    def constrained(self) -> Mapping[tuple[int, int], float]:
        """Length in nm of each constrained bond."""
        return constrained_bonds(self.system)

    @cached_property
    def centres(self) -> tuple[Centre, ...]:
        """Tetrahedral centres, whose chirality is fixed."""
        return tetrahedral_centres(self.topology, self.zmatrix, self.positions)

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
            return ()
        field = " + ".join(self.forcefield) or "the force field"
        return (
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
        return CoordinateMap(self.zmatrix, constrained=self.constrained, signs=signs)

    def reference_energy(self) -> float:
        """Energy of the reference structure in kJ/mol, computed by OpenMM in double precision."""
        return potential_energy(self.system, self.positions)

    def write_system(self, path: Path) -> None:
        """Write the OpenMM System as an XML file."""
        path.write_text(openmm.XmlSerializer.serialize(self.system))

    def write_pdb(self, path: Path) -> None:
        """Write the reference structure as a PDB file.

        Raises:
            InputError: The file cannot be written.
        """
        try:
            path.write_text(self.to_pdb())
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    def to_pdb(self) -> str:
        """Return the reference structure in PDB format."""
        file = io.StringIO()
        positions = self.positions * openmm.unit.nanometer
        openmm.app.PDBFile.writeFile(self.openmm_topology, positions, file, keepIds=True)
        return file.getvalue()


def read_system(system: Path, structure: Path, *, temperature: float, name: str) -> Molecule:
    """Read a molecule from the files written by `write_system` and `write_pdb`.

    Args:
        system: XML file of the OpenMM System.
        structure: PDB file of the reference structure.
        temperature: Temperature in K.
        name: Name of the molecule.
    """
    try:
        read = openmm.app.PDBFile(str(structure))
        deserialised = openmm.XmlSerializer.deserialize(system.read_text())
    except Exception as error:  # OpenMM's readers raise arbitrary exceptions for malformed files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{system} or {structure} is damaged: {reason}") from error
    return Molecule(
        deserialised,
        topology=read.topology,
        positions=np.array(read.getPositions(asNumpy=True).value_in_unit(openmm.unit.nanometer)),
        temperature=temperature,
        name=name,
    )
