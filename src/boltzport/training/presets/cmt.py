"""Presets of constrained mass transport."""

from dataclasses import replace

from boltzport.training import Algorithm
from boltzport.training.methods import CMTConfig
from boltzport.training.presets.kinds import MethodPresets, Preset

_PAPER = CMTConfig(
    trust_region=0.3,
    entropy=0.8,
    steps=200,
    gradient_steps=2000,
    buffer_size=500_000,
    batch_size=1000,
    learning_rate=4e-5,
    warmup=1000,
    weight_decay=1e-5,
    max_gradient_norm=100.0,
    # Features that the paper does not have are switched off.
    hold_out=0.0,
)

_HALVES = CMTConfig(
    trust_region=0.7,
    # A maximum: the annealing ends at the target, after 8 steps for the dipeptide and 10 for the tetrapeptide.
    steps=100,
    arrive=True,
    control=True,
    apart=True,
    buffer_size=60_000,
    gradient_steps=60,
    learning_rate=6e-3,
    warmup=30,
    max_gradient_norm=10.0,
    stiff_steps=150,
    stiff_batch=300,
    stiff_rate=1e-2,
    stiff_algorithm=Algorithm.SOAP,
    refine="auto",
    refine_buffer=150_000,
    broader=1 / 3,
    refine_steps=150,
    refine_batch=2000,
    refine_rate=5e-3,
    refine_stiff_steps=250,
    refine_stiff_batch=500,
    refine_stiff_rate=4e-3,
    pool=8,
)
"""Settings of a flow whose halves are trained separately."""

_LARGE = replace(
    _HALVES,
    # A few samples of the flow carry most of the weight: the torsions learn from points of Markov chains instead.
    chains=30_000,
    broader=0.0,
    gradient_steps=400,
    learning_rate=3e-3,
    stiff_steps=200,
    renew="auto",
    renew_rate=6e-3,
    refine_buffer=60_000,
    refine_steps=120,
    refine_rate=1.5e-3,
    refine_stiff_steps=100,
    refine_stiff_rate=1e-3,
    pool=16,
)
"""The same for large molecules."""

CMT_PRESETS = MethodPresets(
    paper={
        "alanine-dipeptide": _PAPER,
        "alanine-tetrapeptide": replace(_PAPER, entropy=1.8, learning_rate=5e-5),
        "alanine-hexapeptide": replace(
            _PAPER, entropy=1.4, learning_rate=5e-5, batch_size=2000, buffer_size=1_000_000, steps=400
        ),
        "elil-tetrapeptide": replace(
            _PAPER, entropy=0.7, learning_rate=5e-5, batch_size=2000, buffer_size=1_000_000, steps=800
        ),
    },
    molecules={
        Preset.QUICK: CMTConfig(
            steps=10,
            gradient_steps=100,
            buffer_size=50_000,
            refine=8,
            refine_rate=7e-4,
            refine_batch=500,
            anchors=60_000,
            anchor_batch=500,
        ),
        Preset.LAPTOP: CMTConfig(
            steps=12,
            gradient_steps=200,
            buffer_size=100_000,
            refine=40,
            refine_rate=5e-4,
            refine_batch=500,
            anchors=200_000,
            average=0.998,
        ),
    },
    toys={
        "gmm-40": CMTConfig(steps=25, gradient_steps=200, buffer_size=50_000, learning_rate=2e-3, average=0.99),
        "many-well-32": CMTConfig(steps=40, gradient_steps=100, buffer_size=50_000, learning_rate=2e-3),
    },
    by_flow={"molecular": {Preset.LAPTOP: _HALVES, Preset.QUICK: replace(_HALVES, refine=6)}},
    large={"molecular": {Preset.LAPTOP: _LARGE, Preset.QUICK: replace(_LARGE, refine=10, renew=3000)}},
    small=CMTConfig(steps=16, gradient_steps=80, buffer_size=20_000, batch_size=500, learning_rate=3e-3),
)
"""The paper's tables of hyperparameters and of annealing steps, and our own."""
