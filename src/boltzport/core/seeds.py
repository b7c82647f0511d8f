"""Seeds of random generators."""

import hashlib
from typing import TYPE_CHECKING

from boltzport.core.errors import InputError

if TYPE_CHECKING:
    import torch

LARGEST = 2**30 - 1
"""Largest seed. Torch's generator uses 32 bits of a seed, and offsets keep trainings, samples and evaluations apart."""


def check_seed(seed: int) -> int:
    """Return a seed that is in the range in which different seeds give different random numbers.

    Raises:
        InputError: It is not.

    Example:
        >>> check_seed(3)
        3
    """
    if not 0 <= seed <= LARGEST:
        raise InputError(f"seed: expected a whole number from 0 to {LARGEST}, got {seed}")
    return seed


def derived(seed: int, purpose: str, *, device: "torch.device | str" = "cpu") -> "torch.Generator":
    """Random generator for a purpose of its own, unrelated to those of other purposes and other seeds.

    Torch's generator uses 32 bits of a seed, so an offset of 2^32 would not keep two purposes apart.

    Args:
        seed: Seed of the user.
        purpose: Name of the purpose.
        device: Device of the generator.

    Example:
        >>> derived(0, "pilot").initial_seed() == derived(0, "probe").initial_seed()
        False
    """
    # The command line checks seeds before it needs torch.
    import torch

    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:4], "little"))


def of_rank(seed: int, rank: int, *, step: int = 0, device: "torch.device | str" = "cpu") -> "torch.Generator":
    """Random generator of a process that works together with others, from a step on.

    Args:
        seed: Seed of the user.
        rank: Number of the process, from 0.
        step: Number of steps that are done.
        device: Device of the generator.

    Example:
        >>> of_rank(0, 1).initial_seed() == of_rank(0, 2).initial_seed()
        False
    """
    return derived(seed, f"rank {rank} after step {step}", device=device)


def child(generator: "torch.Generator") -> "torch.Generator":
    """Random generator on the processor that follows from one on any device.

    Example:
        >>> import torch
        >>> first, second = (child(torch.Generator().manual_seed(3)) for _ in range(2))
        >>> first.initial_seed() == second.initial_seed()
        True
    """
    import torch

    seed = torch.randint(LARGEST, (), generator=generator, device=generator.device)
    return torch.Generator().manual_seed(int(seed))
