"""Presets of reference sampling: for a first look, on a laptop, or as in the paper."""

import math
from dataclasses import replace

from boltzport.core.errors import InputError
from boltzport.core.preset import Preset
from boltzport.ensembles.reference.hmc import HmcSettings
from boltzport.ensembles.reference.make import Sampler
from boltzport.ensembles.reference.remd import PAPER_TEMPERATURES, RemdSettings
from boltzport.molecules import Molecule

_HMC = {
    Preset.QUICK: HmcSettings(samples=20_000, ladders=32, iterations=1_500, warm_up=300),
    Preset.LAPTOP: HmcSettings(),
    Preset.PAPER: HmcSettings(samples=1_000_000, iterations=100_000, warm_up=2_000),
}
WITH_PROPOSAL = 5
"""Factor by which fewer iterations are needed if a flow moves the chains between modes."""
_REMD = {
    Preset.QUICK: RemdSettings(equilibration=2.0, exchange_equilibration=2.0, length=20.0),
    Preset.LAPTOP: RemdSettings(),
    Preset.PAPER: RemdSettings(
        equilibration=200e3, exchange_equilibration=200e3, length=2e6, save_interval=0.2, exchange_every=5
    ),
}


def settings_for(
    molecule: Molecule,
    sampler: Sampler,
    preset: Preset,
    *,
    samples: int | None = None,
    hottest: float | None = None,
    proposal: bool = False,
) -> HmcSettings | RemdSettings:
    """Settings of a sampler for a molecule.

    Args:
        molecule: The molecule; replica temperatures scale with its own. The paper runs the dipeptide without replicas.
        sampler: `hmc` or `openmm`.
        preset: Preset of the run time.
        samples: Number of frames to keep; None for the preset's.
        hottest: Highest temperature of the sampler `hmc` as a multiple of the molecule's; None for the preset's.
        proposal: Whether a flow proposes moves to the chains.

    Raises:
        InputError: The number of samples is not possible, or the sampler has no such setting.
    """
    if samples is not None and samples < 1:
        raise InputError(f"expected at least 1 sample, got {samples}")
    if sampler is Sampler.HMC:
        settings = _HMC[preset]
        if proposal:
            iterations = settings.iterations // WITH_PROPOSAL
            settings = replace(
                settings, iterations=iterations, samples=min(settings.samples, settings.ladders * iterations)
            )
        if hottest is not None:
            settings = replace(settings, hottest=hottest)
        if samples is None:
            return settings
        return replace(
            settings, samples=samples, iterations=max(settings.iterations, math.ceil(samples / settings.ladders))
        )
    if hottest is not None:
        raise InputError("expected the sampler hmc with hottest, got openmm: its temperatures are the paper's")
    factor = molecule.temperature / PAPER_TEMPERATURES[0]
    dynamics = replace(_REMD[preset], temperatures=tuple(factor * value for value in PAPER_TEMPERATURES))
    if preset is Preset.PAPER and molecule.name == "alanine-dipeptide":
        dynamics = replace(dynamics, temperatures=dynamics.temperatures[:1], length=5e6, save_interval=0.5)
    if samples is not None:
        steps = max(1, math.floor(1e3 * dynamics.length / dynamics.time_step / samples))
        dynamics = replace(dynamics, save_interval=steps * dynamics.time_step / 1e3)
    return dynamics
