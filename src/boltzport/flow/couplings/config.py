"""How large a flow of couplings is."""

from dataclasses import dataclass

from boltzport.errors import InputError
from boltzport.flow.couplings.conditioner import Activation


@dataclass(frozen=True, kw_only=True)
class CouplingConfig:
    """Size of a flow of couplings.

    Attributes:
        pairs: Pairs of couplings with complementary masks.
        bins: Bins of a spline.
        hidden: Widths of the conditioners' hidden layers.
        activation: Their nonlinearity.
        standardise: Conditioners see intervals in units of the base density's width, instead of as parts of the range.

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
        if self.pairs < 1 or not 2 <= self.bins <= 64 or any(width < 1 for width in self.hidden):
            got = f"{self.pairs}, {self.bins}, {self.hidden}"
            raise InputError(f"expected at least 1 pair, 2 to 64 bins and positive widths, got {got}")


PAPER = CouplingConfig(pairs=8, bins=8, hidden=(256, 256, 256, 256, 256), activation=Activation.RELU, standardise=False)
"""The paper's flow."""
LAPTOP = CouplingConfig(hidden=(128, 128, 128))
"""Large enough for the dipeptide, small enough for two cores."""
