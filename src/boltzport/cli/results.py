"""What a run has brought: `boltzport evaluate`, `sample`, `report` and `compare`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from boltzport.cli.app import app
from boltzport.cli.options import Json, count
from boltzport.cli.printing import bar, print_comparison, print_json


@app.command
def evaluate(
    run: Path,
    /,
    *,
    reference: Path | None = None,
    floor: Path | None = None,
    others: Annotated[tuple[Path, ...], Parameter(name="--other", negative="")] = (),
    n: Annotated[float, Parameter(name=["-n", "--samples"])] = 1e5,
    transport: int = 10_000,
    seed: int = 0,
    json: Json = False,
) -> None:
    """Draw samples of a trained flow, weigh them, and compare them with a reference.

    Args:
        run: A run directory.
        reference: A reference ensemble, as `boltzport reference` makes it.
        floor: A second, independent one, for the noise floor of each figure.
        others: Another run of the same target, evaluated, whose log Z is compared; may be given more than once.
        n: Samples to draw; the paper's figures are for 1e7.
        transport: Samples of the Wasserstein distances; 1e4 take 5 GB and minutes.
        seed: Of the samples.
        json: Print one JSON object instead of a table.
    """
    from boltzport.evaluate import evaluation_table
    from boltzport.run import evaluate_run
    from boltzport.rundir import finite

    with bar() as progress:
        found = evaluate_run(
            run,
            n=count(n),
            seed=seed,
            reference=reference,
            floor=floor,
            others=others,
            transport_samples=transport,
            progress=progress,
        )
    if json:
        record = finite(found.to_json())
        assert isinstance(record, dict)
        print_json(record)
        return
    Console(soft_wrap=True).print(evaluation_table(found), highlight=False)


@app.command
def sample(
    run: str,
    /,
    *,
    n: Annotated[float, Parameter(name=["-n", "--samples"])],
    out: Annotated[Path, Parameter(name=["-o", "--out"])],
    mode: Literal["weighted", "resampled", "refined"] = "weighted",
    seed: int = 0,
    json: Json = False,
) -> None:
    """Write samples of a trained flow to .xtc, .dcd, .pdb or .npz, with their weights beside them.

    Args:
        run: A run directory, or the name of a system whose trained flow ships with boltzport.
        n: Frames to write.
        out: The file; its suffix is the format.
        mode: The draws with their weights; resampled to equal weights; or refined by exact Markov chains after that.
        seed: Of the samples.
        json: Print one JSON object instead of lines.
    """
    import torch

    from boltzport.ensemble import Mode, write_ensemble
    from boltzport.run import open_run, run_path

    with open_run(run_path(run)) as opened, bar() as progress:
        written = write_ensemble(
            out,
            opened.flow,
            opened.target.counted,
            count(n),
            generator=torch.Generator().manual_seed(2**31 + seed),
            mode=Mode(mode),
            progress=lambda done, total: progress("frames", done, total),
        )
    for note in written.notes:
        Console(stderr=True, soft_wrap=True).print(note, highlight=False, markup=False)
    if json:
        print_json(asdict(written) | {"files": [str(file) for file in written.files]})
        return
    figures = f"{written.frames} frames, {written.distinct} distinct, ESS {written.ess:.1%}, log Z {written.log_z:.3f}"
    Console(soft_wrap=True).print(figures, highlight=False, markup=False)
    for file in written.files:
        Console(soft_wrap=True).print(str(file), highlight=False, markup=False)


@app.command
def report(run: Path, /, *, out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None) -> None:
    """Write the page of a run: one file that opens offline, with figures also as PNG and SVG.

    Args:
        run: A run directory.
        out: Where the page goes; report.html in the run directory by default.
    """
    from boltzport.report import write_report

    with Console(stderr=True).status("drawing"):
        page = write_report(run, out)
    Console(soft_wrap=True).print(str(page), highlight=False, markup=False)


@app.command
def compare(*runs: str, out: Path = Path("comparison"), json: Json = False) -> None:
    """Put runs in one table and one figure: means and standard errors over seeds, for each method and its settings.

    Args:
        runs: Run directories, evaluated or not, or systems whose flow ships with the package; there is one table for
            each system. What is no run, such as a folder of runs, is left out.
        out: Where comparison.html, .json, .csv and the figures go.
        json: Print one JSON object instead of a table.
    """
    from boltzport.comparison import compare as compare_runs
    from boltzport.comparison import to_json, write_comparison
    from boltzport.run import run_path

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
    """Without what a pattern such as `runs/*` takes along, which is named; all of them where none is a run."""
    found = [path for path in paths if (path / "config.toml").is_file()]
    left_out = [str(path) for path in paths if path not in found]
    if found and left_out:
        Console(stderr=True, soft_wrap=True).print(
            f"left out, no runs: {', '.join(left_out)}", highlight=False, markup=False
        )
    return found or paths
