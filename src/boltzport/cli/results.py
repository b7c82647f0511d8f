"""Results of runs: `boltzport evaluate`, `sample`, `report` and `compare`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from boltzport.cli.app import app
from boltzport.cli.options import Force, Json, Seed, Threads, Yes, count
from boltzport.cli.printing import bar, percent, print_comparison, print_json
from boltzport.core.devices import Device, chosen, use_threads
from boltzport.core.errors import InputError
from boltzport.core.limits import check_disk, check_memory, check_time


@app.command
def evaluate(
    *runs: str,
    reference: Path | None = None,
    floor: Path | None = None,
    others: Annotated[tuple[str, ...], Parameter(name="--other", negative="")] = (),
    n: Annotated[float, Parameter(name=["-n", "--samples"])] = 1e5,
    transport: int = 10_000,
    anneal: str = "0",
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Evaluate a trained flow: draw and reweight samples, and compare them with a reference.

    Args:
        runs: A run directory, or the name of a system whose trained flow ships with boltzport; several of one target
            are evaluated as one mixture.
        reference: Directory of a reference ensemble, made by `boltzport reference`.
        floor: A second, independent reference for the noise floor of each metric.
        others: Another evaluated run of the same target, to compare log Z with; can be repeated.
        n: Number of samples; the paper uses 1e7.
        transport: Number of samples for the Wasserstein distances; 1e4 take 5 GB and minutes.
        anneal: Number of intermediate densities of annealed samples, or auto; the search for missing mass compares
            their log Z with the flow's own.
        seed: Seed of the random generator.
        device: Device of the flow and of what is computed with it; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
        yes: Start even if it takes more memory or time than there is.
        json: Print one JSON object instead of a table.
    """
    from boltzport.analysis.metrics import results_table
    from boltzport.core.parallel import ranks
    from boltzport.experiments import assist, load_mixture, log_z_of

    use_threads(threads)
    place = chosen(device)
    samples = count(n)
    if not yes:
        check_time(n, f"-n {n:g}")
        check_memory(40 * n, f"-n {n:g}")
        # Optimal transport holds several matrices of all distances.
        check_memory(40 * float(transport) ** 2, f"--transport {transport}")
    if transport < 1:
        raise InputError(f"--transport: expected at least 1 sample, got {transport}")
    with load_mixture(runs, seed=seed, device=place) as model:
        if not ranks().leads:
            assist(model.flow, model.target.counted)
            return
        known = [log_z_of(other, model.config.system) for other in others]
        with bar() as progress:
            found = model.evaluate(
                n=samples,
                seed=seed,
                reference=reference,
                floor=floor,
                other_log_z=known,
                transport_samples=transport,
                anneal=anneal,
                progress=progress,
            )
        # A flow that ships with the package is not written to.
        if model.directory is not None:
            model.save()
    if json:
        print_json(found.to_json())
        return
    Console(soft_wrap=True).print(results_table(found), highlight=False)


@app.command
def sample(
    *runs: str,
    n: Annotated[float, Parameter(name=["-n", "--samples"])],
    out: Annotated[Path, Parameter(name=["-o", "--out"])],
    mode: Literal["weighted", "resampled", "refined"] = "weighted",
    chain: Annotated[bool, Parameter(negative="")] = False,
    anneal: str = "0",
    defensive: float | None = None,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    force: Force = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Write samples of a trained flow to .xtc, .dcd, .pdb or .npz, with their weights beside them.

    Args:
        runs: A run directory, or the name of a system whose trained flow ships with boltzport; several of one target
            are sampled as one mixture, and each point is weighted by its density.
        n: Number of frames.
        out: Output file; its suffix sets the format.
        mode: Weighted draws; draws resampled to equal weights; or resampled draws moved by Metropolis steps (refined).
        chain: Draw frames by Markov chains instead, which alternate trajectories with proposals from the flow and have
            no weights.
        anneal: Number of intermediate densities through which each sample is carried to the target by trajectories;
            auto for the most effective samples per second.
        defensive: Share of a broader version of the flow that is mixed in; by default 0.05 if the evaluation of the run
            found a Pareto k above 0.7.
        seed: Seed of the random generator.
        device: Device of the flow and of what is computed with it; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
        force: Overwrite files that exist.
        yes: Start even if it takes more memory, disk or time than there is.
        json: Print one JSON object instead of lines.
    """
    from boltzport.core.interrupt import stop_on_interrupt
    from boltzport.core.parallel import ranks
    from boltzport.ensembles import check_file
    from boltzport.experiments import assist, load_mixture

    use_threads(threads)
    place = chosen(device)
    if not ranks().alone and (chain or mode != "weighted" or anneal != "0"):
        raise InputError(
            f"expected weighted samples without annealing from {ranks().world} processes; leave out "
            f"{'--chain' if chain else '--mode' if mode != 'weighted' else '--anneal'}, or torchrun"
        )
    if chain and mode != "weighted":
        raise InputError(f"--chain has a mode of its own; leave out --mode {mode}")
    frames = count(n)
    if ranks().leads:
        check_file(out, None, overwrite=force)
    with load_mixture(runs, seed=seed, device=place) as model, bar() as progress, stop_on_interrupt() as stop:
        if not ranks().leads:
            assist(model.flow, model.target.counted, results=model.results, defensive=defensive)
            return
        if not yes:
            numbers = 3 * model.molecule.topology.n_atoms if model.molecule is not None else model.flow.dimension
            check_time(n, f"-n {n:g}")
            # The frames are in single precision, XTC compresses them to a third; their weights are in double precision.
            check_disk((4 * numbers / (3 if out.suffix.lower() == ".xtc" else 1) + 40) * n, out.parent, f"-n {n:g}")
            check_memory(64 * n, f"-n {n:g}")
        before, forces = model.ledger.total, model.ledger.gradients
        written = model.write(
            out,
            frames,
            seed=seed,
            mode="chain" if chain else mode,
            anneal=anneal,
            defensive=defensive,
            overwrite=force,
            progress=progress,
            stop=stop,
        )
        evaluations, forces = model.ledger.total - before, model.ledger.gradients - forces
    for note in written.notes:
        style = "bold red" if note.startswith("warning:") else None
        Console(stderr=True, soft_wrap=True).print(note, style=style, highlight=False, markup=False)
    if json:
        files = [str(file) for file in written.files]
        print_json(
            asdict(written)
            | {
                "files": files,
                "samples": written.frames,
                "target_evaluations": evaluations,
                "force_evaluations": forces,
            }
        )
        return
    found = (
        f"{written.frames} frames, {written.distinct} distinct, ESS {percent(written.ess)}, log Z {written.log_z:.3f}"
    )
    if written.chains is not None:
        found = f"{written.frames} frames of {written.chains.chains} chains, without weights"
    Console(soft_wrap=True).print(found, highlight=False, markup=False)
    for file in written.files:
        Console(soft_wrap=True).print(str(file), highlight=False, markup=False)


@app.command
def report(
    *runs: str,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    device: Device = "cpu",
    threads: Threads = None,
) -> None:
    """Write the page of a run: one file that opens offline, with figures also as PNG and SVG.

    Args:
        runs: A run directory, or the name of a system whose trained flow ships with boltzport, which is evaluated
            first; so is the mixture of several runs of one target.
        out: Output file; report.html in the run directory, or NAME.html for a flow that ships and for a mixture, by
            default.
        device: Device on which a flow that ships, or a mixture, is evaluated; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
    """
    from boltzport.experiments import is_shipped, load_mixture, run_path
    from boltzport.reporting import read_run, write_report

    use_threads(threads)
    place = chosen(device)
    path = run_path(runs[0]) if runs else Path()
    if len(runs) != 1 or is_shipped(path):
        with load_mixture(runs, device=place) as model, bar() as progress:
            page = model.report(out or Path(f"{model.config.system}.html"), progress=progress)
    else:
        with Console(stderr=True).status("drawing"):
            page = write_report(read_run(path), out)
    Console(soft_wrap=True).print(str(page), highlight=False, markup=False)


@app.command
def compare(*runs: str, out: Path = Path("comparison"), json: Json = False) -> None:
    """Compare runs in one table and one figure: mean and standard error over seeds for each method and its settings.

    Args:
        runs: Run directories, evaluated or not, or systems whose trained flow ships with boltzport. Each system has
            its own table. Paths that are not run directories are skipped.
        out: Output directory of comparison.html, .json, .csv and the figures.
        json: Print one JSON object instead of a table.
    """
    from boltzport.experiments import run_path
    from boltzport.experiments.compare import compare as compare_runs
    from boltzport.experiments.compare import to_json, write_comparison

    paths = [Path(name) if Path(name).exists() else run_path(name) for name in runs]
    found = compare_runs(_those_that_are_runs(paths))
    with Console(stderr=True).status("drawing"):
        page = write_comparison(found, out)
    if json:
        print_json(to_json(found) | {"page": str(page)})
        return
    print_comparison(found)
    Console(soft_wrap=True).print(f"page: {page}", highlight=False, markup=False)


def _those_that_are_runs(paths: list[Path]) -> list[Path]:
    """The paths that are run directories, with a message that names the others; all paths if none is one."""
    found = [path for path in paths if (path / "config.toml").is_file()]
    left_out = [str(path) for path in paths if path not in found]
    if found and left_out:
        Console(stderr=True, soft_wrap=True).print(
            f"skipped, not run directories: {', '.join(left_out)}", highlight=False, markup=False
        )
    return found or paths
