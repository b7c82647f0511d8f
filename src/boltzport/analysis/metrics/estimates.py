"""`Estimate`: one metric with its value, interval, noise floor and unit."""

import math
from dataclasses import dataclass

from boltzport.analysis.metrics.bootstrap import Interval
from boltzport.analysis.metrics.catalogue import metric

DEVIATIONS = 1.96
"""Half-width of a 95 % interval, in standard errors."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimated value of one metric.

    Attributes:
        name: Name in files, such as `ess` or `ramachandran.ALA2.kl`.
        value: Value of the metric; None if it is not known.
        interval: 95 % confidence interval.
        floor: Noise floor: the value expected between two perfect samples of this size.
        unit: Unit of the value; empty for a pure number.
        note: Meaning in one line.

    Example:
        >>> found = Estimate(name="log_z", value=-1.5, interval=Interval(-1.7, -1.3), unit="", note="")
        >>> print(found, round(found.error, 3))
        log_z = -1.50 (-1.70 to -1.30) 0.102
    """

    name: str
    value: float | int | None
    interval: Interval | None = None
    floor: float | int | None = None
    unit: str = ""
    note: str = ""

    @property
    def error(self) -> float | int | None:
        """Standard error from the interval; None if there is no interval."""
        return None if self.interval is None else (self.interval.upper - self.interval.lower) / (2 * DEVIATIONS)

    def __float__(self) -> float:
        return math.nan if self.value is None else self.value

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        bracket = "" if self.interval is None else f" ({written_interval(self.interval)})"
        return f"{self.name} = {written(self.value, self.interval)}{bracket}{unit}"


def estimate(
    name: str, value: float | int | None, interval: Interval | None = None, *, floor: float | int | None = None
) -> Estimate:
    """Create an estimate of a metric, with the unit and meaning from the catalogue."""
    known = metric(name)
    number = None if value is None or not math.isfinite(value) else value
    return Estimate(name=name, value=number, interval=interval, floor=floor, unit=known.unit, note=known.meaning)


def symmetric(value: float, error: float) -> Interval | None:
    """95 % interval of a value with a standard error; None if the error is not known."""
    return Interval(value - DEVIATIONS * error, value + DEVIATIONS * error) if math.isfinite(error) else None


def written(value: float | int | None, interval: Interval | None = None) -> str:
    """Format a number with four digits, or with more if its interval justifies them.

    Example:
        >>> written(-337.87123), written(-337.87123, Interval(-337.8731, -337.8694)), written(None)
        ('-337.9', '-337.8712', '-')
        >>> written(12345.0, Interval(12344.0, 12346.0))
        '12345.0'
    """
    if value is None:
        return "-"
    short = f"{value:.4g}"
    width = 0.0 if interval is None else interval.upper - interval.lower
    if not (math.isfinite(width) and width > 0.0 and abs(value) >= 1.0):
        return short
    # Two digits of the interval's width.
    decimals = min(6, 1 - math.floor(math.log10(width)))
    known = f"{value:.{max(decimals, 0)}f}"
    return known if "e" in short or len(known) > len(short) else short


def written_interval(interval: Interval | None) -> str:
    """Format both ends of an interval; empty if there is none."""
    return "" if interval is None else f"{written(interval.lower, interval)} to {written(interval.upper, interval)}"
