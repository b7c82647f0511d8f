"""Effect of a block on top of a molecular flow that mixes all coordinates: torsions depend on stiff coordinates.

Towards the flow, every torsion is rotated by an angle that a network computes from the stiff coordinates and the other
half of the torsions; the volume is conserved. Only the block is trained, on top of a trained run, by weighted
likelihood on points of the run. Prints its gain in the mean log density of held-out points, in nats. Run:
OMP_NUM_THREADS=1 python benchmarks/mixing_block.py RUN [--seconds S]
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from boltzport.experiments import load
from boltzport.flows import MolecularFlow
from boltzport.flows.molecular.network import Network, angle_features
from boltzport.training.buffer import draw

POINTS, HELD, HEAVIEST = 200_000, 20_000, 50.0


class Block(nn.Module):
    """Rotates each half of the torsions given the other half and the stiff coordinates."""

    def __init__(self, flow: MolecularFlow, generator: torch.Generator) -> None:
        super().__init__()
        self.flow, count = [flow], len(flow.torsions)
        self.halves = [torch.arange(0, count, 2), torch.arange(1, count, 2)]
        self.networks = nn.ModuleList(
            Network(len(flow.stiff) + 6 * len(other), (64, 64), len(moved), generator=generator)
            for moved, other in (self.halves, self.halves[::-1])
        )

    def forward(self, coordinates: Tensor) -> Tensor:
        """Points in the coordinates of the flow."""
        flow = self.flow[0]
        stiff = (coordinates[:, flow.stiff] - flow.centre.to(coordinates)) / flow.width.to(coordinates)
        torsions = coordinates[:, flow.torsions]
        for network, moved, other in zip(self.networks, self.halves, self.halves[::-1], strict=True):
            features = angle_features(torsions[:, other].T, 3)
            turn = network(torch.cat([stiff.T.clamp(-8, 8), features])).T
            torsions = torsions.index_add(1, moved, turn)
        return coordinates.index_copy(1, flow.torsions, torsions)


def main(run: Path, *, seconds: float, rate: float = 2e-3, batch: int = 2000) -> None:
    """Train the block, and print its gain."""
    generator = torch.Generator().manual_seed(0)
    with load(run) as opened:
        flow = opened.flow
        assert isinstance(flow, MolecularFlow)
        flow.requires_grad_(requires_grad=False)
        buffer = draw(flow, opened.target.counted, POINTS, generator=generator, progress=lambda *_: None).buffer
        log_drawn = (buffer.log_q + buffer.log_volume).float()
        weights = (torch.softmax(buffer.log_p - buffer.log_q, 0) * buffer.size).clamp_max(HEAVIEST)
        weights = (weights / weights.mean()).float()
        block = Block(flow, generator)
        descent, used, done = torch.optim.Adam(block.parameters(), fused=True), 0.0, 0
        while used < seconds:
            begin = time.thread_time()
            chosen = HELD + torch.randint(buffer.size - HELD, (batch,), generator=generator)
            log_q = flow.log_prob(block(buffer.coordinates[chosen]))
            wanted = weights[chosen] - (log_q.detach() - log_drawn[chosen]).exp().clamp_max(HEAVIEST)
            descent.zero_grad()
            (-(wanted * log_q.nan_to_num(neginf=0.0)).mean()).backward()
            nn.utils.clip_grad_norm_(block.parameters(), 10.0)
            descent.param_groups[0]["lr"] = rate * 0.5 * (1 + math.cos(math.pi * min(used / seconds, 1.0)))
            descent.step()
            used, done = used + time.thread_time() - begin, done + 1
        with torch.no_grad():
            held = slice(0, HELD)
            gain = flow.log_prob(block(buffer.coordinates[held])) - log_drawn[held]
            share = weights[held] / weights[held].sum()
            mean = float((share * gain).sum())
            error = float(((share * (gain - mean)) ** 2).sum().sqrt())
        print(json.dumps({"gain_nats": round(mean, 5), "error": round(error, 5), "gradient_steps": done}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--seconds", type=float, default=40.0, help="CPU time in seconds")
    given = parser.parse_args()
    main(given.run, seconds=given.seconds)
