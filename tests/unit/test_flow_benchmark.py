"""`boltzport bench flow`: what is timed is what a step does."""

import json
from collections.abc import Callable

import pytest
import torch

from boltzport.bench import flow as benchmark
from boltzport.bench.flow import FlowBenchmark
from boltzport.bench.molecular import layers, molecular_network, tetrapeptide_layout
from boltzport.bench.timed import NetworkResult, products
from boltzport.cli import main
from boltzport.flows import MolecularConfig, MolecularFlow

SMALL = MolecularConfig(bins=4, harmonics=1, torsion_hidden=(8,), pairs=1, hidden=(8,))
PARTS = ["torsions", "stiff", "stiff_path"]


def small_flow(config: MolecularConfig = SMALL) -> MolecularFlow:
    return MolecularFlow(tetrapeptide_layout(), config, generator=torch.Generator().manual_seed(0), compiled=False)


def counted(call: Callable[[], object]) -> int:
    """Multiplications in the matrix products of a call."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


def test_the_layout_is_like_the_tetrapeptides() -> None:
    layout, flow = tetrapeptide_layout(), small_flow()
    assert len(layout) == 98
    assert (len(flow.torsions), len(flow.stiff)) == (15, 83)
    assert sum(axis.whole_turn and axis.width < 1.0 for axis in layout) == 4


@pytest.mark.parametrize("config", [SMALL, MolecularConfig()], ids=["small", "default"])
def test_the_floor_has_the_products_of_a_step_and_no_others(config: MolecularConfig) -> None:
    flow = small_flow(config)
    with torch.no_grad():
        points = flow.sample(20, generator=torch.Generator().manual_seed(1))
    step = counted(lambda: flow.log_prob(points).sum().backward())
    assert counted(products(list(layers(flow)), 20, torch.float32)) == step


def test_a_molecular_network_is_measured_beside_couplings(monkeypatch) -> None:
    # Compiling is another test's matter.
    monkeypatch.setattr("boltzport.core.compiling.Compiled.__call__", lambda self, *tensors: self._function(*tensors))
    found = molecular_network(SMALL, batch=4, rounds=1)
    assert found.parameters == sum(parameter.numel() for parameter in small_flow().parameters())
    assert list(found.parts_ms) == PARTS
    assert min(found.step_ms, found.floor_ms, found.sample_ms, *found.parts_ms.values()) > 0.0
    assert found.floor_ratio == pytest.approx(found.step_ms / found.floor_ms, rel=0.1)
    assert found.couplings_ratio is not None
    assert found.couplings_sampling_ratio is not None
    assert (found.peers, found.peers_sampling) == ({}, {})


@pytest.fixture
def measured(monkeypatch) -> FlowBenchmark:
    """Results that no machine had to measure."""
    known = {"parameters": 9, "step_ms": 6.0, "floor_ms": 3.0, "floor_ratio": 2.0, "sample_ms": 1.0}
    ratios = {"bfloat16_ratio": 1.0, "eager_ratio": 3.0}
    networks = {
        "laptop": NetworkResult(**known, **ratios, peers={"zuko": 3.8}, peers_sampling={"zuko": 5.6}),
        "paper": NetworkResult(**known, **ratios, peers={}, peers_sampling={}),
        "molecular": NetworkResult(
            **known,
            **ratios,
            peers={},
            peers_sampling={},
            couplings_ratio=4.5,
            couplings_sampling_ratio=0.5,
            parts_ms={"torsions": 2.0, "stiff_path": 1.5},
        ),
    }
    found = FlowBenchmark(batch=10, threads=1, dimensions=60, cold_start_s=9.0, warm_start_s=1.0, networks=networks)
    monkeypatch.setattr(benchmark, "run", lambda **_: found)
    return found


def call(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    assert not ended.value.code


def test_the_command_prints_a_table(measured: FlowBenchmark, capsys) -> None:
    call("bench", "flow")
    printed = capsys.readouterr().out
    laptop, paper, molecular = (
        line for line in printed.splitlines() if line.strip().startswith(tuple(measured.networks))
    )
    assert "zuko 3.8x" in laptop
    assert "zuko 5.6x" in laptop
    assert paper.count("none installed") == 2
    assert "couplings 4.5x" in molecular
    assert "couplings 0.5x" in molecular
    assert "Parts of the molecular network's training: torsions 2.0 ms, stiff path 1.5 ms." in printed


def test_the_command_prints_json(measured: FlowBenchmark, capsys) -> None:
    call("bench", "flow", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found == measured.to_dict()
    assert found["networks"]["molecular"]["couplings_ratio"] == 4.5
