"""Molecules: from a name, a sequence, a SMILES or a file to exact internal coordinates."""

from boltzport.molecules.build import count_atoms
from boltzport.molecules.chirality import Centre
from boltzport.molecules.columns import Column, Kind
from boltzport.molecules.coordinates import Cartesian, CoordinateMap, Internal
from boltzport.molecules.molecule import Made, Molecule, read_system
from boltzport.molecules.parametrise import Constraints, shipped_forcefields
from boltzport.molecules.permutation import PermutationGroup, equivalence_classes
from boltzport.molecules.sequence import LETTERS
from boltzport.molecules.smiles import directory_name
from boltzport.molecules.systems import SYSTEMS, NamedSystem, named_system
from boltzport.molecules.topology import Topology, plain_topology
from boltzport.molecules.zmatrix import Placement, ZMatrix, build_zmatrix

__all__ = [
    "LETTERS",
    "SYSTEMS",
    "Cartesian",
    "Centre",
    "Column",
    "Constraints",
    "CoordinateMap",
    "Internal",
    "Kind",
    "Made",
    "Molecule",
    "NamedSystem",
    "PermutationGroup",
    "Placement",
    "Topology",
    "ZMatrix",
    "build_zmatrix",
    "count_atoms",
    "directory_name",
    "equivalence_classes",
    "named_system",
    "plain_topology",
    "read_system",
    "shipped_forcefields",
]
