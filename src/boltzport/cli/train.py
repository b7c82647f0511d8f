"""`boltzport train`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from boltzport.cli.app import app
from boltzport.cli.options import Json, MoleculeOptions
from boltzport.cli.printing import bar, print_json
from boltzport.errors import InputError, RunError


@app.command
def train(
    system: str | None = None,
    /,
    *,
    method: str = "cmt",
    preset: Literal["quick", "laptop", "paper"] = "laptop",
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    seed: int = 0,
    budget: float | None = None,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    page: bool = True,
    options: MoleculeOptions | None = None,
    json: Json = False,
) -> None:
    """Train a flow to sample a molecule or a toy, evaluate it, and write a run directory with its page.

    Args:
        system: Name of a system, a sequence such as ELIL, a PDB file with hydrogens, or a toy (gmm-2d, gmm-40,
            many-well-32, double-well). May be left out with --resume --out.
        method: How to train: cmt is constrained mass transport; forward-kl is maximum likelihood on samples (of a
            molecule, --set data=DIR names a reference); reverse-kl descends on the reverse divergence; ta-bg anneals
            the temperature; fab bootstraps by annealed importance sampling.
        preset: quick takes minutes, laptop up to an hour on two cores, paper is the paper's settings.
        set_: A setting, as key=value (flow=couplings chooses another kind of flow); may be given more than once.
        seed: Of everything that is random.
        budget: Most evaluations of the target; buffers, steps and fits are planned to it.
        out: The run directory; a new one under runs by default.
        resume: Go on with a run that was cut short, in --out or in the newest of its name.
        page: Evaluate the flow at the end and write report.html.
        options: How the molecule is made.
        json: Print one JSON object instead of a table.
    """
    from boltzport.run import MoleculeConfig, Preset, RunConfig, default_directory, request
    from boltzport.run import train as train_run

    if system is None and not (resume and out is not None):
        raise InputError("expected a system, such as alanine-dipeptide or gmm-2d, or --resume with --out")
    if system is None:
        assert out is not None
        config = RunConfig.load(out / "config.toml")
    else:
        config = request(
            system,
            method=method,
            preset=Preset(preset),
            settings=set_,
            seed=seed,
            budget=budget,
            molecule=MoleculeConfig(**asdict((options or MoleculeOptions()).resolved())),
        )
    directory = out or default_directory(config, resume=resume)
    outcome = train_run(config, directory, resume=resume)
    if outcome.state == "interrupted":
        raise RunError(
            f"interrupted; {outcome.step} of {outcome.steps} steps are kept. "
            f"Go on with: boltzport train --resume --out {outcome.directory}"
        )
    if page:
        _finish(outcome.directory, quiet=json)
    if json:
        print_json(asdict(outcome) | {"directory": str(outcome.directory)})
        return
    ess = outcome.last.get("ess")
    found = f"{outcome.target_evaluations:,} evaluations" + (f", last ESS {ess:.1%}" if ess is not None else "")
    Console(soft_wrap=True).print(f"{outcome.state}: {outcome.directory} ({found})", highlight=False, markup=False)


def _finish(directory: Path, *, quiet: bool) -> None:
    """Evaluate a run that was trained, and write its page."""
    from boltzport.evaluate import evaluation_table
    from boltzport.report import write_report
    from boltzport.run import evaluate_run

    with bar() as progress:
        found = evaluate_run(directory, progress=progress)
    with Console(stderr=True).status("drawing"):
        written = write_report(directory)
    if not quiet:
        Console(soft_wrap=True).print(evaluation_table(found), highlight=False)
        Console(soft_wrap=True).print(f"page: {written}", highlight=False, markup=False)
