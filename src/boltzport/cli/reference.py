"""`boltzport reference`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from boltzport.cli.app import app
from boltzport.cli.options import Force, Json, MoleculeOptions, Seed, Threads, command_line
from boltzport.cli.printing import print_json
from boltzport.core.devices import Device, chosen, use_threads
from boltzport.core.errors import InputError, RunError
from boltzport.core.preset import Preset


@app.command
def reference(
    system: str,
    /,
    *,
    out: Path,
    sampler: Literal["hmc", "openmm"] = "hmc",
    preset: Preset = Preset.LAPTOP,
    seed: Seed = 0,
    device: Device = "cpu",
    threads: Threads = None,
    samples: int | None = None,
    hottest: float | None = None,
    proposal: str | None = None,
    trajectory: Annotated[Path | None, Parameter(name="--from")] = None,
    topology: Path | None = None,
    force: Force = False,
    options: MoleculeOptions | None = None,
    json: Json = False,
) -> None:
    """Sample a reference ensemble, or import a trajectory, and check its convergence.

    Ctrl-C stops the sampling and writes the frames so far.

    Args:
        system: Name of a system, a sequence such as ELIL or ACE-ALA-NME, a PDB file with hydrogens, an SDF or MOL2
            file, or a SMILES (smiles:CCCC if it could be a sequence).
        out: Output directory.
        sampler: hmc is Metropolis-exact and fast on one machine; openmm is the paper's replica exchange.
        preset: Length: quick for a first look, laptop for minutes, paper for the paper's lengths.
        seed: Seed of the random generator.
        device: Device of the chains of the sampler hmc; auto is a GPU if there is one.
        threads: Number of threads of each process; torch's choice by default.
        samples: Number of frames to keep; the preset's by default.
        hottest: Highest temperature of the sampler hmc, as a multiple of the molecule's temperature.
        proposal: A trained flow as the proposal of Metropolis steps; a run directory, or the name of a
            system whose trained flow ships with boltzport.
        trajectory: Import the frames of this trajectory instead.
        topology: Topology file of the trajectory.
        force: Overwrite a reference that exists.
        options: Options of the molecule.
        json: Print one JSON object instead of a summary.
    """
    from boltzport.core.parallel import ranks
    from boltzport.ensembles.reference import Reference, check_output
    from boltzport.experiments import flow_proposal

    use_threads(threads)
    place = chosen(device)
    if (trajectory is None) != (topology is None):
        raise InputError("expected --from and --topology together: a trajectory does not name its atoms")
    if trajectory is not None and (proposal is not None or hottest is not None):
        raise InputError("expected --proposal and --hottest without --from: a trajectory is not sampled")
    if trajectory is not None and not ranks().alone:
        raise InputError(
            f"--from: one process reads a trajectory, and {ranks().world} were started; leave out torchrun"
        )
    if ranks().leads:
        check_output(out, overwrite=force)
    if samples is not None and samples < 1:
        raise InputError(f"--samples: expected at least 1 frame, got {samples}")
    options = options or MoleculeOptions()
    molecule = options.load(system)
    if trajectory is not None and topology is not None:
        dataset = Reference.from_trajectory(
            molecule, trajectory, topology=topology, energy=options.energy, command=command_line()
        )
    else:
        dataset = Reference.sample(
            molecule,
            sampler=sampler,
            preset=preset,
            seed=seed,
            samples=samples,
            hottest=hottest,
            proposal=None if proposal is None else flow_proposal(proposal, molecule, device=place),
            energy=options.energy,
            command=command_line(),
            device=place,
        )
    if not ranks().leads:
        return
    dataset = dataset.save(out)
    if json:
        print_json({"out": str(out), **dataset.provenance})
    else:
        diagnostics = dataset.provenance["diagnostics"]
        assert isinstance(diagnostics, dict)
        Console(soft_wrap=True, markup=False).print(f"{out}: {len(dataset)} frames", highlight=False)
        Console(soft_wrap=True, markup=False).print(diagnostics["message"], highlight=False)
        details = dataset.provenance.get("details")
        if isinstance(details, dict) and "proposals_accepted" in details:
            accepted = f"{details['proposals_accepted']:.1%} of the flow's proposals were accepted"
            Console(soft_wrap=True, markup=False).print(accepted, highlight=False)
    if dataset.provenance["interrupted"]:
        raise RunError(f"interrupted: {out} holds the {len(dataset)} frames sampled so far")
