"""Round trips are counted from where the counting begins, whatever walkers did before."""

import torch

from boltzport.mcmc import plain, tempering


def test_only_walkers_on_the_coldest_rung_have_begun_a_trip() -> None:
    state = tempering.init(torch.zeros(3, 2, 1, dtype=torch.float64), plain(lambda x: -0.5 * (x * x).sum(1)))
    # Walkers 0 and 1 are on the coldest rungs of the two ladders; all of them have made trips.
    state = state._replace(
        walkers=torch.tensor([[0, 1], [1, 2], [2, 0]]),
        heading=torch.ones(3, 2, dtype=torch.long),
        round_trips=torch.full((3, 2), 5),
    )
    found = tempering.without_trips(state)
    assert found.heading.tolist() == [[0, -1], [-1, 0], [-1, -1]]
    assert found.round_trips.sum() == 0
    assert torch.equal(found.walkers, state.walkers)
