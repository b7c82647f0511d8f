"""``ASE``: any calculator of the Atomic Simulation Environment as an energy, in several processes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies import calculators
from boltzport.energies.checks import check_shape
from boltzport.energies.extras import require_extra
from boltzport.energies.processes import ProcessEnergy, Worker

LARGEST_TASK = 32
"""Largest number of configurations per task of an expensive energy, so that the load is balanced."""


class ASE:
    """An ASE calculator as an energy, for `boltzport.train(molecule, energy=ASE(calculator))`.

    Each of several single-threaded processes has its own copy of the calculator. Functions, classes and objects of
    a script or a notebook are sent to the processes by value. If an evaluation fails, its energy is NaN; if a process
    dies, it is replaced.

    Args:
        calculator: A calculator, or a function (or class) without arguments that makes one; a function is needed if
            the calculator cannot be pickled, and good if it is large.
        processes: Number of processes; by default one per core.
        name: Description that a run directory records; by default the calculator's name and parameters.

    Example:
        >>> import torch
        >>> from ase.calculators.lj import LennardJones
        >>> argon = ASE(LennardJones(sigma=3.4, epsilon=0.0104, rc=12.0), processes=1)
        >>> with argon.of([18, 18]) as energy:
        ...     energy(torch.tensor([[[0.0, 0.0, 0.0], [0.38, 0.0, 0.0]]])).shape
        torch.Size([1])
    """

    def __init__(
        self, calculator: Any | Callable[[], Any], *, processes: int | None = None, name: str | None = None
    ) -> None:
        require_extra("an ASE calculator", ("ase", "cloudpickle"), extra="ase")
        if not (calculators.is_calculator(calculator) or callable(calculator)):
            got = type(calculator).__name__
            raise InputError(f"expected an ASE calculator or a function that makes one, got {got}")
        self._data = _pickled(calculator)
        self._processes = processes
        self.name = name or _described(calculator)

    def __repr__(self) -> str:
        return f"ASE({self.name})"

    def of(self, elements: Sequence[int]) -> "ASEEnergy":
        """The energy of a molecule.

        Args:
            elements: Atomic number of each atom.
        """
        return ASEEnergy(self._data, elements, processes=self._processes)


class ASEEnergy(ProcessEnergy):
    """An ASE calculator of one molecule, in several processes; `ASE.of` makes it."""

    def __init__(self, data: bytes, elements: Sequence[int], *, processes: int | None) -> None:
        self.elements = tuple(int(number) for number in elements)
        worker = Worker("ASE", calculators.__file__, ("ase", self.elements, data), LARGEST_TASK)
        super().__init__(worker, processes=processes)
        self._has_forces: bool | None = None

    @property
    def differentiable(self) -> bool:
        """Whether the calculator has forces; asks a worker once."""
        if self._has_forces is None:
            self._has_forces = bool(self._ask_once("forces", np.zeros((0, len(self.elements), 3)), forces=False))
        return self._has_forces

    def _check(self, positions: Tensor) -> None:
        check_shape(positions, atoms=len(self.elements))

    def _prepare(self, positions: np.ndarray, *, forces: bool) -> None:
        pass


def _pickled(calculator: Any) -> bytes:
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(calculator)
    except Exception as error:  # pickling may raise anything
        raise InputError(
            f"{_described(calculator)} cannot be sent to other processes ({error}); pass a function that makes it"
        ) from error
    return data


def _described(calculator: Any) -> str:
    """Name of a calculator with the parameters that differ from its defaults, or the name of a function."""
    if not calculators.is_calculator(calculator):
        return str(getattr(calculator, "__qualname__", type(calculator).__name__))
    defaults = getattr(calculator, "default_parameters", {})
    changed = {
        key: value
        for key, value in getattr(calculator, "parameters", {}).items()
        if isinstance(value, str | int | float | bool) and defaults.get(key) != value
    }
    return f"{type(calculator).__name__}({', '.join(f'{key}={value!r}' for key, value in sorted(changed.items()))})"
