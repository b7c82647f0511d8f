"""The most populated basins of a peptide, with a structure of each."""

from typing import NamedTuple

import numpy as np
import torch

from boltzport.analysis.evaluation.model import ModelSamples
from boltzport.analysis.evaluation.tables import Tables, name_of
from boltzport.analysis.metrics import ABOVE, BLOCKS, MOST, Basin, Draws, describe_basin, draw_blocks, most_populated
from boltzport.targets import Target
from boltzport.targets.boltzmann import BoltzmannTarget


class Populations(NamedTuple):
    """Basins, and structures of some of them.

    Attributes:
        basins: Basins, the most populated first.
        representatives: Names of the basins that have a structure.
        positions: Their structures in nm, (basins, atoms, 3); None for a toy.
    """

    basins: tuple[Basin, ...]
    representatives: tuple[str, ...]
    positions: np.ndarray | None


def populations(
    target: Target, model: ModelSamples, reference: Tables | None, generator: np.random.Generator
) -> Populations:
    """Basins by the weights of a model; free energies are relative to the first.

    A basin that only the reference visits is included if it is one of the reference's most populated.

    Args:
        target: The target.
        model: Statistics of the model's samples.
        reference: Histograms of a reference.
        generator: Random generator of bootstrap replicates.
    """
    codes = most_populated(model.weighted.basins, count=MOST, above=ABOVE)
    if not codes:
        return Populations((), (), None)
    if reference is not None:
        codes += [code for code in most_populated(reference.basins, count=MOST, above=ABOVE) if code not in codes]
    reference_blocks = BLOCKS if reference is None else reference.blocks
    draws = Draws(draw_blocks(reference_blocks, generator), draw_blocks(BLOCKS, generator))
    basins, names, coordinates = [], [], []
    for code in codes:
        basin = describe_basin(
            code,
            first=codes[0],
            name=name_of(model.plain.observables, code),
            weighted=model.weighted.basins,
            plain=model.plain.basins,
            reference=None if reference is None else reference.basins,
            draws=draws,
        )
        basins.append(basin)
        found = model.representatives.coordinates(code)
        if found is not None:
            names.append(basin.name)
            coordinates.append(found)
    positions = None
    if isinstance(target, BoltzmannTarget):
        points = torch.from_numpy(np.stack(coordinates)).double()
        positions = target.molecule.coordinates.to_cartesian(points).positions.numpy()
    return Populations(tuple(basins), tuple(names), positions)
