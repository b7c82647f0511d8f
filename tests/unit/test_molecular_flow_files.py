"""The flow made for molecules at its beginning, in chunks, in files and against its settings."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout
from boltzport.flows import CouplingConfig, CouplingFlow, MolecularConfig, MolecularFlow, load_flow
from boltzport.flows.molecular.initial import OPPOSITE
from boltzport.flows.molecular.network import angle_features
from molecular_flows import MIXED, SMALL, draw, every_layout, new_flow, random_flow, seeded


@every_layout
def test_a_new_flow_is_its_initial_density_and_a_changed_one_is_not(layout: Layout) -> None:
    flow = new_flow(layout)
    points, log_q = draw(flow, 200)
    torch.testing.assert_close(flow.initial_log_prob(points), log_q, rtol=0, atol=1e-8)
    torch.testing.assert_close(flow.log_prob(points), flow.initial_log_prob(points), rtol=0, atol=1e-10)
    changed = random_flow(layout, seed=1)
    torch.testing.assert_close(changed.initial_log_prob(points), flow.initial_log_prob(points), rtol=0, atol=1e-10)
    assert (changed.log_prob(points) - changed.initial_log_prob(points)).abs().mean() > 0.1


def test_the_initial_density_is_normal_where_a_coordinate_is_stiff_and_flat_where_it_turns() -> None:
    flow = new_flow(MIXED)
    points, log_q = draw(flow, 4000)
    expected = torch.full((4000,), -math.log(2 * math.pi) - math.log(4.0) - math.log(math.pi), dtype=torch.float64)
    for i, (centre, width) in {1: (0.11, 0.01), 4: (2.4, 0.2), 6: (0.5, 1.0)}.items():
        expected += torch.distributions.Normal(centre, width).log_prob(points[:, i])
    rest = log_q - expected
    # What is left is the density of omega, a function of it alone: narrow, with a little half a turn away.
    omega = points[:, 3]
    near = (omega - 3.3).abs() < 0.1
    peak = -math.log(math.sqrt(2 * math.pi) * 0.4)
    assert rest[near].mean().item() == pytest.approx(peak, abs=0.15)
    assert rest[near].std() < 0.1
    away = (omega - 3.3).abs() > math.pi / 2
    assert away.double().mean().item() == pytest.approx(OPPOSITE, rel=0.3)
    assert points[~away, 3].std().item() == pytest.approx(0.4, rel=0.1)


def test_chunks_do_not_change_anything() -> None:
    flow = random_flow(MIXED, seed=2)
    whole, log_q = draw(flow, 500)
    flow.chunk = 64
    with torch.no_grad():
        for function in (flow.log_prob, flow.torsion_log_prob, flow.stiff_log_prob):
            parts = function(whole)
            assert parts.shape == (500,)
            flow.chunk = 1000
            torch.testing.assert_close(parts, function(whole), rtol=0, atol=1e-10)
            flow.chunk = 64
            assert function(whole[:0]).shape == (0,)
        torch.testing.assert_close(flow.log_prob(whole), log_q, rtol=0, atol=1e-8)
        assert flow.sample(200, generator=seeded(0)).shape == (200, len(MIXED))
        assert flow.sample(0, generator=seeded(0)).shape == (0, len(MIXED))
        assert flow.sample_stiff(whole[:0], generator=seeded(0)).coordinates.shape == (0, len(MIXED))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_layout
def test_save_and_load(layout: Layout, dtype: torch.dtype, tmp_path: Path) -> None:
    config = MolecularConfig(bins=5, harmonics=1, torsion_hidden=(7, 6), pairs=1, hidden=(5,))
    flow = random_flow(layout, seed=3, config=config).to(dtype)
    flow.save(tmp_path / "flow.safetensors", metadata={"system": "a test"})
    again = load_flow(tmp_path / "flow.safetensors", compiled=False)
    assert isinstance(again, MolecularFlow)
    assert (again.layout, again.config, again.dtype) == (flow.layout, config, dtype)
    coordinates, log_q = draw(flow, 100)
    same, same_log_q = draw(again, 100)
    assert torch.equal(coordinates, same)
    assert torch.equal(log_q, same_log_q)
    assert torch.equal(flow.log_prob(coordinates), again.log_prob(coordinates))
    assert torch.equal(flow.initial_log_prob(coordinates), again.initial_log_prob(coordinates))


def test_a_flow_as_it_is_made_survives_its_file(tmp_path: Path) -> None:
    """In float32, without a word of precision, as trainings make it."""
    flow = MolecularFlow(MIXED, SMALL, generator=seeded(4), compiled=False)
    assert flow.dtype == torch.float32
    flow.save(tmp_path / "flow.safetensors")
    again = load_flow(tmp_path / "flow.safetensors", compiled=False)
    assert all(torch.equal(one, other) for one, other in zip(draw(flow, 50), draw(again, 50), strict=True))


def test_a_file_of_couplings_loads_as_couplings(tmp_path: Path) -> None:
    flow = CouplingFlow(MIXED, CouplingConfig(pairs=1, hidden=(8,)), generator=seeded(5), compiled=False)
    flow.save(tmp_path / "flow.safetensors")
    again = load_flow(tmp_path / "flow.safetensors", compiled=False)
    assert isinstance(again, CouplingFlow)
    assert again.config == flow.config


@every_layout
def test_weights_stored_in_half_precision_compute_in_their_own(layout: Layout, tmp_path: Path) -> None:
    flow = random_flow(layout, seed=4)
    flow.save(tmp_path / "flow.safetensors")
    whole = (tmp_path / "flow.safetensors").stat().st_size
    flow.save(tmp_path / "flow.safetensors", stored=torch.float16)
    assert (tmp_path / "flow.safetensors").stat().st_size < whole
    again = load_flow(tmp_path / "flow.safetensors")
    assert again.dtype == flow.dtype == torch.float64
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.copy_(parameter.half())
    for (name, value), (_, read) in zip(flow.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(value, read), name


def test_float32_is_float64_rounded() -> None:
    exact = random_flow(MIXED, seed=6)
    points, _ = draw(exact, 500)
    points = points.float().double()
    expected = exact.log_prob(points)
    single = random_flow(MIXED, seed=6).float()
    found = single.log_prob(points.float())
    assert found.dtype == torch.float32
    inside = expected.isfinite() & found.isfinite()
    assert inside.double().mean() > 0.99
    assert (found.double() - expected)[inside].abs().max() < 1e-2
    assert (found.double() - expected)[inside].abs().median() < 1e-4


@pytest.mark.parametrize("harmonics", [1, 2, 5])
def test_networks_see_cosines_and_sines_of_the_multiples_of_angles(harmonics: int) -> None:
    angles = 10.0 * torch.randn(3, 20, generator=seeded(11), dtype=torch.float64)
    expected = [turn(k * angle) for angle in angles for k in range(1, harmonics + 1) for turn in (torch.cos, torch.sin)]
    torch.testing.assert_close(angle_features(angles, harmonics), torch.stack(expected), rtol=0, atol=1e-12)


def test_masks_of_a_pair_are_complementary_and_all_are_moved() -> None:
    flow = random_flow(MIXED, seed=7)
    layers = flow.stiff_half.layers
    for first, second in zip(layers[::2], layers[1::2], strict=True):
        assert first.moved.tolist() == second.fixed.tolist()
        assert sorted(first.moved.tolist() + second.moved.tolist()) == [0, 1, 2]


def test_weights_of_another_flow_bring_its_masks() -> None:
    one, other = random_flow(MIXED, seed=8), random_flow(MIXED, seed=9)
    other.load_state_dict(one.state_dict())
    assert all(torch.equal(left, right) for left, right in zip(draw(one, 50), draw(other, 50), strict=True))


@pytest.mark.parametrize(
    "wrong",
    [{"bins": 1}, {"bins": 65}, {"harmonics": 0}, {"pairs": 0}, {"hidden": (8, 0)}, {"torsion_hidden": (-1,)}],
    ids=str,
)
def test_settings_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="expected"):
        MolecularConfig(**wrong)


def test_wrong_shapes_are_named() -> None:
    flow = random_flow(MIXED, seed=10)
    points: Tensor = torch.zeros(3, 4, dtype=torch.float64)
    for function in (flow.log_prob, flow.torsion_log_prob, flow.stiff_log_prob, flow.initial_log_prob):
        with pytest.raises(InputError, match="expected coordinates of shape"):
            function(points)
    with pytest.raises(InputError, match="expected coordinates of shape"):
        flow.sample_stiff(points, generator=seeded(0))
