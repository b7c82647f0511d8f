"""Presets of forward KL."""

import math
from dataclasses import replace

from boltzport.training.methods import ForwardKLConfig
from boltzport.training.presets.kinds import MethodPresets, Preset

_PAPER = ForwardKLConfig(
    steps=100,
    gradient_steps=1000,
    batch_size=1024,
    learning_rate=5e-5,
    # The size of the paper's training sets.
    samples=1_000_000,
    # Features that the paper's table does not have are switched off.
    warmup=0,
    max_gradient_norm=math.inf,
    hold_out=0.0,
)

FORWARD_KL_PRESETS = MethodPresets(
    paper={
        "alanine-dipeptide": _PAPER,
        "alanine-tetrapeptide": _PAPER,
        "alanine-hexapeptide": replace(_PAPER, steps=120),
        "elil-tetrapeptide": replace(_PAPER, steps=140),
    },
    molecules={
        Preset.QUICK: ForwardKLConfig(steps=10, gradient_steps=100, learning_rate=4e-3),
        # With 2e5 frames of the dipeptide, more gradient steps overfit: the loss on held-out frames rises.
        Preset.LAPTOP: ForwardKLConfig(steps=12, gradient_steps=100, learning_rate=4e-3, average=0.99),
    },
    toys={
        "gmm-40": ForwardKLConfig(steps=25, gradient_steps=200, learning_rate=2e-3, average=0.99),
        "many-well-32": ForwardKLConfig(steps=40, gradient_steps=100, learning_rate=2e-3),
    },
    small=ForwardKLConfig(steps=16, gradient_steps=80, batch_size=500, samples=50_000, learning_rate=3e-3),
)
"""The paper's table of hyperparameters, and our own."""
