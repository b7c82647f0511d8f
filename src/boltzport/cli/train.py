"""`boltzport train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from boltzport.cli.app import app
from boltzport.cli.options import Json, MoleculeOptions, Seed, Threads, Yes, command_line
from boltzport.cli.printing import bar, percent, print_json
from boltzport.core.devices import Device, chosen, use_threads
from boltzport.core.errors import InputError, RunError
from boltzport.core.files import RunDirectory
from boltzport.core.limits import check_time
from boltzport.core.preset import Preset

if TYPE_CHECKING:
    from boltzport.experiments import Model


@app.command
def train(
    system: str | None = None,
    /,
    *,
    method: str | None = None,
    preset: Preset | None = None,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    seed: Seed | None = None,
    device: Device = "cpu",
    threads: Threads = None,
    budget: float | None = None,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    page: bool = True,
    yes: Yes = False,
    options: MoleculeOptions | None = None,
    json: Json = False,
) -> None:
    """Train a flow to sample a molecule or a toy, evaluate it, and write a run directory with its page.

    Args:
        system: Name of a system, a sequence such as ELIL, a PDB file with hydrogens, an SDF or MOL2 file, a SMILES
            (smiles:CCCC if it could be a sequence), or a toy (gmm-2d, gmm-40, many-well-32, double-well). May be left
            out with --resume --out.
        method: Training method, cmt by default: cmt is constrained mass transport; forward-kl is maximum likelihood
            on samples (for a molecule, --set data=DIR names a reference); reverse-kl minimises the reverse KL
            divergence; ta-bg anneals the temperature; fab is flow annealed importance sampling bootstrap.
        preset: quick takes minutes, laptop (default) up to an hour on two cores, paper has the paper's settings.
        set_: A setting as key=value (flow=couplings selects another kind of flow); can be repeated.
        seed: Seed of the random generator, 0 by default.
        device: Device of the flow and of what is computed with it; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
        budget: Maximum number of target evaluations; buffers, steps and fits are sized to it.
        out: Run directory; a new one under runs by default.
        resume: Resume an interrupted run (bitwise reproducible), in --out or in the newest of its name.
        page: Evaluate the flow at the end and write report.html.
        yes: Start even if it takes more memory or time than there is.
        options: Options of the molecule.
        json: Print one JSON object instead of a table.
    """
    from boltzport.core.parallel import ranks
    from boltzport.experiments import (
        Given,
        RunConfig,
        assist,
        check_same,
        check_size,
        default_directory,
        join_training,
        request,
        run_training,
    )

    use_threads(threads)
    place = chosen(device)
    if not ranks().leads:
        with join_training(device=place) as model:
            if model.status.state == "interrupted":
                raise RunError(model.status.message)
            if page:
                assist(model.flow.to(place), model.target.counted)
        return
    options, given = options or MoleculeOptions(), None
    if system is None and not (resume and out is not None):
        raise InputError("expected a system, such as alanine-dipeptide or gmm-2d, or --resume with --out")
    if budget is not None and not yes:
        check_time(budget, f"--budget {budget:g}")
    typed = options.config()
    molecule = options.load(system) if options.system_xml is not None and system is not None else None
    if molecule is not None:
        system, given = molecule.name, Given(molecule=molecule)
    directory = out
    if directory is None or not resume:
        assert system is not None
        config = request(
            system,
            kind=None if molecule is None else "molecule",
            atoms=None if molecule is None else molecule.topology.n_atoms,
            method=method or "cmt",
            preset=preset or Preset.LAPTOP,
            settings=set_,
            seed=seed or 0,
            budget=budget,
            molecule=typed,
            command=command_line(),
        )
        directory = directory or default_directory(config, resume=resume)
    if not resume and not yes:
        check_size(config)
    if resume:
        config = RunConfig.load(RunDirectory(directory).require(directory / "config.toml", "boltzport train"))
        check_same(
            config,
            directory,
            system=system,
            method=method,
            preset=preset,
            seed=seed,
            settings=set_,
            budget=budget,
            molecule=typed,
        )
    with run_training(config, directory, resume=resume, given=given, device=place) as model:
        status = model.status
        if status.state == "interrupted":
            raise RunError(status.message)
        if page:
            model.flow.to(place)
            _finish(model, quiet=json)
        evaluations, last, results = model.ledger.cost, model.rows[-1] if model.rows else {}, model.results
    if json:
        print_json(
            {
                "directory": str(directory),
                "state": status.state,
                "step": status.step,
                "steps": status.steps,
                "gradient_steps": status.gradient_steps,
                "seconds": status.seconds,
                "warning": status.warning,
                "target_evaluations": evaluations,
                "last": last,
            }
        )
        return
    of, known = (" of the last step", last.get) if results is None else ("", results.value)
    ess = min((value for name in ("ess", "ess_unclipped") if (value := known(name)) is not None), default=None)
    found = f"{evaluations:,} evaluations" + (f", ESS{of} {percent(ess)}" if ess is not None else "")
    if status.warning:
        Console(soft_wrap=True, stderr=True).print(
            f"{status.warning}.", style="bold red", highlight=False, markup=False
        )
    ended = "ended before its target" if status.warning else status.state
    Console(soft_wrap=True).print(f"{ended}: {directory} ({found})", highlight=False, markup=False)


def _finish(model: "Model", *, quiet: bool) -> None:
    """Evaluate a trained model and write its page."""
    from boltzport.analysis.metrics import results_table

    with bar() as progress:
        found = model.evaluate(progress=progress)
    model.save()
    with Console(stderr=True).status("drawing"):
        written = model.report()
    if not quiet:
        Console(soft_wrap=True).print(results_table(found), highlight=False)
        Console(soft_wrap=True).print(f"page: {written}", highlight=False, markup=False)
