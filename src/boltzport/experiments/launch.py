"""`train`: train a model of a molecule, a toy or a density, in memory or in a run directory."""

import copy
import logging
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from boltzport.core.errors import InputError, LostProcess, RunError
from boltzport.core.files import RunDirectory
from boltzport.core.layout import LayoutKind
from boltzport.core.leftovers import remove_leftovers
from boltzport.core.meeting import joined
from boltzport.core.parallel import lost, ranks
from boltzport.core.preset import Preset
from boltzport.experiments.announce import announcement
from boltzport.experiments.asked import asked_for
from boltzport.experiments.build import (
    GIVEN,
    Given,
    OpenTarget,
    Start,
    build_method,
    feasibility,
    load_molecule,
    open_target,
)
from boltzport.experiments.config import RunConfig
from boltzport.experiments.display import Display, Whole, say_line, step_in_words
from boltzport.experiments.inputs import check_config, keep_inputs
from boltzport.experiments.joining import Exchanges, join, tell
from boltzport.experiments.keeping import (
    keep_origin,
    keep_status,
    keep_step,
    logging_to,
    read_checkpoint,
    read_origin,
    terminations,
)
from boltzport.experiments.model import Model
from boltzport.experiments.request import request
from boltzport.experiments.resuming import check_same, only_process
from boltzport.experiments.samples import require_samples, with_samples
from boltzport.flows import Flow, FlowConfig, build_flow, load_flow
from boltzport.targets import Ledger, Target
from boltzport.training import Training
from boltzport.training.methods import ForwardKLConfig, MethodConfig

if TYPE_CHECKING:
    from boltzport.energies import EnergyLike
    from boltzport.ensembles.reference import Reference
    from boltzport.molecules import Molecule

_LOG = logging.getLogger("boltzport")


def train(
    system: "str | Molecule | Target",
    *,
    method: str | MethodConfig = "cmt",
    preset: Preset | str = Preset.LAPTOP,
    flow: str | FlowConfig | None = None,
    layout: LayoutKind | str | None = None,
    budget: float | None = None,
    seed: int = 0,
    energy: "EnergyLike | None" = None,
    reference: "Reference | Path | str | None" = None,
    out: Path | str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Model:
    """Train a flow to sample a molecule, a toy or a density of your own.

    If it is interrupted (Ctrl-C), it warns and returns the model of the last finished step.

    Args:
        system: A `Molecule`, a name or sequence of one, the name of a toy such as `gmm-40`, or a `Density`.
        method: Name of the method (`cmt`, `forward-kl`, `reverse-kl`, `fab`, `ta-bg`), or settings such as
            `CMT(trust_region=0.3)`; the preset supplies those that are not given.
        preset: `quick` takes minutes, `laptop` up to an hour, `paper` has the paper's settings.
        flow: Kind of the flow (`molecular` or `couplings`), or its size; the preset's by default.
        layout: Kind of a molecule's coordinates (`harmonic`, `informed`, `paper`); the preset's by default.
        budget: Maximum number of target evaluations; buffers, steps and fits are sized to it.
        seed: Seed of the random generator.
        energy: Another energy for a molecule than its force field: a function of positions (batch, atoms, 3) in nm that
            returns energies in kJ/mol, a `CallableEnergy`, an ASE calculator (`energies.ASE`), or a name (`gfn2-xtb`).
        reference: A `Reference` that `forward-kl` learns a molecule from, or the directory of one.
        out: Run directory, written after each step so that an interrupted run can be resumed.
        resume: Resume the run in `out` (bitwise reproducible), with the configuration stored there.
        progress: Show progress, in a terminal or in a notebook.

    Raises:
        InputError: A setting is wrong, or the directory is not a run or not empty.
        RunError: A step failed after all retries, or the disk is full; the last checkpoint is usable.

    Example:
        >>> model = train("gmm-2d", method="reverse-kl", budget=1e4, progress=False)
        >>> model.sample(1000).coordinates.shape
        (1000, 2)
    """
    if resume and out is None:
        raise InputError("resume: expected the run directory as out=...")
    asked = asked_for(system, energy)
    config = request(
        asked.name,
        kind=asked.kind,
        method=method,
        preset=preset,
        flow=flow,
        layout=layout,
        seed=seed,
        budget=budget,
        molecule=asked.made,
        atoms=asked.atoms,
    )
    directory = None if out is None else Path(out)
    if reference is not None and not resume:
        config = with_samples(config, reference)
    given = replace(asked.given, reference=None if isinstance(reference, Path | str) else reference)
    model = run_training(config, directory, resume=resume, given=given, silent=not progress)
    if model.status.state == "interrupted":
        warnings.warn(model.status.message, stacklevel=2)
    return model


def run_training(
    config: RunConfig,
    path: Path | None = None,
    *,
    resume: bool = False,
    given: Given | None = None,
    start: Start | None = None,
    whole: Whole | None = None,
    silent: bool = False,
    device: torch.device | None = None,
) -> Model:
    """Train a configuration, or resume it.

    Args:
        config: Configuration of the run; with `resume`, that of the run directory is used instead.
        path: Run directory; None to train in memory.
        resume: Resume from the last checkpoint.
        given: Objects passed by the user.
        start: Trained flow to start from, with the target; a new flow and the target of the configuration by default.
            A run directory holds it, so that the run can be resumed without it.
        whole: Display of the campaign that the training is part of.
        silent: Show no progress.
        device: Device of the flow during the training; the processor by default.

    Raises:
        InputError: The directory is not a run, or not empty.
        RunError: A step failed after all retries, or the disk is full; the last checkpoint is usable.
    """
    with joined() as present:
        if present.leads:
            return _led(
                config, path, resume=resume, given=given, start=start, whole=whole, silent=silent, device=device
            )
        return join_training(given, device=device)


def join_training(given: Given | None = None, *, device: torch.device | None = None) -> Model:
    """Take part in the training that rank 0 leads, which knows everything but the objects passed by the user.

    Args:
        given: Objects passed by the user.
        device: Device of the flow of this process.

    Raises:
        RunError: See `run_training`.
    """
    with terminations(), join(given, device=device) as found:
        display = Display(found.training.method.steps, silent=True)
        return _finished(found.training, found.config, found.target, found.where, display)


def _led(
    config: RunConfig,
    path: Path | None,
    *,
    resume: bool,
    given: Given | None,
    start: Start | None,
    whole: Whole | None,
    silent: bool,
    device: torch.device | None,
) -> Model:
    """Train as rank 0, or alone."""
    directory = None if path is None else RunDirectory(path)
    saved = None
    if directory is not None and resume:
        asked, config = config, RunConfig.load(directory.require(directory.config, "boltzport train"))
        check_same(config, directory.path, system=asked.system)
        check_config(directory)
    reference = None if given is None else given.reference
    require_samples(config, reference)
    with ExitStack() as stack:
        if directory is not None:
            stack.enter_context(terminations())
            log = stack.enter_context(logging_to(directory.log, aloud=whole is None and not silent))
        if directory is not None and resume:
            stack.enter_context(only_process(directory.path))
            remove_leftovers(directory.path)
            log.begin()
            saved = read_checkpoint(directory)
            if (
                saved is None
                and directory.checksums.is_file()
                and config.kind == "molecule"
                and not (given and given.molecule)
            ):
                # It was interrupted in its first step, and has its files already.
                given = replace(given or Given(), molecule=load_molecule(config, directory))
        elif directory is not None:
            # A mistake in the request leaves no directory.
            stack.enter_context(directory.begun())
        began = "resumed" if saved else "started"
        _LOG.info("%s: %s %s, seed %d", began, config.method, config.system, config.seed)
        if start is None and directory is not None and resume and directory.start.is_file():
            start = _start(config, directory, given)
        ledger = Ledger(saved["ledger"] if saved else None)
        say = whole is None and not silent
        if say and config.kind == "molecule":
            say_line(f"building {config.system} and its coordinates")
        if start is None:
            # The ledger of a checkpoint already has the evaluations of the startup.
            startup = Ledger() if saved else ledger
            target = open_target(
                config,
                saved=directory if saved else None,
                ledger=startup,
                given=given,
                record=None if directory is None else directory.energies,
            )
        else:
            target = start.target
            ledger = ledger if saved else target.counted.ledger
            if directory is not None and target.energy is not None and target.energy.expensive is not None:
                target.energy.expensive.keep(directory.energies)
        if target.molecule is not None and saved is None:
            for note in (*target.molecule.notes, *feasibility(target.molecule.topology.n_atoms)):
                _LOG.log(logging.INFO if say else logging.WARNING, "%s", note)
                if say:
                    say_line(f"note: {note}")
        if target.energy is not None and target.energy.backend == "tensors" and saved is None:
            _LOG.info("energy by %s: %s", target.energy.backend, target.energy.message)
        generator = torch.Generator().manual_seed(config.seed)
        # A user's density is usually small: compiling would take longer than training.
        compiled = config.kind != "density"
        flow: Flow
        begun: Flow | None = None
        if start is None:
            flow = build_flow(target.counted.layout, config.flow, generator=generator, compiled=compiled)
        else:
            # In one precision throughout, as in a file; a copy, since the given flow stays what it is.
            begun = copy.deepcopy(start.flow).to(start.flow.dtype)
            flow = copy.deepcopy(begun).requires_grad_()
        method = build_method(config, target, flow, reference)
        if directory is not None and not resume:
            stack.enter_context(only_process(directory.path))
            log.begin()
            config.save(directory.config)
        if directory is not None and saved is None:
            target.save(directory)
            if start is not None:
                start.flow.save(directory.start)
                keep_origin(start.origin, directory)
            if not directory.checksums.is_file():
                keep_inputs(config, directory)
        tell(config, target, flow, ledger, saved=saved, start=begun, directory=directory)
        training = Training(
            method,
            flow,
            target.counted,
            generator=generator,
            ledger=ledger,
            saved=saved,
            start=begun,
            device=device,
        )
        if directory is not None and saved is not None:
            directory.rewind(saved["row"])
        make = Display if whole is None else whole.inner
        quiet = {"silent": silent} if whole is None else {}
        display = make(training.method.steps, done=training.state.step, left=training.left, **quiet)
        if say:
            about = "" if training.left == training.method.steps else "about "
            steps = f"{about}{training.left} step{'' if training.left == 1 else 's'}"
            on = "" if ranks().alone else f" on {ranks().world} processes"
            then = f"{steps}; the first one also compiles" if training.left else "all steps are done"
            say_line(f"training {config.system} with {config.method}{on}: {then}")
        if target.energy is not None and target.energy.backend != "tensors":
            for line in announcement(target.energy, training.method.evaluations_left(training.state)):
                _LOG.info("%s", line)
                display.line(line)
            if target.energy.expensive is not None:
                target.energy.expensive.shown = display.evaluations
        model = _finished(training, config, target, directory, display)
        model.origin = None if start is None else start.origin
        return model


def _start(config: RunConfig, directory: RunDirectory, given: Given | None) -> Start:
    """The trained flow that a run started from, and its target, from its directory."""
    flow = load_flow(directory.start, compiled=config.kind != "density")
    target = open_target(config, saved=directory, given=given, record=directory.energies)
    return Start(flow, target, read_origin(directory))


def _resuming(config: RunConfig) -> str:
    """How a run is resumed; no command can make the density or the energy of a user."""
    if config.kind == "density":
        return 'boltzport.train(density, out="{path}", resume=True), with the same density'
    if isinstance(config.settings, ForwardKLConfig) and config.kind == "molecule" and not config.settings.data:
        return 'boltzport.train(molecule, reference=reference, out="{path}", resume=True), with the same reference'
    if config.molecule.energy == GIVEN:
        return 'boltzport.train(molecule, energy=energy, out="{path}", resume=True), with the same energy'
    return "boltzport train --resume --out {path}"


def _finished(
    training: Training, config: RunConfig, target: OpenTarget, directory: RunDirectory | None, display: Display
) -> Model:
    """Train to the end, or until the user interrupts it."""
    state, message = "done", "done after {step} steps"
    kept = "; {step} steps are kept" + ("" if directory is None else f". Resume with: {_resuming(config)}")
    leads, exchanges = ranks().leads, Exchanges(training.state.gradient_steps)
    try:
        with display.shown(), ranks().watched("resume the run with --resume"):
            for info in training.steps(display.stage):
                if directory is not None:
                    keep_step(training, directory)
                _LOG.info("step %d: %s%s", info.step, step_in_words(info), exchanges.since(info.gradient_steps))
                display.step(info, left=training.left)
    except KeyboardInterrupt:
        # torchrun ends the others like a user when one process has ended.
        state, message = "interrupted", ("interrupted" if ranks().alone else f"interrupted, or {lost()}") + kept
    except LostProcess as error:
        _LOG.info("an exchange failed: %s", error.__cause__)
        state, message = "interrupted", str(error) + kept
    except RunError as error:
        if directory is not None and leads:
            keep_status(training.status("failed", str(error)), directory)
        raise
    step, path = training.state.step, "" if directory is None else directory.path
    status = training.status(state, message.format(step=step, path=path))
    if directory is not None and leads:
        keep_status(status, directory)
    flow = training.state.result()
    return Model(
        # In one precision throughout, as in a file, so that a loaded model is bitwise identical.
        flow=flow.to("cpu", flow.dtype),
        target=target,
        config=config,
        status=status,
        rows=training.rows if directory is None or not leads else list(directory.rows()),
        directory=directory if leads else None,
    )
