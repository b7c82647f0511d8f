"""Gradients averaged over ranks, in buckets that are sent while the backward pass goes on.

Which parameters share a bucket depends on their sizes only, so that a run that is resumed sums in the same order, to
the last bit. All ranks send the buckets in the order in which the first backward pass of rank 0 filled them: a bucket
waits until its gradients are known and the former bucket is on its way.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from boltzport.core.parallel import Ranks, ranks

SIZE = 2**20
"""Smallest size of a bucket in bytes, except for the last one; each costs a fraction of a millisecond."""


class Buckets:
    """Averages the gradients of some parameters; each rank has the mean over its own, equal part of a batch.

    Args:
        parameters: The parameters, in the same order on all ranks.
        size: Smallest size of a bucket in bytes.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], *, size: int = SIZE) -> None:
        self._buckets: list[list[nn.Parameter]] = []
        for parameter in parameters:
            if not self._buckets or sum(each.nbytes for each in self._buckets[-1]) >= size:
                self._buckets.append([])
            self._buckets[-1].append(parameter)
        # A single bucket is full when the pass is over; for several, the first pass finds the order.
        self._order: list[int] = [0] if len(self._buckets) == 1 else []

    def backward(self, loss: Tensor) -> None:
        """Do the backward pass of a loss and average the gradients."""
        # Hooks may run in a thread of the backward pass, which does not know the present ranks.
        present = ranks()
        missing = [len(bucket) for bucket in self._buckets]
        full: list[int] = []
        ends: list[Callable[[], None]] = []

        def send() -> None:
            while len(ends) < len(self._order) and self._order[len(ends)] in full:
                ends.append(_averaging(self._buckets[self._order[len(ends)]], present))

        def arrived(place: int, _: Tensor) -> None:
            missing[place] -= 1
            if not missing[place]:
                full.append(place)
                send()

        hooks = []
        for place, bucket in enumerate(self._buckets if len(self._buckets) > 1 else []):
            for parameter in bucket:
                hook = partial(arrived, place)
                hooks.append(parameter.register_post_accumulate_grad_hook(hook))  # type: ignore[no-untyped-call]
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            for hook in hooks:
                hook.remove()
        # A parameter that the loss does not depend on keeps its bucket to the end.
        full += [place for place, count in enumerate(missing) if count]
        if not self._order:
            order = torch.tensor(full, device="cpu")
            present.follow([order])
            self._order = order.tolist()
        send()
        for end in ends:
            end()


def _averaging(bucket: list[nn.Parameter], present: Ranks) -> Callable[[], None]:
    """Begin to average the gradients of a bucket; a call of what is returned waits for the end and puts them back."""
    known = [(parameter, parameter.grad) for parameter in bucket if parameter.grad is not None]
    if not known:
        return lambda: None
    flat = torch.cat([gradient.reshape(-1) for _, gradient in known])
    wait = present.averaging(flat)

    def end() -> None:
        wait()
        parts = torch.split(flat, [gradient.numel() for _, gradient in known])
        for (parameter, _), part in zip(known, parts, strict=True):
            # A view into the bucket: nothing is copied back.
            parameter.grad = part.view_as(parameter)

    return end
