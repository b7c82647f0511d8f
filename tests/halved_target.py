"""A target of two halves with a known constant: a torsion with two modes, and stiff coordinates given it."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Layout, circle, interval
from boltzport.core.weights import reweighting
from boltzport.flows import Flow, MolecularConfig, MolecularFlow
from boltzport.targets import CountedTarget, Density, Target
from boltzport.training import StepInfo
from boltzport.training.methods import CMT, CMTConfig
from boltzport.training.methods.cmt.state import CMTState
from molecular_flows import seeded
from trainings import quiet, trained

LAYOUT = Layout(
    [
        interval(0.05, 0.2, centre=0.11, width=0.02),
        circle(),
        interval(-5.0, 5.0, centre=0.3, width=1.0),
    ]
)
MODES = ((0.75, 0.6, 9.0), (0.25, -2.2, 14.0))
"""Weight, place and concentration of the two modes of the torsion, as of von Mises densities."""
BOND, OTHER = 0.008, 0.5
"""Widths of the stiff coordinates given the torsion."""
CONSTANT = 3.7
LOG_Z = CONSTANT + math.log(2 * math.pi * BOND * OTHER)

SMALL = CMTConfig(
    trust_region=0.5,
    entropy=math.inf,
    steps=60,
    arrive=True,
    control=True,
    apart=True,
    buffer_size=2000,
    gradient_steps=60,
    batch_size=250,
    learning_rate=2e-2,
    warmup=5,
    stiff_steps=25,
    stiff_batch=60,
    stiff_rate=1e-2,
    refine=4,
    refine_buffer=3000,
    refine_steps=100,
    refine_batch=500,
    refine_rate=5e-3,
    refine_stiff_steps=40,
    refine_stiff_batch=100,
    pool=2,
    broader=0.25,
    max_gradient_norm=10.0,
)
CHAINS = replace(SMALL, chains=600, leapfrogs=5, broader=0.0)
QUICK = replace(SMALL, gradient_steps=5, stiff_steps=5, refine_steps=5, refine_stiff_steps=5, buffer_size=1000)
"""For laws that hold however well it learns."""


def log_density(x: Tensor) -> Tensor:
    """Two modes of the torsion, and normal stiff coordinates whose means the torsion decides."""
    x = x.double()
    bond, torsion, other = x.unbind(1)
    modes = [
        math.log(part) + k * (torch.cos(torsion - place) - 1) - math.log(2 * math.pi) - _log_i0e(k)
        for part, place, k in MODES
    ]
    mean = 0.11 + 0.01 * torch.cos(torsion)
    tilt = 0.4 * torch.sin(torsion) + 20.0 * (bond - mean)
    stiff = -0.5 * ((bond - mean) / BOND) ** 2 - 0.5 * ((other - tilt) / OTHER) ** 2
    return CONSTANT + torch.logsumexp(torch.stack(modes), 0) + stiff


def _log_i0e(k: float) -> float:
    return math.log(float(torch.special.i0e(torch.tensor(k, dtype=torch.float64))))


TARGET = Density(log_density, LAYOUT)


def new_flow(seed: int = 0) -> MolecularFlow:
    config = MolecularConfig(bins=8, harmonics=2, torsion_hidden=(16,), pairs=1, hidden=(16,))
    return MolecularFlow(LAYOUT, config, generator=seeded(seed), compiled=False)


def run(config: CMTConfig, target: Target = TARGET, seed: int = 0) -> tuple[list[StepInfo], CountedTarget, Flow]:
    return trained(CMT(config), target, seed=seed, flow=new_flow(seed))


def check_learned(flow: Flow) -> None:
    """The density, its constant, and both modes with their weights."""
    with torch.no_grad():
        samples = flow.sample_and_log_prob(20_000, generator=seeded(99))
    found = reweighting(log_density(samples.coordinates) - samples.log_q.double())
    assert found.ess > 0.5
    assert found.log_z.value == pytest.approx(LOG_Z, abs=5 * found.log_z.error + 1e-3)
    assert found.elbo == pytest.approx(LOG_Z, abs=0.5)
    # The lesser mode holds a quarter of the points, before any reweighting.
    part = float((torch.cos(samples.coordinates[:, 1] - MODES[1][1]) > 0.5).double().mean())
    assert part == pytest.approx(MODES[1][0], abs=0.08)


def stepped(method: CMT, state: CMTState, generator: torch.Generator, n: int) -> list[StepInfo]:
    return [method.step(state, generator=generator, progress=quiet) for _ in range(n)]


def numbers(state: CMTState) -> dict[str, object]:
    return {name: value for name, value in vars(state).items() if isinstance(value, int | float | list)}


def skewed_flow(seed: int, size: float) -> MolecularFlow:
    """A flow whose torsion and stiff coordinates are somewhere."""
    flow, generator = new_flow(seed), seeded(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    return flow
