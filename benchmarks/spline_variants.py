"""Variants of the gradient of a coupling, measured side by side: the reasons for the design of `flows.spline`.

Run: python benchmarks/spline_variants.py [--rounds 20]. Times are for one coupling of the dipeptide with two hidden
layers of 128, forward and backward, with a batch of 1000.
"""

import argparse
from collections.abc import Callable

import torch
from torch import Tensor

from boltzport.core.stopwatch import side_by_side
from boltzport.flows.couplings.conditioner import Activation, Conditioner
from boltzport.flows.spline import Transformed, forward_values, spline

DIMENSIONS, INTERVALS, INPUTS, BATCH, BINS = 30, 20, 40, 1000, 8


def by_autograd(points: Tensor, raw: Tensor, last: Tensor) -> Transformed:
    """The forward kernel differentiated by autograd, operation by operation."""
    return forward_values(points, raw, torch.cat([last, raw[2 * BINS, len(last) :]]))


class CompiledPullBack(torch.autograd.Function):
    """The forward kernel, and its gradient by `torch.func.vjp`, each compiled."""

    forward_kernel = staticmethod(torch.compile(forward_values, dynamic=True))

    @staticmethod
    @torch.compile(dynamic=True)
    def backward_kernel(points: Tensor, raw: Tensor, ends: Tensor, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Pull gradients back through a recomputed forward pass."""
        pull_back = torch.func.vjp(lambda *parts: tuple(forward_values(*parts)), points, raw, ends)[1]
        return pull_back(gradients)

    @staticmethod
    def forward(ctx, points, raw, last):
        """Evaluate."""
        ends = torch.cat([last, raw[2 * BINS, len(last) :]])
        ctx.save_for_backward(points, raw, ends)
        ctx.intervals = len(last)
        return tuple(CompiledPullBack.forward_kernel(points, raw, ends))

    @staticmethod
    def backward(ctx, *gradients):
        """Differentiate."""
        for_points, for_raw, for_ends = CompiledPullBack.backward_kernel(
            *ctx.saved_tensors, *(part.contiguous() for part in gradients)
        )
        for_raw[2 * BINS, ctx.intervals :] += for_ends[ctx.intervals :]
        return for_points, for_raw, for_ends[: ctx.intervals]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    conditioner = Conditioner(
        INPUTS,
        hidden=(128, 128),
        outputs=3 * BINS,
        dimensions=DIMENSIONS,
        intervals=INTERVALS,
        activation=Activation.SILU,
        generator=generator,
    )
    points, features = torch.rand(DIMENSIONS, BATCH), torch.randn(INPUTS, BATCH)
    parameters = list(conditioner.parameters())
    with torch.no_grad():
        raw, last = (part.clone().requires_grad_() for part in conditioner(features))

    def alone(function: Callable[..., tuple[Tensor, Tensor]]) -> Callable[[], object]:
        def call() -> object:
            values, log_slopes = function(points, raw, last)
            return torch.autograd.grad(values.sum() + log_slopes.sum(), (raw, last))

        return call

    def whole(values_of: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Callable[[], object]:
        def call() -> object:
            values, log_slopes = values_of(points, features)
            return torch.autograd.grad(values.sum() + log_slopes.sum(), parameters)

        return call

    ours = lambda *parts: spline(*parts, inverse=False, compiled=True)  # noqa: E731
    contenders = {
        "spline, autograd, uncompiled": alone(by_autograd),
        "spline, autograd, compiled": alone(torch.compile(by_autograd, dynamic=True)),
        "spline, vjp, compiled": alone(CompiledPullBack.apply),
        "spline, by hand, uncompiled": alone(lambda *parts: spline(*parts, inverse=False)),
        "spline, by hand, compiled": alone(ours),
        "coupling, compiled as a whole": whole(torch.compile(lambda x, h: by_autograd(x, *conditioner(h)))),
        "coupling, compiled spline by hand": whole(lambda x, h: ours(x, *conditioner(h))),
    }
    took = side_by_side(contenders, rounds=options.rounds)
    for name, seconds in took.items():
        best = took["coupling, compiled spline by hand" if name.startswith("coupling") else "spline, by hand, compiled"]
        print(f"{name:36s} {1e3 * seconds:8.2f} ms   {seconds / best:6.2f} x")


if __name__ == "__main__":
    main()
