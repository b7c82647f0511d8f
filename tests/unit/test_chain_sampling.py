"""Markov chains with proposals from a flow: frames without weights, exact from a bad flow, and honest about mixing."""

from pathlib import Path

import numpy as np
import pytest
import torch

from bad_flows import Normals, gaussian_flow
from boltzport.core.errors import InputError
from boltzport.core.interrupt import StopRequest
from boltzport.core.layout import Layout, interval
from boltzport.ensembles import Ensemble, open_chains, write_frames
from boltzport.mcmc import independence
from boltzport.targets import CountedTarget, Density, GaussianMixture

LAYOUT = Layout([interval(-30.0, 30.0), interval(-30.0, 30.0)])
TARGET = GaussianMixture(
    "two",
    LAYOUT,
    weights=torch.tensor([0.7, 0.3]),
    means=torch.tensor([[-5.0, 1.0], [5.0, 2.0]]),
    factors=torch.tensor([[[0.8, 0.0], [0.5, 0.6]], [[1.0, 0.0], [0.0, 0.7]]]),
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bad_flow() -> Normals:
    """It covers both modes with wrong shares, places and widths."""
    return Normals(
        LAYOUT,
        means=torch.tensor([[-4.0, 4.0], [1.5, 1.5]]),
        widths=torch.tensor([[2.0, 2.0], [2.0, 2.0]]),
        shares=torch.tensor([[0.3, 0.7], [0.5, 0.5]]),
    )


def drawn(flow: Normals, n: int, *, chains: int, seed: int) -> Ensemble:
    stream = open_chains(flow, CountedTarget(TARGET), n, generator=seeded(seed), chains=chains)
    return Ensemble.from_stream(stream, TARGET, n)


def scores(ensemble: Ensemble) -> list[float]:
    """Errors of moments and of the population of a mode, in units of the errors that the ensemble gives."""
    second = TARGET.means[:, 1] ** 2 + torch.tensor([0.61, 0.49])
    exact = {"x": float(TARGET.modes @ TARGET.means[:, 0]), "left": 0.7, "square": float(TARGET.modes @ second)}
    functions = {"x": lambda x: x[:, 0], "left": lambda x: x[:, 0] < 0, "square": lambda x: x[:, 1] ** 2}
    found = {name: ensemble.expectation(function) for name, function in functions.items()}
    return [(found[name].value - exact[name]) / found[name].error for name in exact]


def test_chains_are_exact_from_a_bad_flow_and_say_how_well_they_mixed() -> None:
    ensemble = drawn(bad_flow(), 24_000, chains=400, seed=1)
    assert max(map(abs, scores(ensemble))) < 3.5
    assert ensemble.weights.tolist() == [1.0] * 24_000
    summary = ensemble.chains
    assert summary is not None
    assert (summary.chains, summary.draws) == (400, 60)
    assert summary.rhat is not None
    assert summary.rhat < 1.15
    assert 200 < summary.effective < 24_000
    assert summary.slowest == "x0"
    # The mixing time is that of the frames: a frame of each chain in so many steps is worth an independent one.
    assert set(summary.mixing_times) == {"x0", "x1", "energy"}
    assert summary.mixing_times["x0"] == pytest.approx(24_000 / summary.effective)
    assert summary.mixing_times["x0"] == max(summary.mixing_times.values())
    assert "x0 mixes slowest, in " in summary.message
    assert 0.02 < summary.proposals_accepted < 0.6
    assert 0.5 < summary.acceptance < 0.97
    np.testing.assert_allclose(ensemble.reduced_energy, -TARGET.log_density(torch.from_numpy(ensemble.coordinates)))
    # log Z is that of the draws that the chains start from.
    assert abs(ensemble.log_z) < 5 * ensemble.log_z_error


def test_proposals_that_are_always_accepted_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    right = independence.step

    def wrong(state, generator, *, density, proposal):
        wider = independence.Proposal(proposal.draw, lambda x: 0.0 * x[:, 0])
        return right(state, generator, density=density, proposal=wider)

    monkeypatch.setattr(independence, "step", wrong)
    assert max(map(abs, scores(drawn(bad_flow(), 24_000, chains=400, seed=1)))) > 5.0


def test_a_flow_that_cannot_cross_is_told_by_r_hat() -> None:
    narrow = gaussian_flow(LAYOUT, [-5.0, 1.0], [0.1, 0.1])
    both = Normals(
        LAYOUT,
        means=torch.tensor([[-5.0, 5.0], [1.5, 1.5]]),
        widths=torch.full((2, 2), 0.05),
        shares=torch.tensor([[0.5, 0.5], [0.5, 0.5]]),
    )
    stuck = drawn(both, 400, chains=20, seed=3).chains
    assert stuck is not None
    assert stuck.rhat is not None
    assert stuck.rhat > 1.2
    assert drawn(narrow, 40, chains=20, seed=3).chains.rhat is None


def test_chain_files_hold_the_summary_and_survive_an_interruption(tmp_path: Path) -> None:
    target, stop = CountedTarget(TARGET), StopRequest()

    def progress(stage: str, done: int, _total: int) -> None:
        stop.asked = stop.asked or (stage == "frames" and done >= 1000)

    stream = open_chains(bad_flow(), target, 5000, generator=seeded(4), chains=50)
    written = write_frames(tmp_path / "a.npz", stream, TARGET, 5000, progress=progress, stop=stop)
    assert written.frames == len(np.load(tmp_path / "a.npz")["coordinates"]) == 1000
    assert written.chains is not None
    assert written.chains.draws == 20
    assert any(note.startswith("50 chains of 20: R-hat") for note in written.notes)
    assert np.load(tmp_path / "a.npz")["draw"].tolist() == list(range(50)) * 20
    assert target.ledger.gradients > 60 * 3 * 50


def test_bad_input_is_named() -> None:
    rough = CountedTarget(Density(lambda x: -(x**2).sum(1), LAYOUT, name="rough", differentiable=False))
    with pytest.raises(InputError, match="chain: the energy of rough has no forces"):
        open_chains(bad_flow(), rough, 100, generator=seeded(0))
    with pytest.raises(InputError, match="chain: expected at least 4 frames, got 3"):
        open_chains(bad_flow(), CountedTarget(TARGET), 3, generator=seeded(0))
