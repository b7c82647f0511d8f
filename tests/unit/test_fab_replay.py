"""FAB: the divergence with alpha = 2, and the buffer."""

import math

import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Layout, interval
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Density
from boltzport.training.methods.fab import Draw, Replay, bootstrap, replay_loss, weighted_loss
from trainings import small_flow

# The divergence


def asymmetric(x: Tensor) -> Tensor:
    """A skewed density on a line, not normalised."""
    return 1.3 * x[:, 0] - 0.4 * (0.9 * x[:, 0]).exp() - 0.2 * x[:, 0] ** 2


LINE = Density(asymmetric, Layout([interval(-6.0, 6.0, centre=0.5, width=1.5)]))


def by_quadrature(flow: Flow) -> Tensor:
    """Gradient of log E_p[p / q] = log of the integral of p^2 / q, up to a constant, as one vector."""
    x = torch.linspace(-5.99, 5.99, 4001)[:, None]
    log_ratio = 2 * asymmetric(x) - flow.log_prob(x)
    return flatten(torch.autograd.grad(torch.logsumexp(log_ratio, 0), list(flow.parameters()), allow_unused=True))


def flatten(gradients: tuple[Tensor | None, ...]) -> Tensor:
    return torch.cat([gradient.flatten().double() for gradient in gradients if gradient is not None])


def gradient_of(loss: Tensor, flow: Flow) -> Tensor:
    return flatten(torch.autograd.grad(loss, list(flow.parameters()), allow_unused=True))


def annealed(flow: Flow, n: int = 20_000) -> Replay:
    sizes, generator = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.Generator().manual_seed(2)
    return bootstrap(flow, CountedTarget(LINE), n, step_sizes=sizes, leapfrogs=3, generator=generator).points


def test_annealed_points_give_the_gradient_of_the_divergence() -> None:
    flow = small_flow(LINE, moved=0.15)
    points, expected = annealed(flow), by_quadrature(flow)
    found = gradient_of(weighted_loss(flow.log_prob(points.coordinates), points.log_weights), flow)
    assert float((found - expected).norm()) < 0.05 * float(expected.norm())
    # From the flow's own points without annealing, with weights to p instead of p^2 / q, it is another gradient.
    with torch.no_grad():
        own, log_q = flow.sample_and_log_prob(20_000, generator=torch.Generator().manual_seed(3))
    other = gradient_of(weighted_loss(flow.log_prob(own), asymmetric(own) - log_q), flow)
    assert float((other - expected).norm()) > 0.2 * float(expected.norm())


def test_the_buffer_gives_the_gradient_of_a_flow_that_has_moved() -> None:
    """Points weighted by one flow, half of them seen by a second, are drawn to train a third."""
    flows = [small_flow(LINE, moved=moved) for moved in (0.15, 0.2, 0.25)]
    buffer = annealed(flows[0], 40_000)
    half = torch.arange(0, buffer.size, 2)
    with torch.no_grad():
        buffer = buffer.seen(half, flows[1].log_prob(buffer.coordinates[half]))
    expected, before = by_quadrature(flows[2]), by_quadrature(flows[0])
    # With replacement, in proportion to the weights, as independent draws of one point are.
    index = torch.multinomial(
        torch.softmax(buffer.log_weights, 0), 40_000, replacement=True, generator=torch.Generator().manual_seed(4)
    )
    log_q = flows[2].log_prob(buffer.coordinates[index])
    found = gradient_of(replay_loss(log_q, buffer.log_q[index], clip=math.inf), flows[2])
    scale = float((found @ expected) / (expected @ expected))
    assert float((found / scale - expected).norm()) < 0.06 * float(expected.norm())
    assert float((before - expected).norm()) > 0.2 * float(expected.norm())


# The buffer


def tiny_buffer() -> Replay:
    return Replay(
        torch.arange(4.0)[:, None],
        torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64).log() + torch.tensor([3.0, -1.0, 0.0, 2.0]).double(),
        torch.tensor([3.0, -1.0, 0.0, 2.0], dtype=torch.float64),
    )


def test_draws_are_in_proportion_to_weights_and_without_replacement() -> None:
    buffer, generator, n = tiny_buffer(), torch.Generator().manual_seed(0), 6000
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    one = torch.cat([buffer.draw(1, generator=generator).indices for _ in range(n)])
    counts = torch.bincount(one, minlength=4) / n
    assert bool(((counts - weights).abs() < 4.5 * (weights * (1 - weights) / n).sqrt()).all())
    pairs = torch.zeros(4, 4, dtype=torch.float64)
    for _ in range(n):
        first, second = buffer.draw(2, generator=generator).indices.tolist()
        assert first != second
        pairs[first, second] += 1 / n
    # One after the other, each in proportion to what is left; the order is then forgotten.
    sequential = weights[:, None] * weights / (1 - weights[:, None])
    expected = (0.5 * (sequential + sequential.T)).fill_diagonal_(0)
    assert bool(((pairs - expected).abs() <= 4.5 * (expected * (1 - expected) / n).sqrt()).all())
    most = buffer.draw(9, generator=generator)
    assert len(most.indices) == 2, "all of them would be a draw that no weight decides"
    torch.testing.assert_close(most.coordinates[:, 0], most.indices.float())


def test_weights_follow_the_flow_exactly() -> None:
    """Weights are p^2 / q for whatever flow saw a point last; what it cannot see stays as it was."""
    buffer = tiny_buffer()
    log_q = torch.tensor([0.5, -math.inf, 7.0])
    seen = buffer.seen(torch.tensor([2, 0, 3]), log_q)
    expected = buffer.log_weights + torch.tensor([0.0, 0.0, 0.0 - 0.5, 2.0 - 7.0])
    torch.testing.assert_close(seen.log_weights, expected)
    torch.testing.assert_close(buffer.log_weights, tiny_buffer().log_weights)
    # Weight times correction is the same before and after.
    new = torch.tensor([1.0, 1.5, -0.5, 0.3], dtype=torch.float64)
    torch.testing.assert_close(
        torch.softmax(seen.log_weights + seen.log_q - new, 0), torch.softmax(buffer.log_weights + buffer.log_q - new, 0)
    )


def test_the_oldest_points_are_forgotten() -> None:
    buffer = Replay.empty(1)
    for start in (0, 4, 8):
        new = tiny_buffer()
        buffer = buffer.joined(new._replace(coordinates=new.coordinates + start), limit=6)
    assert buffer.coordinates[:, 0].tolist() == [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
    assert tiny_buffer().joined(tiny_buffer(), limit=0).size == 0


def test_corrections_are_clipped_and_points_outside_count_for_nothing() -> None:
    log_q = torch.tensor([-1.0, 2.0, -math.inf], requires_grad=True)
    loss = replay_loss(log_q, torch.tensor([4.0, 1.5, 0.0], dtype=torch.float64), clip=3.0)
    assert float(loss.detach()) == pytest.approx(-(3.0 * -1.0 + math.exp(-0.5) * 2.0) / 3)
    (gradient,) = torch.autograd.grad(loss, log_q)
    torch.testing.assert_close(gradient, -torch.tensor([3.0, math.exp(-0.5), 0.0]) / 3)


def test_batches_share_out_a_draw() -> None:
    drawn = Draw(torch.arange(7), torch.arange(14.0).reshape(7, 2), torch.arange(7.0).double())
    parts = drawn.batches(3)
    assert [part.indices.tolist() for part in parts] == [[0, 1], [2, 3], [4, 5]]
    torch.testing.assert_close(parts[2].coordinates, drawn.coordinates[4:6])
    few = Draw(*(field[:2] for field in drawn)).batches(3)
    assert [part.indices.tolist() for part in few] == [[0], [1], [0]]
