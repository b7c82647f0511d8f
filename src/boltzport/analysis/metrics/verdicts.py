"""Verdicts on the weights of a model: what makes its other metrics look better than they are."""

import math
from collections.abc import Mapping

from boltzport.analysis.metrics.estimates import Estimate, written, written_interval

APART = 2.0
"""Ratio of the clipped to the unclipped effective sample size from which the clipped one misleads."""
DOMINANT = 0.1
"""Share of the total weight from which one sample dominates."""
BEYOND = 0.01
"""Largest distance of an interval from [0, 1] that rounding and the bootstrap's noise explain."""
DEVIATIONS, FAR = 5.0, 0.02
"""Number of standard errors, and of nats, by which log Z of a good model never differs from the exact value."""


def verdicts(estimates: Mapping[str, Estimate]) -> list[str]:
    """Reasons not to trust the metrics of the weights, one sentence each; empty if there are none.

    Args:
        estimates: Metrics of an evaluation or of a training step, by name.

    Example:
        >>> from boltzport.analysis.metrics.estimates import estimate
        >>> known = [estimate("ess", 0.6), estimate("ess_unclipped", 1e-5), estimate("largest_weight", 0.8)]
        >>> for verdict in verdicts({one.name: one for one in known}):
        ...     print(verdict)
        The effective sample size is 60.0 % with clipped weights but 0.001 % without clipping: use the smaller one
        One sample carries 80.0 % of the weight: no average over the weights can be trusted
    """
    found = []
    ess, unclipped, largest = (_value(estimates, name) for name in ("ess", "ess_unclipped", "largest_weight"))
    if clipping_misleads(estimates):
        assert ess is not None
        assert unclipped is not None
        found.append(
            f"The effective sample size is {_percent(ess)} with clipped weights but {_percent(unclipped)} without "
            "clipping: use the smaller one"
        )
    if largest is not None and largest > DOMINANT:
        found.append(
            f"One sample carries {_percent(largest)} of the weight: no average over the weights can be trusted"
        )
    for name in ("ess", "ess_unclipped"):
        interval = estimates[name].interval if name in estimates else None
        if interval is not None and not (interval.lower >= -BEYOND and interval.upper <= 1.0 + BEYOND):
            what = "effective sample size" if name == "ess" else "unclipped effective sample size"
            found.append(
                f"The interval of the {what}, {written_interval(interval)}, goes beyond 0 to 1: there are too few "
                "effective samples to know it"
            )
    return found + _against_exact(estimates)


def clipping_misleads(estimates: Mapping[str, Estimate]) -> bool:
    """Whether the effective sample size with clipped weights is far above the one without clipping."""
    ess, unclipped = _value(estimates, "ess"), _value(estimates, "ess_unclipped")
    return ess is not None and unclipped is not None and ess > APART * unclipped


def _against_exact(estimates: Mapping[str, Estimate]) -> list[str]:
    log_z, error, exact = (_value(estimates, name) for name in ("log_z", "log_z_error", "log_z_exact"))
    if log_z is None or exact is None or not abs(log_z - exact) > max(FAR, DEVIATIONS * (error or 0.0)):
        return []
    lost = f"about {_percent(-math.expm1(log_z - exact))} of the probability is missing"
    why = lost if log_z < exact else "the weights are wrong"
    return [f"log Z is {written(log_z)}, and {written(exact)} is known to be exact: {why}"]


def _value(estimates: Mapping[str, Estimate], name: str) -> float | int | None:
    return estimates[name].value if name in estimates else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 1e-3 else f"{100 * share:.1g} %"
