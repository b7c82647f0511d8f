"""Kinds of flows by name: built, saved and read alike, and old files that name no kind."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, circle, interval
from boltzport.flows import (
    FLOWS,
    CouplingConfig,
    CouplingFlow,
    Flow,
    FlowConfig,
    MolecularConfig,
    build_flow,
    flow_kind,
    load_flow,
)

LAYOUT = Layout(
    [
        circle(),
        interval(0.08, 0.16, centre=0.11, width=0.01),
        interval(-1.0, 3.0, centre=0.5, width=0.3),
        circle(),
        interval(1.0, 2.5, centre=2.0, width=0.2),
    ]
)
SMALL: dict[str, FlowConfig] = {
    "couplings": CouplingConfig(pairs=2, bins=4, hidden=(8, 8)),
    "molecular": MolecularConfig(bins=4, harmonics=1, torsion_hidden=(8,), pairs=1, hidden=(8,)),
}
OLD = Path(__file__).parents[1] / "data" / "flow-without-kind.safetensors"


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_flow(kind: str, seed: int = 0) -> Flow:
    """A flow whose weights are drawn anew, far from those it begins with."""
    flow = build_flow(LAYOUT, SMALL[kind], generator=seeded(seed), compiled=False).float()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=seeded(seed + 1))
    return flow


def draw(flow: Flow) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        samples = flow.sample_and_log_prob(50, generator=seeded(3))
    return samples.coordinates, samples.log_q


def rewritten(path: Path, change: Callable[[dict[str, str]], None]) -> Path:
    """A copy of a flow's file with another header."""
    with safetensors.safe_open(path, framework="pt") as file:
        header = dict(file.metadata())
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(header)
    other = path.with_name("other.safetensors")
    safetensors.torch.save_file(state, other, metadata=header)
    return other


def test_there_are_sizes_for_every_kind() -> None:
    assert set(SMALL) == set(FLOWS)
    for kind, config in SMALL.items():
        assert flow_kind(config) == kind
        assert build_flow(LAYOUT, config, generator=seeded(0)).kind == kind


@pytest.mark.parametrize("kind", FLOWS)
def test_every_kind_survives_its_file(kind: str, tmp_path: Path) -> None:
    flow = random_flow(kind)
    flow.save(tmp_path / "flow.safetensors")
    again = load_flow(tmp_path / "flow.safetensors", compiled=False)
    assert type(again) is type(flow)
    assert again.config == flow.config
    assert again.layout == flow.layout
    assert (again.dtype, again.device, again.dimension) == (torch.float32, torch.device("cpu"), 5)
    assert all(torch.equal(one, other) for one, other in zip(draw(flow), draw(again), strict=True))
    flow.double().save(tmp_path / "flow.safetensors")
    assert load_flow(tmp_path / "flow.safetensors").dtype == torch.float64


@pytest.mark.parametrize("kind", FLOWS)
def test_loading_weights_makes_the_same_density(kind: str) -> None:
    """Also where masks differ, in a flow and in a copy of one: nobody needs to know the parts of a flow."""
    flow, other = random_flow(kind), random_flow(kind, seed=7)
    for twin in (copy.deepcopy(other), other, copy.deepcopy(other)):
        twin.load_state_dict(flow.state_dict())
        assert all(torch.equal(one, another) for one, another in zip(draw(flow), draw(twin), strict=True))


@pytest.mark.parametrize("kind", FLOWS)
def test_every_kind_has_a_unit_of_each_coordinate(kind: str) -> None:
    unit = random_flow(kind).unit
    assert unit.shape == (5,)
    assert (unit > 0).all()


def test_a_flow_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Flow(LAYOUT)  # type: ignore[abstract]


def test_a_file_without_a_kind_has_couplings(tmp_path: Path) -> None:
    """A file that was written before there were kinds, and what its flow said of two points then."""
    with safetensors.safe_open(OLD, framework="pt") as file:
        assert "kind" not in file.metadata()
    flow = load_flow(OLD, compiled=False)
    assert isinstance(flow, CouplingFlow)
    assert flow.config == CouplingConfig(pairs=2, bins=4, hidden=(6,))
    points = torch.tensor([[0.5, 1.0, 0.2, 0.3], [1.4, -2.0, -0.6, 2.9]])
    assert flow.log_prob(points).tolist() == pytest.approx([-8.098343, -5.025161], abs=1e-4)
    flow.save(tmp_path / "flow.safetensors")
    again = load_flow(rewritten(tmp_path / "flow.safetensors", lambda header: header.pop("kind") and None))
    assert again.config == flow.config


def test_a_kind_that_is_not_known_is_named(tmp_path: Path) -> None:
    random_flow("couplings").save(tmp_path / "flow.safetensors")
    path = rewritten(tmp_path / "flow.safetensors", lambda header: header.update(kind="diffusion"))
    with pytest.raises(InputError, match="flow of kind diffusion, expected molecular or couplings"):
        load_flow(path)


@pytest.mark.parametrize("change", [{"widths": [3]}, {"bins": 5}, {"activation": "sine"}])
def test_a_header_that_does_not_fit_is_said(change: dict[str, object], tmp_path: Path) -> None:
    random_flow("couplings").save(tmp_path / "flow.safetensors")

    def change_config(header: dict[str, str]) -> None:
        header["config"] = json.dumps(json.loads(header["config"]) | change)

    with pytest.raises(InputError, match="not a flow of this version"):
        load_flow(rewritten(tmp_path / "flow.safetensors", change_config))
