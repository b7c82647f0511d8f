"""Seeds of random generators."""

from boltzport.core.errors import InputError

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
