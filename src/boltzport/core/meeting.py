"""The meeting of the processes that torchrun started: the one place that knows torch.distributed."""

import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch
import torch.distributed
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from boltzport.core.errors import InputError, LostProcess
from boltzport.core.parallel import Ranks, Wire, among, lost, met, ranks

LONGEST = timedelta(hours=24)
"""Longest time that a rank waits for the others, which may be evaluating a slow energy; the dead are noticed sooner."""
MEETING = timedelta(minutes=10)
"""Longest time that a rank waits for the others to start."""
LINGER = timedelta(seconds=10)
"""Longest time that rank 0, which may hold what is said, waits at its end for the others."""
BEAT, SILENCE = 3.0, 40.0
"""Seconds between two signs of life of a rank, and without one after which it is taken for dead."""


def started() -> int:
    """Number of processes that `torchrun` started; 1 without it.

    Raises:
        InputError: The environment is only half of torchrun's.
    """
    world = os.environ.get("WORLD_SIZE", "1")
    if not world.isdecimal() or int(world) < 1:
        raise InputError(f"WORLD_SIZE: expected a number of processes, got {world!r}; start them with torchrun")
    if int(world) == 1:
        return 1
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(
            f"WORLD_SIZE is {world}, but {', '.join(missing)} not set; start the processes with torchrun, or unset "
            "WORLD_SIZE"
        )
    return int(world)


@contextmanager
def joined() -> Iterator[Ranks]:
    """Join the processes that `torchrun` started while the block runs; without it, or if this was done, do nothing.

    Raises:
        InputError: The environment is only half of torchrun's.
        LostProcess: The others do not come.
    """
    if met() or started() == 1:
        yield ranks()
        return
    number = next(_TIMES)
    try:
        store, rank, world = _meeting()
        # The store keeps what was said when these processes met before.
        own, theirs = (PrefixStore(f"{name} {number}", store) for name in ("boltzport", "gloo"))
        torch.distributed.init_process_group("gloo", store=theirs, rank=rank, world_size=world, timeout=LONGEST)
    except (RuntimeError, ValueError) as error:
        raise LostProcess(f"the {started()} processes did not meet: {' '.join(str(error).split())[:200]}") from error
    wire = _Distributed(own, rank, world)
    try:
        with among(Ranks(rank, world, wire)) as present:
            yield present
    finally:
        wire.leave()
        with suppress(RuntimeError):
            torch.distributed.destroy_process_group()
        wire.linger()


_TIMES = itertools.count()
"""Numbers of the meetings of these processes."""


@functools.cache
def _meeting() -> tuple[Store, int, int]:
    """The place where the processes meet, the rank of this one, and their number."""
    store, rank, world = next(rendezvous("env://", timeout=MEETING))
    return store, rank, world


class _Distributed(Wire):
    """Torch's processes, by gloo; tensors of a GPU go through the memory of the host.

    Args:
        store: Names and numbers that all ranks see.
        rank: Number of this process.
        world: Number of processes.
    """

    def __init__(self, store: Store, rank: int, world: int) -> None:
        self._store, self._rank, self._world = store, rank, world
        self._watches = 0

    def add(self, tensor: Tensor) -> None:
        held = tensor.cpu()
        torch.distributed.all_reduce(held)
        if held is not tensor:
            tensor.copy_(held)

    def begin(self, tensor: Tensor) -> Callable[[], None]:
        held = tensor.cpu()
        work = torch.distributed.all_reduce(held, async_op=True)

        def wait() -> None:
            work.wait()
            if held is not tensor:
                tensor.copy_(held)

        return wait

    def collect(self, tensor: Tensor) -> list[Tensor]:
        held = tensor.cpu()
        parts = [torch.empty_like(held) for _ in range(self._world)]
        torch.distributed.all_gather(parts, held)
        return [part.to(tensor.device) for part in parts]

    def send(self, tensor: Tensor) -> None:
        held = tensor.cpu()
        torch.distributed.broadcast(held, 0)
        if held is not tensor:
            tensor.copy_(held)

    def first(self) -> bool:
        try:
            return int(self._store.add("said", 1)) == 1
        except RuntimeError:
            # The process with the store, rank 0 without torchrun, is the one that has ended.
            return self._rank == 1

    def leave(self, what: str = "") -> None:
        """Tell the others that this rank ends as it should, or that it has left a block that was watched."""
        with suppress(RuntimeError):
            self._store.set(f"left{what} {self._rank}", "")

    def linger(self) -> None:
        """Keep the store, which may end with this rank, until the others have asked who says why the task ends."""
        if self._rank == 0:
            with suppress(RuntimeError):
                self._store.wait([f"left {rank}" for rank in range(1, self._world)], LINGER)

    @contextmanager
    def watched(self, advice: str) -> Iterator[None]:
        done, self._watches = threading.Event(), self._watches + 1
        what, message = f" block {self._watches} of", f"{lost()}; {advice}"
        watch = threading.Thread(target=self._watch, args=(done, what, message), daemon=True, name="ranks")
        watch.start()
        try:
            yield
        finally:
            done.set()
            watch.join()
            self.leave(what)

    def _watch(self, done: threading.Event, what: str, message: str) -> None:
        """Give a sign of life at intervals, and look for those of the others.

        A rank whose host fails closes no connection, so that an exchange would wait for it.
        """
        others = [rank for rank in range(self._world) if rank != self._rank]
        seen, last = dict.fromkeys(others, 0), dict.fromkeys(others, time.monotonic())
        while not done.wait(BEAT):
            with suppress(RuntimeError):
                self._store.add(f"beat {self._rank}", 1)
                for rank in others:
                    beats = int(self._store.add(f"beat {rank}", 0))
                    left = any(self._store.check([f"left{part} {rank}"]) for part in ("", what))
                    if beats != seen[rank] or left:
                        seen[rank], last[rank] = beats, time.monotonic()
            if time.monotonic() - min(last.values()) > SILENCE:
                # An exchange that waits cannot be interrupted.
                if self.first():
                    os.write(2, f"boltzport: {message}\n".encode())
                os._exit(1)
