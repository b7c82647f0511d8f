"""Cis proline is found and has its share: a training of ACE-PRO-NME from nothing, against a reference."""

import pytest
import torch

from boltzport.core.preset import Preset
from boltzport.experiments import request, run_training
from boltzport.targets.boltzmann import BoltzmannTarget

CIS, ERROR = 0.157, 0.006
"""Cis share of the bond to proline, by `boltzport reference ACE-PRO-NME --preset quick --seed 0`."""
SHORT = ("buffer_size=30000", "refine=3", "refine_buffer=60000", "refine_stiff_steps=150")


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_cis_proline_has_the_share_that_a_reference_gives_it() -> None:
    """The reference structure is trans, and a new flow has 2 % on the cis side."""
    config = request("ACE-PRO-NME", preset=Preset.QUICK, settings=SHORT, seed=0)
    with run_training(config) as run, torch.no_grad():
        target = run.target.counted.target
        assert isinstance(target, BoltzmannTarget)
        coordinates, log_q = run.flow.sample_and_log_prob(40_000, generator=torch.Generator().manual_seed(1))
        parts = [target.evaluate(part) for part in torch.split(coordinates, 8192)]
        log_p, log_volume = (torch.cat(fields) for fields in zip(*parts, strict=True))
        log_weights = log_p + log_volume - log_q.double()
        weights = torch.softmax(torch.where(log_weights.isfinite(), log_weights, -torch.inf), 0)
        place = [column.name for column in target.molecule.coordinates.columns].index("ACE1.omega")
        cis = (target.internal(coordinates)[:, place].cos() > 0).double()
    share = float(weights @ cis)
    error = float(((weights * (cis - share)) ** 2).sum().sqrt())
    assert 1.0 / float((weights**2).sum()) > 0.15 * len(weights)
    assert error < 0.01
    assert share == pytest.approx(CIS, abs=4 * (error**2 + ERROR**2) ** 0.5)
