"""Compiling a function where that works, and running it as it is where it does not."""

import logging
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

_LOG = logging.getLogger(__name__)


class Compiled(Generic[P, R]):
    """A function that `torch.compile` compiles at its first call, for any sizes of its tensors.

    Where the compilation fails, most often because there is no C++ compiler, the function itself runs from then
    on, and one line of the log says so.

    Args:
        function: A pure function of tensors.
        name: What it is, for the log.
    """

    def __init__(self, function: Callable[P, R], *, name: str) -> None:
        self._function = function
        self._name = name
        self._fast: Callable[P, R] = torch.compile(function, dynamic=True, fullgraph=True)
        self._tried = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function."""
        if self._tried:
            return self._fast(*args, **kwargs)
        try:
            result = self._fast(*args, **kwargs)
        except Exception as error:  # a missing compiler surfaces as any of a dozen types
            reason = str(error).strip().splitlines() or [type(error).__name__]
            _LOG.warning("%s runs uncompiled, several times slower: %s", self._name, reason[0])
            self._fast = self._function
            result = self._function(*args, **kwargs)
        self._tried = True
        return result
