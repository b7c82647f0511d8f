"""How much work a training or a reference may be."""

from enum import StrEnum


class Preset(StrEnum):
    """How much work: minutes for a first look, up to an hour on a laptop, or as in the paper."""

    QUICK = "quick"
    LAPTOP = "laptop"
    PAPER = "paper"
