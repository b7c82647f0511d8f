"""MMFF94 as an OpenMM System: atom types, charges and parameters come from RDKit, the formulas are those of the papers.

Halgren, J. Comput. Chem. 17, 490-641 (1996). RDKit assigns the parameters in kcal/mol, angstrom and degrees; here they
are converted to kJ/mol, nm and radian. Every atom interacts with every other in vacuum: there is no cutoff.
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

import openmm

from boltzport.core.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

NAME = "MMFF94"
"""Name of the force field."""

_KCAL = 4.184
_NM = 0.1
_MDYNE = 143.9325 * _KCAL
"""One millidyne times angstrom in kJ/mol, with the constant of the papers."""
_PER_DEGREE = math.degrees(1.0)
_COULOMB = 332.0716 * _KCAL * _NM
"""Energy in kJ/mol of two unit charges at 1 nm, with the constant of the papers."""
_SCALED_14 = 0.75
"""Factor of the electrostatic energy of atoms three bonds apart; van der Waals energies are not scaled."""
_LINEAR_TYPES = (4, 53, 61)
"""Atom types whose angles are linear: the middle of an alkyne, nitrile, allene, azide or isonitrile."""

_FORMS = {
    "bond stretch": "0.5*k*d^2*(1-20*d+(700/3)*d^2); d=r-r0",
    "angle bend": "0.5*k*d^2*(1-cubic*d); d=theta-theta0; cubic=0.006981317*57.29577951308232",
    "linear bend": "k*(1+cos(theta))",
    "stretch-bend": ("(first*(distance(p1,p2)-r1)+second*(distance(p2,p3)-r2))*(angle(p1,p2,p3)-theta0)"),
    # The Wilson angle between the bond 2-4 and the plane 1-2-3.
    "out-of-plane bend": (
        "0.5*k*asin(min(1,max(-1,(nx*(x4-x2)+ny*(y4-y2)+nz*(z4-z2))/(sqrt(nx^2+ny^2+nz^2)*distance(p2,p4)))))^2;"
        "nx=(y1-y2)*(z3-z2)-(z1-z2)*(y3-y2);"
        "ny=(z1-z2)*(x3-x2)-(x1-x2)*(z3-z2);"
        "nz=(x1-x2)*(y3-y2)-(y1-y2)*(x3-x2)"
    ),
    "torsion": "0.5*(v1*(1+cos(theta))+v2*(1-cos(2*theta))+v3*(1+cos(3*theta)))",
    "van der Waals": "epsilon*(1.07/(s+0.07))^7*(1.12/(s^7+0.12)-2); s=r/length",
    "electrostatics": "product/(r+0.005)",
}
"""Formula of each term."""
_PARAMETERS = {
    "bond stretch": ("k", "r0"),
    "angle bend": ("k", "theta0"),
    "linear bend": ("k",),
    "stretch-bend": ("first", "second", "r1", "r2", "theta0"),
    "out-of-plane bend": ("k",),
    "torsion": ("v1", "v2", "v3"),
    "van der Waals": ("length", "epsilon"),
    "electrostatics": ("product",),
}
"""Parameters of each term, in nm, radian and kJ/mol."""

_Entry = tuple[tuple[int, ...], tuple[float, ...]]


def mmff_system(molecule: "Mol") -> openmm.System:
    """Parametrise a molecule with all its hydrogens; each term is one force with its name.

    Args:
        molecule: RDKit molecule.

    Raises:
        InputError: MMFF94 has no parameters for the molecule.
    """
    from rdkit.Chem import rdForceFieldHelpers

    properties = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule, mmffVariant=NAME)
    if properties is None:
        raise InputError(
            f"{NAME} has no parameters for an atom of this molecule: its valence or charge is unusual; expected an "
            "organic molecule, and a user's openmm.System for others"
        )
    system = openmm.System()
    for atom in molecule.GetAtoms():
        system.addParticle(atom.GetMass())
    entries = {
        "bond stretch": _bonds(molecule, properties),
        "angle bend": _angles(molecule, properties, linear=False),
        "linear bend": _angles(molecule, properties, linear=True),
        "stretch-bend": _stretch_bends(molecule, properties),
        "out-of-plane bend": _out_of_plane(molecule, properties),
        "torsion": _torsions(molecule, properties),
        "van der Waals": _van_der_waals(molecule, properties),
        "electrostatics": _electrostatics(molecule, properties),
    }
    for term, rows in entries.items():
        system.addForce(_force(term, rows))
    return system


def _force(term: str, rows: Iterator[_Entry]) -> Any:
    form, names = _FORMS[term], _PARAMETERS[term]
    if term in ("stretch-bend", "out-of-plane bend"):
        force = openmm.CustomCompoundBondForce(3 if term == "stretch-bend" else 4, form)
        add, declare = force.addBond, force.addPerBondParameter
    elif "bend" in term:
        force = openmm.CustomAngleForce(form)
        add, declare = (lambda atoms, values: force.addAngle(*atoms, values)), force.addPerAngleParameter
    elif term == "torsion":
        force = openmm.CustomTorsionForce(form)
        add, declare = (lambda atoms, values: force.addTorsion(*atoms, values)), force.addPerTorsionParameter
    else:
        force = openmm.CustomBondForce(form)
        add, declare = (lambda atoms, values: force.addBond(*atoms, values)), force.addPerBondParameter
    for name in names:
        declare(name)
    for atoms, values in rows:
        add(atoms, values)
    force.setName(f"{NAME} {term}")
    return force


def _neighbours(molecule: "Mol", atom: int) -> list[int]:
    return sorted(other.GetIdx() for other in molecule.GetAtomWithIdx(atom).GetNeighbors())


def _bonds(molecule: "Mol", properties: Any) -> Iterator[_Entry]:
    for bond in molecule.GetBonds():
        atoms = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        found = properties.GetMMFFBondStretchParams(molecule, *atoms)
        if found is not None:
            _, stiffness, length = found
            yield atoms, (_MDYNE / _NM**2 * stiffness, _NM * length)


def _angle_atoms(molecule: "Mol") -> Iterator[tuple[int, int, int]]:
    for vertex in range(molecule.GetNumAtoms()):
        for first, second in combinations(_neighbours(molecule, vertex), 2):
            yield first, vertex, second


def _is_linear(properties: Any, atom: int) -> bool:
    return properties.GetMMFFAtomType(atom) in _LINEAR_TYPES


def _angles(molecule: "Mol", properties: Any, *, linear: bool) -> Iterator[_Entry]:
    for atoms in _angle_atoms(molecule):
        found = properties.GetMMFFAngleBendParams(molecule, *atoms)
        if found is not None and _is_linear(properties, atoms[1]) == linear:
            _, stiffness, angle = found
            yield atoms, (_MDYNE * stiffness,) if linear else (_MDYNE * stiffness, math.radians(angle))


def _stretch_bends(molecule: "Mol", properties: Any) -> Iterator[_Entry]:
    for atoms in _angle_atoms(molecule):
        if _is_linear(properties, atoms[1]):
            continue
        found = properties.GetMMFFStretchBendParams(molecule, *atoms)
        bend = properties.GetMMFFAngleBendParams(molecule, *atoms)
        if found is None or bend is None:
            continue
        _, first, second = found
        lengths = [properties.GetMMFFBondStretchParams(molecule, atoms[1], end)[2] for end in (atoms[0], atoms[2])]
        unit = _MDYNE / _NM
        yield atoms, (unit * first, unit * second, *(_NM * length for length in lengths), math.radians(bend[2]))


def _out_of_plane(molecule: "Mol", properties: Any) -> Iterator[_Entry]:
    for vertex in range(molecule.GetNumAtoms()):
        others = _neighbours(molecule, vertex)
        if len(others) != 3:
            continue
        first, second, third = others
        stiffness = properties.GetMMFFOopBendParams(molecule, first, vertex, second, third)
        if stiffness is None:
            continue
        for one, two, raised in ((first, second, third), (first, third, second), (second, third, first)):
            yield (one, vertex, two, raised), (_MDYNE * stiffness,)


def _torsions(molecule: "Mol", properties: Any) -> Iterator[_Entry]:
    for bond in molecule.GetBonds():
        second, third = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if _is_linear(properties, second) or _is_linear(properties, third):
            continue
        for first in _neighbours(molecule, second):
            for fourth in _neighbours(molecule, third):
                if len({first, second, third, fourth}) < 4:
                    continue
                found = properties.GetMMFFTorsionParams(molecule, first, second, third, fourth)
                if found is not None:
                    yield (first, second, third, fourth), tuple(_KCAL * value for value in found[1:])


def _pairs(molecule: "Mol") -> Iterator[tuple[int, int, int]]:
    """Pairs of atoms at least three bonds apart, with the number of bonds."""
    from rdkit.Chem import GetDistanceMatrix

    apart = GetDistanceMatrix(molecule)
    for first, second in combinations(range(molecule.GetNumAtoms()), 2):
        if apart[first, second] >= 3:
            yield first, second, int(apart[first, second])


def _van_der_waals(molecule: "Mol", properties: Any) -> Iterator[_Entry]:
    for first, second, _ in _pairs(molecule):
        _, _, length, depth = properties.GetMMFFVdWParams(first, second)
        yield (first, second), (_NM * length, _KCAL * depth)


def _electrostatics(molecule: "Mol", properties: Any) -> Iterator[_Entry]:
    charges = [properties.GetMMFFPartialCharge(atom) for atom in range(molecule.GetNumAtoms())]
    for first, second, apart in _pairs(molecule):
        scale = _SCALED_14 if apart == 3 else 1.0
        product = scale * _COULOMB * charges[first] * charges[second]
        if product != 0.0:
            yield (first, second), (product,)
