"""The paper's first figure: how each constraint leads from an initial density to `gmm-2d`.

The densities are exact, on a grid: no flow is trained. Four rows: a linear schedule, the trust region, the entropy
constraint, both. For each it prints the largest step in divergence, and the least mass that the far mode has on the
way: a mode that is given up and comes back from nowhere is what the paper calls teleportation. Run it as

    python examples/annealing_paths.py annealing-paths.png
"""

import sys
from itertools import pairwise
from typing import NamedTuple

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from boltzport.targets import toy
from boltzport.training.methods.cmt import Bounds, log_weights, solve

GRID = 101
FAR = 2
"""Number of the mode that lies far from the initial density."""


class Path(NamedTuple):
    """Log probabilities of the cells of a grid, from the initial density to the target."""

    title: str
    densities: list[Tensor]


def main(file: str) -> None:
    """Draw the figure and say in numbers what it shows."""
    target = toy("gmm-2d")
    points = torch.cartesian_prod(*[torch.linspace(axis.lower, axis.upper, GRID).double() for axis in target.layout])
    centre, width = (torch.tensor([getattr(axis, name) for axis in target.layout]) for name in ("centre", "width"))
    p = normalised(target.log_density(points))
    q_0 = normalised(-0.5 * (((points - centre) / width) ** 2).sum(1))
    linear = [normalised((1 - t) * q_0 + t * p) for t in torch.linspace(0, 1, 11).tolist()]
    paths = [
        Path("linear schedule", linear),
        constrained("trust region", q_0, p, Bounds(trust_region=0.1)),
        constrained("entropy", q_0, p, Bounds(entropy=0.05)),
        constrained("both", q_0, p, Bounds(trust_region=0.1, entropy=0.05)),
    ]
    far = target.mode_of(points) == FAR
    for path in paths:
        steps = [float((later.exp() * (later - former)).sum()) for former, later in pairwise(path.densities)]
        least = min(float(density[far].exp().sum()) for density in path.densities)
        sizes = f"{len(steps)} steps, largest {max(steps):.3f} nats"
        print(f"{path.title}: {sizes}, least mass of the far mode {least:.1e}")
    draw(paths, file)


def normalised(log_density: Tensor) -> Tensor:
    """Log probabilities of the cells."""
    return log_density - torch.logsumexp(log_density, 0)


def constrained(title: str, q_0: Tensor, p: Tensor, bounds: Bounds) -> Path:
    """The path that the constraints make: cells are points, and their probabilities the base weights."""
    densities = [q_0]
    while True:
        found = solve(densities[-1], p, bounds, log_base=densities[-1])
        densities.append(normalised(densities[-1] + log_weights(densities[-1], p, found.multipliers)))
        if found.multipliers == (0.0, 0.0):
            return Path(title, densities)


def draw(paths: list[Path], file: str) -> None:
    """One row for each path."""
    figure, grid = plt.subplots(len(paths), 6, figsize=(11, 7.6), layout="constrained")
    for row, path in zip(grid, paths, strict=True):
        last = len(path.densities) - 1
        for axes, step in zip(row, (0, 1, 2, 4, round(0.65 * last), last), strict=True):
            density = path.densities[step].reshape(GRID, GRID).exp().T
            # A power below one shows what little there is between the modes.
            axes.imshow((density / density.max()) ** 0.4, origin="lower", cmap="Blues", vmin=0, vmax=1)
            axes.set_title(f"step {step}", fontsize=9)
            axes.set(xticks=[], yticks=[])
        row[0].set_ylabel(path.title)
    figure.savefig(file, dpi=75)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "annealing-paths.png")
