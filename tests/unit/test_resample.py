"""Resampling and clipping of weights."""

import pytest
import torch

from boltzport.core.weights import clipped, effective_fraction, normalised
from boltzport.training.resample import resampled


def test_systematic_resampling_takes_the_floor_or_the_ceiling_of_the_expected_count() -> None:
    log_weights = torch.tensor([0.1, 0.0, 2.5, 0.4, 1.3, 0.7]).log()
    for seed in range(20):
        chosen = resampled(log_weights, 13, generator=torch.Generator().manual_seed(seed))
        counts = torch.bincount(chosen, minlength=6)
        expected = 13 * normalised(log_weights)
        assert counts.sum() == 13
        assert ((counts - expected).abs() < 1.0).all()
    mean = torch.stack(
        [
            torch.bincount(resampled(log_weights, 13, generator=torch.Generator().manual_seed(seed)), minlength=6)
            for seed in range(500)
        ]
    ).double()
    assert mean.mean(0) == pytest.approx(13 * normalised(log_weights), abs=0.1)


def test_the_largest_weights_are_clipped_to_the_smallest_of_them() -> None:
    log_weights = torch.tensor([3.0, -1.0, 7.0, 0.0, 9.0, 2.0, 1.0, 8.0, -2.0, 4.0])
    assert clipped(log_weights, 0.3).tolist() == [3.0, -1.0, 7.0, 0.0, 7.0, 2.0, 1.0, 7.0, -2.0, 4.0]
    assert torch.equal(clipped(log_weights, 0.1), log_weights)
    assert effective_fraction(clipped(log_weights, 0.3)) > effective_fraction(log_weights)
