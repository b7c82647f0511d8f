"""Ranks as threads of the test process that talk through a barrier: the laws of many ranks without processes."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from boltzport.core.parallel import Ranks, Wire, among


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
