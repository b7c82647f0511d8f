"""A trained flow as the proposal of Markov chains in internal coordinates."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.experiments.build import load_molecule
from boltzport.experiments.config import RunConfig
from boltzport.experiments.opening import is_shipped
from boltzport.flows import load_flow
from boltzport.mcmc import independence

if TYPE_CHECKING:
    from boltzport.ensembles.reference import NamedProposal
    from boltzport.molecules import Molecule


def flow_proposal(path: Path, molecule: "Molecule") -> "NamedProposal":
    """A trained flow as a proposal.

    Args:
        path: Run directory.
        molecule: Molecule that the chains sample; the flow must have its coordinates. Its force field and temperature
            may differ, since a proposal need not equal the target.

    Raises:
        InputError: The run has another molecule.
    """
    from boltzport.ensembles.reference import NamedProposal
    from boltzport.targets.boltzmann import HarmonicMap

    directory = RunDirectory(path)
    config = RunConfig.load(directory.require(directory.config, "boltzport train"))
    flow = load_flow(directory.require(directory.flow, "boltzport train"))
    same = (
        config.kind == "molecule"
        and load_molecule(config, directory).coordinates.columns == molecule.coordinates.columns
    )
    if not same:
        raise InputError(f"{path}: expected a flow of {molecule.name}, got one of {config.system}")
    map_ = HarmonicMap.load(directory.coordinates) if directory.coordinates.is_file() else None

    @torch.no_grad()
    def draw(n: int, generator: torch.Generator) -> independence.Proposed:
        coordinates, log_q = flow.sample_and_log_prob(n, generator=generator)
        if map_ is None:
            return independence.Proposed(coordinates.double(), log_q.double())
        return independence.Proposed(map_.to_internal(coordinates.double()), log_q.double() - map_.log_det)

    @torch.no_grad()
    def log_prob(internal: Tensor) -> Tensor:
        if map_ is None:
            return flow.log_prob(internal.to(flow.dtype)).double()
        return flow.log_prob(map_.to_independent(internal).to(flow.dtype)).double() - map_.log_det

    name = config.system if is_shipped(path) else str(path)
    return NamedProposal(name, independence.Proposal(draw, log_prob))
