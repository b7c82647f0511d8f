"""Presets of the effort of a training or a reference."""

from enum import StrEnum


class Preset(StrEnum):
    """Effort: minutes for a first look, up to an hour on a laptop, or as in the paper."""

    QUICK = "quick"
    LAPTOP = "laptop"
    PAPER = "paper"
