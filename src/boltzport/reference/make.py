"""From a molecule and a sampler to a dataset with its provenance."""

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

from boltzport.boltzmann import BoltzmannTarget, informed_layout
from boltzport.errors import InputError
from boltzport.mcmc import independence
from boltzport.molecule import Molecule
from boltzport.progress import Progress, silent
from boltzport.reference.dataset import Reference
from boltzport.reference.diagnostics import diagnose
from boltzport.reference.hmc import HmcSettings, sample_hmc
from boltzport.reference.progress import StopRequest
from boltzport.reference.remd import RemdSettings, sample_remd
from boltzport.reference.sampled import Sampled
from boltzport.reference.trajectory import import_trajectory


class NamedProposal(NamedTuple):
    """A proposal in internal coordinates, and where it comes from, for the provenance."""

    name: str
    proposal: independence.Proposal


class Sampler(StrEnum):
    """Where frames come from."""

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
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> Reference:
    """Sample a molecule and say how well.

    Args:
        molecule: The molecule.
        energy: Positions in nm to energies in kJ/mol, differentiable.
        settings: Of the sampler `hmc` or of `openmm`.
        seed: All randomness.
        proposal: A trained flow that proposes where chains go next; only of the sampler `hmc`.
        command: How to make it again, for the provenance.
        progress: Told how far it is.
        stop: Asked now and then whether to stop early.
    """
    start = time.monotonic()
    if isinstance(settings, HmcSettings):
        target = BoltzmannTarget(molecule, energy, informed_layout(molecule, energy))
        generator = torch.Generator().manual_seed(seed)
        proposes = None if proposal is None else proposal.proposal
        sampled = sample_hmc(
            target, energy, generator, settings=settings, proposal=proposes, progress=progress, stop=stop
        )
        sampler = Sampler.HMC
    elif proposal is not None:
        raise InputError("expected the sampler hmc where a flow proposes, got openmm")
    else:
        sampled = sample_remd(molecule, settings=settings, seed=seed, progress=progress, stop=stop)
        sampler = Sampler.OPENMM
    record = {
        "settings": asdict(settings),
        "seed": seed,
        "proposal": None if proposal is None else proposal.name,
        "seconds": round(time.monotonic() - start, 1),
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
    """A user's own trajectory as a reference.

    Args:
        molecule: What it is of.
        energy: Positions in nm to energies in kJ/mol.
        trajectory: Anything that MDTraj reads.
        topology: A file that has its atoms with names.
        command: How to make it again, for the provenance.

    Raises:
        InputError: It is not of this molecule; the message says what differs.
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
        weights=np.ones(len(sampled.reduced_energy)),
        chain=sampled.chain,
        provenance=provenance,
    )
