"""Sample a reference by a preset, with progress and Ctrl-C."""

from contextlib import ExitStack

import torch

from boltzport.core.errors import InputError
from boltzport.core.interrupt import stop_on_interrupt
from boltzport.core.parallel import ranks
from boltzport.core.preset import Preset
from boltzport.core.progress import silent
from boltzport.core.records import member_of
from boltzport.core.seeds import check_seed
from boltzport.energies import EnergyLike
from boltzport.ensembles.reference.dataset import Reference
from boltzport.ensembles.reference.make import NamedProposal, Sampler, make_reference
from boltzport.ensembles.reference.presets import settings_for
from boltzport.ensembles.reference.progress import show_progress
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann import open_energy


def sample_reference(
    molecule: Molecule,
    *,
    sampler: Sampler | str,
    preset: Preset | str,
    seed: int,
    samples: int | None,
    hottest: float | None,
    proposal: NamedProposal | None,
    energy: EnergyLike | None,
    command: str,
    device: torch.device | None,
    progress: bool,
) -> Reference:
    """Sample a reference; see `Reference.sample`.

    Raises:
        InputError: A setting is wrong.
        RunError: The sampling was interrupted before the first frame.
    """
    check_seed(seed)
    chosen = member_of(Sampler, sampler, "sampler")
    if chosen is Sampler.TRAJECTORY:
        raise InputError("sampler: expected hmc or openmm, got trajectory; use Reference.from_trajectory")
    if chosen is Sampler.OPENMM and energy is not None:
        raise InputError("energy: expected the sampler hmc with your own energy, got openmm")
    settings = settings_for(
        molecule,
        chosen,
        member_of(Preset, preset, "preset"),
        samples=samples,
        hottest=hottest,
        proposal=proposal is not None,
    )
    with ExitStack() as stack:
        opened = stack.enter_context(open_energy(molecule, energy=energy))
        shown = stack.enter_context(show_progress()) if progress and ranks().leads else silent
        stop = stack.enter_context(stop_on_interrupt())
        stack.enter_context(ranks().watched())
        return make_reference(
            molecule,
            opened.evaluate,
            settings=settings,
            seed=seed,
            proposal=proposal,
            command=command,
            device=device,
            progress=shown,
            stop=stop,
        )
