"""The command line: reads arguments, calls `run`, prints.

Heavy imports stay inside the commands, so that help and completion answer at once.
"""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    method: Literal["cmt"] = "cmt",
    preset: Literal["quick", "laptop", "paper"] = "laptop",
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    seed: int = 0,
    budget: float | None = None,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    options: MoleculeOptions | None = None,
    json: Json = False,
) -> None:
    """Train a flow to sample a molecule or a toy, and write a run directory.

    Args:
        system: Name of a system, a sequence such as ELIL, a PDB file with hydrogens, or a toy (gmm-2d, gmm-40,
            many-well-32, double-well). May be left out with --resume --out.
        method: How to train: cmt is constrained mass transport.
        preset: quick takes minutes, laptop up to an hour on two cores, paper is the paper's settings.
        set_: A setting, as key=value; may be given more than once.
        seed: Of everything that is random.
        budget: Most evaluations of the target; buffers, steps and fits are planned to it.
        out: The run directory; a new one under runs by default.
        resume: Go on with a run that was cut short, in --out or in the newest of its name.
        options: How the molecule is made.
        json: Print one JSON object instead of a line.
    """
    from dataclasses import asdict

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
    record = asdict(outcome) | {"directory": str(outcome.directory)}
    if json:
        _print_json(record)
    else:
        ess = outcome.last.get("ess")
        found = f"{outcome.target_evaluations:,} evaluations" + (f", last ESS {ess:.1%}" if ess is not None else "")
        Console(soft_wrap=True).print(f"{outcome.state}: {outcome.directory} ({found})", highlight=False, markup=False)
    if outcome.state == "interrupted":
        raise RunError(
            f"interrupted; {outcome.step} of {outcome.steps} steps are kept. "
            f"Go on with: boltzport train --resume --out {outcome.directory}"
        )


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


def _print_json(record: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")


def _short(forcefield: tuple[str, ...]) -> str:
    return " + ".join(name.removesuffix(".xml") for name in forcefield)


def _fail(message: str, *, code: int) -> NoReturn:
    sys.stderr.write(f"boltzport: {' '.join(message.split())}\n")
    raise SystemExit(code)
