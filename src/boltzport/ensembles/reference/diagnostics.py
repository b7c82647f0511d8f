"""Convergence of an ensemble: metrics, and a verdict in words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from boltzport.analysis.metrics import bulk_size, circular_bulk_size, circular_rhat, rhat, transitions
from boltzport.ensembles.reference.strain import strained
from boltzport.molecules import Column, Kind

RHAT = 1.01
"""R-hat below which chains agree (Vehtari et al. 2021)."""
SIZE = 400.0
"""Effective sample size above which R-hat itself can be trusted (same source)."""
STRAINED = 0.0
"""Largest fraction of strained frames in a converged ensemble."""
PIECES = 4
"""Number of pieces that a single chain is cut into, so that it can be compared with itself."""
ENERGY = "energy"
"""Key of the reduced energy among the torsions."""


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Convergence diagnostics of an ensemble.

    Attributes:
        converged: Whether every R-hat is below 1.01, every effective sample size above 400, and no frame strained.
        message: Verdict in words, with the worst metric.
        rhat: Split R-hat of each torsion (the worse of cosine and sine) and of the energy.
        ess: Effective sample size, by the same names.
        slowest: Torsion with the smallest effective sample size.
        transitions: Number of transitions of its chains between basins, from frame to frame.
        swap_rates: Mean acceptance rate of swaps between neighbouring temperatures; empty without tempering.
        round_trips: Number of trips from the coldest temperature to the hottest and back; None without tempering.
        strained: Fraction of the frames in segments of chains with outlying energy and stiff coordinates.
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
        """Return plain numbers and strings; numbers that are not finite are null."""
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
        columns: Description of each coordinate.
        coordinates: Internal coordinates, chain after chain.
        reduced_energy: Reduced energies in kT.
        chain: Index of the chain of each frame.
        swap_rates: Swap rates of the tempering, if any.
        round_trips: Round trips of the tempering, if any.
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
    stiff = np.array([not column.circular for column in columns], dtype=bool)
    share = float(strained(coordinates[:, stiff].astype(np.float64), reduced_energy, order).mean())
    problem = _problem(rhats, sizes, rates, round_trips, share)
    worst = max(rhats, key=lambda name: rhats[name], default="")
    return Diagnostics(
        converged=not problem,
        message=f"not converged: {problem}"
        if problem
        else f"converged: the largest R-hat is {rhats[worst]:.4f} ({worst}), the smallest effective sample size "
        f"{sizes[slowest]:.0f} frames ({slowest})",
        rhat=rhats,
        ess=sizes,
        slowest=slowest,
        transitions=transitions(torsions[slowest]) if slowest else 0,
        swap_rates=rates,
        round_trips=round_trips,
        strained=share,
    )


def of_weights(found: Diagnostics, weights: Float[np.ndarray, " frames"]) -> Diagnostics:
    """Diagnostics of weighted frames, which are converged only if the weights leave enough of them.

    Args:
        found: Diagnostics of the frames without their weights.
        weights: Weights of the frames.
    """
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    said = f"{len(weights)} weighted frames are worth {effective:.0f} of equal weight"
    if effective < SIZE:
        return replace(found, converged=False, message=f"not converged: {said}, expected above {SIZE:.0f}")
    return replace(found, message=f"{found.message}; {said}")


def _problem(
    rhats: Mapping[str, float],
    sizes: Mapping[str, float],
    rates: list[float],
    round_trips: int | None,
    strained_share: float,
) -> str:
    """The most serious problem of an ensemble; empty if there is none."""
    if not rhats:
        return "there are fewer than 4 frames per chain"
    if strained_share > STRAINED:
        return (
            f"{strained_share:.2%} of the frames are strained: their segments of chains are outliers in the energy and "
            "in the stiff coordinates"
        )
    worst = max(rhats, key=lambda name: rhats[name])
    if not rhats[worst] < RHAT:
        return f"R-hat of {worst} is {rhats[worst]:.3g}, expected below {RHAT}"
    fewest = min(sizes, key=lambda name: sizes[name])
    if not sizes[fewest] > SIZE:
        return f"the effective sample size of {fewest} is {sizes[fewest]:.0f} frames, expected above {SIZE:.0f}"
    if rates and min(rates) < 0.01:
        low = rates.index(min(rates))
        return f"temperatures {low} and {low + 1} swap at a rate of {min(rates):.2g}, expected above 0.01"
    if round_trips == 0:
        return "no walker went from the coldest temperature to the hottest and back"
    return ""


def _draws_of_chains(chain: Int[np.ndarray, " frames"]) -> Int[np.ndarray, "draws chains"]:
    """Frame of each draw of each chain; all chains are cut to the shortest, and a single chain into pieces."""
    members = [np.flatnonzero(chain == label) for label in np.unique(chain)]
    if len(members) == 1:
        members = np.array_split(members[0], PIECES)
    shortest = min(len(frames) for frames in members)
    return np.stack([frames[len(frames) - shortest :] for frames in members], axis=1)
