"""Tuning of the baselines: trials of their settings on the dipeptide with equal numbers of evaluations.

Each trial has half the evaluations of the preset `quick` (forward-kl, which evaluates nothing, has the gradient steps
of `laptop`) and is judged by its effective sample size. The same command again skips finished trials.
Run: OMP_NUM_THREADS=1 python benchmarks/trials.py METHOD --out DIR [--data REFERENCE]
"""

import argparse
from pathlib import Path

from boltzport.core.preset import Preset
from boltzport.experiments import EvaluationEffort, Variant, make_plan, run_campaign
from boltzport.experiments.compare import compare, write_comparison

SHORT = {
    "reverse-kl": ("gradient_steps=50", "batch_size=1000", "remove_highest=100"),
    "fab": ("passes=17", "leapfrog=3", "buffer_min=5000"),
    "ta-bg": (
        *("hot=2", "rungs=3", "final=2", "learning_rate=1e-3"),
        *("pretrain_gradient_steps=75", "buffer_size=50000", "resampled_to=50000", "gradient_steps=150"),
    ),
    "forward-kl": ("steps=12", "average=0.99", "learning_rate=1e-3"),
}
"""Changes of the preset `quick` that give the initial settings of the trials."""

COOL = ("hot=1.5", "rungs=2", "final=3")
"""A ladder from a lower temperature."""

TRIALS: dict[str, dict[str, tuple[str, ...]]] = {
    "reverse-kl": {
        "batch-500": ("batch_size=500", "remove_highest=50", "gradient_steps=100"),
        "batch-2000": ("batch_size=2000", "remove_highest=200", "gradient_steps=25", "warmup=50"),
        "leave-200": ("remove_highest=200",),
        "rate-3e-3": ("learning_rate=3e-3",),
        "norm-10": ("max_gradient_norm=10",),
        "averaged": ("schedule=constant", "average=0.99"),
    },
    "fab": {
        "batch-500": ("batch_size=500", "passes=34"),
        "batch-2000": ("batch_size=2000", "passes=9", "gradient_steps=4"),
        "clip-2": ("clip=2",),
        "buffer-50000": ("buffer_max=50000",),
        "leapfrog-1": ("leapfrog=1", "passes=34"),
        "rate-2e-3-norm-10": ("learning_rate=2e-3", "max_gradient_norm=10"),
    },
    "ta-bg": {
        "hot-1.5": COOL,
        "rungs-1": ("rungs=1", "final=4"),
        "rungs-2": ("rungs=2", "final=3"),
        "rungs-4": ("rungs=4", "final=1"),
        "hot-1.5-rungs-3": ("hot=1.5", "rungs=3", "final=2"),
        "hot-1.25": ("hot=1.25", "rungs=1", "final=4"),
        "rate-5e-4": (*COOL, "learning_rate=5e-4"),
        "rate-2e-3": (*COOL, "learning_rate=2e-3"),
        "rate-2.5e-4": (*COOL, "learning_rate=2.5e-4"),
        "rungs-3-rate-5e-4": ("hot=1.5", "rungs=3", "final=2", "learning_rate=5e-4"),
        "rungs-4-rate-5e-4": ("rungs=4", "final=1", "learning_rate=5e-4"),
        "pretrain-batch-1000": (*COOL, "pretrain_batch=1000", "remove_highest=40", "pretrain_gradient_steps=38"),
        "pretrain-batch-250": (*COOL, "pretrain_batch=250", "remove_highest=10", "pretrain_gradient_steps=150"),
        "leave-50": (*COOL, "remove_highest=50"),
        "pretrain-half": (
            *COOL, "pretrain_gradient_steps=37", "buffer_size=97000", "resampled_to=97000", "gradient_steps=290",
        ),
    },
    "forward-kl": {
        "rate-5e-4": ("learning_rate=5e-4",),
        "rate-4e-3": ("learning_rate=4e-3",),
        "batch-500": ("batch_size=500",),
        "batch-2000": ("batch_size=2000",),
        "steps-600": ("gradient_steps=50", "learning_rate=2e-3"),
        "steps-2400": ("gradient_steps=200", "learning_rate=5e-4"),
        "decay-1e-4": ("weight_decay=1e-4",),
        "decay-1e-3": ("weight_decay=1e-3",),
        "averaged": ("schedule=constant", "average=0.998"),
        "norm-10": ("max_gradient_norm=10",),
        "warmup-400": ("warmup=400",),
    },
}  # fmt: skip
"""Changes of these settings, by method and name."""


def main(method: str, out: Path, data: Path | None, only: list[str]) -> None:
    """Run the trials of a method, and write a page that compares them."""
    trials = {"unchanged": (), **TRIALS[method]}
    variants = [
        Variant(name, method, _together(SHORT[method], given))
        for name, given in trials.items()
        if not only or name in only
    ]
    # The flow that the baselines were tuned with.
    settings = ["flow=couplings", *([f"data={data.resolve()}"] if data else [])]
    plan = make_plan("alanine-dipeptide", variants, out, seeds=1, preset=Preset.QUICK, settings=settings)
    for result in run_campaign(plan, effort=EvaluationEffort(transport=100)):
        print(result.name, result.state, result.message, flush=True)
    print(write_comparison(compare([planned.path for planned in plan.runs]), out / "comparison"))


def _together(first: tuple[str, ...], changes: tuple[str, ...]) -> tuple[str, ...]:
    """Settings with changes applied."""
    return tuple("=".join(pair) for pair in dict(setting.split("=", 1) for setting in (*first, *changes)).items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=TRIALS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="the reference ensemble that forward-kl learns from")
    parser.add_argument("--only", nargs="*", default=[], help="names of trials")
    given = parser.parse_args()
    main(given.method, given.out, given.data, given.only)
