"""A device that is not there: its tensors compute on the processor, and fail where those of a GPU would.

A tensor of the device holds one of the processor. An operation on tensors of both devices is an error, as on a GPU; so
are an index on the processor, which a GPU would have to wait for, and a random generator of the other device.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "elsewhere"
# The collection of doctests imports this module under another name, and a device is registered once.
if not hasattr(Tensor, f"is_{NAME}"):
    _setup_privateuseone_for_python_backend(NAME)
ELSEWHERE = torch.device(NAME, 0)
aten = torch.ops.aten
BETWEEN = {aten.copy_.default, aten._to_copy.default}
"""Operations that may have tensors of both devices."""


class Elsewhere(Tensor):
    """A tensor of the device, with its values on the processor."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Elsewhere":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=ELSEWHERE,
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Elsewhere({self.held})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Elsewhere":
        made = Elsewhere(self.held.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, nn.Parameter):
            made._is_param = True  # type: ignore[attr-defined]
        memo[id(self)] = made
        return made

    def tolist(self) -> Any:
        """Values as numbers; a GPU copies them to the processor."""
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class Generator(torch.Generator):
    """A random generator of the device."""

    device = ELSEWHERE  # type: ignore[assignment]


class Here(TorchDispatchMode):
    """Makes the tensors that are asked for on the device."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the processor, and say where its result is."""
    given = tree_leaves((args, kwargs))
    tensors = [each for each in given if isinstance(each, Tensor)]
    there = any(isinstance(each, Elsewhere) for each in tensors)
    asked = kwargs.get("device")
    result = there if asked is None else torch.device(asked).type == NAME
    if there and func not in BETWEEN:
        wrong = [each for each in tensors if not isinstance(each, Elsewhere) and each.ndim > 0]
        if wrong:
            raise RuntimeError(f"{func}: tensors of the processor, of shape {tuple(wrong[0].shape)}, beside others")
    if func is aten.copy_.default:
        result = isinstance(args[0], Elsewhere)
    for each in given:
        if isinstance(each, MADE) and (each._cdata in GENERATORS) != result:
            raise RuntimeError(f"{func}: a random generator of another device")
    inner = tree_map(lambda each: each.held if isinstance(each, Elsewhere) else each, (args, kwargs))
    if asked is not None:
        inner[1]["device"] = torch.device("cpu")
    found = func(*inner[0], **inner[1])
    if not result:
        return found
    wrapped = tree_map(lambda each: Elsewhere(each) if isinstance(each, Tensor) else each, found)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if there else wrapped


class Kinds(type(torch.Generator)):  # type: ignore[misc]
    """Says of generators of all devices that they are some."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, MADE)


class AnyGenerator(torch.Generator, metaclass=Kinds):
    """Makes random generators of all devices."""

    def __new__(cls, device: Any = "cpu") -> torch.Generator:  # type: ignore[misc]
        if torch.device(device).type != NAME:
            return MADE.__new__(MADE, device)
        made = MADE.__new__(Generator)
        GENERATORS[made._cdata] = made
        return made


MADE, TENSOR = torch.Generator, torch.tensor
GENERATORS: dict[int, torch.Generator] = {}
"""The generators of the device by their address, since an operation may get another Python object of the same one."""


def tensor(data: Any, *, device: Any = None, **how: Any) -> Tensor:
    """A tensor of numbers, which torch makes on the processor without asking a mode."""
    made = TENSOR(data, **how)
    return made if device is None else made.to(device)


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """Make the device known while the block runs, in which no kernel is compiled."""
    from boltzport.core.compiling import Compiled

    plain = lambda self, *tensors: self._function(*tensors)  # noqa: E731
    with (
        mock.patch.object(torch, "Generator", AnyGenerator),
        mock.patch.object(Compiled, "__call__", plain),
        mock.patch.object(torch, "tensor", tensor),
        Here(),
    ):
        yield ELSEWHERE
