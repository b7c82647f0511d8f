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

from boltzport.errors import InputError
from boltzport.molecule.build import build_by_name, build_from_system
from boltzport.molecule.chirality import Centre, tetrahedral_centres
from boltzport.molecule.coordinates import CoordinateMap
from boltzport.molecule.parametrise import Constraints, constrained_bonds, potential_energy
from boltzport.molecule.permutation import PermutationGroup, permutation_groups
from boltzport.molecule.zmatrix import ZMatrix, build_zmatrix
from boltzport.records import member_of


class Made(NamedTuple):
    """How a molecule was asked for by name, so that it can be made again.

    Attributes:
        forcefield: XML names or files; empty for those of the system.
        constraints: `none` or `hbonds`; None for those of the system.
        ph: Decides the protonation.
        temperature: In K.
    """

    forcefield: tuple[str, ...]
    constraints: str | None
    ph: float
    temperature: float


class Molecule:
    """A molecule with its force field and its reference structure.

    Args:
        system: Name of a system (`alanine-dipeptide`), a sequence (`ELIL`, `ACE-ALA-NME`), the path of a PDB file with
            hydrogens, or an `openmm.System`, which needs `topology` and `positions`.
        topology: OpenMM topology of an `openmm.System`.
        positions: A structure of an `openmm.System`, (atoms, 3) in nm; it is minimised.
        forcefield: XML names that OpenMM ships, or files; those of the system by default.
        constraints: Which bonds have a constant length; those of the system by default.
        ph: Decides the protonation of a sequence.
        temperature: Temperature in K.
        name: Name in messages and files, where the system is an `openmm.System`.

    Attributes:
        name: Name of the system, or what the user called it.
        topology: Atoms and bonds.
        openmm_topology: The same for OpenMM and for trajectory files.
        system: The force field on the molecule, an `openmm.System`.
        positions: Reference structure: the energy minimum nearest to the structure as built or read, in nm.
        forcefield: XML names that the system was made from; empty for an `openmm.System` of a user.
        constraints: Which bonds are constant.
        temperature: Temperature in K.
        made: How it was asked for; None for an `openmm.System` of a user.

    Raises:
        InputError: The molecule cannot be made; the message says why.

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
        if not (temperature > 0.0 and np.isfinite(temperature)):
            raise InputError(f"expected a temperature above 0 K, got {temperature:g}")
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

    def write_system(self, path: Path) -> None:
        """Write the OpenMM System as an XML file."""
        path.write_text(openmm.XmlSerializer.serialize(self.system))

    def write_pdb(self, path: Path) -> None:
        """Write the reference structure as a PDB file."""
        path.write_text(self.to_pdb())

    def to_pdb(self) -> str:
        """The reference structure as the text of a PDB file."""
        file = io.StringIO()
        positions = self.positions * openmm.unit.nanometer
        openmm.app.PDBFile.writeFile(self.openmm_topology, positions, file, keepIds=True)
        return file.getvalue()


def read_system(system: Path, structure: Path, *, temperature: float, name: str) -> Molecule:
    """A molecule from the files that `write_system` and `write_pdb` wrote.

    Args:
        system: XML file of the OpenMM System.
        structure: PDB file of the reference structure.
        temperature: Temperature in K.
        name: What the molecule is called.
    """
    read = openmm.app.PDBFile(str(structure))
    return Molecule(
        openmm.XmlSerializer.deserialize(system.read_text()),
        topology=read.topology,
        positions=np.array(read.getPositions(asNumpy=True).value_in_unit(openmm.unit.nanometer)),
        temperature=temperature,
        name=name,
    )
