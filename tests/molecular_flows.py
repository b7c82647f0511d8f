"""Small molecular flows with random weights, and layouts of every sort of coordinate."""

import math

import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Axis, Layout, circle, interval
from boltzport.core.skeleton import FIXED, Centre, Child, Skeleton
from boltzport.flows import MolecularConfig, MolecularFlow

SMALL = MolecularConfig(bins=6, harmonics=2, torsion_hidden=(12,), pairs=2, hidden=(12,), geometry=True)

OMEGA = interval(0.2, 0.2 + 2 * math.pi, centre=3.3, width=0.4, period=2 * math.pi)
"""A whole turn with a width of its own, as of a peptide bond."""
BOND = interval(0.08, 0.16, centre=0.11, width=0.01)
ANGLE = interval(1.0, 2.5, centre=2.4, width=0.2)


def later(axis: Axis, order: float) -> Axis:
    """The same coordinate, taken at another time."""
    return axis._replace(order=order)


MIXED = Layout(
    [
        later(circle(), 2.0),
        BOND,
        interval(-1.0, 3.0),
        later(OMEGA, 1.0),
        ANGLE,
        circle(0.0, math.pi, period=2 * math.pi),
        interval(-5.0, 5.0, centre=0.5, width=1.0),
    ]
)
"""Circles, of which one has half a turn, a whole turn with a width, an interval without one, and stiff coordinates."""

SKELETON = Skeleton(
    first=((0.0, 0.0, 0.0), (0.15, 0.0, 0.0), (-0.05, 0.14, 0.0)),
    centres=(
        Centre(2, 1, 0, FIXED, (Child(3, 0.1, 1.9, -2.1),)),
        Centre(2, 0, 1, 0, (Child(4, 0.15, 2.0, 0.0), Child(5, 0.1, 1.8, 2.2))),
        Centre(0, 1, 4, 3, (Child(6, 0.13, 2.1, 0.0),)),
        Centre(1, 4, 6, 4, (Child(7, 0.15, 1.9, 0.0), Child(8, 0.1, 1.9, 3.1))),
        Centre(4, 6, 7, 5, ()),
    ),
    sites=(3, 5, 7, 8),
    pairs=((3, 5), (3, 7), (5, 8), (7, 8)),
)
"""A chain with four torsions, whose last one places no site, and a pair of sites that do not move apart."""
_TURNS = (circle(), BOND, ANGLE, later(OMEGA, 1.0), later(circle(), 2.0), later(circle(0.0, 2 * math.pi), 3.0))

LAYOUTS = {
    "skeleton": Layout(_TURNS, skeleton=SKELETON),
    "skeleton, last torsion first": Layout([later(axis, -axis.order) for axis in _TURNS], skeleton=SKELETON),
    "mixed": MIXED,
    "no circle": Layout([BOND, interval(-1.0, 3.0), ANGLE]),
    "nothing stiff": Layout([circle(), OMEGA, interval(0.0, 2.0), circle(0.0, 1.0)]),
    "one stiff": Layout([circle(), ANGLE, OMEGA]),
    "all stiff": Layout([BOND, ANGLE, interval(-5.0, 5.0, width=1.0)]),
    "one coordinate": Layout([ANGLE]),
}

STIFF = 0.5
"""Size of the weights of the stiff half, whose transforms are exponential, in units of those of the torsions."""


def new_flow(layout: Layout, *, seed: int = 0, config: MolecularConfig = SMALL) -> MolecularFlow:
    """A flow at its initial density, in float64."""
    return MolecularFlow(layout, config, generator=seeded(seed), compiled=False).double()


def random_flow(layout: Layout, *, seed: int, scale: float = 0.15, config: MolecularConfig = SMALL) -> MolecularFlow:
    """A flow far from its initial density; stiff coordinates stay within tens of widths."""
    flow, generator = new_flow(layout, seed=seed, config=config), seeded(seed + 1000)
    with torch.no_grad():
        for half, size in ((flow.torsion_parameters, scale), (flow.stiff_parameters, STIFF * scale)):
            for parameter in half:
                parameter += size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return flow


def draw(flow: MolecularFlow, n: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        samples = flow.sample_and_log_prob(n, generator=seeded(seed))
    return samples.coordinates, samples.log_q


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
"""Runs a test with every layout."""
