"""`boltzport bench`: speed, as ratios."""

import cyclopts
from rich.console import Console
from rich.table import Table

from boltzport.cli.app import app
from boltzport.cli.options import Json
from boltzport.cli.printing import print_json
from boltzport.errors import InputError

bench = cyclopts.App(name="bench", help="Measure speed, as ratios against peers side by side in one run.")
app.command(bench)


@bench.command(name="energy")
def bench_energy(*systems: str, seconds: float = 1.0, json: Json = False) -> None:
    """Time energies and forces by tensors, against OpenMM on all cores.

    Args:
        systems: What to measure; the named systems by default.
        seconds: About as long as one timing takes.
        json: Print one JSON object instead of a table.
    """
    from boltzport.forcefield.benchmark import BenchmarkSubject, benchmark_table, run_benchmark
    from boltzport.molecule import SYSTEMS, load

    if not 0.0 < seconds < 600.0:
        raise InputError(f"expected a timing of more than 0 and less than 600 seconds, got {seconds:g}")
    with Console(stderr=True).status("building molecules") as status:
        molecules = {name: load(name) for name in systems or [entry.name for entry in SYSTEMS]}
        subjects = {name: BenchmarkSubject(entry.system, entry.positions) for name, entry in molecules.items()}
        found = run_benchmark(subjects, seconds=seconds, report=status.update)
    if json:
        print_json(found)
    else:
        Console(soft_wrap=True).print(benchmark_table(found), highlight=False)


@bench.command(name="flow")
def bench_flow(*, batch: int = 1000, rounds: int = 10, json: Json = False) -> None:
    """Time a gradient step and sampling, against bare matrix products and against other libraries.

    The libraries are nflows, normflows and zuko, as far as they are installed (pip install 'boltzport[bench]').

    Args:
        batch: Points of a step.
        rounds: How often each contender is timed.
        json: Print one JSON object instead of a table.
    """
    from boltzport.flow.benchmark import run

    if batch < 2 or rounds < 1:
        raise InputError(f"expected a batch of at least 2 and at least 1 round, got {batch} and {rounds}")
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
            ", ".join(f"{peer} {factor}x" for peer, factor in network.peers.items()) or "none installed",
            ", ".join(f"{peer} {factor}x" for peer, factor in network.peers_sampling.items()) or "none installed",
        )
    Console(soft_wrap=True).print(table, highlight=False)
    starts = f"{found.cold_start_s} s after a cold start, {found.warm_start_s} s after a warm one"
    Console().print(f"The first step is done {starts}.", highlight=False)
