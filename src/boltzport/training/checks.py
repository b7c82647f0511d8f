"""Range checks of settings."""

import math
from collections.abc import Iterable, Mapping

from boltzport.core.errors import InputError


def check(settings: object, *, ranges: Mapping[str, tuple[float, float]], positive: Iterable[str]) -> None:
    """Check that settings are within their ranges.

    Args:
        settings: Record of settings.
        ranges: Smallest and largest allowed value of each field, by name.
        positive: Names of fields that must be greater than zero.

    Raises:
        InputError: A value is out of range or NaN.
    """
    for name, (lower, upper) in ranges.items():
        if not lower <= getattr(settings, name) <= upper:
            raise InputError(f"{name}: expected {_range(lower, upper)}, got {getattr(settings, name)}")
    for name in positive:
        if not getattr(settings, name) > 0:
            raise InputError(f"{name}: expected more than 0, got {getattr(settings, name)}")


def _range(lower: float, upper: float) -> str:
    return f"at least {lower:g}" if math.isinf(upper) else f"{lower:g} to {upper:g}"
