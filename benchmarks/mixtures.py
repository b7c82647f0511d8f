"""Gain of mixtures of seeds: chi-square of the weights of each flow, of all pairs, and of all flows as one proposal.

All numbers come from the same points of the mixture of all flows, so that they can be compared; `correlation` is that
of the log-weights of two flows over the target. With --train, four seeds of a toy are trained first. Run:
OMP_NUM_THREADS=1 python benchmarks/mixtures.py RUN RUN... [-n N], or --train gmm-2d --budget 1e5
"""

import argparse
import json
from itertools import combinations

import torch

import boltzport as bp
from boltzport.core.seeds import derived
from boltzport.core.weights import normalised
from boltzport.ensembles.shares import optimal_shares
from boltzport.experiments import load_mixture
from boltzport.flows import MixedFlow, draw
from boltzport.targets import Purpose


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--train")
    parser.add_argument("--budget", type=float, default=1e5)
    parser.add_argument("-n", type=float, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.train:
        known = {"preset": "quick", "budget": arguments.budget, "progress": False}
        model = bp.mix(*(bp.train(arguments.train, seed=seed, **known) for seed in range(4)), shares="equal")
    else:
        model = load_mixture(arguments.runs, shares="equal", seed=arguments.seed)
    flow = model.flow
    assert isinstance(flow, MixedFlow)
    generator, log_p, members = derived(arguments.seed, "mixtures"), [], []
    with torch.no_grad():
        purpose = Purpose.EVALUATION
        for part in draw(
            flow, model.target.counted, int(arguments.n), batch=4096, generator=generator, purpose=purpose
        ):
            log_p.append(part.log_p + part.log_volume)
            members.append(flow.log_probs(part.coordinates))
    log_p, log_q = torch.cat(log_p), torch.cat(members)
    good = log_p.isfinite() & log_q.isfinite().all(1)
    log_p, log_q = log_p[good], log_q[good]
    drawn = torch.logsumexp(log_q, 1) - torch.tensor(float(log_q.shape[1])).log()
    weights = normalised(log_p - drawn)

    def ess(log_proposal: torch.Tensor) -> float:
        """Effective fraction under a proposal: 1 / E_p[p / q], with p normalised."""
        log_z = torch.logsumexp(log_p - drawn, 0) - torch.tensor(float(len(log_p))).log()
        return 1.0 / float((weights * (log_p - log_z - log_proposal).exp()).sum())

    def mixture(chosen: tuple[int, ...]) -> dict[str, object]:
        own = log_q[:, list(chosen)]
        equal = torch.logsumexp(own, 1) - torch.tensor(float(len(chosen))).log()
        half = len(own) // 2
        shares = optimal_shares(own[:half], log_p[:half], drawn[:half])
        best = torch.logsumexp(own + shares.log(), 1)
        chi = sum(1.0 / ess(log_q[:, k]) - 1.0 for k in chosen) / len(chosen)
        return {
            "members": list(chosen),
            "chi_square_mean": chi,
            "chi_square": 1.0 / ess(equal) - 1.0,
            "ess": ess(equal),
            "ess_best_shares": ess(best),
            "shares": shares.tolist(),
        }

    residual = log_p[:, None] - log_q
    centred = residual - (weights[:, None] * residual).sum(0)
    covariance = (weights[:, None, None] * centred[:, :, None] * centred[:, None, :]).sum(0)
    scale = covariance.diagonal().sqrt()
    count = log_q.shape[1]
    print(
        json.dumps(
            {
                "points": len(log_p),
                "ess": [ess(log_q[:, k]) for k in range(count)],
                "spread_of_log_weights": scale.tolist(),
                "correlation": (covariance / scale / scale[:, None]).tolist(),
                "pairs": [mixture(pair) for pair in combinations(range(count), 2)],
                "all": mixture(tuple(range(count))),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
