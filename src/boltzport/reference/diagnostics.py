"""Whether an ensemble may be called ground truth: figures, and a verdict in words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Int

from boltzport.molecule import Column, Kind
from boltzport.reference.chains import bulk_size, circular_bulk_size, circular_rhat, rhat, transitions
from boltzport.reference.strain import strained

RHAT = 1.01
"""R-hat below which chains agree (Vehtari et al. 2021)."""
SIZE = 400.0
"""Effective number of frames above which R-hat itself can be trusted (same source)."""
STRAINED = 0.0
"""Part of strained frames that a converged ensemble may have."""
PIECES = 4
"""Into how many pieces a single chain is cut, so that it can be compared with itself."""
ENERGY = "energy"
"""Key of the reduced energy among the torsions."""


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """How well an ensemble is sampled.

    Attributes:
        converged: Whether every R-hat is below 1.01, every effective size above 400, and no frame is strained.
        message: The verdict in words, with the worst figure.
        rhat: Split R-hat of each torsion (of cosine and sine, the worse) and of the energy.
        ess: Effective number of frames, by the same names.
        slowest: The torsion with the smallest effective size.
        transitions: How often its chains went from one basin to another, frame to frame.
        swap_rates: Mean acceptance of swaps between neighbouring temperatures; empty without tempering.
        round_trips: Trips from the coldest temperature to the hottest and back; None without tempering.
        strained: Part of the frames that lie in stretches of chains whose energy and stiff coordinates stand out.
    """

    converged: bool
    message: str
    rhat: dict[str, float]
    ess: dict[str, float]
    slowest: str
    transitions: int
    swap_rates: list[float]
    round_trips: int | None
    strained: float

    def to_json(self) -> dict[str, object]:
        """Plain numbers and strings; what is not finite is null."""
        record = asdict(self)
        for name in ("rhat", "ess"):
            record[name] = {key: value if np.isfinite(value) else None for key, value in record[name].items()}
        return record


def diagnose(
    columns: tuple[Column, ...],
    coordinates: Float[np.ndarray, "frames dimensions"],
    reduced_energy: Float[np.ndarray, " frames"],
    chain: Int[np.ndarray, " frames"],
    *,
    swap_rates: list[float] | None = None,
    round_trips: int | None = None,
) -> Diagnostics:
    """Compare chains with each other and with themselves.

    Args:
        columns: What each coordinate is.
        coordinates: Internal coordinates, chain after chain.
        reduced_energy: In kT.
        chain: Which chain each frame is of.
        swap_rates: Of the tempering, where there was one.
        round_trips: Of the tempering.
    """
    order = _draws_of_chains(chain)
    rhats, sizes, torsions = {}, {}, {}
    if len(order) >= 4:
        for i, column in enumerate(columns):
            if column.kind is Kind.TORSION:
                angles = coordinates[:, i].astype(np.float64)[order]
                rhats[column.name], sizes[column.name] = circular_rhat(angles), circular_bulk_size(angles)
                torsions[column.name] = angles
        rhats[ENERGY], sizes[ENERGY] = rhat(reduced_energy[order]), bulk_size(reduced_energy[order])
    slowest = min(torsions, key=lambda name: sizes[name], default="")
    rates = swap_rates or []
    stiff = np.array([column.kind is not Kind.TORSION or column.sign != 0 for column in columns], dtype=bool)
    share = float(strained(coordinates[:, stiff].astype(np.float64), reduced_energy, order).mean())
    problem = _problem(rhats, sizes, rates, round_trips, share)
    worst = max(rhats, key=lambda name: rhats[name], default="")
    return Diagnostics(
        converged=not problem,
        message=f"not converged: {problem}"
        if problem
        else f"converged: the largest R-hat is {rhats[worst]:.4f} ({worst}), the smallest effective size "
        f"{sizes[slowest]:.0f} frames ({slowest})",
        rhat=rhats,
        ess=sizes,
        slowest=slowest,
        transitions=transitions(torsions[slowest]) if slowest else 0,
        swap_rates=rates,
        round_trips=round_trips,
        strained=share,
    )


def _problem(
    rhats: Mapping[str, float],
    sizes: Mapping[str, float],
    rates: list[float],
    round_trips: int | None,
    strained_share: float,
) -> str:
    """What speaks against an ensemble, the gravest first; nothing if nothing does."""
    if not rhats:
        return "there are fewer than 4 frames of each chain"
    if strained_share > STRAINED:
        return (
            f"{strained_share:.2%} of the frames are strained: the energy and the stiff coordinates of their stretches "
            "of chains stand out from all others"
        )
    worst = max(rhats, key=lambda name: rhats[name])
    if not rhats[worst] < RHAT:
        return f"R-hat of {worst} is {rhats[worst]:.3g}, expected below {RHAT}"
    fewest = min(sizes, key=lambda name: sizes[name])
    if not sizes[fewest] > SIZE:
        return f"the effective size of {fewest} is {sizes[fewest]:.0f} frames, expected above {SIZE:.0f}"
    if rates and min(rates) < 0.01:
        low = rates.index(min(rates))
        return f"temperatures {low} and {low + 1} swap at a rate of {min(rates):.2g}, expected above 0.01"
    if round_trips == 0:
        return "no walker went from the coldest temperature to the hottest and back"
    return ""


def _draws_of_chains(chain: Int[np.ndarray, " frames"]) -> Int[np.ndarray, "draws chains"]:
    """Frame of each draw of each chain, all chains cut to the shortest; a single chain is cut into pieces."""
    members = [np.flatnonzero(chain == label) for label in np.unique(chain)]
    if len(members) == 1:
        members = np.array_split(members[0], PIECES)
    shortest = min(len(frames) for frames in members)
    return np.stack([frames[len(frames) - shortest :] for frames in members], axis=1)
