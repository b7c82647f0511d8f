"""The page about speed is about the networks that are the defaults."""

import re
from pathlib import Path

import pytest
import torch

from boltzport.bench.flow import _layout
from boltzport.bench.molecular import tetrapeptide_layout
from boltzport.flows import LAPTOP, PAPER, FlowConfig, MolecularConfig, build_flow

PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()


def counted(name: str) -> set[int]:
    """Parameters of a network as the tables have them."""
    rows = re.findall(rf"^\| {name}\b[^|]*\|([^|]*)\|", PAGE, flags=re.MULTILINE)
    return {int(row.replace(" ", "")) for row in rows}


@pytest.mark.parametrize(
    ("name", "config", "layout"),
    [("paper", PAPER, _layout), ("laptop", LAPTOP, _layout), ("molecular", MolecularConfig(), tetrapeptide_layout)],
)
def test_networks_are_those_of_today(name: str, config: FlowConfig, layout) -> None:
    flow = build_flow(layout(), config, generator=torch.Generator().manual_seed(0), compiled=False)
    assert counted(name) == {sum(parameter.numel() for parameter in flow.parameters())}
