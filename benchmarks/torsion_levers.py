"""Effect of single changes ("levers") on the torsions of a molecular flow, in equal time.

The data are weighted points of a trained run, drawn once. The half of the torsions is trained from scratch by weighted
likelihood with the control variate for a given CPU time, with a rate that falls to zero. Prints the weighted mean log
density of held-out points, beside that of the trained flow.
Run: OMP_NUM_THREADS=1 python benchmarks/torsion_levers.py RUN LEVER...
"""

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from boltzport.core.layout import Axis, Layout
from boltzport.experiments import load
from boltzport.flows import MolecularConfig, MolecularFlow
from boltzport.flows.molecular.torsions import GAIN, Torsions
from boltzport.targets.boltzmann.skeleton import with_skeleton
from boltzport.training.buffer import draw
from boltzport.training.soap import Soap

POINTS, HELD = 200_000, 20_000
"""Number of points, and number of those held out."""
HEAVIEST = 50.0
"""Weights are clipped at this multiple of their mean."""
SIZES = MolecularConfig()


@dataclass(frozen=True, kw_only=True)
class Lever:
    """One change.

    Attributes:
        config: Sizes.
        order: `backbone` first, or along the `chain`, or at `random`.
        shared: One masked network for all torsions instead of one for each.
        optimiser: `adam` or `soap`.
        rate: Highest learning rate.
        batch: Points of a gradient step.
        control: Whether the likelihood has the control variate.
    """

    config: MolecularConfig = SIZES
    order: str = "backbone"
    shared: bool = False
    optimiser: str = "adam"
    rate: float = 5e-3
    batch: int = 2000
    control: bool = True


LEVERS = {
    "default": Lever(),
    "chain": Lever(order="chain"),
    "random": Lever(order="random"),
    "plain": Lever(control=False),
    "geometry": Lever(config=MolecularConfig(geometry=True)),
    "plain-geometry": Lever(control=False, config=MolecularConfig(geometry=True)),
    "soap-slow": Lever(optimiser="soap"),
    "soap": Lever(optimiser="soap", rate=1e-2),
    "soap-fast": Lever(optimiser="soap", rate=2e-2),
    "shared": Lever(shared=True),
    "bins-8": Lever(config=MolecularConfig(bins=8)),
    "bins-24": Lever(config=MolecularConfig(bins=24)),
    "harmonics-1": Lever(config=MolecularConfig(harmonics=1)),
    "harmonics-2": Lever(config=MolecularConfig(harmonics=2)),
    "wide": Lever(config=MolecularConfig(torsion_hidden=(128, 128))),
    "small-batch": Lever(batch=1000),
}


class Masked(nn.Module):
    """One masked network for all torsions: each depends only on those before it (MADE, Germain et al. 2015)."""

    def __init__(self, torsions: Torsions, width: int, generator: torch.Generator) -> None:
        super().__init__()
        count, each = len(torsions.networks), len(torsions.offset)
        degree = torch.arange(width) % count
        seen = torch.cat([torch.zeros(1), 1 + torch.arange(count - 1).repeat_interleave(2 * torsions.harmonics)])
        outputs = torch.arange(count).repeat_interleave(each)
        masks = [degree[:, None] >= seen, degree[:, None] >= degree, outputs[:, None] >= degree]
        self.masks = [mask.float() for mask in masks]
        sizes = [mask.shape for mask in masks]
        self.weights = nn.ParameterList(
            (2 * torch.rand(a, b, generator=generator) - 1) / math.sqrt(b) * (i < 2) for i, (a, b) in enumerate(sizes)
        )
        self.biases = nn.ParameterList(torch.zeros(a) for a, _ in sizes)
        self.count, self.each, self.seen = count, each, len(seen)

    def forward(self, features: Tensor) -> Tensor:
        """Raw parameters of all torsions."""
        x = features[: self.seen]
        for i, (weight, bias, mask) in enumerate(zip(self.weights, self.biases, self.masks, strict=True)):
            x = torch.addmm(bias[:, None], weight * mask, x)
            x = nn.functional.silu(x) if i < 2 else x
        return x.view(self.count, self.each, -1).transpose(0, 1)


def shared_log_prob(torsions: Torsions, network: Masked, points: Tensor) -> Tensor:
    """Log density of points in the unit box by a shared network; circles only."""
    from boltzport.flows.molecular.fine_spline import fine_spline

    raw = GAIN * network(torsions.features(points)) + torsions.offset[:, :, None].to(points)
    return fine_spline(points, raw, points.new_empty(0, points.shape[1]), inverse=False).log_slopes.sum(0)


def reordered(layout: Layout, order: str, generator: torch.Generator) -> Layout:
    """The layout with another order of its torsions."""
    if order == "backbone":
        return layout
    places = torch.randperm(len(layout), generator=generator).tolist()
    axes: list[Axis] = [axis._replace(order=0.0 if order == "chain" else places[i]) for i, axis in enumerate(layout)]
    return Layout(axes, skeleton=layout.skeleton)


def main(run: Path, names: list[str], *, seconds: float, seed: int, points: int) -> None:
    """Train with each lever, and print its result."""
    with load(run) as opened:
        trained = opened.flow
        assert isinstance(trained, MolecularFlow)
        drawn = draw(
            trained, opened.target.counted, POINTS, generator=torch.Generator().manual_seed(1), progress=lambda *_: None
        )
        buffer = drawn.buffer
        with torch.no_grad():
            log_drawn = trained.torsion_log_prob(buffer.coordinates)
        weights = torch.softmax(buffer.log_p - buffer.log_q, 0) * buffer.size
        weights = weights.clamp_max(HEAVIEST)
        weights = (weights / weights.mean()).float()
        held_share = weights[:HELD] / weights[:HELD].sum()
        print(json.dumps({"trained": float((held_share * log_drawn[:HELD]).sum())}), flush=True)
        for name in names:
            lever, generator = LEVERS[name], torch.Generator().manual_seed(seed)
            # Flows that ship have no skeleton.
            known = with_skeleton(trained.layout, opened.target.counted.target.molecule)
            layout = reordered(known, lever.order, generator)
            flow = MolecularFlow(layout, lever.config, generator=generator)
            half = flow.torsion_half
            network = Masked(half, 32 * len(half.networks), generator) if lever.shared else None
            parameters = list(half.parameters() if network is None else network.parameters())

            def log_prob(points: Tensor, flow: MolecularFlow = flow, network: Masked | None = network) -> Tensor:
                if network is None:
                    return flow.torsion_log_prob(points)
                unit, _ = flow._unit_torsions(points[:, flow.torsions])
                return shared_log_prob(flow.torsion_half, network, unit) - flow._log_turning

            descent = (
                Soap(parameters, lr=1.0) if lever.optimiser == "soap" else torch.optim.Adam(parameters, fused=True)
            )
            used, done = 0.0, 0
            while used < seconds:
                begin = time.thread_time()
                batch = HELD + torch.randint(points, (lever.batch,), generator=generator)
                log_q = log_prob(buffer.coordinates[batch])
                wanted = weights[batch]
                if lever.control:
                    wanted = wanted - (log_q.detach() - log_drawn[batch]).exp().clamp_max(HEAVIEST)
                descent.zero_grad()
                (-(wanted * log_q).mean()).backward()
                nn.utils.clip_grad_norm_(parameters, 10.0)
                fall = 0.5 * (1 + math.cos(math.pi * min(used / seconds, 1.0)))
                descent.param_groups[0]["lr"] = lever.rate * min(1.0, (done + 1) / 30) * fall
                descent.step()
                used += (time.thread_time() - begin) if done >= 3 else 0.0
                done += 1
            with torch.no_grad():
                held, learned = (
                    float((weights[part] * log_prob(buffer.coordinates[part])).sum() / weights[part].sum())
                    for part in (slice(0, HELD), slice(HELD, HELD + min(points, 2 * HELD)))
                )
            row = {"lever": name, "seed": seed, "gradient_steps": done, "held_out": round(held, 4)}
            row |= {"learned_from": round(learned, 4), "parameters": sum(p.numel() for p in parameters)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("lever", nargs="+", choices=[*LEVERS, "all"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=40.0, help="CPU time of each lever in seconds")
    parser.add_argument("--points", type=int, default=POINTS - HELD, help="number of points to learn from")
    given = parser.parse_args()
    main(
        given.run,
        list(LEVERS) if "all" in given.lever else given.lever,
        seconds=given.seconds,
        seed=given.seed,
        points=given.points,
    )
