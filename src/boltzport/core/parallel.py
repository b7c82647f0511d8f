"""Several processes that work on one task, as one of them sees it; `meeting` brings them together.

`torchrun` starts the processes and tells each its rank. `ranks()` is what the rest of the code sees: how a number of
points is divided, and sums and collections over the ranks. Without `torchrun` there is one rank, and every method
returns what it is given. A method that talks to the other ranks must be called by all of them, in the same order; so
whatever decides which code runs next must be the same on all ranks.
"""

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from boltzport.core.errors import LostProcess

R = TypeVar("R")


class Wire(ABC):
    """What the ranks talk through."""

    @abstractmethod
    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over the ranks, with the same bits on all of them."""

    def begin(self, tensor: Tensor) -> Callable[[], None]:
        """Begin to replace a tensor by its sum over the ranks; a call of what is returned waits for the end."""
        self.add(tensor)
        return _nothing

    @abstractmethod
    def collect(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks, in their order; all have the same shape."""

    @abstractmethod
    def send(self, tensor: Tensor) -> None:
        """Replace a tensor by that of rank 0."""

    def first(self) -> bool:
        """Whether no rank has asked this before."""
        return True

    @contextmanager
    def watched(self, advice: str) -> Iterator[None]:
        """End this process with a message, while the block runs, if another one gives no sign of life."""
        del advice
        yield


def _nothing() -> None:
    """Do nothing."""


class Traffic(NamedTuple):
    """What a rank has told the others so far.

    Attributes:
        calls: Number of exchanges.
        sent: Bytes that this rank had to tell, each counted once however it travels.
        seconds: Time of the exchanges, with the time that the rank waited for slower ones.
    """

    calls: int = 0
    sent: int = 0
    seconds: float = 0.0

    def minus(self, former: "Traffic") -> "Traffic":
        """The traffic since a former moment."""
        return Traffic(self.calls - former.calls, self.sent - former.sent, self.seconds - former.seconds)


class Ranks:
    """This process among those that work on a task.

    Args:
        rank: Number of this process, from 0.
        world: Number of processes.
        wire: What they talk through; None for a single one.

    Attributes:
        traffic: What this rank has told the others.

    Example:
        >>> Ranks().share(10), [Ranks(rank, 3).share(10) for rank in range(3)]
        (10, [4, 3, 3])
    """

    def __init__(self, rank: int = 0, world: int = 1, wire: Wire | None = None) -> None:
        self.rank, self.world, self._wire = rank, world, wire
        self.traffic = Traffic()

    @property
    def alone(self) -> bool:
        """Whether there are no other ranks."""
        return self._wire is None

    @property
    def leads(self) -> bool:
        """Whether this rank writes files and says what is to be said."""
        return self.rank == 0

    def share(self, n: int) -> int:
        """Number of points of this rank, of n points in all; the shares differ by one at most."""
        return n // self.world + (self.rank < n % self.world)

    def each(self, n: int) -> int:
        """Number of points of every rank, of about n points in all: the same on all of them, and at least one."""
        return max(1, n // self.world)

    def gather(self, tensor: Tensor) -> Tensor:
        """Join the tensors of all ranks along the first dimension, in which they may differ in length."""
        if self._wire is None:
            return tensor
        sizes = self.sizes(len(tensor))
        most, own = max(sizes), tensor.detach()
        padded = torch.cat([own, own.new_zeros(most - len(own), *own.shape[1:])]).contiguous()
        parts = self._talk(lambda wire: wire.collect(padded), padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def sizes(self, size: int) -> list[int]:
        """A number of every rank."""
        if self._wire is None:
            return [size]
        own = torch.tensor([size], device="cpu")
        return [int(part) for part in self._talk(lambda wire: wire.collect(own), own)]

    def total(self, values: Sequence[float | int]) -> list[float]:
        """The sums of numbers over the ranks."""
        if self._wire is None:
            return [float(value) for value in values]
        own = torch.tensor(values, dtype=torch.float64, device="cpu")
        return torch.stack(self._talk(lambda wire: wire.collect(own), own)).sum(0).tolist()

    def mean(self, value: float | int) -> float:
        """The mean of a number over the ranks; NaN if it is NaN on any."""
        return float(value) if self._wire is None else self.total([value])[0] / self.world

    def agreed(self, number: int) -> int:
        """The number of rank 0."""
        return self.sizes(number)[0]

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over the ranks, in one exchange."""
        if self._wire is None or not tensors:
            return
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        self._talk(lambda wire: wire.add(flat), flat)
        flat /= self.world
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.detach().copy_(part.view_as(tensor))

    def averaging(self, flat: Tensor) -> Callable[[], None]:
        """Begin to replace a tensor by its mean over the ranks; a call of what is returned waits for the end."""
        if self._wire is None:
            return _nothing
        wait = self._talk(lambda wire: wire.begin(flat), flat)

        def end() -> None:
            self._talk(lambda _: wait(), None)
            flat.div_(self.world)

        return end

    def follow(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by those of rank 0, in one exchange for each data type and device."""
        if self._wire is None:
            return
        groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            groups.setdefault((tensor.dtype, tensor.device), []).append(tensor.detach())
        for group in groups.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in group])
            self._talk(lambda wire, flat=flat: wire.send(flat), flat)  # type: ignore[misc]
            for tensor, part in zip(group, torch.split(flat, [tensor.numel() for tensor in group]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def told(self, content: bytes = b"") -> bytes:
        """What rank 0 tells the others."""
        if self._wire is None:
            return content
        size = torch.tensor([len(content)], device="cpu")
        self.follow([size])
        held = torch.zeros(int(size), dtype=torch.uint8, device="cpu")
        if self.leads and content:
            held = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self.follow([held])
        return held.numpy().tobytes()

    def collected(self, content: bytes) -> list[bytes]:
        """What every rank has, in their order."""
        held = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        joined, sizes = self.gather(held).numpy().tobytes(), self.sizes(len(held))
        ends = list(itertools.accumulate(sizes))
        return [joined[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def first(self) -> bool:
        """Whether this is the first rank to say why the task ends; it is said once."""
        return self._wire is None or self._wire.first()

    @contextmanager
    def watched(self, advice: str = "start again") -> Iterator[None]:
        """End this process with a message, while the block runs, if another rank dies without a word.

        Args:
            advice: What the user can do then.
        """
        if self._wire is None:
            yield
            return
        with self._wire.watched(advice):
            yield

    def _talk(self, call: Callable[[Wire], R], held: Tensor | None) -> R:
        """Do an exchange, or wait for the end of one that has begun, which has no tensor of its own."""
        assert self._wire is not None
        start = time.perf_counter()
        try:
            return call(self._wire)
        except RuntimeError as error:
            raise LostProcess(lost()) from error
        finally:
            spent = time.perf_counter() - start
            calls, sent = (0, 0) if held is None else (1, held.nbytes)
            self.traffic = Traffic(self.traffic.calls + calls, self.traffic.sent + sent, self.traffic.seconds + spent)


_ALONE = Ranks()
_PRESENT: ContextVar[Ranks] = ContextVar("ranks")


def ranks() -> Ranks:
    """This process among those that work on the present task.

    Example:
        >>> ranks().world
        1
    """
    return _PRESENT.get(_ALONE)


@contextmanager
def among(present: Ranks) -> Iterator[Ranks]:
    """Work as the given rank while the block runs; `Ranks()` is to work alone."""
    token = _PRESENT.set(present)
    try:
        yield present
    finally:
        _PRESENT.reset(token)


def met() -> bool:
    """Whether this process works on a task with others, or alone, because it was told so."""
    return _PRESENT.get(None) is not None


def lost() -> str:
    """Message of a rank that has lost another one."""
    return f"another of the {ranks().world} processes of this run has ended"
