"""Free-energy difference between two descriptions of one system: two temperatures, force fields or energies.

F = -kT log Z, where Z is the integral of exp(-U / kT) over the positions in nm, without translations and rotations, and
differences are those of the second description minus the first:

    log Z difference             log Z_2 - log Z_1
    reduced free energy          F_2 / kT_2 - F_1 / kT_1 = -(log Z_2 - log Z_1), in kT
    free energy                  F_2 - F_1 = -kT_2 log Z_2 + kT_1 log Z_1, in kJ/mol

At equal temperatures the last two differ by the factor kT only. Between two temperatures, F_2 - F_1 depends on the unit
of length, since log Z does; the reduced one does not. Momenta are not included: their part is known exactly.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from boltzport.analysis.metrics.estimates import Estimate, estimate, symmetric


class Side(NamedTuple):
    """One of the two descriptions.

    Attributes:
        log_z: Log of its normalising constant.
        log_z_error: Standard error of `log_z`.
        thermal_energy: kT in kJ/mol.
    """

    log_z: float
    log_z_error: float
    thermal_energy: float


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a model was before it was retargeted, and how well reweighting alone would have done.

    Attributes:
        run: Run directory or name of the former model.
        before: The former description in words.
        after: The present one.
        by: `reweighting`, or `constrained steps` from the former flow.
        log_z: log Z of the former description.
        log_z_error: Its standard error.
        thermal_energy: kT of the former description in kJ/mol; 1 for a target that is not a molecule.
        samples: Number of samples of the former flow that were reweighted.
        ess: Their effective size, as a fraction, with clipped weights.
        pareto_k: Shape of the tail of their weights; None if they are all equal.
        log_z_difference: log Z of the present description minus that of the former one, by reweighting alone.
        log_z_difference_error: Standard error of this difference, from both constants.
        ess_matched: Effective size once the local coordinates were matched to the present description; None if they
            were not.
    """

    run: str
    before: str
    after: str
    by: str
    log_z: float
    log_z_error: float
    thermal_energy: float
    samples: int
    ess: float
    pareto_k: float | None
    log_z_difference: float
    log_z_difference_error: float
    ess_matched: float | None = None

    @property
    def side(self) -> Side:
        """The former description."""
        return Side(self.log_z, self.log_z_error, self.thermal_energy)

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        return asdict(self)


def difference(first: Side, second: Side) -> Iterator[Estimate]:
    """Differences of the second description minus the first, from independent estimates of log Z.

    Example:
        >>> for found in difference(Side(-1.0, 0.03, 2.5), Side(-2.0, 0.04, 3.0)):
        ...     print(found.name, found.value, round(found.error, 4))
        log_z_difference -1.0 0.05
        reduced_free_energy_difference 1.0 0.05
        free_energy_difference 3.5 0.1415
    """
    change = second.log_z - first.log_z
    error = math.hypot(first.log_z_error, second.log_z_error)
    yield estimate("log_z_difference", change, symmetric(change, error))
    yield estimate("reduced_free_energy_difference", -change, symmetric(-change, error))
    energy = first.thermal_energy * first.log_z - second.thermal_energy * second.log_z
    spread = math.hypot(first.thermal_energy * first.log_z_error, second.thermal_energy * second.log_z_error)
    yield estimate("free_energy_difference", energy, symmetric(energy, spread))
