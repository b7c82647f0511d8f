"""The toys by name."""

import math
from collections.abc import Callable

import torch

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, interval
from boltzport.targets.mixture import GaussianMixture
from boltzport.targets.toy import Toy
from boltzport.targets.wells import ManyWell


def _gmm_2d() -> Toy:
    """Three unequal modes; the initial density is wide, next to the largest and far from the smallest."""
    layout = Layout([interval(-10.0, 10.0, centre=-5.0, width=2.0), interval(-10.0, 10.0, centre=3.0, width=2.0)])
    factors = torch.tensor([[[0.6, 0.0], [0.24, 0.42]], [[0.36, 0.0], [-0.3, 0.48]], [[0.42, 0.0], [0.0, 0.3]]])
    return GaussianMixture(
        "gmm-2d",
        layout,
        weights=torch.tensor([0.5, 0.3, 0.2]),
        means=torch.tensor([[-4.0, 3.0], [-1.0, -4.0], [6.0, 2.0]]),
        factors=factors,
    )


def _gmm_40() -> Toy:
    """The exact mixture of Midgley et al. (2022): 40 equal modes of width softplus(1), drawn with seed 0."""
    means = 40.0 * 2.0 * (torch.rand(40, 2, generator=torch.Generator().manual_seed(0)) - 0.5)
    width = math.log1p(math.e)
    return GaussianMixture(
        "gmm-40",
        Layout([interval(-50.0, 50.0), interval(-50.0, 50.0)]),
        weights=torch.full((40,), 1.0 / 40.0),
        means=means,
        factors=width * torch.eye(2).expand(40, 2, 2),
    )


def _gaussian(name: str, mean: list[float], factor: list[list[float]]) -> Toy:
    """One Gaussian, with a Gaussian initial density: the whole path is known in closed form."""
    layout = Layout(interval(-12.0, 12.0, centre=0.0, width=1.5) for _ in mean)
    return GaussianMixture(
        name, layout, weights=torch.ones(1), means=torch.tensor([mean]), factors=torch.tensor([factor])
    )


TOYS: dict[str, Callable[[], Toy]] = {
    "gmm-2d": _gmm_2d,
    "gmm-40": _gmm_40,
    "many-well-32": lambda: ManyWell("many-well-32", 16),
    "double-well": lambda: ManyWell("double-well", 1),
    "gaussian-skewed": lambda: _gaussian("gaussian-skewed", [2.0, -1.0], [[0.5, 0.0], [0.0, 1.1]]),
    "gaussian-correlated": lambda: _gaussian("gaussian-correlated", [1.0, 0.5], [[0.9, 0.0], [0.8, 0.4]]),
}
"""Constructors of the toys, by name."""


def toy(name: str) -> Toy:
    """Return the toy of a name.

    Raises:
        InputError: There is no such toy.
    """
    if name not in TOYS:
        raise InputError(f"expected one of the toys {', '.join(TOYS)}, got {name}")
    return TOYS[name]()
