"""`boltzport bench`: speed, as ratios; and methods, side by side."""

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from boltzport.cli.app import app
from boltzport.cli.options import Json, MoleculeOptions, Seed, Threads, count
from boltzport.cli.printing import bar, print_comparison, print_json
from boltzport.core.devices import Device, chosen, use_threads
from boltzport.core.errors import InputError, RunError
from boltzport.core.preset import Preset

bench = cyclopts.App(name="bench", help="Benchmarks: speed against other libraries, and methods against each other.")
app.command(bench)


@bench.command(name="energy")
def bench_energy(*systems: str, seconds: float = 1.0, threads: Threads = None, json: Json = False) -> None:
    """Compare the speed of energies and forces by tensors with OpenMM on all cores.

    Args:
        systems: Systems to measure; all named systems by default.
        seconds: Approximate duration of one timing.
        threads: Number of threads of the tensors; torch's choice by default.
        json: Print one JSON object instead of a table.
    """
    from boltzport.bench.energy import benchmark_systems, benchmark_table

    use_threads(threads)
    with Console(stderr=True).status("building molecules") as status:
        found = benchmark_systems(systems, seconds=seconds, report=status.update)
    if json:
        print_json(found)
    else:
        Console(soft_wrap=True).print(benchmark_table(found), highlight=False)


@bench.command(name="flow")
def bench_flow(*, batch: int = 1000, rounds: int = 10, threads: Threads = None, json: Json = False) -> None:
    """Compare the speed of a gradient step and of sampling with the matrix products alone and with other libraries.

    The molecular network is timed on coordinates like the tetrapeptide's, beside couplings on the same coordinates.

    The libraries are nflows, normflows and zuko, if they are installed (pip install 'boltzport[bench]').

    Args:
        batch: Batch size.
        rounds: Number of timings of each contender.
        threads: Number of threads; torch's choice by default.
        json: Print one JSON object instead of a table.
    """
    from boltzport.bench.flow import run

    use_threads(threads)
    with Console(stderr=True).status("measuring") as status:
        found = run(batch=batch, rounds=rounds, progress=lambda text: status.update(f"measuring {text}"))
    if json:
        print_json(found.to_dict())
        return
    table = Table("network", "step", "products alone", "ratio", "faster than", "sampling faster than", box=None)
    for name, network in found.networks.items():
        table.add_row(
            name,
            f"{network.step_ms} ms",
            f"{network.floor_ms} ms",
            str(network.floor_ratio),
            _factors(network.peers, network.couplings_ratio),
            _factors(network.peers_sampling, network.couplings_sampling_ratio),
        )
    Console(soft_wrap=True).print(table, highlight=False)
    starts = f"{found.cold_start_s} s after a cold start, {found.warm_start_s} s after a warm one"
    Console().print(f"The first step is done {starts}.", highlight=False)
    for name, network in found.networks.items():
        if network.parts_ms:
            parts = ", ".join(f"{part.replace('_', ' ')} {took} ms" for part, took in network.parts_ms.items())
            Console(soft_wrap=True).print(f"Parts of the {name} network's training: {parts}.", highlight=False)


def _factors(peers: Mapping[str, float], couplings: float | None) -> str:
    """Speed-up over each contender."""
    known = {**peers, **({} if couplings is None else {"couplings": couplings})}
    return ", ".join(f"{name} {factor}x" for name, factor in known.items()) or "none installed"


@bench.command(name="paper")
def bench_paper(*runs: str, markdown: Annotated[bool, Parameter(negative="")] = False, json: Json = False) -> None:
    """Show the paper's tables with runs of its four peptides beside them.

    log Z, its bounds and the negative log-likelihood are given in the paper's measure: ours plus 2 log 2 pi.

    Args:
        runs: Evaluated run directories, or systems whose trained flow ships; all of the latter by default.
        markdown: Print Markdown instead of tables for the terminal.
        json: Print one JSON object instead of a table.
    """
    from boltzport.experiments import run_path, shipped_systems
    from boltzport.experiments.compare import (
        compare,
        conventions_text,
        paper_json,
        paper_markdown,
        paper_table,
        paper_tables,
    )

    if markdown and json:
        raise InputError("--markdown and --json: expected one of them")
    tables = paper_tables(compare([run_path(name) for name in runs or shipped_systems()]))
    if json:
        print_json(paper_json(tables))
    elif markdown:
        sys.stdout.write(paper_markdown(tables))
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=240)
        for table in tables:
            console.print(paper_table(table), highlight=False)
        Console(soft_wrap=True).print("\n".join(conventions_text()), highlight=False, markup=False)


@bench.command(name="sampling")
def bench_sampling(
    *runs: str,
    system: str | None = None,
    seconds: float | None = None,
    evaluations: float | None = None,
    repeats: int = 8,
    contenders: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    anneal: str = "auto",
    truth: float = 2e5,
    reference: Path | None = None,
    torsion: str | None = None,
    seed: Seed = 0,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Race trained flows of a molecule against dynamics: independent samples per second and per energy evaluation.

    Contenders are the flow reweighted, annealed, mixed with the other runs, and in Markov chains; HMC, plain and
    tempered as in `boltzport reference`; and OpenMM's Langevin dynamics, plain and with replica exchange. All use one
    thread, and time is processor time. Effective sizes come from the errors of independent runs, with the usual formula
    beside them, and mixing times from the autocorrelation of the slowest torsion.

    Args:
        runs: Run directories of one molecule; the first flow races, and with others its mixture.
        system: System whose trained flow ships, if no runs are given.
        seconds: Processor time of each contender, which its runs share; 60 without --evaluations.
        evaluations: Energy evaluations of each contender, instead of a time.
        repeats: Number of independent runs of each contender.
        contenders: Contenders, separated by commas: flow, annealed, mixed, chains, HMC, tempered HMC, Langevin,
            replica exchange; all by default.
        anneal: Number of densities of the annealed samples; with auto, none if the flow is good.
        truth: Number of samples of the flow that give the truth.
        reference: Reference ensemble that gives the truth instead.
        torsion: Torsion of the free energy profile; by default the one with the highest barrier.
        seed: Seed of the random generators.
        out: Directory of the figure and of the numbers as JSON; none by default.
        json: Print one JSON object instead of a table.
    """
    from boltzport.bench.sampling import Rules, race
    from boltzport.bench.standings import race_table, write_race

    if system is not None and runs:
        raise InputError("expected runs or --system, got both")
    if not runs and system is None:
        raise InputError("expected --system SYSTEM, or run directories")
    rules = Rules(
        seconds=_seconds(seconds, evaluations),
        evaluations=math.inf if evaluations is None else evaluations,
        runs=repeats,
        contenders=tuple(name.strip() for entry in contenders for name in entry.split(",")),
        anneal=anneal,
        truth=count(truth),
        reference=reference,
        torsion=torsion,
        seed=seed,
    )
    with bar() as progress:
        found = race(runs or (str(system),), rules, progress=progress)
    figure = None if out is None else write_race(found, out)
    if json:
        print_json(found.to_json())
        return
    console = Console()
    console = console if console.is_terminal else Console(width=240)
    console.print(race_table(found), highlight=False)
    if figure is not None:
        Console(soft_wrap=True).print(f"figure: {figure}", highlight=False, markup=False)


def _seconds(seconds: float | None, evaluations: float | None) -> float:
    """Processor time of a contender; unlimited if only its evaluations are limited."""
    if seconds is not None:
        return seconds
    return 60.0 if evaluations is None else math.inf


@bench.command(name="train")
def bench_train(
    *,
    system: str,
    budget: float | None = None,
    methods: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    variants: str | None = None,
    seeds: int = 2,
    preset: Preset = Preset.LAPTOP,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    reference: Path | None = None,
    n: Annotated[float, Parameter(name=["-n", "--samples"])] = 1e5,
    transport: int = 1000,
    out: Path | None = None,
    device: Device = "cpu",
    threads: Threads = None,
    options: MoleculeOptions | None = None,
    json: Json = False,
) -> None:
    """Train and compare methods, or variants of one, with equal budgets and several seeds.

    The same command again skips finished runs and resumes interrupted ones.

    Args:
        system: Name of a system, a sequence, a PDB file with hydrogens, or a toy.
        budget: Maximum number of target evaluations of each run. Optional with --variants.
        methods: Methods, separated by commas; all by default.
        variants: An ablation of cmt instead of methods: constraints, trust-region, entropy, multiplier or additions.
        seeds: Number of seeds.
        preset: Preset that the settings start from.
        set_: A setting of all methods, as key=value, or of one, as METHOD.key=value; may be given more than once.
        reference: A reference ensemble of a molecule, for evaluations and for methods that learn from samples.
        n: Number of samples of each evaluation.
        transport: Number of samples for the Wasserstein distances.
        out: Directory of the runs and the comparison; under runs by default.
        device: Device of the flows; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
        options: Options of the molecule.
        json: Print one JSON object instead of a table.
    """
    from boltzport.bench.training import train_and_compare
    from boltzport.experiments import EvaluationEffort

    use_threads(threads)
    place = chosen(device)
    options = options or MoleculeOptions()
    if options.system_xml is not None:
        raise InputError("--system-xml: train the methods one by one with `boltzport train`")
    found = train_and_compare(
        system,
        methods=[name for entry in methods for name in entry.replace(",", " ").split()],
        variants=variants,
        budget=budget,
        seeds=seeds,
        preset=preset,
        settings=set_,
        molecule=options.config(),
        reference=reference,
        effort=EvaluationEffort(samples=count(n), transport=transport),
        out=out,
        device=place,
        report=lambda text: Console(stderr=True, soft_wrap=True).print(text, highlight=False, markup=False),
    )
    if found is None:
        # Rank 0 compares what all have trained.
        return
    if json:
        print_json(found.to_json())
    else:
        print_comparison(found.comparison)
        Console(soft_wrap=True).print(f"page: {found.page}", highlight=False, markup=False)
    if found.failed:
        raise RunError(f"{len(found.failed)} of {len(found.results)} runs failed; {'; '.join(found.failed)}")
