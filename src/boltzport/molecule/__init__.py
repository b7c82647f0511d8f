"""Molecules: from a name, a sequence or a PDB file to exact internal coordinates."""

from boltzport.molecule.build import count_atoms
from boltzport.molecule.chirality import Centre
from boltzport.molecule.columns import Column, Kind
from boltzport.molecule.coordinates import Cartesian, CoordinateMap, Internal
from boltzport.molecule.molecule import Made, Molecule, read_system
from boltzport.molecule.parametrise import Constraints, shipped_forcefields
from boltzport.molecule.permutation import PermutationGroup
from boltzport.molecule.sequence import LETTERS
from boltzport.molecule.systems import SYSTEMS, NamedSystem, named_system
from boltzport.molecule.topology import Topology, plain_topology
from boltzport.molecule.zmatrix import Placement, ZMatrix, build_zmatrix

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
    "named_system",
    "plain_topology",
    "read_system",
    "shipped_forcefields",
]
