"""Whether a training can end and fits into this machine."""

from dataclasses import fields

from boltzport.core.limits import check_memory, check_time
from boltzport.experiments.config import RunConfig

HELD = ("buffer_size", "refine_buffer", "batch_size", "refine_batch", "buffer_max", "samples", "pool")
"""Settings that are numbers of points held in memory."""
BYTES = 100
"""Memory of a point in bytes, at least: its coordinates and log densities."""


def check_size(config: RunConfig) -> None:
    """Check that a training needs no more memory than there is, and ends in days.

    Args:
        config: Configuration of the run.

    Raises:
        InputError: It does not.
    """
    known = {field.name: getattr(config.settings, field.name) for field in fields(config.settings)}
    for name in HELD:
        points = known.get(name)
        if isinstance(points, int | float):
            check_memory(BYTES * float(points), f"{name}={points:g}")
    steps, each = known.get("steps"), known.get("buffer_size")
    if isinstance(steps, int) and isinstance(each, int):
        check_time(float(steps) * each, f"steps={steps:g} and buffer_size={each:g}")
