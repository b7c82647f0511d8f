"""Batches, checks, clashes: what a force field does with positions that no molecule has."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

import boltzport.energies.tensors.energy as energy_module
from boltzport.core.errors import InputError
from boltzport.energies import E_HIGH, E_MAX, ForceField, RegularisedEnergy, extract, regularise
from forcefields import AMBER14_GBN2, AMBER96_OBC1, AMBER99_OBC, CHARMM36, case

FIELDS = {
    "obc1": AMBER96_OBC1,
    "obc": AMBER99_OBC,
    "gbn2": AMBER14_GBN2,
    "hct": ("amber96.xml", "implicit/hct.xml"),
    "charmm36": CHARMM36,
}
CACHE: dict[str, ForceField] = {}


def field_of(name: str = "obc1") -> ForceField:
    if name not in CACHE:
        CACHE[name] = ForceField(extract(case("ACE-ALA-NME", FIELDS[name]).system), compiled=False)
    return CACHE[name]


def thermal() -> Tensor:
    return case("ACE-ALA-NME", AMBER96_OBC1).thermal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_empty_batch(dtype: torch.dtype) -> None:
    nothing = torch.empty(0, 22, 3, dtype=dtype)
    energies, forces = field_of().energy_and_forces(nothing)
    assert field_of()(nothing).shape == energies.shape == (0,)
    assert forces.shape == (0, 22, 3)
    assert energies.dtype == forces.dtype == dtype
    assert all(column.shape == (0,) for column in field_of().energy_terms(nothing).values())
    assert field_of()(nothing.requires_grad_()).sum().backward() is None


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (torch.zeros(22, 3), r"shape \(batch, 22, 3\) in nm, got \(22, 3\); add an axis"),
        (torch.zeros(5, 66), r"shape \(batch, 22, 3\) in nm, got \(5, 66\)"),
        (torch.zeros(5, 3, 22), r"got \(5, 3, 22\)"),
        (torch.zeros(5, 21, 3), "for 22 atoms, got positions of 21"),
        (torch.zeros(5, 22, 3, dtype=torch.long), "float32 or float64, got torch.int64"),
        (torch.zeros(5, 22, 3, dtype=torch.float16), "float32 or float64, got torch.float16"),
    ],
)
def test_wrong_positions_are_refused_in_words(positions: Tensor, message: str) -> None:
    for call in (field_of().__call__, field_of().energy_and_forces, field_of().energy_terms):
        with pytest.raises(InputError, match=message):
            call(positions)


def test_angstrom_is_suspected() -> None:
    with pytest.raises(InputError, match=r"are they in angstrom\? Divide them by 10"):
        field_of()(thermal() * 10)
    # A molecule that is torn apart or crushed is not a mistake of units.
    field_of()(torch.randn(4, 22, 3))
    field_of()(thermal() * 100)
    field_of()(thermal() * 0.1)


def test_nan_positions_are_nan_energies_of_their_own_configuration() -> None:
    positions = thermal().clone()
    expected = field_of()(positions)
    positions[1, 5, 2] = math.nan
    energies, forces = field_of().energy_and_forces(positions)
    assert torch.equal(energies.isnan(), torch.tensor([False, True, False, False]))
    assert torch.equal(field_of()(positions).isnan(), energies.isnan())
    assert forces[1].isnan().any()
    assert forces[[0, 2, 3]].isfinite().all()
    torch.testing.assert_close(energies[[0, 2, 3]], expected[[0, 2, 3]])


def test_terms_add_up() -> None:
    for name in FIELDS:
        total = sum(field_of(name).energy_terms(thermal()).values())
        torch.testing.assert_close(total, field_of(name)(thermal()), rtol=1e-12, atol=1e-9)


@settings(max_examples=20)
@given(batch=st.integers(1, 40), block=st.integers(1, 20))
def test_blocks_do_not_change_anything(batch: int, block: int) -> None:
    positions = thermal()[torch.arange(batch) % 4] + 0.001 * torch.arange(batch)[:, None, None]
    expected = field_of().energy_and_forces(positions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy_module, "_EAGER_BLOCK", block * 22**2)
        result = field_of().energy_and_forces(positions)
        energies = field_of()(positions)
    torch.testing.assert_close(result.energies, expected.energies)
    torch.testing.assert_close(result.forces, expected.forces)
    torch.testing.assert_close(energies, expected.energies)


def test_strided_and_frozen_positions() -> None:
    positions = thermal().permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert not positions.is_contiguous()
    torch.testing.assert_close(field_of()(positions), field_of()(thermal()))
    torch.testing.assert_close(
        field_of().energy_and_forces(positions).forces, field_of().energy_and_forces(thermal()).forces
    )
    before = thermal().clone()
    field_of()(thermal())
    assert torch.equal(before, thermal())


def test_no_graph_without_need() -> None:
    positions = thermal().clone().requires_grad_()
    with torch.no_grad():
        assert not field_of()(positions).requires_grad
    assert field_of()(positions).requires_grad


def clashes(dtype: torch.dtype) -> dict[str, Tensor]:
    """Configurations that no force field was made for."""
    base = thermal()[:1]
    merged = base.clone()
    merged[0, 10] = merged[0, 0]
    near = base.clone()
    near[0, 10] = near[0, 0] + 1e-4
    bonded = base.clone()
    bonded[0, 4] = bonded[0, 6]
    line = torch.zeros_like(base)
    line[0, :, 0] = torch.arange(22) * 0.1
    stretched = base.clone()
    stretched[0, 3] = 1e30
    everything = {
        "two atoms": merged,
        "two atoms nearly": near,
        "bonded atoms": bonded,
        "all atoms": torch.zeros_like(base),
        "a line": line,
        "a line in a diagonal": line + line.roll(1, -1) + line.roll(2, -1),
        "a plane": base * torch.tensor([1.0, 1.0, 0.0]),
        "far away": base + 3e3,
        "torn": stretched,
        "huge": torch.full_like(base, 3e38) * torch.tensor([1.0, -1.0]).repeat(11)[:, None],
        "tiny": base * 1e-30,
    }
    return {name: positions.to(dtype) for name, positions in everything.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("clash", clashes(torch.float32))
@pytest.mark.parametrize("name", FIELDS)
def test_clashes_are_finite(name: str, clash: str, dtype: torch.dtype) -> None:
    positions = clashes(dtype)[clash].requires_grad_()
    energies, forces = field_of(name).energy_and_forces(positions)
    assert energies.isfinite().all()
    assert field_of(name)(positions.detach()).isfinite().all()
    assert forces.isfinite().all()
    reduced = RegularisedEnergy(field_of(name), temperature=300.0)(positions)
    (gradient,) = torch.autograd.grad(reduced.sum(), positions)
    assert reduced.isfinite().all()
    assert gradient.isfinite().all()
    if clash in ("two atoms", "two atoms nearly", "all atoms", "tiny"):
        assert (reduced > E_HIGH).all()


@pytest.mark.parametrize("name", FIELDS)
@settings(max_examples=40)
@given(
    values=arrays("float32", (22, 3), elements=st.floats(-(2.0**127), 2.0**127, width=32)),
    shrink=st.sampled_from([1.0, 1e-20, 1e-36, 1e-38]),
)
def test_every_finite_float32_has_a_finite_energy(name: str, values: object, shrink: float) -> None:
    positions = (torch.from_numpy(values) * shrink)[None].requires_grad_()
    reduced = RegularisedEnergy(field_of(name), temperature=300.0)(positions)
    (gradient,) = torch.autograd.grad(reduced.sum(), positions)
    assert reduced.isfinite().all()
    assert gradient.isfinite().all()


def test_regularised_energy_is_the_papers() -> None:
    raw = torch.tensor([-5.0, 0.0, 1e8, 1e8 + 10, 1e12, 1e20, 1e25, math.inf], dtype=torch.float64)
    capped = math.log(E_MAX - E_HIGH + 1) + E_HIGH
    expected = [-5.0, 0.0, 1e8, math.log(11.0) + 1e8, math.log(1e12 - 1e8 + 1) + 1e8, capped, capped, capped]
    torch.testing.assert_close(regularise(raw), torch.tensor(expected, dtype=torch.float64), rtol=1e-15, atol=0)
    assert regularise(torch.tensor([math.nan])).isnan().all()


def test_regularised_gradient() -> None:
    raw = torch.tensor([3.0, 1e8 + 99, 1e21, math.inf], dtype=torch.float64, requires_grad=True)
    regularise(raw).sum().backward()
    torch.testing.assert_close(raw.grad, torch.tensor([1.0, 0.01, 0.0, 0.0], dtype=torch.float64))


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=2, max_size=20))
def test_regularisation_keeps_the_order(values: list[float]) -> None:
    ordered = torch.tensor(sorted(values))
    assert (regularise(ordered).diff() >= 0).all()


def test_regularised_energy_is_in_thermal_units() -> None:
    reduced = RegularisedEnergy(field_of(), temperature=300.0)(thermal())
    torch.testing.assert_close(reduced * 0.0083144626 * 300.0, field_of()(thermal()), rtol=1e-7, atol=0)
