"""Presets of flow annealed importance sampling bootstrap."""

from dataclasses import replace

from boltzport.training.methods import FABConfig
from boltzport.training.presets.kinds import MethodPresets, Preset

# Gradient steps per pass, buffer length and clip are those of the method's authors for the dipeptide; they give the
# paper's number of evaluations.
_PAPER = FABConfig(
    steps=125,
    passes=50,
    gradient_steps=8,
    batch_size=1024,
    intermediate=8,
    leapfrog=4,
    step_size=0.05,
    buffer_min=64 * 1024,
    buffer_max=512 * 1024,
    clip=10.0,
    learning_rate=1e-4,
    warmup=1000,
    weight_decay=1e-5,
    max_gradient_norm=1000.0,
)

FAB_PRESETS = MethodPresets(
    paper={
        "alanine-dipeptide": _PAPER,
        "alanine-tetrapeptide": _PAPER,
        "alanine-hexapeptide": replace(_PAPER, leapfrog=8),
        "elil-tetrapeptide": replace(
            _PAPER,
            passes=25,
            batch_size=2048,
            intermediate=16,
            leapfrog=8,
            learning_rate=2e-4,
            buffer_min=64 * 2048,
            buffer_max=512 * 2048,
        ),
    },
    molecules={
        # One intermediate density and one leapfrog step: the flow starts so close to the target that more points help
        # more than longer chains.
        Preset.QUICK: FABConfig(
            steps=10,
            passes=68,
            gradient_steps=4,
            intermediate=1,
            leapfrog=1,
            buffer_min=10_000,
            learning_rate=1e-3,
            average=0.99,
        ),
        Preset.LAPTOP: FABConfig(
            steps=40, passes=67, gradient_steps=4, intermediate=1, leapfrog=1, learning_rate=1e-3, average=0.999
        ),
    },
    toys={
        "gmm-40": FABConfig(steps=25, passes=25, intermediate=2, learning_rate=2e-3, average=0.99),
        "many-well-32": FABConfig(steps=40, passes=12, learning_rate=2e-3, average=0.99),
    },
    small=FABConfig(
        steps=16, passes=10, batch_size=500, buffer_min=5_000, buffer_max=50_000, learning_rate=3e-3, average=0.99
    ),
)
"""The paper's table of hyperparameters, and our own."""
