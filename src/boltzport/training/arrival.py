"""Whether a training has reached its target."""

from boltzport.core.files import Row

AHEAD, WARMER = 0.05, 0.1
"""Part of the path, and of the inverse temperature, that may be missing at the end."""
COOL = 0.005
"""Part of the inverse temperature that rounding hides."""


def shortfall(row: Row) -> str:
    """What a training lacks at its end, in one sentence; empty if it has reached its target or follows no path.

    Args:
        row: Metrics of its last step.

    Example:
        >>> shortfall({"alpha": 1.0, "beta": 0.63, "trust_region_multiplier": 0.905}).split(":")[0]
        'This run has not reached its target'
        >>> shortfall({"alpha": 1.0, "beta": 1.0, "trust_region_multiplier": 0.0})
        ''
    """
    alpha, beta, multiplier = (row.get(name) for name in ("alpha", "beta", "trust_region_multiplier"))
    # A refinement by path gradients, whose rows have no multiplier, learns from the target itself.
    if alpha is None or beta is None or multiplier is None or (beta >= 1.0 - AHEAD and alpha >= 1.0 - WARMER):
        return ""
    warmer = f"at {1.0 / alpha:.2f} times the temperature, " if 0.0 < alpha < 1.0 - COOL else ""
    return (
        f"This run has not reached its target: it ends at {100 * beta:.0f} % of the path, {warmer}with a trust-region "
        f"multiplier of {multiplier:.3g} (0 at the target). Train it again with more steps (--set steps=N), or with a "
        "larger budget (--budget N)"
    )
