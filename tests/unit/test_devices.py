"""A hot path makes no tensor without saying where: beside a flow on a GPU, one of the processor would fail or be slow.

There is no GPU here. Instead every call that makes a tensor from nothing, within a training step of each method, must
name its device.
"""

import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from boltzport.core.devices import chosen, use_threads
from boltzport.core.errors import InputError
from ranks import SETTINGS, advance, begun

MAKE = {
    getattr(torch, name)
    for name in [
        "arange",
        "empty",
        "eye",
        "full",
        "linspace",
        "multinomial",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "tensor",
        "zeros",
    ]
} - {torch.multinomial}
SOURCE = Path(__file__).parents[2] / "src" / "boltzport"
HOT = ("training", "flows", "mcmc")
"""Packages whose code runs in a step; targets are those of the tests."""


class Watch(TorchFunctionMode):
    """Remembers the places that make a tensor without naming its device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.named = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in MAKE:
            places = [frame for frame in traceback.extract_stack() if "/src/boltzport/" in frame.filename]
            inner = places[-1].filename.split("/src/boltzport/")[1] if places else ""
            # New networks are made on the processor, like those of a new flow, and copied.
            made = any(frame.name == "renew_stiff" for frame in places)
            if inner.split("/")[0] in HOT and not made:
                if kwargs.get("device") is None:
                    self.seen.add(f"{inner}:{places[-1].lineno}: {places[-1].line}")
                else:
                    self.named += 1
        return func(*args, **kwargs)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_tensor_of_a_step_says_where_it_lives(name: str) -> None:
    training = begun(name)
    with Watch() as watch:
        advance(training)
    assert watch.seen == set()
    assert watch.named > 0


def test_one_file_names_an_accelerator() -> None:
    named = [path for path in SOURCE.rglob("*.py") if "cuda" in path.read_text()]
    assert named == [SOURCE / "core" / "devices.py"]


def test_a_device_that_is_not_here_is_an_error() -> None:
    assert chosen("cpu") == torch.device("cpu")
    if not torch.accelerator.is_available():
        assert chosen("auto") == torch.device("cpu")
        with pytest.raises(InputError, match="expected a GPU that torch can use"):
            chosen("cuda")
    with pytest.raises(InputError, match="threads: expected at least 1, got 0"):
        use_threads(0)
