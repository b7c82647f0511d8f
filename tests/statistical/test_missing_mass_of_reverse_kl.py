"""A model that reverse KL has collapsed is caught by the missing mass; a good one is not accused."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from boltzport.evaluate import evaluate
from boltzport.flow import Flow, FlowConfig
from boltzport.methods.optimiser import Optimiser, OptimiserConfig, Schedule
from boltzport.methods.path_gradient import path_loss
from boltzport.targets import CountedTarget, toy


def reference(seed: int) -> SimpleNamespace:
    """Exact samples in the form of a reference ensemble."""
    target = toy("gmm-2d")
    points = target.sample(20_000, generator=torch.Generator().manual_seed(seed))
    return SimpleNamespace(
        coordinates=points.numpy(),
        reduced_energy=-target.log_density(points).numpy(),
        weights=np.ones(len(points)),
        chain=np.arange(len(points)) % 40,
        provenance={},
    )


@pytest.mark.slow
def test_reverse_kl_loses_modes_and_the_detector_says_so() -> None:
    target = CountedTarget(toy("gmm-2d"))
    generator = torch.Generator().manual_seed(0)
    flow = Flow(target.layout, FlowConfig(pairs=2, hidden=(32,)), generator=generator, compiled=False)
    config = OptimiserConfig(
        learning_rate=5e-3, warmup=20, schedule=Schedule.COSINE, weight_decay=0.0, max_gradient_norm=100.0, average=0.0
    )
    optimiser = Optimiser(flow, config)
    for step in range(400):
        loss = path_loss(flow, target, 300, forward=0.0, generator=generator).loss
        optimiser.step(loss, progress=step / 400)
    # Only the mode beside the initial density is left of three: half of the probability is missing.
    with torch.no_grad():
        modes = torch.bincount(toy("gmm-2d").mode_of(flow.sample(5000, generator=generator)), minlength=3) / 5000
    assert float(modes[0]) > 0.99
    found = evaluate(
        flow, target, n=20_000, generator=generator, reference=reference(1), transport_samples=200
    ).to_json()
    assert 0.3 < found["missing_mass"]["at_least"] <= 0.55
    # Chains annealed from the reference know the whole of Z, which is 1; the model's own samples know half of it.
    estimates = {entry["name"]: (entry["value"], entry["error"]) for entry in found["missing_mass"]["estimates"]}
    value, error = estimates["annealed chains from the reference"]
    assert abs(value) < max(5 * error, 0.05)
    assert estimates["importance sampling"][0] < -0.5
    assert "missing" in found["missing_mass"]["message"]
