"""Energies of every kind keep the same laws: shapes, forces that are slopes, failures by name."""

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies import CallableEnergy, Energy, ForceField, OpenMMEnergy, as_energy
from molecules import molecule

ATOMS = 22


@cache
def field() -> ForceField:
    return ForceField.from_system(molecule("alanine-dipeptide").system, compiled=False)


def by_forces() -> CallableEnergy:
    """A function that torch cannot differentiate, with its forces beside it."""
    return CallableEnergy(lambda x: field()(x.detach()), forces=lambda x: field().energy_and_forces(x).forces)


KINDS = {
    "tensors": field,
    "openmm": lambda: OpenMMEnergy(molecule("alanine-dipeptide").system, processes=1, platform="Reference"),
    "callable": lambda: CallableEnergy(lambda x: field()(x)),
    "callable with forces": by_forces,
}


@pytest.fixture(params=list(KINDS))
def energy(request: pytest.FixtureRequest) -> Iterator[Energy]:
    made = KINDS[request.param]()
    yield made
    if isinstance(made, OpenMMEnergy):
        made.close()


def positions(count: int) -> Tensor:
    reference = torch.from_numpy(molecule("alanine-dipeptide").positions)
    generator = torch.Generator().manual_seed(0)
    return reference + 0.005 * torch.randn(count, ATOMS, 3, generator=generator, dtype=torch.float64)


def test_all_kinds_agree_and_have_forces(energy: Energy) -> None:
    assert isinstance(energy, Energy)
    assert energy.differentiable
    assert as_energy(energy) is energy
    there = positions(3).requires_grad_()
    found = energy(there)
    torch.testing.assert_close(found.detach(), field()(positions(3)), rtol=1e-9, atol=1e-6)
    (slope,) = torch.autograd.grad(found.sum(), there)
    torch.testing.assert_close(-slope, field().energy_and_forces(positions(3)).forces, rtol=1e-7, atol=1e-4)


def test_a_force_field_is_a_module() -> None:
    assert isinstance(field(), torch.nn.Module)
    assert list(field().parameters()) == []
    assert field()(positions(4).float()).dtype == torch.float32


def test_a_function_without_forces_gives_none() -> None:
    blind = CallableEnergy(lambda x: x.square().sum((1, 2)), differentiable=False)
    assert not blind.differentiable
    assert not blind(positions(2).requires_grad_()).requires_grad


@pytest.mark.parametrize(
    ("function", "got"), [(lambda x: x.sum(), r"got \(\)"), (lambda x: x[:, 0], "got"), (lambda _: 3.0, "got float")]
)
def test_a_function_of_another_shape_is_refused(function, got: str) -> None:
    with pytest.raises(InputError, match=rf"the energies of a function: expected a tensor of shape \(2,\), {got}"):
        CallableEnergy(function)(positions(2))
