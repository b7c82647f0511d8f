"""Create a dataset with its provenance from a molecule and a sampler."""

import platform
import time
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.interrupt import StopRequest
from boltzport.core.parallel import ranks
from boltzport.core.progress import Progress, silent
from boltzport.core.seeds import of_rank
from boltzport.ensembles.reference.dataset import Reference
from boltzport.ensembles.reference.diagnostics import diagnose, of_weights
from boltzport.ensembles.reference.hmc import HmcSettings, sample_hmc
from boltzport.ensembles.reference.remd import RemdSettings, sample_remd
from boltzport.ensembles.reference.sampled import Sampled
from boltzport.ensembles.reference.trajectory import import_trajectory
from boltzport.mcmc import independence
from boltzport.molecules import Molecule
from boltzport.targets import Ledger
from boltzport.targets.boltzmann import BoltzmannTarget, CountedEnergy, informed_layout


class NamedProposal(NamedTuple):
    """A proposal in internal coordinates, and its source for the provenance."""

    name: str
    proposal: independence.Proposal


class Sampler(StrEnum):
    """Source of the frames."""

    HMC = "hmc"
    OPENMM = "openmm"
    TRAJECTORY = "trajectory"


def make_reference(
    molecule: Molecule,
    energy: Callable[[Tensor], Tensor],
    *,
    settings: HmcSettings | RemdSettings,
    seed: int,
    proposal: NamedProposal | None = None,
    command: str = "",
    device: torch.device | None = None,
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> Reference:
    """Sample a reference of a molecule, with convergence diagnostics.

    Of several ranks, rank 0 returns the frames of all, and each of the others its own.

    Args:
        molecule: The molecule.
        energy: Maps positions in nm to energies in kJ/mol; differentiable.
        settings: Settings of the sampler `hmc` or `openmm`.
        seed: Seed of the random generators.
        proposal: Trained flow that proposes moves to the chains; only for the sampler `hmc`.
        command: Command that reproduces the reference, for the provenance.
        device: Device of the chains of the sampler `hmc`, and of the proposal; the processor by default.
        progress: Progress callback.
        stop: Stop request, checked regularly.
    """
    start = time.monotonic()
    if isinstance(settings, HmcSettings):
        ledger = Ledger()
        counted = CountedEnergy(energy, ledger)
        target = BoltzmannTarget(molecule, energy, informed_layout(molecule, counted))
        # Rank 0 draws the numbers of a sampling without other ranks.
        place = device or torch.device("cpu")
        own = torch.Generator(place).manual_seed(seed)
        generator = own if ranks().leads else of_rank(seed, ranks().rank, device=place)
        proposes = None if proposal is None else proposal.proposal
        sampled = sample_hmc(
            target,
            counted,
            generator,
            settings=settings,
            proposal=proposes,
            ledger=ledger,
            progress=progress,
            stop=stop,
        )
        sampler = Sampler.HMC
    elif proposal is not None:
        raise InputError("expected the sampler hmc with a flow as proposal, got openmm")
    else:
        sampled = sample_remd(molecule, settings=settings, seed=seed, progress=progress, stop=stop)
        sampler = Sampler.OPENMM
    record: dict[str, object] = {
        "settings": asdict(settings),
        "seed": seed,
        "proposal": None if proposal is None else proposal.name,
        "seconds": round(time.monotonic() - start, 1),
        **({} if ranks().alone else {"processes": ranks().world}),
    }
    return _dataset(molecule, sampled, sampler, record, command)


def reference_from_trajectory(
    molecule: Molecule,
    energy: Callable[[Tensor], Tensor],
    *,
    trajectory: Path,
    topology: Path,
    command: str = "",
) -> Reference:
    """Create a reference from a user's trajectory.

    Args:
        molecule: Molecule of the trajectory.
        energy: Maps positions in nm to energies in kJ/mol.
        trajectory: Trajectory in any format that MDTraj reads.
        topology: File with the names of its atoms.
        command: Command that reproduces the reference, for the provenance.

    Raises:
        InputError: The trajectory is not of this molecule; the message says what differs.
    """
    sampled = import_trajectory(trajectory, topology, molecule, energy)
    return _dataset(molecule, sampled, Sampler.TRAJECTORY, {"settings": {}, "seed": None}, command)


def _dataset(
    molecule: Molecule, sampled: Sampled, sampler: Sampler, record: dict[str, object], command: str
) -> Reference:
    diagnostics = diagnose(
        molecule.coordinates.columns,
        sampled.coordinates,
        sampled.reduced_energy,
        sampled.chain,
        swap_rates=sampled.swap_rates,
        round_trips=sampled.round_trips,
    )
    if sampled.weights is not None:
        diagnostics = of_weights(diagnostics, sampled.weights)
    provenance = {
        "system": molecule.name,
        "forcefield": list(molecule.forcefield),
        "constraints": molecule.constraints.value,
        "temperature": molecule.temperature,
        "sampler": sampler.value,
        **record,
        "command": command,
        "versions": {name: version(name) for name in ("boltzport", "torch", "numpy", "openmm", "mdtraj")}
        | {"python": platform.python_version()},
        "interrupted": sampled.interrupted,
        "details": sampled.details,
        "diagnostics": diagnostics.to_json(),
    }
    return Reference(
        source=sampled.positions,
        pdb=molecule.to_pdb(),
        coordinates=sampled.coordinates,
        reduced_energy=sampled.reduced_energy,
        weights=np.ones(len(sampled.reduced_energy)) if sampled.weights is None else sampled.weights,
        chain=sampled.chain,
        provenance=provenance,
    )
