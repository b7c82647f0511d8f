"""`boltzport retarget`: a trained flow for another temperature, force field or energy."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from boltzport.cli.app import app
from boltzport.cli.options import Json, Seed, Threads, Yes, command_line, count, words
from boltzport.cli.printing import print_json
from boltzport.core.devices import Device, chosen, use_threads
from boltzport.core.errors import InputError, RunError
from boltzport.core.files import RunDirectory
from boltzport.core.limits import check_memory, check_time


@app.command
def retarget(
    run: str,
    /,
    *,
    out: Path,
    temperature: float | None = None,
    forcefield: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    energy: str | None = None,
    budget: float | None = None,
    n: Annotated[float, Parameter(name=["-n", "--samples"])] = 1e5,
    overlap: float = 0.3,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    page: bool = True,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Take a trained flow to another temperature, force field or energy, with the free-energy difference.

    Its samples are reweighted if their weights allow it; otherwise a few constrained steps from the flow come first.

    Args:
        run: A run directory, or the name of a system whose trained flow ships with boltzport.
        out: Run directory of the new description.
        temperature: Temperature in K; that of the run by default.
        forcefield: Force field: an XML name that OpenMM ships, or an XML file; repeat it or use commas for several.
        energy: Energy that replaces the force field: gfn2-xtb or gfn1-xtb.
        budget: Maximum number of evaluations of the new description, with those of the final evaluation.
        n: Number of samples of the final evaluation.
        overlap: Smallest effective size, as a fraction, with which reweighting is enough; 1 for constrained steps in
            any case.
        set_: A setting of the constrained steps as key=value; can be repeated.
        seed: Seed of the random generator.
        device: Device of the flow and of what is computed with it; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
        page: Write report.html.
        yes: Start even if it takes more memory or time than there is.
        json: Print one JSON object instead of a table.
    """
    from boltzport.analysis.metrics import results_table
    from boltzport.experiments import Changes, load
    from boltzport.experiments import retarget as take

    use_threads(threads)
    place = chosen(device)
    changes = Changes(temperature=temperature, forcefield=words(forcefield), energy=energy)
    if changes == Changes():
        raise InputError("expected another --temperature, --forcefield or --energy to retarget to")
    samples = count(n)
    if not yes:
        check_time(max(n, budget or 0), f"-n {n:g}" if n > (budget or 0) else f"--budget {budget:g}")
        check_memory(40 * n, f"-n {n:g}")
    RunDirectory(out).check_free()
    with (
        load(run, device=place) as model,
        take(
            model,
            changes,
            n=samples,
            budget=budget,
            overlap=overlap,
            settings=set_,
            seed=seed,
            out=out,
            command=command_line(),
            silent=json,
        ) as made,
    ):
        if made.status.state == "interrupted":
            raise RunError(made.status.message)
        origin, results, evaluations = made.origin, made.results, made.ledger.total
        assert origin is not None
        assert results is not None
        if page:
            with Console(stderr=True).status("drawing"):
                made.report()
    if json:
        print_json({"directory": str(out), "total_evaluations": evaluations} | results.to_json())
        return
    console = Console(soft_wrap=True)
    console.print(results_table(results), highlight=False)
    tail = "" if origin.pareto_k is None else f", Pareto k {origin.pareto_k:.2f}"
    matched = "" if origin.ess_matched is None else f"; with matched coordinates the ESS is {origin.ess_matched:.1%}"
    console.print(
        f"{origin.by}: from {origin.before} to {origin.after}; {origin.samples} samples of the former flow have an ESS "
        f"of {origin.ess:.1%}{tail}, and a log Z difference of {origin.log_z_difference:.4f} ± "
        f"{origin.log_z_difference_error:.4f}{matched}",
        highlight=False,
        markup=False,
    )
    console.print(f"{out} ({evaluations:,} evaluations)", highlight=False, markup=False)
