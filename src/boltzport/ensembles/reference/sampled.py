"""Result of a sampler."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled:
    """Frames at the molecule's temperature, chain after chain, with information on the sampling.

    Attributes:
        positions: Positions in nm, in the molecule's atom order.
        coordinates: Internal coordinates in nm and radian.
        reduced_energy: Reduced energies in kT.
        chain: Index of the independent chain of each frame.
        weights: Weights of the frames, with mean 1; None if they are all equal.
        interrupted: Whether the sampler was stopped early.
        swap_rates: Mean acceptance rate of swaps between neighbouring temperatures.
        round_trips: Number of trips of walkers from the coldest temperature to the hottest and back.
        details: Further information, as plain numbers.
    """

    positions: Float[np.ndarray, "frames atoms 3"]
    coordinates: Float[np.ndarray, "frames dimensions"]
    reduced_energy: Float[np.ndarray, " frames"]
    chain: Int[np.ndarray, " frames"]
    weights: Float[np.ndarray, " frames"] | None = None
    interrupted: bool = False
    swap_rates: list[float] = field(default_factory=list)
    round_trips: int | None = None
    details: dict[str, object] = field(default_factory=dict)
