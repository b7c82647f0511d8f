"""Ranks as threads of the test process that talk through a barrier: the laws of many ranks without processes."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boltzport.core.parallel import Ranks, Wire, among
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Density, Ledger, Target, toy
from boltzport.training import Method, Training, WeightedPoints
from boltzport.training.methods import method_entry
from halved_target import LAYOUT, log_density, new_flow
from trainings import quiet, small_flow


class Together:
    """What the threads share."""

    def __init__(self, world: int) -> None:
        self.world, self.barrier, self.parts = world, threading.Barrier(world, timeout=60), [torch.empty(0)] * world


class Thread(Wire):
    def __init__(self, rank: int, shared: Together) -> None:
        self._rank, self._shared = rank, shared

    def collect(self, tensor: Tensor) -> list[Tensor]:
        self._shared.parts[self._rank] = tensor.clone()
        self._shared.barrier.wait()
        parts = [part.clone() for part in self._shared.parts]
        assert all(part.shape == tensor.shape and part.dtype == tensor.dtype for part in parts)
        self._shared.barrier.wait()
        return parts

    def add(self, tensor: Tensor) -> None:
        tensor.copy_(torch.stack(self.collect(tensor)).sum(0))

    def send(self, tensor: Tensor) -> None:
        tensor.copy_(self.collect(tensor)[0])


def on_ranks(world: int, work: Callable[[], Any]) -> list[Any]:
    """What the work returns on each rank; an error on one rank ends all."""
    shared, found, errors = Together(world), [None] * world, []

    def run(rank: int) -> None:
        try:
            with among(Ranks(rank, world, Thread(rank, shared))):
                found[rank] = work()
        except BaseException as error:
            errors.append(error)
            shared.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


SETTINGS: dict[str, dict[str, Any]] = {
    "cmt": {"steps": 2, "gradient_steps": 5, "buffer_size": 500, "batch_size": 100, "average": 0.9, "reuse": 1},
    "cmt-local": {"steps": 2, "gradient_steps": 7, "buffer_size": 500, "batch_size": 100, "sync_every": 3},
    "cmt-refined": {
        "steps": 1,
        "gradient_steps": 5,
        "buffer_size": 400,
        "batch_size": 100,
        "refine": 1,
        "refine_batch": 100,
        "anchors": 200,
        "anchor_batch": 50,
    },
    "forward-kl": {"steps": 2, "gradient_steps": 5, "batch_size": 100, "monitor": 300, "average": 0.9},
    "reverse-kl": {"steps": 2, "gradient_steps": 5, "batch_size": 100, "remove_highest": 6},
    "fab": {
        "steps": 2,
        "passes": 2,
        "gradient_steps": 2,
        "batch_size": 100,
        "intermediate": 2,
        "leapfrog": 2,
        "buffer_min": 150,
        "buffer_max": 400,
    },
    "ta-bg": {
        "hot": 3.0,
        "rungs": 1,
        "final": 1,
        "pretrain_steps": 1,
        "pretrain_gradient_steps": 5,
        "pretrain_batch": 100,
        "buffer_size": 500,
        "resampled_to": 400,
        "gradient_steps": 5,
        "batch_size": 100,
    },
    "halves": {
        "steps": 2,
        "gradient_steps": 4,
        "buffer_size": 400,
        "batch_size": 100,
        "apart": True,
        "arrive": True,
        "chains": 64,
        "leapfrogs": 2,
        "stiff_steps": 3,
        "stiff_batch": 60,
        "refine": 2,
        "refine_buffer": 400,
        "refine_batch": 100,
        "refine_steps": 3,
        "refine_stiff_steps": 3,
        "refine_stiff_batch": 60,
        "pool": 2,
        "broader": 0.5,
        "renew": 4,
        "trust_region": 50.0,
        "control": True,
    },
}
"""Two steps or more of each method and way of training, with sizes that two ranks divide evenly."""


def target_of(name: str) -> Target:
    return Density(log_density, LAYOUT) if name == "halves" else toy("gmm-2d")


def flow_of(name: str, *, seed: int = 0) -> Flow:
    if name != "halves":
        return small_flow(target_of(name), seed=seed)
    return new_flow(seed)


def method_of(name: str) -> Method[Any]:
    entry, samples = method_entry("cmt" if name.startswith("cmt") or name == "halves" else name), None
    if entry.needs_samples:
        points = toy("gmm-2d").sample(1000, generator=torch.Generator().manual_seed(11)).float()
        samples = WeightedPoints(points, torch.linspace(-1.0, 1.0, 1000, dtype=torch.float64))
    return entry.build(entry.config(**SETTINGS[name]), samples)


def begun(name: str, saved: dict[str, Any] | None = None) -> Training:
    ledger = Ledger(saved["ledger"] if saved else None)
    return Training(
        method_of(name),
        flow_of(name, seed=3 if saved else 0),
        CountedTarget(target_of(name)),
        generator=torch.Generator().manual_seed(5),
        ledger=ledger,
        saved=saved,
    )


def advance(training: Training, steps: int | None = None) -> list[dict[str, Any]]:
    for count, _ in enumerate(training.steps(quiet), start=1):
        if count == steps:
            break
    return [{key: value for key, value in row.items() if key != "seconds"} for row in training.rows]
