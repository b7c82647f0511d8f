"""A trained flow as the proposal of Markov chains in internal coordinates."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.experiments.build import load_molecule
from boltzport.experiments.config import RunConfig
from boltzport.experiments.opening import is_shipped, run_path
from boltzport.flows import Flow, load_flow
from boltzport.mcmc import independence

if TYPE_CHECKING:
    from boltzport.ensembles.reference import NamedProposal
    from boltzport.molecules import Molecule
    from boltzport.targets.boltzmann import HarmonicMap


def flow_proposal(run: Path | str, molecule: "Molecule", *, device: torch.device | None = None) -> "NamedProposal":
    """A trained flow as a proposal.

    Args:
        run: Run directory, or the name of a system whose trained flow ships with boltzport.
        molecule: Molecule that the chains sample; the flow must have its coordinates. Its force field and temperature
            may differ, since a proposal need not equal the target.
        device: Device of the flow; the processor by default.

    Raises:
        InputError: There is no such run, or it has another molecule.
    """
    from boltzport.ensembles.reference import NamedProposal
    from boltzport.targets.boltzmann import HarmonicMap

    path = run_path(str(run))
    directory = RunDirectory(path)
    config = RunConfig.load(directory.require(directory.config, "boltzport train"))
    flow = load_flow(directory.require(directory.flow, "boltzport train")).to(device)
    same = (
        config.kind == "molecule"
        and load_molecule(config, directory).coordinates.columns == molecule.coordinates.columns
    )
    if not same:
        raise InputError(f"{path}: expected a flow of {molecule.name}, got one of {config.system}")
    map_ = HarmonicMap.load(directory.coordinates) if directory.coordinates.is_file() else None
    return NamedProposal(config.system if is_shipped(path) else str(path), _proposal(flow, map_))


def _proposal(flow: Flow, map_: "HarmonicMap | None") -> independence.Proposal:
    """A flow in internal coordinates, with its map from them if it has one."""

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

    return independence.Proposal(draw, log_prob)
