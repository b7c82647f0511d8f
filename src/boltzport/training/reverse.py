"""The reverse divergence to a tempered target, without the points of highest energy.

A target p at the inverse temperature a, in units of its own, is p^a with respect to its own measure: its energy is
scaled, the volume of its coordinates is not. With respect to the coordinates, its log density is a log p + log volume.
"""

import torch

from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.path_gradient import SampledLoss, lower_energies, require_gradient


def reverse_loss(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    inverse_temperature: float = 1.0,
    leave_out: int = 0,
) -> SampledLoss:
    """Draw points and return the loss KL(q || p^a), up to log Z, differentiable through the samples.

    The loss is zero if no point is left. A point whose slope is not finite counts as failed.

    Args:
        flow: The flow.
        target: Target density; must be differentiable.
        n: Number of points.
        generator: Random generator.
        inverse_temperature: Inverse temperature of the tempered target, in units of the target's own.
        leave_out: Number of points with the highest energies that are left out of the mean; failed ones come first.

    Raises:
        InputError: The target has no gradient.
    """
    with torch.enable_grad():
        coordinates, log_q = flow.sample_and_log_prob(n, generator=generator)
        points = coordinates.detach().requires_grad_()
        log_p, log_volume = target.evaluate(points, Purpose.TRAINING)
        require_gradient(log_p)
        tempered = inverse_temperature * log_p + log_volume
        good = tempered.detach().isfinite()
        # The target is differentiated separately: a single gradient that is not finite would spoil that of all weights.
        (slope,) = torch.autograd.grad(tempered[good].sum(), points)
    tempered, log_p = tempered.detach(), log_p.detach()
    good &= slope.isfinite().all(1) & log_q.detach().isfinite()
    kept = good & lower_energies(log_p, leave_out=leave_out)
    # Select the kept points first: NaN times zero is NaN.
    moved = (slope[kept] * (coordinates[kept] - coordinates.detach()[kept])).sum(1)
    losses = log_q[kept].double() - tempered[kept] - moved.double()
    return SampledLoss(
        losses.sum() / max(int(kept.sum()), 1),
        log_q.detach().double() - log_volume.detach(),
        torch.where(good, log_p, torch.nan),
    )
