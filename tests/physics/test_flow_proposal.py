"""A trained flow as the proposal of Markov chains: its density in internal coordinates, and chains that take it."""

import json
import math
from pathlib import Path

import pytest
import torch

from boltzport.cli import main
from boltzport.core.errors import InputError
from boltzport.core.weights import reweighting
from boltzport.ensembles.reference import HmcSettings, make_reference
from boltzport.experiments import flow_proposal, run_path
from boltzport.targets.boltzmann import BoltzmannTarget, informed_layout, open_energy
from molecules import molecule

SYSTEM = "alanine-dipeptide"


def test_a_proposal_is_the_flow_in_internal_coordinates() -> None:
    """Its points, weighted by it, give the constant of the target: no sign of a volume can be wrong."""
    system = molecule(SYSTEM)
    name, proposal = flow_proposal(run_path(SYSTEM), system)
    assert name == SYSTEM
    internal, log_q = proposal.draw(3000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(proposal.log_prob(internal), log_q, rtol=0, atol=2e-2)
    with open_energy(system, compiled=False) as energy, torch.no_grad():
        found = BoltzmannTarget(system, energy.evaluate, informed_layout(system, energy.evaluate)).evaluate(internal)
    metrics = reweighting(found.log_p + found.log_volume - log_q)
    assert metrics.ess > 0.9
    assert metrics.log_z.value == pytest.approx(-178.685, abs=0.03)


def test_chains_take_the_proposals_of_a_good_flow() -> None:
    system = molecule(SYSTEM)
    proposal = flow_proposal(run_path(SYSTEM), system)
    settings = HmcSettings(samples=60, ladders=6, iterations=10, warm_up=10, rungs=2, hottest=1.2, leapfrogs=2)
    seen = {"energies": 0, "forces": 0}
    with open_energy(system, compiled=False) as energy:

        def counting(positions: torch.Tensor) -> torch.Tensor:
            seen["energies"] += len(positions)
            seen["forces"] += len(positions) if positions.requires_grad else 0
            return energy.evaluate(positions)

        found = make_reference(system, counting, settings=settings, seed=0, proposal=proposal)
    assert found.provenance["proposal"] == SYSTEM
    details = found.provenance["details"]
    assert isinstance(details, dict)
    assert details["proposals_accepted"] > 0.5
    # Everything that the energy was asked for, also for the layout and to find equivalent hydrogens.
    assert details["evaluations"] == seen["energies"]
    assert details["force_evaluations"] == seen["forces"]
    # Each trajectory has an evaluation in double precision for its acceptance, beside its leapfrog steps.
    assert details["evaluations"] - details["force_evaluations"] > 6 * 2 * (10 + 10)
    assert math.isfinite(float(found.reduced_energy.max()))


def test_a_flow_of_another_molecule_is_refused() -> None:
    with pytest.raises(InputError, match="expected a flow of ACE-ALA-NME, got one of alanine-dipeptide"):
        flow_proposal(run_path(SYSTEM), molecule("ACE-ALA-NME"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--proposal", "nowhere"), "no such run: nowhere"),
        (("--proposal", SYSTEM, "--sampler", "openmm"), "expected the sampler hmc with a flow as proposal"),
        (("--hottest", "3", "--sampler", "openmm"), "expected the sampler hmc with hottest"),
        (("--hottest", "0.5"), "expected hottest above 1"),
        (("--hottest", "3", "--from", "a.dcd", "--topology", "a.pdb"), "without --from"),
    ],
)
def test_bad_input_is_one_line(capfd, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["reference", SYSTEM, "--out", str(tmp_path / "ref"), *arguments])
    printed = capfd.readouterr().err
    assert stop.value.code == 2
    assert words in printed
    assert "Traceback" not in printed


def test_the_command_says_how_many_were_taken(capfd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = HmcSettings(samples=40, ladders=4, iterations=10, warm_up=4, rungs=2, hottest=1.2, leapfrogs=1)
    monkeypatch.setattr("boltzport.ensembles.reference.sample.settings_for", lambda *_, **__: tiny)
    with pytest.raises(SystemExit) as stop:
        main(["reference", SYSTEM, "--out", str(tmp_path / "ref"), "--proposal", SYSTEM])
    assert stop.value.code in (0, None)
    assert "of the flow's proposals were accepted" in capfd.readouterr().out
    assert json.loads((tmp_path / "ref" / "dataset.json").read_text())["proposal"] == SYSTEM
