"""Path gradients, against the definition of the divergences."""

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.targets import CountedTarget, Density
from boltzport.training.path_gradient import path_loss
from gradients import LAYOUT, flat, log_density, random_flow


@pytest.mark.parametrize("forward", [0.0, 1.0])
def test_gradient_of_each_divergence(forward: float) -> None:
    """Against the gradient of the likelihood estimator, both averaged over many points."""
    flow, target = random_flow(1), CountedTarget(Density(log_density, LAYOUT))
    parameters = list(flow.parameters())
    paths, scores = [], []
    for seed in range(30):
        loss = path_loss(flow, target, 2000, forward=forward, generator=torch.Generator().manual_seed(seed)).loss
        paths.append(flat(torch.autograd.grad(loss, parameters)))
        with torch.no_grad():
            x = flow.sample(2000, generator=torch.Generator().manual_seed(100 + seed))
        log_q = flow.log_prob(x)
        log_weights = (log_density(x) - log_q).detach()
        if forward:
            score = -(torch.softmax(log_weights, 0) * log_q).sum()
        else:
            score = -((log_weights - log_weights.mean()) * log_q).mean()
        scores.append(flat(torch.autograd.grad(score, parameters)))
    path, score = torch.stack(paths), torch.stack(scores)
    error = (path.var(0) / 30 + score.var(0) / 30).sqrt() + 1e-6
    deviation = (path.mean(0) - score.mean(0)) / error
    assert float(deviation.square().mean().sqrt()) < 1.6
    assert float(path.mean(0).norm()) > 3 * float(error.norm())


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize("forward", [0.0, 0.5, 1.0])
def test_no_noise_at_the_optimum(forward: float, power: float) -> None:
    """The flow is the target at the temperature that is asked for, and not at its own."""
    flow, frozen = random_flow(2), random_flow(2)
    target = CountedTarget(Density(lambda x: frozen.log_prob(x) / power, LAYOUT))
    found = path_loss(
        flow,
        target,
        500,
        forward=forward,
        inverse_temperature=power,
        generator=torch.Generator().manual_seed(0),
    )
    gradient = flat(torch.autograd.grad(found.loss, list(flow.parameters())))
    assert float(gradient.abs().max()) < 1e-9
    torch.testing.assert_close(power * found.log_p, found.log_q, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.log_weights, (1 / power - 1) * found.log_q, atol=1e-9, rtol=0)
    assert target.ledger["training_gradients"] == 500


def test_a_point_that_fails_moves_nothing() -> None:
    flow = random_flow(3)

    def failing(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > 1.0, torch.nan * x[:, 0], log_density(x))

    target = CountedTarget(Density(failing, LAYOUT))
    found = path_loss(flow, target, 400, forward=0.5, generator=torch.Generator().manual_seed(0))
    gradient = flat(torch.autograd.grad(found.loss, list(flow.parameters())))
    assert gradient.isfinite().all()
    assert 0 < int(found.log_weights.isnan().sum()) < 400


def test_a_target_without_a_gradient_is_refused() -> None:
    target = CountedTarget(Density(lambda x: log_density(x.detach()), LAYOUT))
    with pytest.raises(InputError, match="need a target with a gradient"):
        path_loss(random_flow(4), target, 10, forward=0.0, generator=torch.Generator().manual_seed(0))
