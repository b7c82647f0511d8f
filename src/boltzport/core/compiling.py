"""Compilation of elementwise kernels, which run uncompiled if it fails.

AOTInductor compiles a kernel ahead of time into a shared library in the disk cache of torch. A process that finds it
there runs it at once: nothing is traced, and no guards are checked at each call.
"""

import hashlib
import importlib
import inspect
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

_LOG = logging.getLogger(__name__)
_EXAMPLE = 1024
"""Length of the tensors that a kernel is traced with; the compiled kernel takes any length of at least 2."""

R = TypeVar("R", bound=tuple[Tensor, ...])


class _Case(NamedTuple):
    """What a compiled kernel depends on; only the last dimension of its tensors is free."""

    rows: tuple[tuple[int, ...], ...]
    dtype: torch.dtype
    device: str
    # The number of threads is a constant of the compiled code.
    threads: int


class Compiled(Generic[R]):
    """An elementwise function of tensors, compiled at its first call for any length of their last dimension.

    If the compilation fails, most often because there is no C++ compiler, the uncompiled function is used from then
    on, and a warning is logged.

    Args:
        function: A pure function of tensors, at the top level of its module; the compiled object must be there too.
        record: Makes the result from the tensors that the function returns.
        name: Name of the compiled object in the module.
    """

    def __init__(self, function: Callable[..., R], record: Callable[..., R], *, name: str) -> None:
        self._function, self._record, self._name = function, record, name
        self._libraries: dict[_Case, Callable[..., Sequence[Tensor]]] = {}
        self._helpers: dict[_Case, subprocess.Popen[bytes]] = {}
        self._failed = False

    def __call__(self, *tensors: Tensor) -> R:
        """Call the function."""
        # The compiler treats a dimension of one as a special case; such a short loop needs no compilation.
        if self._failed or tensors[0].shape[-1] < 2:
            return self._function(*tensors)
        case = _case(tensors)
        try:
            if case not in self._libraries:
                self._libraries[case] = self._library(case)
            # The library ignores strides, and the gradient of a sum is one number, expanded.
            return self._record(*self._libraries[case](*(tensor.contiguous() for tensor in tensors)))
        except Exception as error:  # a missing compiler surfaces as any of a dozen types
            reason = str(error).strip().splitlines() or [type(error).__name__]
            _LOG.warning("%s runs uncompiled, several times slower: %s", self._function.__name__, reason[0])
            self._failed = True
            return self._function(*tensors)

    def start(self, *tensors: Tensor) -> None:
        """Compile for tensors like these in a separate process, without waiting for it."""
        case = _case(tensors)
        try:
            if self._failed or case in self._libraries or case in self._helpers or self._path(case).exists():
                return
        except OSError:  # the cache cannot be written or read; the first call says so
            return
        arguments = json.dumps([self._function.__module__, self._name, case.rows, str(case.dtype), *case[2:]])
        self._helpers[case] = subprocess.Popen(
            [sys.executable, "-c", f"from boltzport.core.compiling import compile_for; compile_for({arguments!r})"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )

    def compile(self, case: _Case) -> Path:
        """Compile, unless the library is already on disk, and return its path."""
        path = self._path(case)
        if path.exists():
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        examples = tuple(torch.rand(*rows, _EXAMPLE, dtype=case.dtype, device=case.device) for rows in case.rows)
        length = torch.export.Dim("length", min=2)
        shapes = (tuple({len(rows): length} for rows in case.rows),)
        unfinished = path.with_name(f"{os.getpid()}-{path.name}")
        with warnings.catch_warnings(), torch.no_grad():
            # Torch warns of its own deprecated calls.
            warnings.simplefilter("ignore")
            program = torch.export.export(_Module(self._function), examples, dynamic_shapes=shapes, strict=False)
            torch._inductor.aoti_compile_and_package(program, package_path=str(unfinished))
        unfinished.replace(path)
        return path

    def _library(self, case: _Case) -> Callable[..., Sequence[Tensor]]:
        helper = self._helpers.pop(case, None)
        if helper is not None:
            helper.wait()
        library: Callable[..., Sequence[Tensor]] = torch._inductor.aoti_load_package(str(self.compile(case)))
        return library

    def _path(self, case: _Case) -> Path:
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        source = inspect.getsource(inspect.getmodule(self._function) or self._function)
        machine = (torch.__version__, torch.backends.cpu.get_cpu_capability())
        digest = hashlib.sha256(repr((source, case, machine)).encode()).hexdigest()[:24]
        return Path(cache_dir()) / "boltzport" / f"{self._function.__name__}-{digest}.pt2"


def compile_for(arguments: str) -> None:
    """Compile a kernel in a separate process; see `Compiled.start`."""
    module, name, rows, dtype, device, threads = json.loads(arguments)
    torch.set_num_threads(threads)
    kernel: Compiled[tuple[Tensor, ...]] = getattr(importlib.import_module(module), name)
    shapes = tuple(tuple(row) for row in rows)
    kernel.compile(_Case(shapes, getattr(torch, dtype.removeprefix("torch.")), device, threads))


class _Module(nn.Module):
    """A function as a module, which the exporter needs."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self._function(*tensors))


def _case(tensors: tuple[Tensor, ...]) -> _Case:
    first = tensors[0]
    rows = tuple(tuple(tensor.shape[:-1]) for tensor in tensors)
    return _Case(rows, first.dtype, str(first.device), torch.get_num_threads())
