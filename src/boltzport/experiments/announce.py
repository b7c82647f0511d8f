"""What a training says of an energy other than tensors before it starts: what it is, and how long it will take."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from boltzport.targets.boltzmann import OpenEnergy

RETARGETED = 5e4
"""Number of evaluations with which a small peptide's flow was taken from its force field to GFN2-xTB."""
UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))
"""Units of time in seconds, the longest first."""


def announcement(energy: "OpenEnergy", left: float | None) -> list[str]:
    """Lines about an energy.

    Args:
        energy: The energy.
        left: Number of evaluations left, if it is known.
    """
    lines = [f"energy by {energy.backend}: {energy.message}"]
    expensive = energy.expensive
    if expensive is not None and expensive.rate is not None and left is not None:
        lines.append(estimate(left, expensive.rate))
    return lines


def estimate(evaluations: float, rate: float) -> str:
    """How long a number of evaluations takes.

    Args:
        evaluations: Number of evaluations.
        rate: Evaluations per second.

    Example:
        >>> for part in estimate(5.4e6, 120.0).split("; "):
        ...     print(part)
        5.4e+06 evaluations at 120/s are about 12 hours
        a budget makes it less, and retargeting a flow of the force field needs about 5e+04 (6.9 minutes)
        >>> estimate(600.0, 12.0)
        '600 evaluations at 12/s are about 50 seconds'
    """
    seconds = evaluations / rate
    hint = (
        "; a budget makes it less, and retargeting a flow of the force field needs about "
        f"{RETARGETED:.0e} ({_span(RETARGETED / rate)})"
        if seconds > UNITS[-1][0] * 60
        else ""
    )
    number = f"{evaluations:.2g}" if evaluations >= 1e4 else f"{evaluations:.0f}"
    return f"{number} evaluations at {rate:.3g}/s are about {_span(seconds)}{hint}"


def _span(seconds: float) -> str:
    return next(
        (f"{seconds / unit:.2g} {name}" for unit, name in UNITS if seconds >= 2 * unit), f"{seconds:.2g} seconds"
    )
