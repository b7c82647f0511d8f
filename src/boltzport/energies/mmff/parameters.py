"""MMFF94 of a molecule as data: the atoms and the constants of every term, in nm, radian and kJ/mol."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from jaxtyping import Float, Int
from torch import Tensor


class MMFFTerm(Enum):
    """Kinds of terms; the value is the name used in messages and, after `MMFF94 `, of the OpenMM force."""

    STRETCH = "bond stretch"
    BEND = "angle bend"
    LINEAR = "linear bend"
    STRETCH_BEND = "stretch-bend"
    OUT_OF_PLANE = "out-of-plane bend"
    TORSION = "torsion"
    VAN_DER_WAALS = "van der Waals"
    ELECTROSTATICS = "electrostatics"


CONSTANTS: dict[MMFFTerm, tuple[str, ...]] = {
    MMFFTerm.STRETCH: ("k", "r0"),
    MMFFTerm.BEND: ("k", "theta0"),
    MMFFTerm.LINEAR: ("k",),
    MMFFTerm.STRETCH_BEND: ("first", "second", "r1", "r2", "theta0"),
    MMFFTerm.OUT_OF_PLANE: ("k",),
    MMFFTerm.TORSION: ("v1", "v2", "v3"),
    MMFFTerm.VAN_DER_WAALS: ("length", "epsilon"),
    MMFFTerm.ELECTROSTATICS: ("product",),
}
"""Names of the constants of each term, in the order of their columns; `terms` has the formulas."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """All terms of one kind.

    Attributes:
        atoms: Two, three or four atoms of each term.
        constants: Constants of each term, in the order of `CONSTANTS`.
    """

    atoms: Int[Tensor, "terms members"]
    constants: Float[Tensor, "terms constants"]


@dataclass(frozen=True, kw_only=True)
class MMFFParameters:
    """All terms of a molecule.

    Attributes:
        atoms: Number of atoms.
        terms: The terms by kind; kinds without terms are left out.
    """

    atoms: int
    terms: Mapping[MMFFTerm, Terms]
