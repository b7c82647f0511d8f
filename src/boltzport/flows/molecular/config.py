"""Size of a molecular flow."""

from dataclasses import dataclass

from boltzport.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class MolecularConfig:
    """Size of a molecular flow.

    Attributes:
        bins: Number of bins of a torsion's spline.
        harmonics: Number of multiples of an angle whose cosine and sine are features of the networks.
        torsion_hidden: Widths of the hidden layers of the networks of the torsions.
        pairs: Number of pairs of couplings of the stiff coordinates.
        hidden: Widths of the hidden layers of the networks of the stiff coordinates.
        geometry: Whether the networks see where the torsions place the atoms of a molecule, if the layout knows.

    Example:
        >>> import boltzport as bp
        >>> bp.Molecular(bins=24).bins
        24
    """

    bins: int = 16
    harmonics: int = 3
    torsion_hidden: tuple[int, ...] = (64, 64)
    pairs: int = 3
    hidden: tuple[int, ...] = (128, 128, 128)
    geometry: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.bins <= 64:
            raise InputError(f"bins: expected 2 to 64, got {self.bins}")
        for name in ("harmonics", "pairs"):
            if not getattr(self, name) >= 1:
                raise InputError(f"{name}: expected at least 1, got {getattr(self, name)}")
        for name in ("torsion_hidden", "hidden"):
            if not all(width >= 1 for width in getattr(self, name)):
                raise InputError(f"{name}: expected each at least 1, got {getattr(self, name)}")
