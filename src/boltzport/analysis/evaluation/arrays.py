"""Arrays for the figures of a report: what `evaluation.npz` holds.

SET is `model` (unweighted samples), `reweighted` (by clipped weights) or, if there is one, `reference`; NAME is a
residue such as `ALA2`; i is the index of a coordinate.

- `ramachandran_NAME_SET`: probabilities (100, 100), phi first, both from -pi to pi. `torsions_NAME_SET`: the same
  of a pair of torsions of a molecule without phi and psi; NAME has the atoms of both, joined by `_`.
- `phi_profile_NAME_SET`: free energy along phi (100,), kT, infinite in empty bins; zero is the minimum of the
  reference, or of the reweighted profile if there is no reference. `phi_profile_NAME_error`: standard error of the
  reweighted profile, kT. `phi_profile_NAME_edges`: (101,).
- `torsion_profile_NAME_...`: the same along the first torsion of a pair of torsions.
- `density_2d_SET`: probabilities (100, 100) of the first two coordinates of a toy; `density_2d_edges_0`, `_1`: (101,).
- `tica_SET`: probabilities (100, 100) of two slow coordinates; `tica_edges_0`, `tica_edges_1`: (101,).
- `marginal_i_SET`: density of coordinate i (100,), per nm or radian; `marginal_i_edges`: (101,).
- `energy_SET`: density of the reduced energy (100,), per kT; `energy_edges`: (101,), kT.
- `log_weights`: log-weights of the first samples, at most 1e5.
- `representative_positions`: the sample of lowest energy of each basin, (basins, atoms, 3), nm; `representative` of a
  basin in `evaluation.json` is its index here, or null.

Densities of energies and coordinates integrate to the fraction of samples inside the edges.
"""

import numpy as np

from boltzport.analysis.evaluation.model import ModelSamples
from boltzport.analysis.evaluation.tables import Tables
from boltzport.analysis.metrics import BLOCKS, BlockedHistogram, draw_blocks, first_axis, free_energy, profile_deviation

MOST_LOG_WEIGHTS = 100_000


def figure_arrays(
    model: ModelSamples, reference: Tables | None, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """All arrays except the representatives, by name."""
    sets = {"model": model.plain, "reweighted": model.weighted}
    if reference is not None:
        sets["reference"] = reference
    found: dict[str, np.ndarray] = {"log_weights": model.log_weights[:MOST_LOG_WEIGHTS]}
    observables, grids = model.plain.observables, model.plain.grids
    draws = draw_blocks(BLOCKS, generator)
    profile = "phi_profile" if observables.backbone else "torsion_profile"
    for number, pair in enumerate(observables.pairs):
        lines = {name: first_axis(tables.pairs[number]) for name, tables in sets.items()}
        profiles = {name: free_energy(line.probabilities()) for name, line in lines.items()}
        zero = profiles["reference" if reference is not None else "reweighted"].min()
        for name, tables in sets.items():
            found[f"{'ramachandran' if observables.backbone else 'torsions'}_{pair.name}_{name}"] = _plane(
                tables.pairs[number]
            )
            found[f"{profile}_{pair.name}_{name}"] = profiles[name] - zero
        found[f"{profile}_{pair.name}_error"] = profile_deviation(lines["reweighted"], draws)
        found[f"{profile}_{pair.name}_edges"] = lines["model"].grid.edges()
    for label, grid, planes in (
        ("density_2d", grids.plane, {name: tables.plane for name, tables in sets.items()}),
        ("tica", grids.tica and grids.tica[1], {name: tables.tica for name, tables in sets.items()}),
    ):
        if grid is not None:
            found |= {f"{label}_edges_{axis}": grid.edges(axis) for axis in (0, 1)}
            found |= {f"{label}_{name}": _plane(plane) for name, plane in planes.items() if plane is not None}
    for name, tables in sets.items():
        found[f"energy_{name}"] = _density(tables.energy)
        for number, histogram in enumerate(tables.marginals):
            found[f"marginal_{number}_{name}"] = _density(histogram)
    found["energy_edges"] = grids.energy.edges()
    return found | {f"marginal_{number}_edges": grid.edges() for number, grid in enumerate(grids.marginals)}


def _plane(histogram: BlockedHistogram) -> np.ndarray:
    return histogram.probabilities().reshape(histogram.grid.bins)


def _density(histogram: BlockedHistogram) -> np.ndarray:
    total = histogram.sums.sum() + histogram.outside
    with np.errstate(invalid="ignore"):
        return np.asarray(histogram.sums.sum(0) / (total * histogram.grid.area))
