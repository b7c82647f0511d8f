"""Methods, or variants of one, trained with equal budgets and compared in one table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from boltzport.core.errors import InputError, RunError
from boltzport.core.parallel import ranks
from boltzport.core.preset import Preset
from boltzport.experiments import (
    EvaluationEffort,
    MoleculeConfig,
    RunResult,
    every_method,
    make_plan,
    run_campaign,
    variants_named,
)
from boltzport.experiments.compare import Comparison, compare, to_json, write_comparison


@dataclass(frozen=True, kw_only=True)
class TrainingBenchmark:
    """Several trainings and their comparison.

    Attributes:
        comparison: The comparison of all runs that took a step.
        page: Page of the comparison.
        results: Result of each run.
        left_out: Why some methods were not run.
    """

    comparison: Comparison
    page: Path
    results: tuple[RunResult, ...]
    left_out: tuple[str, ...]

    @property
    def failed(self) -> list[str]:
        """Names and messages of the runs that failed."""
        return [f"{result.name}: {result.message}" for result in self.results if result.state == "failed"]

    def to_json(self) -> dict[str, object]:
        """Plain values: the comparison, its page, and the runs of the campaign."""
        runs = [result._asdict() | {"path": str(result.path)} for result in self.results]
        return to_json(self.comparison) | {"page": str(self.page), "campaign": runs, "left_out": list(self.left_out)}


def train_and_compare(
    system: str,
    *,
    methods: Sequence[str] = (),
    variants: str | None = None,
    budget: float | None = None,
    seeds: int = 2,
    preset: Preset = Preset.LAPTOP,
    settings: Sequence[str] = (),
    molecule: MoleculeConfig | None = None,
    reference: Path | None = None,
    effort: EvaluationEffort | None = None,
    out: Path | None = None,
    device: torch.device | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> TrainingBenchmark | None:
    """Train methods or variants with several seeds, evaluate and compare them.

    A second call with the same arguments skips finished runs and resumes interrupted ones. Of several processes that
    torchrun started, each trains its part of the runs, and rank 0 compares them; the others return None.

    Args:
        system: Toy or molecule.
        methods: Names of methods; all by default.
        variants: Name of an ablation of cmt, instead of methods.
        budget: Maximum number of target evaluations of each run; optional with variants.
        seeds: Number of seeds.
        preset: Preset that the settings start from.
        settings: `key=value` for all methods, or `METHOD.key=value` for one.
        molecule: How the molecule is built.
        reference: Reference ensemble of a molecule.
        effort: Size of the evaluations.
        out: Directory of the runs and the comparison; under runs by default.
        device: Device of the flows; the processor by default.
        report: Callback that receives a sentence for each method that is left out.

    Raises:
        InputError: An argument is wrong; nothing was trained.
        RunError: No run took a step.
    """
    if variants is not None and methods:
        raise InputError("expected methods or variants, got both; variants always use cmt")
    if variants is None and budget is None:
        raise InputError("expected a budget, such as 1e6: methods are compared with equal numbers of evaluations")
    folder = out or Path("runs") / f"bench-{Path(system).stem}-{variants or 'methods'}"
    plan = make_plan(
        system,
        every_method(list(methods)) if variants is None else variants_named(variants),
        folder,
        seeds=seeds,
        budget=budget,
        preset=preset,
        settings=settings,
        molecule=molecule,
        reference=reference,
    )
    for sentence in plan.left_out if ranks().leads else ():
        report(sentence)
    results = run_campaign(plan, effort=effort, device=device, silent=not ranks().leads)
    if not ranks().leads:
        return None
    # A run that failed before its first step has nothing to show.
    begun = [result.path for result in results if (result.path / "metrics.jsonl").is_file()]
    if not begun:
        messages = "; ".join(f"{result.name}: {result.message}" for result in results if result.state == "failed")
        raise RunError(f"none of {len(results)} runs took a step; {messages}")
    found = compare(begun)
    page = write_comparison(found, folder / "comparison")
    return TrainingBenchmark(comparison=found, page=page, results=tuple(results), left_out=plan.left_out)
