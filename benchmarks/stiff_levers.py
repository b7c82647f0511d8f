"""Effect of single changes ("levers") on the stiff half of a molecular flow, in equal time.

The torsions are those of a trained run, drawn once and reweighted to the target. The stiff half is trained from scratch
by path gradients for a given CPU time, with a rate that falls to zero. Prints the effective sample size of the stiff
half given the torsions. Run: OMP_NUM_THREADS=1 python benchmarks/stiff_levers.py RUN LEVER...
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from boltzport.core.weights import effective_halves
from boltzport.experiments import load
from boltzport.flows import HalvedFlow, MolecularConfig
from boltzport.flows.couplings.coupling import Moved
from boltzport.flows.molecular.fine_spline import fine_spline
from boltzport.flows.molecular.network import Network
from boltzport.flows.molecular.smooth import PARAMETERS, smooth
from boltzport.flows.molecular.stiff import FARTHEST, Sloped, Stiff
from boltzport.training.soap import Soap
from boltzport.training.stiff import stiff_path_loss

POINTS = 30_000
"""Number of samples of the torsions."""
SPAN = 13.0
"""Range of a spline, in widths."""
BINS = 8
SIZES = MolecularConfig()


@dataclass(frozen=True, kw_only=True)
class Lever:
    """One change.

    Attributes:
        transform: `smooth` with four parameters, `affine` with two, or `spline`.
        skip: Whether the other half has a linear way to the shift.
        residual: Whether hidden layers add to what they are given.
        near: Networks of each residue see only their own residue and its neighbours.
        linear: A linear layer towards the data: `learned`, the `ensemble`'s mean and covariance, or the ensemble's
            regression on the features of the torsions and the covariance that is left (`regressed`).
        gates: Directions of the other half whose way to the shift is opened by a network of the torsions.
        embedding: Widths of one network of the torsions for all couplings, which see its output; none where each sees
            the features itself.
        config: Sizes.
        optimiser: `adam`, `muon` or `soap`.
        rate: Highest learning rate.
        batch: Points of a gradient step.
        beta: Adam's memory of squares.
    """

    transform: str = "smooth"
    skip: bool = True
    residual: bool = False
    near: bool = False
    linear: str = ""
    gates: int = 0
    embedding: tuple[int, ...] = ()
    config: MolecularConfig = SIZES
    optimiser: str = "adam"
    rate: float = 4e-3
    batch: int = 500
    beta: float = 0.999


LEVERS = {
    "default": Lever(),
    "affine": Lever(transform="affine"),
    "spline": Lever(transform="spline"),
    "no-skip": Lever(skip=False),
    "residual": Lever(residual=True),
    "near": Lever(near=True, config=MolecularConfig(hidden=(64, 64))),
    "linear": Lever(linear="learned"),
    "ensemble": Lever(linear="ensemble"),
    "regressed": Lever(linear="regressed"),
    "muon": Lever(optimiser="muon", rate=0.02),
    "muon-slow": Lever(optimiser="muon", rate=0.006),
    "beta": Lever(beta=0.99),
    "soap-slow": Lever(optimiser="soap"),
    "soap": Lever(optimiser="soap", rate=1e-2),
    "soap-fast": Lever(optimiser="soap", rate=2e-2),
    "soap-small-batch": Lever(optimiser="soap", rate=1e-2, batch=250),
    "soap-large-batch": Lever(optimiser="soap", rate=1e-2, batch=1000),
    "soap-residual": Lever(optimiser="soap", rate=1e-2, residual=True),
    "soap-regressed": Lever(optimiser="soap", rate=1e-2, linear="regressed"),
    "soap-near": Lever(optimiser="soap", rate=1e-2, near=True, config=MolecularConfig(hidden=(64, 64))),
    "soap-two-pairs": Lever(optimiser="soap", rate=1e-2, config=MolecularConfig(pairs=2)),
    "soap-two-layers": Lever(optimiser="soap", rate=1e-2, config=MolecularConfig(hidden=(128, 128))),
    "soap-gated": Lever(optimiser="soap", rate=1e-2, gates=64),
    "soap-embedded": Lever(
        optimiser="soap", rate=1e-2, embedding=(256, 256, 96), config=MolecularConfig(hidden=(128, 128))
    ),
    "soap-wide": Lever(optimiser="soap", rate=1e-2, config=MolecularConfig(hidden=(256, 256, 256))),
    "soap-four-pairs": Lever(optimiser="soap", rate=1e-2, config=MolecularConfig(pairs=4)),
    "soap-six-pairs": Lever(optimiser="soap", rate=1e-2, config=MolecularConfig(pairs=6)),
    "soap-all": Lever(optimiser="soap", rate=1e-2, linear="regressed", residual=True),
}


class ResidualNetwork(Network):
    """A network with residual hidden layers after the first."""

    def forward(self, features: Tensor) -> Tensor:
        """Outputs of the network."""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            change = nn.functional.silu(torch.addmm(bias[:, None], weight, features))
            features = features + change if i else change
        return torch.addmm(self.head_bias[:, None], self.head_weight, features)


class NearNetwork(nn.Module):
    """A network for each residue, whose inputs are the features near it."""

    def __init__(
        self, seen: list[list[int]], outputs: list[list[int]], hidden: tuple[int, ...], generator: torch.Generator
    ) -> None:
        super().__init__()
        self.seen = [torch.tensor(each) for each in seen]
        self.order = torch.tensor([i for each in outputs for i in each]).argsort()
        self.networks = nn.ModuleList(
            Network(len(a), hidden, len(b), generator=generator) for a, b in zip(seen, outputs, strict=True)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Outputs of all networks."""
        parts = [network(features[seen]) for network, seen in zip(self.networks, self.seen, strict=True)]
        return torch.cat(parts)[self.order]


class Coupling(nn.Module):
    """A coupling with a lever."""

    def __init__(self, moved: list[int], fixed: list[int], lever: Lever, where: "Where", generator: torch.Generator):
        super().__init__()
        self.lever, count = lever, len(moved)
        self.rows = {"smooth": PARAMETERS, "affine": 2, "spline": 3 * BINS + 1}[lever.transform]
        inputs, outputs, hidden = len(fixed) + len(where.features), self.rows * count, lever.config.hidden
        if lever.near:
            groups = sorted({where.stiff[i] for i in moved})
            places = [where.stiff[i] for i in fixed] + where.features
            self.network: nn.Module = NearNetwork(
                [[k for k, r in enumerate(places) if r is None or abs(r - g) <= 1] for g in groups],
                [[p * count + k for p in range(self.rows) for k, i in enumerate(moved) if where.stiff[i] == g]
                 for g in groups],
                hidden,
                generator,
            )  # fmt: skip
        else:
            kind = ResidualNetwork if lever.residual else Network
            self.network = kind(inputs, hidden, outputs, generator=generator)
        self.skip = nn.Parameter(torch.zeros(count, len(fixed)), requires_grad=lever.skip)
        if lever.gates:
            self.gate = Network(len(where.features), (64,), lever.gates, generator=generator)
            with torch.no_grad():
                self.gate.head_weight.uniform_(-0.2, 0.2, generator=generator)
            self.seen = nn.Parameter(torch.randn(lever.gates, len(fixed), generator=generator) / math.sqrt(len(fixed)))
            self.spread = nn.Parameter(torch.zeros(count, lever.gates))
        self.moved, self.fixed = torch.tensor(moved), torch.tensor(fixed)
        self.order = torch.cat([self.moved, self.fixed]).argsort()

    def forward(self, points: Tensor, features: Tensor, *, inverse: bool, compiled: bool) -> Moved:
        """From data to base; from base to data with `inverse`."""
        fixed, moved = points[self.fixed], points[self.moved]
        output = self.network(torch.cat([fixed.clamp(-FARTHEST, FARTHEST), features]))
        raw = output.view(self.rows, *moved.shape)
        shift = self.skip @ fixed
        if self.lever.gates:
            shift = shift + self.spread @ (self.gate(features) * (self.seen @ fixed))
        if self.lever.transform == "spline":
            moved = moved if inverse else moved - shift
            unit, logs = fine_spline(moved / SPAN + 0.5, raw[:-1], raw[-1], inverse=inverse)
            inside = (moved.abs() < SPAN / 2).to(moved.dtype)
            moved = torch.where(inside > 0, (unit - 0.5) * SPAN, moved)
            values, log_slopes = moved + shift if inverse else moved, logs * inside
        else:
            zeros = raw.new_zeros(PARAMETERS - self.rows, *moved.shape)
            raw = torch.cat([raw[:1] + shift, raw[1:], zeros])
            if self.lever.transform == "affine":
                # Without skew and tail the smooth transform is sinh(asinh(v)) = v.
                scale = raw[1]
                values = moved * scale.exp() + raw[0] if inverse else (moved - raw[0]) * (-scale).exp()
                log_slopes = scale if inverse else -scale
            else:
                values, log_slopes = smooth(moved, raw, inverse=inverse, compiled=compiled)
        return Moved(torch.cat([values, fixed])[self.order], log_slopes.sum(0))


class Linear(nn.Module):
    """x = mean + slope features + L U y, towards the data."""

    def __init__(self, mean: Tensor, slope: Tensor, root: Tensor, *, learned: bool):
        super().__init__()
        self.root = nn.Parameter(root.float(), requires_grad=learned)
        self.mean, self.slope = mean.float()[:, None], slope.float()

    def forward(self, points: Tensor, features: Tensor, *, inverse: bool, compiled: bool) -> Moved:
        """From data to base; from base to data with `inverse`."""
        del compiled
        shift = self.mean + self.slope @ features
        log_det = torch.linalg.slogdet(self.root).logabsdet.expand(points.shape[1])
        if inverse:
            return Moved(shift + self.root @ points, log_det)
        return Moved(torch.linalg.solve(self.root, points - shift), -log_det)


@dataclass(frozen=True)
class Where:
    """Residue of each stiff coordinate and of each feature; none for global features."""

    stiff: list[int]
    features: list[int | None]


class LeverStiff(Stiff):
    """The stiff half with a lever."""

    def __init__(self, count: int, lever: Lever, where: Where, linear: Linear | None, generator: torch.Generator):
        super().__init__(0, 0, lever.config, generator=generator)
        self.embedding: Network | None = None
        if lever.embedding:
            *hidden, outputs = lever.embedding
            self.embedding = Network(len(where.features), tuple(hidden), outputs, generator=generator)
            with torch.no_grad():
                self.embedding.head_weight.uniform_(-0.15, 0.15, generator=generator)
            where = Where(where.stiff, [None] * outputs)
        layers: list[nn.Module] = []
        for _ in range(lever.config.pairs):
            order = torch.randperm(count, generator=generator).tolist()
            first, second = sorted(order[: count // 2]), sorted(order[count // 2 :])
            layers += [Coupling(a, b, lever, where, generator) for a, b in ((first, second), (second, first))]
        self.layers = nn.ModuleList(layers + ([linear] if linear is not None else []))

    def _embedded(self, features: Tensor) -> Tensor:
        return features if self.embedding is None else nn.functional.silu(self.embedding(features))

    def log_prob(self, points: Tensor, features: Tensor, *, compiled: bool) -> Tensor:
        """Log density given the torsions."""
        return super().log_prob(points, self._embedded(features), compiled=compiled)

    def sample(self, normal: Tensor, features: Tensor, *, compiled: bool) -> Moved:
        """Points from samples of the normal base density."""
        return super().sample(normal, self._embedded(features), compiled=compiled)

    def sample_with_slope(self, normal: Tensor, features: Tensor, *, compiled: bool) -> Sloped:
        """In two passes, since the layers here have no shortcut: a fifth more expensive than the flow's own."""
        points = self.sample(normal, features, compiled=compiled).points
        held = points.detach().requires_grad_()
        log_q = self.log_prob(held, features, compiled=compiled)
        (slope,) = torch.autograd.grad(log_q.sum(), held)
        return Sloped(points, slope, log_q.detach())


def stepper(lever: Lever, parameters: list[nn.Parameter]) -> Callable[[float], None]:
    """A function that takes one step at a fraction of the highest rate."""
    matrices = [p for p in parameters if p.ndim == 2] if lever.optimiser == "muon" else []
    chosen = {id(p) for p in matrices}
    others = [p for p in parameters if id(p) not in chosen]
    rate = 4e-3 if matrices else lever.rate
    both: list[tuple[torch.optim.Optimizer, float]] = [
        (Soap(others, lr=rate), rate)
        if lever.optimiser == "soap"
        else (torch.optim.Adam(others, lr=rate, betas=(0.9, lever.beta), fused=True), rate)
    ]
    if matrices:
        both.append((torch.optim.Muon(matrices, lr=lever.rate, weight_decay=0.0), lever.rate))

    def step(factor: float) -> None:
        for optimiser, highest in both:
            optimiser.param_groups[0]["lr"] = highest * factor
            optimiser.step()

    return step


def moments(flow: HalvedFlow, points: Tensor, kind: str) -> Linear | None:
    """The linear layer of a lever, fitted to points of the ensemble."""
    if not kind:
        return None
    parts = flow._split(points)
    stiff, features = parts.stiff.double(), flow.torsion_half.features(parts.torsions).double()
    count = len(stiff)
    if kind == "learned":
        return Linear(torch.zeros(count), torch.zeros(count, len(features)), torch.eye(count), learned=True)
    mean, slope = stiff.mean(1), torch.zeros(count, len(features)).double()
    left = stiff - mean[:, None]
    if kind == "regressed":
        gram = features @ features.T + 1e-3 * stiff.shape[1] * torch.eye(len(features)).double()
        slope, mean = torch.linalg.solve(gram, features @ stiff.T).T, torch.zeros(count).double()
        left = stiff - slope @ features
    values, vectors = torch.linalg.eigh(left @ left.T / left.shape[1])
    return Linear(mean, slope, (vectors * values.sqrt()) @ vectors.T, learned=False)


def main(run: Path, names: list[str], *, seconds: float, seed: int) -> None:
    """Train with each lever, and print its result."""
    with load(run) as opened:
        flow, target = opened.flow, opened.target.counted.target
        molecule = target.molecule
        with torch.no_grad():
            drawn = flow.sample_and_log_prob(POINTS, generator=torch.Generator().manual_seed(1))
            found = target.evaluate(drawn.coordinates)
            log_weights = found.log_p + found.log_volume - drawn.log_q.double()
            chosen = torch.multinomial(
                torch.softmax(log_weights, 0).clamp_max(50.0 / POINTS), POINTS, replacement=True,
                generator=torch.Generator().manual_seed(2),
            )  # fmt: skip
            points = drawn.coordinates[chosen]
        residues = {atom.index: atom.residue.index for atom in molecule.openmm_topology.atoms()}
        columns = molecule.coordinates.columns
        home = [residues[column.atoms[-1]] for column in columns]
        per = 2 * flow.torsion_half.harmonics
        where = Where(
            [home[i] for i in flow.stiff.tolist()],
            [None, *(home[i] for i in flow.torsions.tolist() for _ in range(per))],
        )

        def log_density(coordinates: Tensor) -> Tensor:
            log_p, log_volume = target.evaluate(coordinates)
            return log_p + log_volume

        for name in names:
            lever, generator = LEVERS[name], torch.Generator().manual_seed(seed)
            linear = moments(flow, points, lever.linear)
            flow.stiff_half = LeverStiff(len(flow.stiff), lever, where, linear, generator)
            parameters = [p for p in flow.stiff_half.parameters() if p.requires_grad]
            step = stepper(lever, parameters)
            used, done = 0.0, 0
            while used < seconds:
                begin = time.thread_time()
                batch = points[torch.randint(POINTS, (lever.batch,), generator=generator)]
                for p in parameters:
                    p.grad = None
                stiff_path_loss(flow, log_density, batch, generator=generator).backward()
                nn.utils.clip_grad_norm_(parameters, 10.0)
                step(min(1.0, (done + 1) / 30) * 0.5 * (1 + math.cos(math.pi * min(used / seconds, 1.0))))
                used += (time.thread_time() - begin) if done >= 3 else 0.0
                done += 1
            with torch.no_grad():
                test = points[:1024].repeat_interleave(32, 0)
                x, log_q = flow.sample_stiff(test, generator=torch.Generator().manual_seed(3))
                ratio = (log_density(x) - log_q.double()).view(1024, 32)
                ess = effective_halves(ratio - ratio.logsumexp(1, keepdim=True)).stiff
            row = {"lever": name, "seed": seed, "gradient_steps": done, "seconds": round(used), "stiff": round(ess, 4)}
            row["parameters"] = sum(p.numel() for p in parameters)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("lever", nargs="+", choices=[*LEVERS, "all"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time of each lever in seconds")
    given = parser.parse_args()
    wanted = list(LEVERS) if "all" in given.lever else given.lever
    main(given.run, wanted, seconds=given.seconds, seed=given.seed)
