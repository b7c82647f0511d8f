"""Numbers and states in words, as a person would say them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MINUS, TIMES, NARROW_SPACE = "\u2212", "\u00d7", "\u202f"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    lower: float
    upper: float


def number(value: float | None, *, digits: int = 3) -> str:
    """A number with so many significant digits, readable at any size.

    Example:
        >>> print(number(0.012345), number(-178.712), number(None), number(4.2e9))
        0.0123 −179 – 4.2 × 10⁹
    """
    if value is None or not math.isfinite(value):
        return "–" if value is None or math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent >= 7 or exponent < -4:
        return f"{_plain(value / 10.0**exponent, digits - 1)} {TIMES} 10{str(exponent).translate(_SUPERSCRIPT)}"
    rounded = round(value, digits - 1 - exponent)
    return _plain(rounded, max(digits - 1 - exponent, 0))


def count(value: float | None) -> str:
    """A whole number in groups of three digits."""
    return "–" if value is None else f"{round(value):,}".replace(",", NARROW_SPACE)


def percent(value: float | None) -> str:
    """A share.

    Example:
        >>> [percent(share).split(NARROW_SPACE)[0] for share in (0.3123, 0.00021, 1.0)]
        ['31.2', '0.021', '100']
    """
    return "–" if value is None or math.isnan(value) else f"{number(100 * value)}{NARROW_SPACE}%"


def duration(seconds: float | None) -> str:
    """A time in the unit that fits.

    Example:
        >>> duration(42), duration(2500), duration(9000)
        ('42 s', '42 min', '2 h 30 min')
    """
    if seconds is None or math.isnan(seconds):
        return "–"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def as_number(value: object) -> float | None:
    """A number if it is one."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def interval_of(record: Mapping[str, Any], key: str) -> Interval | None:
    """Confidence interval of a figure: the two numbers under `KEY_interval`, or under `intervals`.`KEY`."""
    nested = record.get("intervals")
    found = record.get(f"{key}_interval", nested.get(key) if isinstance(nested, Mapping) else None)
    if not isinstance(found, Sequence) or len(found) != 2:
        return None
    lower, upper = (as_number(end) for end in found)
    return None if lower is None or upper is None else Interval(lower, upper)


def state_in_words(status: Mapping[str, Any]) -> str | None:
    """What a reader must know of a run that is not simply done; None where it is."""
    state, step, steps = status.get("state"), status.get("step"), status.get("steps")
    where = "" if step is None else f" at step {step}" + (f" of {steps}" if steps else "")
    message = str(status.get("message") or "").strip()
    tail = f": {message}" if message else ""
    if state == "done":
        return None
    if state == "running":
        return f"This run was still going{where} when the page was made. What it shows is not final."
    if state == "interrupted":
        return f"This run was interrupted{where}{tail}. It can be taken up again with --resume."
    if state == "failed":
        return f"This run failed{where}{tail}. What it shows is how far it came."
    return "It is not known whether this run is done: it has no status.json."


def k_in_words(k: float) -> str:
    """What the shape of the tail of the weights means (Vehtari et al. 2024)."""
    if k < 0.5:
        return "averages over the weights converge quickly"
    if k < 0.7:
        return "averages over the weights are usable"
    if k < 1.0:
        return "averages over the weights converge too slowly to be trusted"
    return "the weights have no mean that samples of this number could find"


def _plain(value: float, decimals: int) -> str:
    text = f"{abs(value):,.{decimals}f}".replace(",", NARROW_SPACE)
    if "." in text and decimals > 0:
        text = text.rstrip("0").rstrip(".") if float(value).is_integer() or text.endswith("00") else text
    return (MINUS if value < 0 else "") + text
