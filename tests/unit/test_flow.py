"""Laws of flows: round trips, densities that integrate to one, samples that follow the density."""

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.compiling import Compiled
from boltzport.core.errors import InputError
from boltzport.core.layout import Axis, Layout, Shape, circle, interval
from boltzport.flows import LAPTOP, PAPER, Activation, CouplingConfig, CouplingFlow, Flow, load_flow

MIXED = Layout(
    [
        circle(),
        interval(0.08, 0.16, centre=0.11, width=0.01),
        interval(-1.0, 3.0),
        circle(0.0, math.pi, period=2 * math.pi),
        interval(1.0, 2.5, centre=2.4, width=0.2),
    ]
)
LAYOUTS = {
    "mixed": MIXED,
    "intervals": Layout([interval(0.0, 2.0, centre=0.3, width=0.5), interval(-1.0, 1.0), interval(5.0, 6.0)]),
    "circles": Layout([circle(), circle(), circle(0.0, 1.0)]),
}


def random_flow(layout: Layout, *, seed: int, scale: float = 0.3, dtype: torch.dtype = torch.float64) -> Flow:
    """A flow far from the identity."""
    generator = torch.Generator().manual_seed(seed)
    flow = CouplingFlow(layout, CouplingConfig(pairs=2, hidden=(16, 16)), generator=generator, compiled=False).to(dtype)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return flow


def draw(flow: Flow, n: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        samples = flow.sample_and_log_prob(n, generator=torch.Generator().manual_seed(seed))
    return samples.coordinates, samples.log_q


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_density_of_samples_is_the_same_both_ways(layout: Layout) -> None:
    flow = random_flow(layout, seed=1)
    coordinates, log_q = draw(flow, 500)
    torch.testing.assert_close(flow.log_prob(coordinates), log_q, rtol=0, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_round_trip_of_points(layout: Layout) -> None:
    flow = random_flow(layout, seed=2)
    points = torch.rand(len(layout), 500, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        moved = points
        for coupling in reversed(flow.couplings):
            moved = coupling(moved, compiled=False).points
        for coupling in flow.couplings:
            moved = coupling.inverse(moved, compiled=False).points
    difference = (moved - points).abs()
    circular = torch.tensor([axis.shape is Shape.CIRCLE for axis in layout])[:, None]
    difference = torch.where(circular, torch.minimum(difference, 1 - difference), difference)
    assert difference.max() < 1e-10


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_log_det_is_that_of_autograd(layout: Layout) -> None:
    flow = random_flow(layout, seed=4)
    points = torch.rand(len(layout), 5, dtype=torch.float64, generator=torch.Generator().manual_seed(5))

    def to_base(point: Tensor) -> Tensor:
        for coupling in reversed(flow.couplings):
            point = coupling(point[:, None], compiled=False).points[:, 0]
        return point

    for point in points.T:
        moved, log_det = point[:, None], torch.zeros(1, dtype=torch.float64)
        for coupling in reversed(flow.couplings):
            moved, change = coupling(moved, compiled=False)
            log_det = log_det + change
        jacobian = torch.autograd.functional.jacobian(to_base, point)
        assert log_det.item() == pytest.approx(torch.linalg.slogdet(jacobian).logabsdet.item(), abs=1e-9)


@pytest.mark.parametrize(
    "axes",
    [
        [interval(-1.0, 2.0, centre=1.5, width=0.7), interval(0.0, 0.3)],
        [circle(), interval(-1.0, 2.0, centre=0.0, width=0.7)],
        [circle(), circle(0.0, 1.0)],
    ],
    ids=["intervals", "mixed", "circles"],
)
def test_density_integrates_to_one_in_two_dimensions(axes: list[Axis]) -> None:
    flow = random_flow(Layout(axes), seed=6, scale=0.25)
    n = 1500
    nodes = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    first, second = (axis.lower + (axis.upper - axis.lower) * nodes for axis in axes)
    cell = math.prod((axis.upper - axis.lower) / n for axis in axes)
    with torch.no_grad():
        total = sum(
            float(flow.log_prob(torch.cartesian_prod(part, second)).exp().sum()) * cell for part in first.split(100)
        )
    assert total == pytest.approx(1.0, abs=2e-5)


@pytest.mark.parametrize("axis", [interval(-1.0, 2.0, centre=1.5, width=0.7), interval(0.0, 0.3), circle()])
def test_density_integrates_to_one_in_one_dimension(axis: Axis) -> None:
    flow = random_flow(Layout([axis]), seed=7, scale=0.4)
    n = 200_000
    nodes = axis.lower + (axis.upper - axis.lower) * (torch.arange(n, dtype=torch.float64) + 0.5) / n
    with torch.no_grad():
        density = flow.log_prob(nodes[:, None]).exp()
    assert float(density.mean()) * (axis.upper - axis.lower) == pytest.approx(1.0, abs=1e-6)
    assert density.max() / density.min() > 2


def chi_square(flow: Flow, *, error: float = 0.0) -> float:
    """Reduced chi-square of samples in equal cells against the density, with an error put into the density."""
    n, cells = 200_000, 12
    coordinates, _ = draw(flow, n, seed=8)
    lower = torch.tensor([axis.lower for axis in flow.layout], dtype=torch.float64)
    length = torch.tensor([axis.upper - axis.lower for axis in flow.layout], dtype=torch.float64)
    unit = torch.remainder((coordinates - lower) / length, 1.0)
    counts = np.histogramdd(unit.numpy(), bins=[cells, cells], range=[(0, 1), (0, 1)])[0].ravel()
    fine = 20
    nodes = (torch.arange(cells * fine, dtype=torch.float64) + 0.5) / (cells * fine)
    with torch.no_grad():
        log_q = flow.log_prob(lower + length * torch.cartesian_prod(nodes, nodes)) * (1 + error)
    density = log_q.exp().reshape(cells, fine, cells, fine).mean((1, 3)).ravel()
    expected = (n * density / density.sum()).numpy()
    return float(((counts - expected) ** 2 / expected).sum() / (cells**2 - 1))


def test_samples_follow_the_density() -> None:
    flow = random_flow(Layout([circle(), interval(0.0, 2.0, centre=0.5, width=1.0)]), seed=9, scale=0.35)
    assert chi_square(flow) < 1.5
    # The test has power: a log density that is 5 % off fails it.
    assert chi_square(flow, error=0.05) > 2.5


def slopes(value: Callable[[], Tensor], parameter: Tensor, *, step: float, seed: int) -> tuple[float, float]:
    """Slope of a value along a random direction of a parameter: by its gradient and by differences."""
    direction = torch.randn(parameter.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    (gradient,) = torch.autograd.grad(value(), parameter)
    values = []
    with torch.no_grad():
        for sign in (1, -1):
            parameter += sign * step * direction
            values.append(value().item())
            parameter -= sign * step * direction
    return (gradient * direction).sum().item(), (values[0] - values[1]) / (2 * step)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_gradient_of_samples_matches_differences(layout: Layout) -> None:
    """Through sampling, as the reverse KL needs it: of the density and of a function of the samples."""
    flow = random_flow(layout, seed=10)
    parameter = flow.couplings[1].conditioner.weights[0]

    def value() -> Tensor:
        samples = flow.sample_and_log_prob(20, generator=torch.Generator().manual_seed(11))
        return (samples.log_q + samples.coordinates.cos().sum(1)).mean()

    by_gradient, by_differences = slopes(value, parameter, step=1e-6, seed=12)
    assert by_gradient == pytest.approx(by_differences, rel=1e-4)


def test_log_prob_gradient_matches_differences() -> None:
    flow = random_flow(MIXED, seed=13)
    coordinates, _ = draw(flow, 10)
    coordinates = coordinates.requires_grad_()
    assert torch.autograd.gradcheck(flow.log_prob, (coordinates,))
    parameter = flow.couplings[0].conditioner.weights[0]
    fixed = coordinates.detach()
    by_gradient, by_differences = slopes(lambda: flow.log_prob(fixed).sum(), parameter, step=1e-5, seed=14)
    assert by_gradient == pytest.approx(by_differences, rel=1e-5)


def test_outside_the_box_the_density_is_zero_and_the_gradient_finite() -> None:
    flow = random_flow(MIXED, seed=15)
    inside, _ = draw(flow, 3)
    outside = inside.clone()
    outside[0, 1] = 0.17
    outside[1, 2] = -1.1
    outside[2, 0] += 2 * math.pi
    outside[2, 3] -= 4 * math.pi
    outside.requires_grad_()
    log_q = flow.log_prob(outside)
    assert log_q.isinf().tolist() == [True, True, False]
    # The half of a circle that a handedness does not allow.
    assert flow.log_prob(inside * torch.tensor([1.0, 1, 1, -1, 1], dtype=torch.float64)).isinf().all()
    # A circle has no outside.
    assert log_q[2].item() == pytest.approx(flow.log_prob(inside)[2].item(), abs=1e-9)
    log_q[2].backward()
    assert outside.grad is not None
    assert torch.isfinite(outside.grad).all()


def test_a_new_flow_is_its_base_density() -> None:
    flow = CouplingFlow(MIXED, LAPTOP, generator=torch.Generator().manual_seed(16), compiled=False).double()
    coordinates, log_q = draw(flow, 2000)
    normal = torch.distributions.Normal(0.11, 0.01)
    cut = torch.log(normal.cdf(torch.tensor(0.16)) - normal.cdf(torch.tensor(0.08)))
    end = torch.distributions.Normal(2.4, 0.2)
    cut_end = torch.log(end.cdf(torch.tensor(2.5)) - end.cdf(torch.tensor(1.0)))
    expected = (
        -math.log(2 * math.pi) - math.log(4.0) - math.log(math.pi)
        + normal.log_prob(coordinates[:, 1]) - cut + end.log_prob(coordinates[:, 4]) - cut_end
    )  # fmt: skip
    torch.testing.assert_close(log_q, expected.double(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("config", [PAPER, LAPTOP], ids=["paper", "laptop"])
def test_float32_is_float64_rounded_at_full_size(config: CouplingConfig) -> None:
    layout = Layout([interval(0.0, 1.0, centre=0.5, width=0.1)] * 41 + [circle()] * 19)
    exact = CouplingFlow(layout, config, generator=torch.Generator().manual_seed(17), compiled=False).double()
    with torch.no_grad():
        for name, parameter in exact.named_parameters():
            if "head" in name or "last" in name:
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(18)))
    single = CouplingFlow(layout, config, generator=torch.Generator().manual_seed(17), compiled=False)
    state = exact.state_dict().items()
    single.load_state_dict({name: value.float() if value.is_floating_point() else value for name, value in state})
    coordinates, log_q = draw(single, 300)
    with torch.no_grad():
        again = single.log_prob(coordinates)
        reference = exact.log_prob(coordinates.double())
    points = torch.rand(60, 300, generator=torch.Generator().manual_seed(19))
    with torch.no_grad():
        moved = points
        for coupling in reversed(single.couplings):
            moved = coupling(moved, compiled=False).points
        for coupling in single.couplings:
            moved = coupling.inverse(moved, compiled=False).points
    difference = (moved - points).abs()
    assert torch.minimum(difference, 1 - difference).max() < 1e-4
    assert (again - log_q).abs().max() < 1e-4
    assert (again.double() - reference).abs().max() < 1e-4
    assert reference.std() > 1


@pytest.mark.parametrize(("intervals", "circles", "parameters"), [
    (41, 19, 7_421_512), (59, 39, 9_452_376), (89, 59, 12_124_616), (106, 72, 13_727_952),
])  # fmt: skip
def test_the_papers_flow_has_the_papers_parameters(intervals: int, circles: int, parameters: int) -> None:
    layout = Layout([interval(0.0, 1.0)] * intervals + [circle()] * circles)
    flow = CouplingFlow(layout, PAPER, generator=torch.Generator().manual_seed(0), compiled=False)
    assert sum(parameter.numel() for parameter in flow.parameters()) == parameters


def test_masks_of_a_pair_are_complementary() -> None:
    flow = CouplingFlow(MIXED, LAPTOP, generator=torch.Generator().manual_seed(19), compiled=False)
    masks = set()
    for first, second in zip(flow.couplings[::2], flow.couplings[1::2], strict=True):
        assert first.transformed.tolist() == second.fixed.tolist()
        assert sorted(first.transformed.tolist() + second.transformed.tolist()) == list(range(5))
        masks.add(tuple(first.transformed.tolist()))
    assert len(masks) > 1


def test_chunks_do_not_change_anything() -> None:
    flow = random_flow(MIXED, seed=20)
    whole, log_q = draw(flow, 1000)
    flow.chunk = 64
    with torch.no_grad():
        torch.testing.assert_close(flow.log_prob(whole), log_q, rtol=0, atol=1e-9)
        assert flow.sample(1000, generator=torch.Generator().manual_seed(0)).shape == (1000, 5)
        assert flow.sample(0, generator=torch.Generator().manual_seed(0)).shape == (0, 5)
        assert flow.log_prob(whole[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_save_and_load(tmp_path: Path, dtype: torch.dtype) -> None:
    flow = random_flow(MIXED, seed=21, dtype=dtype)
    path = tmp_path / "flow.safetensors"
    flow.save(path, metadata={"system": "a test"})
    again = load_flow(path, compiled=False)
    assert again.layout == flow.layout
    assert again.config == flow.config
    coordinates, log_q = draw(flow, 100)
    same, same_log_q = draw(again, 100)
    assert torch.equal(coordinates, same)
    assert torch.equal(log_q, same_log_q)


def test_files_that_are_not_flows(tmp_path: Path) -> None:
    import safetensors.torch

    with pytest.raises(InputError, match="no such file"):
        load_flow(tmp_path / "none.safetensors")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InputError, match="not a safetensors file"):
        load_flow(tmp_path / "text")
    safetensors.torch.save_file({"x": torch.zeros(1)}, tmp_path / "other")
    with pytest.raises(InputError, match="not a flow"):
        load_flow(tmp_path / "other")


@pytest.mark.parametrize("axis", [
    Axis(Shape.INTERVAL, 1.0, 1.0, 1.0, 1.0),
    Axis(Shape.INTERVAL, 0.0, math.inf, 1.0, 1.0),
    Axis(Shape.INTERVAL, 0.0, 1.0, 0.5, 0.0),
    Axis(Shape.CIRCLE, 0.0, 1.0, 0.5, 0.1),
    Axis(Shape.INTERVAL, 0.0, 1.0, 0.5, 0.1, 0.5),
])  # fmt: skip
def test_layouts_are_checked(axis: Axis) -> None:
    with pytest.raises(InputError, match="axis 0"):
        Layout([axis])


def test_activations_differ() -> None:
    flows = [
        CouplingFlow(
            MIXED, CouplingConfig(pairs=1, activation=kind), generator=torch.Generator().manual_seed(22), compiled=False
        )
        for kind in Activation
    ]
    features = torch.linspace(-1, 1, 7)[:, None]
    first, second = (flow.couplings[0].conditioner for flow in flows)
    hidden = features[: first.weights[0].shape[1]]
    for conditioner in (first, second):
        torch.nn.init.ones_(conditioner.head_weight)
    assert not torch.equal(first(hidden).raw, second(hidden).raw)


def test_wrong_shape() -> None:
    with pytest.raises((InputError, TypeError)):
        random_flow(MIXED, seed=23).log_prob(torch.zeros(3, 4, dtype=torch.float64))


@pytest.mark.slow
def test_compiled_gives_the_same() -> None:
    """In a process of its own: the type checker of the test run does not go through the compiler."""
    script = """
import torch
from boltzport.flows import CouplingConfig, CouplingFlow, Flow, load_flow
from boltzport.core.layout import Layout, circle, interval
layout = Layout([interval(0.0, 1.0, centre=0.4, width=0.3)] * 5 + [circle()] * 4)
results = []
for compiled in (True, False):
    generator = torch.Generator().manual_seed(1)
    flow = CouplingFlow(layout, CouplingConfig(pairs=2), generator=generator, compiled=compiled).double()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    samples = flow.sample_and_log_prob(33, generator=generator)
    points = torch.rand(17, 9, generator=generator, dtype=torch.float64)
    loss = samples.log_q.mean() + samples.coordinates.cos().mean() + flow.log_prob(points).mean()
    results.append([samples.coordinates, samples.log_q, *torch.autograd.grad(loss, list(flow.parameters()))])
for fast, plain in zip(*results):
    torch.testing.assert_close(fast, plain, rtol=1e-8, atol=1e-8)
print("same")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr
    assert "uncompiled" not in done.stderr


def doubled(values: Tensor) -> tuple[Tensor]:
    return (2 * values,)


def test_without_a_compiler_it_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "/no/such/compiler")
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", ("/no/such/compiler",))
    double = Compiled(doubled, lambda *parts: parts, name="DOUBLE")
    assert double(torch.tensor([2.0, 3.0]))[0].tolist() == [4.0, 6.0]
    assert double(torch.tensor([1.0, 5.0]))[0].tolist() == [2.0, 10.0]
    (message,) = [message for message in caplog.messages if "uncompiled" in message]
    assert message.startswith("doubled runs uncompiled, several times slower: ")
