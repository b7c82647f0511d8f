"""Take a trained flow to another description of its target: by reweighting, or by a few constrained steps first."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from boltzport import __version__
from boltzport.analysis.metrics import LARGEST_K, Origin, importance
from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.core.preset import Preset
from boltzport.core.seeds import derived
from boltzport.experiments.build import Given, OpenTarget, Start
from boltzport.experiments.config import RunConfig
from boltzport.experiments.launch import run_training
from boltzport.experiments.matching import match
from boltzport.experiments.redescribe import Changes, in_words, redescribed
from boltzport.experiments.settings import with_settings
from boltzport.flows import Flow, HalvedFlow, draw, flow_kind
from boltzport.targets import CountedTarget, Purpose
from boltzport.training import Status
from boltzport.training.methods import CMTConfig
from boltzport.training.presets import from_trained, recipe

if TYPE_CHECKING:
    from boltzport.experiments.model import Model

PROBE = 20_000
"""Number of samples that show whether reweighting is enough."""
FEWEST = 1000
"""Smallest number of these samples, and of those of the final evaluation, within a budget."""
PART, FINAL = 0.06, 0.3
"""Fractions of a budget for the probe, and for the final evaluation after constrained steps."""
MATCHING, MATCHED = 8000, 0.08
"""Number of gradients that match the local coordinates to the new description, and the largest fraction of a budget."""
PROMISING = 0.5
"""Fraction of the overlap above which another probe is worth its evaluations once the coordinates are matched."""
HALVES = 32_000
"""Evaluations that an evaluation adds at most to its samples, for the two halves of a flow."""
BATCH = 50_000
"""Number of points that are drawn and evaluated at once."""


class Probe(NamedTuple):
    """Weights of a flow's samples with respect to a description.

    Attributes:
        samples: Number of samples.
        ess: Effective size as a fraction, with clipped weights.
        pareto_k: Shape of the tail of the weights; None if all are equal.
        log_z: Log of the normalising constant.
        log_z_error: Its standard error.
    """

    samples: int
    ess: float
    pareto_k: float | None
    log_z: float
    log_z_error: float

    def suffices(self, overlap: float) -> bool:
        """Whether reweighting is enough: the effective size is large, and the tail of the weights light."""
        return self.ess >= overlap and (self.pareto_k is None or self.pareto_k <= LARGEST_K)


def retarget(
    model: "Model",
    changes: Changes,
    *,
    n: int = 100_000,
    budget: float | None = None,
    overlap: float = 0.3,
    settings: tuple[str, ...] = (),
    seed: int = 0,
    out: Path | None = None,
    command: str = "",
    silent: bool = True,
) -> "Model":
    """Take a model to another description of its target; `Model.retarget` documents the arguments."""
    if not 0.0 <= overlap <= 1.0:
        raise InputError(f"overlap: expected a fraction from 0 to 1, got {overlap:g}")
    if n < 2:
        raise InputError(f"n: expected at least 2 samples, got {n}")
    if budget is not None and not 4 * FEWEST <= budget < math.inf:
        raise InputError(f"budget: expected at least {4 * FEWEST} evaluations, got {budget:g}")
    config, target = redescribed(model, changes)
    config = replace(config, seed=seed, version=__version__, command=command)
    left = math.inf if budget is None else budget
    # Before anything is drawn: a mistake in the settings is one also where reweighting is enough.
    _settings(config, target, settings, math.inf)
    if out is not None:
        RunDirectory(out).check_free()
    few = int(min(PROBE, max(FEWEST, PART * left)))
    former = _former(model, few, seed)
    found = probe(model.flow, target.counted, few, seed=seed)
    enough, better = found.suffices(overlap), None
    if not enough:
        better = match(model.flow, target, int(min(MATCHING, MATCHED * left)), seed=seed)
    if better is not None:
        target = better.target
        if better.ess > PROMISING * overlap:
            again = probe(model.flow, target.counted, few, seed=seed)
            enough, better = again.suffices(overlap), better._replace(ess=again.ess)
    origin = Origin(
        run=model.config.system if model.directory is None else str(model.directory.path),
        before=in_words(model.config, model.target),
        after=in_words(config, target),
        by="reweighting" if enough else "constrained steps",
        log_z=former.log_z,
        log_z_error=former.log_z_error,
        thermal_energy=_thermal_energy(model.target),
        samples=found.samples,
        ess=found.ess,
        pareto_k=found.pareto_k,
        ess_matched=None if better is None else better.ess,
        log_z_difference=found.log_z - former.log_z,
        log_z_difference_error=math.hypot(found.log_z_error, former.log_z_error),
    )
    start = Start(model.flow, target, origin)
    if enough:
        made = _reweighted(config, start)
    else:
        config = replace(config, method="cmt", settings=_settings(config, target, settings, (1 - FINAL) * left))
        # A density, and the energy of a user, are needed to resume the run; its files hold the rest.
        given = Given(energy=changes.energy, density=changes.density)
        made = run_training(config, out, given=given, start=start, device=model.flow.device, silent=silent)
        if made.status.state == "interrupted":
            return made
        made.flow.to(model.flow.device)
    affordable = left - made.ledger.total
    n = n if math.isinf(affordable) else max(FEWEST // 2, min(n, _evaluated(int(affordable), model.flow)))
    made.evaluate(n=n, seed=seed)
    if out is not None:
        made.save(out)
    return made


def probe(flow: Flow, target: CountedTarget, n: int, *, seed: int, purpose: Purpose = Purpose.MONITORING) -> Probe:
    """Weigh samples of a flow with respect to a target on its coordinates.

    Args:
        flow: The flow.
        target: The target; its ledger counts the evaluations.
        n: Number of samples.
        seed: Seed of the random generator.
        purpose: Purpose that the evaluations are counted under.
    """
    generator = derived(seed, "probe", device=flow.device)
    drawn = draw(flow, target, n, batch=BATCH, generator=generator, purpose=purpose)
    weights = torch.cat([part.log_weights for part in drawn]).cpu().numpy()
    found = importance(weights, np.random.default_rng(seed))
    return Probe(n, found.ess, found.pareto_k, found.log_z, found.log_z_error)


def _former(model: "Model", n: int, seed: int) -> Probe:
    """Log Z of the former description: that of its evaluation if there is one, else of new samples."""
    results = model.results
    if results is not None and (log_z := results.value("log_z")) is not None:
        error = results.value("log_z_error")
        ess = results.value("ess") or 0.0
        samples = int(results.value("samples") or 0)
        return Probe(samples, ess, results.value("pareto_k"), log_z, math.nan if error is None else error)
    # Another seed than that of the probe: the errors of the two constants are then independent.
    return probe(model.flow, model.target.counted, max(n, PROBE), seed=seed + 1, purpose=Purpose.EVALUATION)


def _reweighted(config: RunConfig, start: Start) -> "Model":
    from boltzport.experiments.model import Model

    status = Status(state="done", message="reweighted; the flow is unchanged")
    return Model(flow=start.flow, target=start.target, config=config, status=status, origin=start.origin)


def _settings(config: RunConfig, target: OpenTarget, settings: tuple[str, ...], budget: float) -> CMTConfig:
    """Settings of the constrained steps: those of a training of this flow, made few, and those that the user gives."""
    atoms = None if target.molecule is None else target.molecule.topology.n_atoms
    kind = flow_kind(config.flow)
    known = recipe(config.system, Preset.LAPTOP, "cmt", kind=config.kind, atoms=atoms).methods[kind]
    assert isinstance(known, CMTConfig)
    spent = target.counted.ledger.cost
    few = from_trained(known, budget=budget, spent=spent, differentiable=target.counted.differentiable)
    method: CMTConfig = with_settings({"method": few}, settings)["method"]
    return method


def _evaluated(evaluations: int, flow: Flow) -> int:
    """Number of samples of an evaluation that a number of target evaluations allows."""
    if not isinstance(flow, HalvedFlow):
        return evaluations
    return evaluations // 2 if evaluations < 2 * HALVES else evaluations - HALVES


def _thermal_energy(target: OpenTarget) -> float:
    from boltzport.core.units import thermal_energy

    return 1.0 if target.molecule is None else thermal_energy(target.molecule.temperature)
