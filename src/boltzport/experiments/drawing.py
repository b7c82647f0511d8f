"""How a model draws frames: the options of `Model.sample` and `Model.write`, and the stream that they describe."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from boltzport.core.errors import InputError
from boltzport.core.progress import Progress
from boltzport.core.records import member_of
from boltzport.core.seeds import check_seed, derived
from boltzport.core.weights import log_mean
from boltzport.flows import Flow, defended, draw_along
from boltzport.targets import CountedTarget, Purpose

if TYPE_CHECKING:
    from boltzport.analysis.metrics import LogZ, Results
    from boltzport.ensembles import Mode, Stream

WARNING = "warning: "
"""Start of a note that the frames cannot be trusted."""
OTHERS = 2**31
"""Added to the seeds of samples, to keep them far from the seeds of trainings."""
COMPARED = 4096
"""Number of annealed samples that an evaluation is compared with."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How frames are drawn; see `Model.sample`."""

    seed: int
    mode: "Mode | str"
    draws: int | None
    anneal: int | str
    defensive: float | None


def seeded(seed: int, device: torch.device) -> torch.Generator:
    """Random generator of a seed that is not used in training, on the device of a flow."""
    return torch.Generator(device).manual_seed(OTHERS + check_seed(seed))


def open_drawing(
    flow: Flow,
    target: CountedTarget,
    n: int,
    how: Drawing,
    *,
    results: "Results | None",
    warning: str = "",
    progress: Progress,
) -> "Stream":
    """Open the stream of frames of a flow.

    Args:
        flow: The flow.
        target: The target.
        n: Number of frames.
        how: How they are drawn.
        results: Evaluation of the flow, which decides whether it is defended; None if there is none.
        warning: Warning that the training of the flow ended with.
        progress: Progress callback.
    """
    from boltzport.analysis.metrics import default_defence
    from boltzport.ensembles import Mode, annealed_source, open_chains, open_stream

    generator, mode = seeded(how.seed, flow.device), member_of(Mode, how.mode, "mode")
    share = default_defence(results) if how.defensive is None else how.defensive
    flow = defended(flow, share)
    said: tuple[str, ...] = (
        (f"defensive: {share:.0%} of the samples come from a broader version of the flow",) if share else ()
    )
    if mode is Mode.CHAIN:
        if how.anneal not in (0, "0"):
            raise InputError("chain: expected no annealing, which Markov chains do not need; leave out anneal")
        notes = (*said, *_missing(results))
        return open_chains(flow, target, n, generator=generator, progress=progress)._replace(notes=notes)
    pilot = derived(how.seed, "pilot", device=flow.device)
    found = annealed_source(flow, target, how.anneal, generator=generator, pilot=pilot, progress=progress)
    if not share and found.source is None:
        # Of the weights of the flow itself. Few frames do not show what many have shown.
        doubts = [warning, *(() if results is None else results.verdicts)]
        said = tuple(f"{WARNING}{doubt}" for doubt in doubts if doubt)
    stream = open_stream(
        flow,
        target,
        n,
        generator=generator,
        mode=mode,
        draws=how.draws,
        source=found.source,
        progress=progress,
    )
    return stream._replace(notes=(*said, *_missing(results), *found.notes))


def _missing(results: "Results | None") -> tuple[str, ...]:
    """Warning that an evaluation found mass that the flow does not sample; no way of drawing brings it back."""
    missing = {} if results is None else results.details.get("missing_mass") or {}
    return (f"{WARNING}{missing['message']}",) if missing.get("at_least") else ()


def assist(
    flow: Flow, target: CountedTarget, *, results: "Results | None" = None, defensive: float | None = 0.0
) -> None:
    """Draw this rank's part of the samples that rank 0 evaluates or writes.

    Args:
        flow: The flow.
        target: The target.
        results: Evaluation of the flow, which decides whether it is defended; None if there is none.
        defensive: As in `Drawing`; evaluations draw from the flow itself.
    """
    from boltzport.analysis.metrics import default_defence

    share = default_defence(results) if defensive is None else defensive
    draw_along(defended(flow, share), target, purpose=Purpose.EVALUATION)


def annealed_log_z(
    flow: Flow, target: CountedTarget, anneal: int | str, *, seed: int, progress: Progress
) -> "LogZ | None":
    """Estimate of log Z by annealed samples of a flow; None if they are not annealed.

    Args:
        flow: The flow.
        target: The target.
        anneal: Number of intermediate densities, or `auto`.
        seed: Seed of the random generators.
        progress: Progress callback.
    """
    from boltzport.analysis.metrics import LogZ
    from boltzport.ensembles import annealed_source

    generator, pilot = (derived(seed, purpose, device=flow.device) for purpose in ("annealed", "pilot"))
    source = annealed_source(flow, target, anneal, generator=generator, pilot=pilot, progress=progress).source
    if source is None:
        return None
    parts = [torch.from_numpy(part.numbers.log_weights) for part in source(COMPARED)]
    found = log_mean(torch.cat(parts))
    return LogZ("annealed samples", found.value, found.error)
