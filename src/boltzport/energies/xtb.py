"""``XTB``: the semi-empirical methods GFN2-xTB and GFN1-xTB by tblite, in several processes."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies import calculators
from boltzport.energies.ase import LARGEST_TASK
from boltzport.energies.checks import check_shape
from boltzport.energies.extras import require_extra
from boltzport.energies.processes import ProcessEnergy, Worker

METHODS = {"gfn2-xtb": "GFN2-xTB", "gfn1-xtb": "GFN1-xTB"}
"""Methods of tblite by their name on the command line."""
HEAVIEST = 86
"""Largest atomic number with parameters."""


class XTB(ProcessEnergy):
    """Extended tight binding, in vacuum: quantum chemistry at about a hundred energies a second per core.

    Every evaluation starts from a new guess, so that an energy does not depend on those before it. An evaluation whose
    self-consistent field does not converge is NaN, as happens where atoms clash.

    Args:
        elements: Atomic number of each atom.
        charge: Total charge in elementary charges.
        method: `gfn2-xtb` or `gfn1-xtb`.
        accuracy: Convergence of tblite; smaller is more accurate.
        processes: Number of processes; by default one per core.

    Raises:
        InputError: tblite is not installed, or the molecule has an odd number of electrons or an element without
            parameters.

    Example:
        >>> import torch
        >>> water = torch.tensor([[[0.0, 0.0, 0.0], [0.096, 0.0, 0.0], [-0.024, 0.093, 0.0]]])
        >>> with XTB([8, 1, 1], processes=1) as energy:
        ...     round(float(energy(water)), 0)
        -13312.0
    """

    def __init__(
        self,
        elements: Sequence[int],
        *,
        charge: int = 0,
        method: str = "gfn2-xtb",
        accuracy: float = 1.0,
        processes: int | None = None,
    ) -> None:
        if method not in METHODS:
            raise InputError(f"method: expected {' or '.join(METHODS)}, got {method}")
        require_extra(method, ("tblite",), extra="xtb")
        self.elements = tuple(int(number) for number in elements)
        if not all(0 < number <= HEAVIEST for number in self.elements):
            wrong = next(number for number in self.elements if not 0 < number <= HEAVIEST)
            raise InputError(f"{method} has no parameters for atomic number {wrong}; expected 1 to {HEAVIEST}")
        electrons = sum(self.elements) - charge
        if electrons % 2:
            raise InputError(
                f"{method}: expected an even number of electrons, got {electrons} with a total charge of {charge:+d}; "
                "check the charge"
            )
        self.name = f"{method}(charge={charge:+d}, accuracy={accuracy:g})"
        settings = {"method": METHODS[method], "charge": charge, "unpaired": 0, "accuracy": accuracy}
        worker = Worker(METHODS[method], calculators.__file__, ("xtb", self.elements, settings), LARGEST_TASK)
        super().__init__(worker, processes=processes)

    def _check(self, positions: Tensor) -> None:
        check_shape(positions, atoms=len(self.elements))

    def _prepare(self, positions: np.ndarray, *, forces: bool) -> None:
        pass
