"""What a sampler hands back."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled:
    """Frames at the molecule's temperature, chain after chain, and how they came about.

    Attributes:
        positions: In nm, in the molecule's atom order.
        coordinates: Internal coordinates, nm and radian.
        reduced_energy: In kT.
        chain: Which independent chain each frame is of.
        interrupted: Whether the sampler was stopped early.
        swap_rates: Mean acceptance of swaps between neighbouring temperatures.
        round_trips: How often walkers went from the coldest temperature to the hottest and back.
        details: Whatever else is worth keeping, as plain numbers.
    """

    positions: Float[np.ndarray, "frames atoms 3"]
    coordinates: Float[np.ndarray, "frames dimensions"]
    reduced_energy: Float[np.ndarray, " frames"]
    chain: Int[np.ndarray, " frames"]
    interrupted: bool = False
    swap_rates: list[float] = field(default_factory=list)
    round_trips: int | None = None
    details: dict[str, object] = field(default_factory=dict)
