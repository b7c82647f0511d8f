"""The paper's settings, to the digit, on their first steps."""

from dataclasses import replace

import pytest
import torch

from boltzport.core.preset import Preset
from boltzport.experiments import request
from boltzport.experiments.build import build_method, open_target
from boltzport.flows import build_flow

pytestmark = pytest.mark.slow


def test_the_papers_first_steps() -> None:
    """Only what makes a step long is cut: the buffer and the number of gradient steps in it."""
    config = request("alanine-dipeptide", preset=Preset.PAPER)
    config = replace(config, settings=replace(config.settings, buffer_size=3000, gradient_steps=3))
    generator = torch.Generator().manual_seed(0)
    with open_target(config) as target:
        flow = build_flow(target.counted.layout, config.flow, generator=generator)
        assert sum(parameter.numel() for parameter in flow.parameters()) == 7_421_512
        method = build_method(config, target, flow)
        assert method.steps == 200
        state = method.init(flow, target.counted)
        rows = [method.step(state, generator=generator, progress=lambda *_: None) for _ in range(2)]
    assert target.counted.ledger["training"] == 2 * 3000
    assert target.counted.ledger["training_gradients"] == 0
    for row in rows:
        # From the paper's wide base the first steps are bound by both constraints or by one of them.
        assert row.trust_region_multiplier + row.entropy_multiplier > 0
        assert row.entropy_bound == 0.8
        assert row.step_ess_bound == pytest.approx(1 / 1.6)
        assert row.retries == 0
    # The warm-up takes a thousand gradient steps; six are done.
    assert rows[-1].gradient_steps == 6
    assert rows[-1].learning_rate == pytest.approx(4e-5 * 6 / 1000, rel=1e-2)
    assert rows[1].beta > rows[0].beta > 0
