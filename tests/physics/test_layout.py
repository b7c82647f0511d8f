"""Layouts of molecules."""

import math

import pytest
import torch

from boltzport.core.layout import Layout, Shape
from boltzport.energies import ForceField, RegularisedEnergy, extract
from boltzport.flows import LAPTOP, CouplingFlow, Flow
from boltzport.molecules import Kind, Molecule
from boltzport.targets.boltzmann import informed_layout, paper_layout
from molecules import CAPPED, PAPER, molecule


def energy(mol: Molecule) -> ForceField:
    return ForceField(extract(mol.system), compiled=False)


def reference(mol: Molecule) -> torch.Tensor:
    return mol.coordinates.to_internal(torch.from_numpy(mol.positions)[None]).coordinates


def base(layout: Layout) -> Flow:
    return CouplingFlow(layout, LAPTOP, generator=torch.Generator().manual_seed(0), compiled=False).double()


def test_the_papers_layout_is_the_papers() -> None:
    mol = molecule("alanine-dipeptide")
    for column, axis, value in zip(mol.coordinates.columns, paper_layout(mol), reference(mol)[0].tolist(), strict=True):
        if column.kind is Kind.TORSION:
            assert axis.shape is Shape.CIRCLE
            assert (axis.lower, axis.upper) == (column.lower, column.upper)
            assert axis.period == 2 * math.pi
        else:
            length = 0.07 if column.kind is Kind.BOND else 1.80
            assert axis.shape is Shape.INTERVAL
            assert axis.upper - axis.lower == pytest.approx(length, rel=2e-3)
            assert (axis.lower + axis.upper) / 2 == pytest.approx(value)
            assert axis.width == pytest.approx(0.1 * length, rel=2e-3)
    halved = sum(axis.upper - axis.lower < 4 for axis in paper_layout(mol) if axis.shape is Shape.CIRCLE)
    # Two siblings at the alpha carbon and at each of three methyls.
    assert halved == 8


def test_widths_are_those_of_the_force_constants() -> None:
    """A bond that nothing else pulls at: sqrt(kT / k), with its margin."""
    mol = molecule("alanine-dipeptide")
    parameters = extract(mol.system)
    assert parameters.bonds is not None
    bonds = zip(parameters.bonds.atoms.tolist(), parameters.bonds.stiffness.tolist(), strict=True)
    constants = {frozenset(pair): stiffness for pair, stiffness in bonds}
    layout = informed_layout(mol, energy(mol))
    for column, axis in zip(mol.coordinates.columns, layout, strict=True):
        if column.kind is Kind.BOND:
            expected = 1.3 * math.sqrt(2.4943 / constants[frozenset(column.atoms)])
            assert axis.width == pytest.approx(expected, rel=0.1), column.name


def shapes(name: str) -> dict[str, Shape]:
    mol = molecule(name)
    layout = informed_layout(mol, energy(mol))
    return {column.name: axis.shape for column, axis in zip(mol.coordinates.columns, layout, strict=True)}


def test_what_rotates_is_uniform_and_what_does_not_is_narrow() -> None:
    circles = {name for name, shape in shapes("alanine-dipeptide").items() if shape is Shape.CIRCLE}
    assert {"ALA2.phi", "ALA2.psi"} < circles
    assert len(circles) == 5, "phi, psi and three methyls"
    arginine = shapes("ACE-ARG-NME")
    assert {arginine[name] for name in ("ARG2.chi5", "ARG2.omega", "ACE1.omega")} == {Shape.INTERVAL}
    assert {arginine[f"ARG2.chi{k}"] for k in (1, 2, 3, 4)} == {Shape.CIRCLE}
    assert shapes("ACE-PRO-NME")["PRO2.chi1"] is Shape.INTERVAL


@pytest.mark.parametrize("name", [*PAPER, pytest.param("all", marks=pytest.mark.slow)])
def test_the_reference_lies_in_both_boxes(name: str) -> None:
    for each in CAPPED if name == "all" else [name]:
        mol = molecule(each)
        for layout in (paper_layout(mol), informed_layout(mol, energy(mol))):
            assert len(layout) == mol.coordinates.dimension
            assert torch.isfinite(base(layout).log_prob(reference(mol))).all(), each


def test_the_informed_layout_starts_closer() -> None:
    """Thirty nats of energy alone: the typical sample of the base is a molecule, not a heap."""
    mol = molecule("alanine-dipeptide")
    reduced = RegularisedEnergy(energy(mol), temperature=300.0)
    medians = {}
    with torch.no_grad():
        for name, layout in (("paper", paper_layout(mol)), ("informed", informed_layout(mol, energy(mol)))):
            drawn = base(layout).sample(1000, generator=torch.Generator().manual_seed(1))
            medians[name] = float(reduced(mol.coordinates.to_cartesian(drawn).positions).median())
    assert medians["informed"] < 60.0
    assert medians["paper"] > 1e3


def test_layouts_survive_json() -> None:
    mol = molecule("alanine-tetrapeptide")
    for layout in (paper_layout(mol), informed_layout(mol, energy(mol))):
        assert Layout.from_json(layout.to_json()) == layout
