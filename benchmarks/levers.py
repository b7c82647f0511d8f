"""Effect of single changes ("levers") on the training of the coupling flow on the dipeptide, in equal time.

A lever is one change in a short form of the laptop preset: 10 annealing steps, then 10 refinement steps, about ten
minutes on one thread. A change that makes gradient steps more expensive gets fewer of them: their cost is measured
first, side by side with the default. Run: OMP_NUM_THREADS=1 python benchmarks/levers.py LEVER [--seed N] [--scale F]
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from boltzport.analysis.metrics import importance
from boltzport.core.errors import RunError
from boltzport.core.layout import Layout, Shape
from boltzport.flows import LAPTOP, CouplingConfig, CouplingFlow, Flow
from boltzport.flows.couplings.conditioner import Conditioner, RawParameters
from boltzport.flows.couplings.coupling import Coupling
from boltzport.molecules import Molecule
from boltzport.targets import CountedTarget, Ledger
from boltzport.targets.boltzmann import BoltzmannTarget, harmonic_space, open_energy
from boltzport.training.methods import CMT, CMTConfig

SHORT = CMTConfig(
    steps=10, gradient_steps=120, buffer_size=100_000, refine=10, refine_batch=500, anchors=100_000, average=0.99
)
NAMES = [column.name for column in Molecule("alanine-dipeptide").coordinates.columns]

Mask = tuple[list[int], list[int]]
"""Coordinates that are transformed, and those that they are conditioned on, which do not change."""


class Residual(Conditioner):
    """A conditioner with residual hidden layers after the first."""

    def forward(self, features: Tensor) -> RawParameters:
        """Raw spline parameters."""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            change = nn.functional.silu(torch.addmm(bias[:, None], weight, features))
            features = features + change if i else change
        features = torch.cat([features, features.new_ones(1, features.shape[1])])
        raw, last = torch.mm(self.head_weight, features), torch.mm(self.last_weight, features)
        return RawParameters(raw.view(self.outputs, self.dimensions, features.shape[1]), last)


class Blind(Coupling):
    """A coupling that does not see the intervals among the coordinates it is conditioned on."""

    def _features(self, fixed: Tensor) -> Tensor:
        features = super()._features(fixed)
        seen = torch.arange(len(features)) >= self.fixed_intervals
        return features * seen[:, None]


def plain(layout: Layout, config: CouplingConfig, generator: torch.Generator) -> CouplingFlow:
    """The default flow."""
    return CouplingFlow(layout, config, generator=generator)


def residual(layout: Layout, config: CouplingConfig, generator: torch.Generator) -> CouplingFlow:
    """Residual conditioners."""
    flow = plain(layout, config, generator)
    for coupling in flow.couplings:
        coupling.conditioner.__class__ = Residual
    return flow


def masked(
    layout: Layout, config: CouplingConfig, generator: torch.Generator, masks: Iterable[Mask], blind: int = 0
) -> CouplingFlow:
    """A flow with other masks, from base to data; the first `blind` do not see the intervals."""
    flow = plain(layout, config, generator)
    circular = [axis.shape is Shape.CIRCLE for axis in layout]
    former = flow.couplings[0]
    flow.layers = nn.ModuleList(
        (Blind if i < blind else Coupling)(
            transformed=sorted(transformed, key=lambda j: (circular[j], j)),
            fixed=sorted(fixed, key=lambda j: (circular[j], j)),
            circular=circular,
            centre=former.centre,
            scale=former.scale,
            bins=config.bins,
            hidden=config.hidden,
            activation=config.activation,
            generator=generator,
        )
        for i, (transformed, fixed) in enumerate(masks)
    )
    return flow


def parts(members: list[int], count: int, generator: torch.Generator) -> list[list[int]]:
    """Split members into parts at random."""
    shuffled = [members[i] for i in torch.randperm(len(members), generator=generator).tolist()]
    return [shuffled[i::count] for i in range(count)]


def rest(part: list[int]) -> list[int]:
    """All other coordinates."""
    return [i for i in range(len(NAMES)) if i not in part]


def blocks(layout: Layout, config: CouplingConfig, generator: torch.Generator) -> CouplingFlow:
    """Quarters instead of halves: each coordinate is conditioned on three quarters of the others."""
    circles = [i for i, axis in enumerate(layout) if axis.shape is Shape.CIRCLE]
    intervals = [i for i in range(len(layout)) if i not in circles]
    masks = []
    for _ in range(config.pairs):
        quarters = zip(parts(intervals, 4, generator), parts(circles, 4, generator), strict=True)
        masks += [(a + b, rest(a + b)) for a, b in quarters]
    return masked(layout, config, generator, masks)


def stiff_last(layout: Layout, config: CouplingConfig, generator: torch.Generator) -> CouplingFlow:
    """Torsions among themselves first, by small couplings; then the stiff coordinates given them, four pairs of six."""
    circles = [i for i, axis in enumerate(layout) if axis.shape is Shape.CIRCLE]
    intervals = [i for i in range(len(layout)) if i not in circles]
    soft = [half for _ in range(config.pairs) for half in parts(circles, 2, generator)]
    stiff = [half for _ in range(config.pairs - 2) for half in parts(intervals, 2, generator)]
    return masked(layout, config, generator, [(part, rest(part)) for part in soft + stiff], blind=len(soft))


def by_molecule(layout: Layout, config: CouplingConfig, generator: torch.Generator) -> CouplingFlow:
    """Masks that follow the molecule: bonds and the rest, its two ends, hydrogens and heavy atoms."""
    circles = [i for i, axis in enumerate(layout) if axis.shape is Shape.CIRCLE]
    intervals = [i for i in range(len(layout)) if i not in circles]
    atoms = [name.split("-") for name in NAMES]
    rules: list[Callable[[int], bool]] = [
        lambda i: len(atoms[i]) == 2,
        lambda i: NAMES[i].startswith("ACE1") or ".N-" in NAMES[i],
        lambda i: ".H" in atoms[i][-1],
    ]
    masks = []
    for k in range(config.pairs):
        half = [i for i in intervals if rules[k % 3](i)] + parts(circles, 2, generator)[0]
        masks += [(half, rest(half)), (rest(half), half)]
    return masked(layout, config, generator, masks)


@dataclass(frozen=True, kw_only=True)
class Lever:
    """One change.

    Attributes:
        flow: Size of the flow.
        build: How the flow is built.
        method: Settings.
    """

    flow: CouplingConfig = LAPTOP
    build: Callable[[Layout, CouplingConfig, torch.Generator], CouplingFlow] = plain
    method: CMTConfig = field(default=SHORT)


LEVERS = {
    "default": Lever(),
    "wide-trust-region": Lever(method=replace(SHORT, trust_region=1.0, steps=6, gradient_steps=200, refine=6)),
    "learned": Lever(method=replace(SHORT, learned=0.8, gradient_steps=150)),
    "large-buffer": Lever(method=replace(SHORT, buffer_size=300_000, gradient_steps=100)),
    "pairs": Lever(flow=replace(LAPTOP, pairs=10)),
    "wide": Lever(flow=replace(LAPTOP, hidden=(256, 256, 256)), method=replace(SHORT, learning_rate=5e-4)),
    "residual": Lever(flow=replace(LAPTOP, hidden=(128,) * 5), build=residual),
    "molecule-masks": Lever(build=by_molecule),
    "stiff-last": Lever(build=stiff_last),
    "blocks": Lever(build=blocks),
    "few-bins": Lever(flow=replace(LAPTOP, bins=4)),
    "rate": Lever(method=replace(SHORT, learning_rate=2e-3)),
}


def price(layout: Layout, lever: Lever) -> float:
    """Time of a gradient step relative to the default, measured side by side: the median of ratios."""
    flows = [each.build(layout, each.flow, torch.Generator().manual_seed(0)) for each in (lever, LEVERS["default"])]
    points = flows[0].sample(1000, generator=torch.Generator().manual_seed(1)).detach()
    times: list[list[float]] = [[], []]
    for _ in range(12):
        for flow, spent in zip(flows, times, strict=True):
            begin = time.thread_time()
            (-flow.log_prob(points).mean()).backward()
            spent.append(time.thread_time() - begin)
    ratios = sorted(a / b for a, b in zip(*times, strict=True))
    return ratios[len(ratios) // 2]


@torch.no_grad()
def judged(flow: Flow, target: BoltzmannTarget, n: int = 100_000) -> dict[str, float]:
    """Metrics of a flow from fresh samples."""
    drawn = flow.sample_and_log_prob(n, generator=torch.Generator().manual_seed(7))
    log_weights, positive = [], []
    place = NAMES.index("ALA2.phi")
    for coordinates, log_q in zip(drawn.coordinates.split(8192), drawn.log_q.split(8192), strict=True):
        found = target.evaluate(coordinates)
        log_weights.append(found.log_p + found.log_volume - log_q.double())
        phi = torch.remainder(target.internal(coordinates)[:, place] + math.pi, 2 * math.pi) - math.pi
        positive.append(phi > 0)
    weights, right = torch.cat(log_weights), torch.cat(positive)
    finite = weights.isfinite()
    found = importance(weights[finite].numpy(), np.random.default_rng(0))
    share = torch.softmax(weights[finite], 0)[right[finite]].sum()
    return {
        "ess": found.ess,
        "ess_unclipped": found.ess_unclipped,
        "log_z": found.log_z,
        "gap": found.log_z - found.elbo,
        "phi_positive": float(share),
    }


def run(name: str, *, seed: int, scale: float) -> dict[str, object]:
    """Train with a lever, and evaluate the flow."""
    lever, molecule = LEVERS[name], Molecule("alanine-dipeptide")
    with open_energy(molecule) as energy:
        space = harmonic_space(molecule, energy.evaluate)
        target = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
        dearer = price(space.layout, lever)
        config = replace(lever.method, gradient_steps=round(scale * lever.method.gradient_steps / dearer))
        generator = torch.Generator().manual_seed(seed)
        flow = lever.build(space.layout, lever.flow, generator)
        method, counted = CMT(config), CountedTarget(target, Ledger())
        state = method.init(flow, counted)
        begin, rows, failure = time.thread_time(), [], ""
        try:
            while not method.finished(state):
                info = method.step(state, generator=generator, progress=lambda *_: None)
                rows.append(
                    {"step": info.step, "ess": info.ess, "retries": info.retries, "seconds": time.thread_time() - begin}
                )
                print(json.dumps(rows[-1]), flush=True)
        except RunError as error:
            failure = str(error)
        seconds = time.thread_time() - begin
        annealed = rows[config.steps - 1]["ess"] if len(rows) >= config.steps else None
        return {
            "lever": name,
            "seed": seed,
            "price": dearer,
            "gradient_steps": state.gradient_steps,
            "evaluations": counted.ledger.total,
            "seconds": seconds,
            "annealed": annealed,
            "failure": failure,
            **judged(state.result(), target),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lever", choices=LEVERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the gradient steps")
    given = parser.parse_args()
    print(json.dumps(run(given.lever, seed=given.seed, scale=given.scale)), flush=True)
