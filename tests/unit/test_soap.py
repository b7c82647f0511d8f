"""Laws of SOAP: a turn of the weights turns its path, vectors have Adam's steps, checkpoints go on bit for bit."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from boltzport.training.optimiser import Algorithm, Optimiser, OptimiserConfig, Schedule
from boltzport.training.soap import EVERY, Soap

CONFIG = OptimiserConfig(
    learning_rate=3e-2,
    warmup=5,
    schedule=Schedule.CONSTANT,
    weight_decay=0.0,
    max_gradient_norm=100.0,
    average=0.0,
    algorithm=Algorithm.SOAP,
)


def rotation(size: int, seed: int) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=generator(seed))).Q


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noisy_loss(weights: Tensor, step: int) -> Tensor:
    """A quartic of a few inputs a step, whose scales differ."""
    inputs = torch.randn(5, 9, dtype=torch.float64, generator=generator(100 + step))
    scales = torch.tensor([1.0, 0.5, 2.0, 0.7, 1.4], dtype=torch.float64)
    outputs = weights @ (scales[:, None] * inputs) - 1.0
    return (outputs**2).mean() + 0.1 * (outputs**4).mean()


def path(start: Tensor, left: Tensor, right: Tensor, steps: int) -> Tensor:
    """Weights after some steps on the loss of left^T W right."""
    weights = nn.Parameter(start.clone())
    soap = Soap([weights], lr=1e-2, eps=1e-6)
    for step in range(steps):
        soap.zero_grad()
        noisy_loss(left.T @ weights @ right, step).backward()
        soap.step()
    return weights.detach()


@pytest.mark.parametrize("steps", [1, 5, 2 * EVERY + 3])
def test_a_turn_of_the_weights_turns_the_path(steps: int) -> None:
    """Adam has no such law: its steps depend on the axes."""
    start = torch.randn(5, 5, dtype=torch.float64, generator=generator(0))
    left, right = rotation(5, 1), rotation(5, 2)
    eye = torch.eye(5, dtype=torch.float64), torch.eye(5, dtype=torch.float64)
    plain, turned = path(start, *eye, steps), path(left @ start @ right.T, left, right, steps)
    assert float((plain - start).abs().max()) > 1e-3
    torch.testing.assert_close(left.T @ turned @ right, plain, rtol=1e-5, atol=1e-7)


def test_vectors_have_the_steps_of_adam() -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 2, 7, dtype=torch.float64)) for _ in range(2))
    soap = Soap([ours], lr=1e-2, weight_decay=0.1, betas=(0.8, 0.95))
    adam = torch.optim.Adam([theirs], lr=1e-2, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-10)
    for step in range(30):
        for parameter, optimiser in ((ours, soap), (theirs, adam)):
            optimiser.zero_grad()
            weights = torch.randn(7, dtype=torch.float64, generator=generator(step))
            (weights * parameter**3).sum().backward()
            optimiser.step()
    torch.testing.assert_close(ours, theirs)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 1))


def loss_of(module: nn.Module, step: int) -> Tensor:
    inputs = torch.randn(32, 6, generator=generator(step)) * torch.tensor([1.0, 10.0, 0.1, 1.0, 5.0, 0.2])
    return ((module(inputs)[:, 0] - inputs[:, 0] * inputs[:, 1].sin()) ** 2).mean()


def train(module: nn.Module, optimiser: Optimiser, steps: range) -> None:
    for step in steps:
        optimiser.step(loss_of(module, step), progress=0.0)


def test_the_optimiser_takes_the_algorithm_that_it_is_told() -> None:
    ours, other = network(), network()
    for module, config in ((ours, CONFIG), (other, replace(CONFIG, algorithm=Algorithm.ADAM))):
        train(module, Optimiser(module.parameters(), config), range(5))
    assert not torch.allclose(ours[0].weight, other[0].weight)
    alone = network()
    soap = Soap(alone.parameters(), lr=0.0)
    for step in range(5):
        soap.param_groups[0]["lr"] = CONFIG.learning_rate * min(1.0, (step + 1) / CONFIG.warmup)
        soap.zero_grad()
        loss_of(alone, step).backward()
        soap.step()
    torch.testing.assert_close(alone[0].weight, ours[0].weight)


def test_a_checkpoint_goes_on_bit_for_bit() -> None:
    whole, half = network(), network()
    one, first = Optimiser(whole.parameters(), CONFIG), Optimiser(half.parameters(), CONFIG)
    train(whole, one, range(2 * EVERY))
    train(half, first, range(EVERY - 3))
    other = copy.deepcopy(half)
    second = Optimiser(other.parameters(), CONFIG)
    second.restore(first.save())
    train(other, second, range(EVERY - 3, 2 * EVERY))
    for a, b in zip(whole.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_when_the_axes_turn_no_step_is_long() -> None:
    """The first axes are those of one gradient; the first turn replaces all of them, but not the squares."""
    weights = nn.Parameter(torch.zeros(12, 4, dtype=torch.float64))
    soap = Soap([weights], lr=1.0)
    longest = 0.0
    for step in range(3 * EVERY):
        # The first gradient says nothing of where the others lie.
        scales = torch.logspace(0, -6, 12, dtype=torch.float64)
        scales = scales if step == 0 else scales.flip(0)
        noise = torch.randn(12, 4, dtype=torch.float64, generator=generator(step))
        weights.grad = scales[:, None] * (noise + 1.0)
        before = weights.detach().clone()
        soap.step()
        longest = max(longest, float((weights.detach() - before).square().mean().sqrt()))
    assert 0.5 < longest <= 1.0 + 1e-9
