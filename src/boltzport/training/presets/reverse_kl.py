"""Presets of reverse KL."""

from dataclasses import replace

from boltzport.training.methods import ReverseKLConfig
from boltzport.training.presets.kinds import MethodPresets, Preset

_PAPER = ReverseKLConfig(
    steps=250,
    gradient_steps=1000,
    batch_size=1024,
    learning_rate=1e-4,
    warmup=1000,
    weight_decay=1e-5,
    max_gradient_norm=100.0,
    remove_highest=40,
)

_OWN = ReverseKLConfig(batch_size=500, remove_highest=50, path_gradient=True, learning_rate=2e-3)

REVERSE_KL_PRESETS = MethodPresets(
    paper=dict.fromkeys(
        ("alanine-dipeptide", "alanine-tetrapeptide", "alanine-hexapeptide", "elil-tetrapeptide"), _PAPER
    ),
    molecules={
        Preset.QUICK: replace(_OWN, steps=10, gradient_steps=200),
        # In such a long run at the rate of the short one, a single gradient can ruin the flow.
        Preset.LAPTOP: replace(
            _OWN, steps=50, gradient_steps=216, learning_rate=1e-3, max_gradient_norm=10.0, average=0.999
        ),
    },
    toys={
        "gmm-40": ReverseKLConfig(steps=25, gradient_steps=200, learning_rate=2e-3, average=0.99),
        "many-well-32": ReverseKLConfig(steps=40, gradient_steps=100, learning_rate=2e-3),
    },
    small=ReverseKLConfig(steps=16, gradient_steps=80, batch_size=500, learning_rate=3e-3),
)
"""The paper's table of hyperparameters, which is the same for all of its molecules, and our own."""
