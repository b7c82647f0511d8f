"""Numbers and states as readable text."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from boltzport.analysis.metrics import Interval

MINUS, TIMES, NARROW_SPACE = "\u2212", "\u00d7", "\u202f"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, *, digits: int | None = None, resolution: float | None = None) -> str:
    """A number as text, readable at any size.

    Args:
        value: The number.
        digits: Number of significant digits; by default three, or four for numbers of at least ten.
        resolution: Uncertainty of the number, which sets the decimals instead.

    Example:
        >>> print(number(0.0123456), number(-178.7123), number(None), number(4.2e9))
        0.0123 −178.7 – 4.2 × 10⁹
        >>> print(number(-178.7123, resolution=0.0024), number(0.3, resolution=0.0017))
        −178.712 0.3000
    """
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    exponent = math.floor(math.log10(abs(value))) if value else 0
    if exponent >= 7 or exponent < -4:
        return f"{_stripped(value / 10.0**exponent, 2)} {TIMES} 10{str(exponent).translate(_SUPERSCRIPT)}"
    if resolution is not None and 0.0 < resolution < math.inf:
        # One digit of the uncertainty, or two if the first of them is a one.
        last = math.floor(math.log10(resolution))
        return _plain(value, max(0, -last + (resolution / 10.0**last < 2)))
    digits = digits or (4 if exponent >= 1 else 3)
    return _stripped(round(value, digits - 1 - exponent), max(digits - 1 - exponent, 0))


def count(value: float | int | None, *, resolution: float | None = None) -> str:
    """A whole number in groups of three digits; the resolution is ignored."""
    del resolution
    return "–" if value is None else f"{round(value):,}".replace(",", NARROW_SPACE)


def percent(value: float | None, *, resolution: float | None = None) -> str:
    """A fraction in per cent.

    Example:
        >>> [percent(share).split(NARROW_SPACE)[0] for share in (0.3124, 0.00021, 1.0)]
        ['31.24', '0.021', '100']
    """
    if value is None or math.isnan(value):
        return "–"
    text = number(100 * value, resolution=None if resolution is None else 100 * resolution)
    return f"{text}{NARROW_SPACE}%"


def duration(seconds: float | int | None, *, resolution: float | None = None) -> str:
    """A time in a suitable unit, to a second or a minute.

    Example:
        >>> duration(42), duration(2500), duration(9000)
        ('42 s', '42 min', '2 h 30 min')
    """
    del resolution
    if seconds is None or math.isnan(seconds):
        return "–"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def as_number(value: object) -> float | None:
    """The value as a number; None if it is not one."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_interval(value: object) -> Interval | None:
    """The value as an interval; None if it is not one."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        return None
    lower, upper = (as_number(end) for end in value)
    return None if lower is None or upper is None else Interval(lower, upper)


def state_in_words(status: Mapping[str, Any]) -> str | None:
    """State of an unfinished run in words; None if it is done."""
    state, step, steps = status.get("state"), status.get("step"), status.get("steps")
    where = "" if step is None else f" at step {step}" + (f" of {steps}" if steps else "")
    message = str(status.get("message") or "").strip()
    tail = f": {message}" if message else ""
    if state == "done":
        return None
    if state == "running":
        return f"This run was still running{where} when the page was made. The results are not final."
    if state == "interrupted":
        return f"This run was interrupted{where}{tail}. It can be resumed."
    if state == "failed":
        return f"This run failed{where}{tail}. The results are those of the last finished step."
    return "It is not known whether this run is done: it has no status.json."


def k_in_words(k: float) -> str:
    """Meaning of the Pareto shape of the tail of the weights (Vehtari et al. 2024)."""
    if k < 0.5:
        return "averages over the weights converge quickly"
    if k < 0.7:
        return "averages over the weights are usable"
    if k < 1.0:
        return "averages over the weights converge too slowly to be trusted"
    return "averages over the weights cannot be computed from this number of samples"


def _plain(value: float, decimals: int) -> str:
    text = f"{abs(value):,.{decimals}f}".replace(",", NARROW_SPACE)
    return (MINUS if value < 0 else "") + text


def _stripped(value: float, decimals: int) -> str:
    text = _plain(value, decimals)
    return text.rstrip("0").rstrip(".") if "." in text else text
