"""The command line: reads arguments, calls `run`, prints.

Heavy imports stay inside the commands, so that help and completion answer at once.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import cyclopts
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from boltzport import __version__
from boltzport.errors import InputError, RunError

if TYPE_CHECKING:
    from boltzport.molecule import Molecule

app = cyclopts.App(
    name="boltzport",
    version=__version__,
    help="Boltzmann ensembles of molecules by constrained mass transport, from energies alone.",
    help_format="markdown",
)
app.register_install_completion_command()

Json = Annotated[bool, Parameter(name="--json", negative="")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoleculeOptions:
    """How a molecule is made.

    Attributes:
        forcefield: XML name that OpenMM ships, or XML file; several joined by commas, or given one by one.
        constraints: Which bonds have a constant length.
        ph: Protonation of a sequence.
        temperature: In K.
    """

    forcefield: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    constraints: Literal["none", "hbonds"] | None = None
    ph: float = 7.0
    temperature: float = 300.0

    def load(self, system: str) -> "Molecule":
        """The molecule that the user means."""
        from boltzport.molecule import Constraints, load

        # Seconds for a peptide, tens of them for a protein, with no measure of progress to show.
        with Console(stderr=True).status(f"building and minimising {system}"):
            return load(
                system,
                forcefield=self.resolved().forcefield,
                constraints=Constraints(self.constraints) if self.constraints else None,
                ph=self.ph,
                temperature=self.temperature,
            )

    def resolved(self) -> "MoleculeOptions":
        """The same, with one name in each entry of the force field."""
        names = tuple(name for entry in self.forcefield for name in entry.replace(",", " ").split())
        return replace(self, forcefield=names)


@app.command
def systems(*, json: Json = False) -> None:
    """List the named systems, with atoms, dimensions and force field.

    Args:
        json: Print one JSON object instead of a table.
    """
    from boltzport.molecule import SYSTEMS, load
    from boltzport.targets import TOYS

    rows: list[dict[str, object]] = []
    with Console(stderr=True).status("building molecules"):
        for entry in SYSTEMS:
            molecule = load(entry.name)
            rows.append(
                {
                    "system": entry.name,
                    "alias": entry.alias,
                    "sequence": entry.sequence,
                    "atoms": molecule.topology.n_atoms,
                    "dimension": 3 * molecule.topology.n_atoms - 6,
                    "flow_dimension": molecule.coordinates.dimension,
                    "forcefield": entry.forcefield,
                    "constraints": entry.constraints.value,
                }
            )
    if json:
        _print_json({"systems": rows})
        return
    table = Table("system", "alias", "atoms", "3N-6", "flow", "force field, constraints", box=None)
    for entry, row in zip(SYSTEMS, rows, strict=True):
        figures = (str(row[key]) for key in ("system", "alias", "atoms", "dimension", "flow_dimension"))
        table.add_row(*figures, f"{_short(entry.forcefield)}, {entry.constraints}")
    Console().print(table)
    Console().print("Any sequence (ELIL, ACE-ALA-NME) or PDB file with hydrogens is a system too.", highlight=False)
    Console(soft_wrap=True).print(f"Toys to train on: {', '.join(TOYS)}.", highlight=False)


@app.command
def inspect(
    system: str,
    /,
    *,
    preset: Literal["quick", "laptop", "paper"] = "laptop",
    options: MoleculeOptions | None = None,
    pdb: Path | None = None,
    json: Json = False,
) -> None:
    """Show what would be trained: coordinates, constraints, handedness, flow.

    Args:
        system: Name of a system, a sequence such as ELIL or ACE-ALA-NME, or a PDB file with hydrogens.
        preset: Which flow: quick and laptop start from what the force field knows, paper is the paper's.
        options: How the molecule is made.
        pdb: Also write the reference structure to this PDB file.
        json: Print one JSON object instead of a table.
    """
    from boltzport.inspection import inspect_molecule
    from boltzport.run import Preset

    molecule = (options or MoleculeOptions()).load(system)
    with Console(stderr=True).status(f"inspecting {system}"):
        found = inspect_molecule(molecule, Preset(preset))
    if pdb is not None:
        try:
            molecule.write_pdb(pdb)
        except OSError as error:
            raise InputError(f"{pdb} cannot be written: {error.strerror}") from error
    if json:
        _print_json(found.to_dict())
        return
    table = Table(show_header=False, box=None)
    table.add_row("system", found.system)
    table.add_row("sequence", found.sequence)
    table.add_row("atoms", str(found.atoms))
    table.add_row("force field", f"{_short(found.forcefield)}, constraints {found.constraints}")
    table.add_row("temperature", f"{found.temperature:g} K")
    kinds = f"{found.bonds} bonds + {found.angles} angles + {found.torsions} torsions"
    table.add_row("dimension", f"{found.dimension} = {kinds}")
    table.add_row("flow dimension", f"{found.flow_dimension} ({found.constrained_bonds} bonds are constrained)")
    table.add_row("flow", f"{found.flow_parameters:,} parameters, {found.circles} circles (preset {found.preset})")
    table.add_row("free torsions", str(found.free_torsions))
    table.add_row("chiral centres", ", ".join(found.chiral_centres) or "none")
    groups = [f"{group.centre} {group.kind}" for group in found.permutation_groups]
    table.add_row("order kept in", ", ".join(groups) or "none")
    named = [f"{name} {value:.0f}°" for name, value in found.named_torsions.items()]
    table.add_row("torsions by name", ", ".join(named) or "none")
    table.add_row("reference energy", f"{found.reference_energy:.3f} kJ/mol")
    table.add_row("parity", found.parity)
    # File names may hold what looks like markup.
    Console(markup=False).print(table, highlight=False)


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
            molecule, --set data=DIR names a reference); reverse-kl descends on the reverse divergence.
        preset: quick takes minutes, laptop up to an hour on two cores, paper is the paper's settings.
        set_: A setting, as key=value; may be given more than once.
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
        _print_json(asdict(outcome) | {"directory": str(outcome.directory)})
        return
    ess = outcome.last.get("ess")
    found = f"{outcome.target_evaluations:,} evaluations" + (f", last ESS {ess:.1%}" if ess is not None else "")
    Console(soft_wrap=True).print(f"{outcome.state}: {outcome.directory} ({found})", highlight=False, markup=False)


@app.command
def reference(
    system: str,
    /,
    *,
    out: Path,
    sampler: Literal["hmc", "openmm"] = "hmc",
    preset: Literal["quick", "laptop", "paper"] = "laptop",
    seed: int = 0,
    samples: int | None = None,
    trajectory: Annotated[Path | None, Parameter(name="--from")] = None,
    topology: Path | None = None,
    options: MoleculeOptions | None = None,
    json: Json = False,
) -> None:
    """Sample a reference ensemble, or take one from a trajectory, and say whether it has converged.

    Ctrl-C writes what there is.

    Args:
        system: Name of a system, a sequence such as ELIL or ACE-ALA-NME, or a PDB file with hydrogens.
        out: Directory to write.
        sampler: hmc is exact and fast on one machine; openmm is the paper's replica exchange.
        preset: How long: quick for a look, laptop for minutes, paper for the paper's lengths.
        seed: Of all randomness.
        samples: Frames to keep, where not the preset's.
        trajectory: Take frames from this trajectory instead.
        topology: File with the trajectory's atoms and their names.
        options: How the molecule is made.
        json: Print one JSON object instead of a summary.
    """
    from boltzport.boltzmann import open_energy
    from boltzport.reference import (
        Effort,
        Sampler,
        make_reference,
        reference_from_trajectory,
        settings_for,
        show_progress,
        stop_on_interrupt,
    )

    if (trajectory is None) != (topology is None):
        raise InputError("expected --from and --topology together: a trajectory has no names of its atoms")
    molecule = (options or MoleculeOptions()).load(system)
    command = ("boltzport", *sys.argv[1:])
    with open_energy(molecule) as energy:
        if trajectory is not None and topology is not None:
            dataset = reference_from_trajectory(
                molecule, energy.evaluate, trajectory=trajectory, topology=topology, command=command
            )
        else:
            settings = settings_for(molecule, Sampler(sampler), Effort(preset), samples=samples)
            with show_progress() as report, stop_on_interrupt() as stop:
                dataset = make_reference(
                    molecule, energy.evaluate, settings=settings, seed=seed, command=command, report=report, stop=stop
                )
    dataset = dataset.save(out)
    if json:
        _print_json({"out": str(out), **dataset.provenance})
    else:
        diagnostics = dataset.provenance["diagnostics"]
        assert isinstance(diagnostics, dict)
        Console(soft_wrap=True, markup=False).print(f"{out}: {len(dataset)} frames", highlight=False)
        Console(soft_wrap=True, markup=False).print(diagnostics["message"], highlight=False)
    if dataset.provenance["interrupted"]:
        raise RunError(f"interrupted: {out} holds the {len(dataset)} frames that there were")


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

    with _bar() as progress:
        found = evaluate_run(
            run,
            n=_count(n),
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
        _print_json(record)
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

    with open_run(run_path(run)) as opened, _bar() as progress:
        written = write_ensemble(
            out,
            opened.flow,
            opened.target.counted,
            _count(n),
            generator=torch.Generator().manual_seed(2**31 + seed),
            mode=Mode(mode),
            progress=lambda done, total: progress("frames", done, total),
        )
    for note in written.notes:
        Console(stderr=True, soft_wrap=True).print(note, highlight=False, markup=False)
    if json:
        _print_json(asdict(written) | {"files": [str(file) for file in written.files]})
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
        _print_json(found)
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
        _print_json(found.to_dict())
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


@app.command
def doctor(*, json: Json = False) -> None:
    """Say what this machine has, what is missing and what to do.

    Args:
        json: Print one JSON object instead of a table.
    """
    from boltzport.doctor import examine

    checks = examine()
    failed = any(check.status == "failed" for check in checks)
    if json:
        _print_json({"healthy": not failed, "checks": [check._asdict() for check in checks]})
    else:
        table = Table(show_header=False, box=None)
        colours = {"ok": "green", "warning": "yellow", "failed": "red"}
        for check in checks:
            status = f"[{colours[check.status]}]{check.status}[/]"
            table.add_row(check.name, status, check.found + (f"\n-> {check.advice}" if check.advice else ""))
        Console().print(table, highlight=False)
    if failed:
        raise SystemExit(1)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 bad usage or input."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except (cyclopts.CycloptsError, InputError) as error:
        _fail(str(error), code=2)
    except RunError as error:
        _fail(str(error), code=1)
    except BrokenPipeError:
        # The reader of a pipe has left (`boltzport systems | head -1`); what remains unsaid is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def _finish(directory: Path, *, quiet: bool) -> None:
    """Evaluate a run that was trained, and write its page."""
    from boltzport.evaluate import evaluation_table
    from boltzport.report import write_report
    from boltzport.run import evaluate_run

    with _bar() as progress:
        found = evaluate_run(directory, progress=progress)
    with Console(stderr=True).status("drawing"):
        written = write_report(directory)
    if not quiet:
        Console(soft_wrap=True).print(evaluation_table(found), highlight=False)
        Console(soft_wrap=True).print(f"page: {written}", highlight=False, markup=False)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """Progress with an estimate, on standard error; nothing where that is no terminal."""
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    percentage = TextColumn("{task.percentage:.0f}%")
    columns = (TextColumn("{task.description}"), BarColumn(), percentage, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield progress


def _count(number: float) -> int:
    """A whole number that may be written as 1e5.

    Raises:
        InputError: It is not one.
    """
    if not (number >= 1 and number == int(number)):
        raise InputError(f"-n: expected a whole number of at least 1, got {number:g}")
    return int(number)


def _print_json(record: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")


def _short(forcefield: tuple[str, ...]) -> str:
    return " + ".join(name.removesuffix(".xml") for name in forcefield)


def _fail(message: str, *, code: int) -> NoReturn:
    sys.stderr.write(f"boltzport: {' '.join(message.split())}\n")
    raise SystemExit(code)
