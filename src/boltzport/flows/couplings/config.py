"""Size of a coupling flow."""

from dataclasses import dataclass

from boltzport.core.errors import InputError
from boltzport.flows.couplings.conditioner import Activation


@dataclass(frozen=True, kw_only=True)
class CouplingConfig:
    """Size of a coupling flow.

    Attributes:
        pairs: Number of pairs of couplings with complementary masks.
        bins: Number of bins per spline.
        hidden: Widths of the hidden layers of the conditioners.
        activation: Activation function of the conditioners.
        standardise: Whether conditioners see intervals in units of the base density's width instead of the range.

    Example:
        >>> import boltzport as bp
        >>> bp.Couplings(pairs=4).pairs
        4
    """

    pairs: int = 6
    bins: int = 8
    hidden: tuple[int, ...] = (128, 128)
    activation: Activation = Activation.SILU
    standardise: bool = True

    def __post_init__(self) -> None:
        if not self.pairs >= 1:
            raise InputError(f"pairs: expected at least 1, got {self.pairs}")
        if not 2 <= self.bins <= 64:
            raise InputError(f"bins: expected 2 to 64, got {self.bins}")
        if not all(width >= 1 for width in self.hidden):
            raise InputError(f"hidden: expected each at least 1, got {self.hidden}")


PAPER = CouplingConfig(pairs=8, bins=8, hidden=(256, 256, 256, 256, 256), activation=Activation.RELU, standardise=False)
"""The paper's flow."""
LAPTOP = CouplingConfig(hidden=(128, 128, 128))
"""Large enough for the dipeptide, small enough for two cores."""
