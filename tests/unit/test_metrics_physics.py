"""Basins, thermodynamics and missing mass on cases with known answers."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from boltzport.analysis.metrics import (
    BLOCKS,
    Basin,
    BasinSums,
    Batch,
    Draws,
    Interval,
    LogZ,
    Representatives,
    agreement,
    basin_codes,
    cover,
    describe_basin,
    draw_blocks,
    informative_pairs,
    missing_mass,
    most_populated,
    sample_blocks,
    sector_codes,
    sector_name,
    states,
)
from boltzport.analysis.metrics.basins import basin_name


@pytest.mark.parametrize(
    ("phi", "psi", "name"),
    [
        (-63, -42, "alphaR"),
        (-150, 155, "C5"),
        (170, -170, "C5"),
        (-75, 145, "PII"),
        (-80, 70, "PII"),
        (57, 45, "alphaL"),
        (70, -65, "C7ax"),
        (65, 180, "epsilon"),
        (-63, -42 + 360, "alphaR"),
    ],
)
def test_basins_of_the_literature(phi: float, psi: float, name: str) -> None:
    pairs = np.radians([[[phi, psi]]])
    assert basin_name(int(basin_codes(pairs)[0]), residues=1) == name
    with_helix = np.radians([[[-63, -42], [phi, psi]]])
    assert basin_name(int(basin_codes(with_helix)[0]), residues=2) == f"alphaR-{name}"


@pytest.mark.parametrize(
    ("degrees", "name"),
    [
        (0, "sp"),
        (-29, "sp"),
        (60, "+sc"),
        (120, "+ac"),
        (180, "ap"),
        (-170, "ap"),
        (-120, "-ac"),
        (-60, "-sc"),
        (331, "sp"),
    ],
)
def test_sectors_of_klyne_and_prelog(degrees: float, name: str) -> None:
    codes = sector_codes(np.radians([[degrees, 170.0]]))
    assert sector_name(int(codes[0]), torsions=2) == f"{name},ap"


def test_pairs_of_torsions_with_the_most_information() -> None:
    """Each torsion once; torsions that do not turn tell nothing, and neither do samples without weight."""
    generator = np.random.default_rng(1)
    torsions = generator.uniform(-np.pi, np.pi, (20_000, 5))
    torsions[:, 1] = 0.3 + 0.1 * torsions[:, 1]
    torsions[:, 4] = 1.0 - torsions[:, 2]
    torsions[10_000:, 3] = torsions[10_000:, 2]
    weights = np.repeat([1.0, 0.0], 10_000)
    found = informative_pairs(torsions, weights)
    assert (found[0].first, found[0].second) == (2, 4)
    assert found[0].information == pytest.approx(np.log(12), abs=0.7)
    assert all(pair.information < 0.05 for pair in found[1:])
    assert len(found) == 2
    assert len({place for pair in found for place in pair[:2]}) == 4


def test_populations_and_free_energies_of_basins() -> None:
    generator = np.random.default_rng(0)
    codes = generator.choice(3, p=[0.6, 0.3, 0.1], size=60_000)
    # The model draws basins evenly enough; weights make the target 0.2, 0.3, 0.5.
    weights = np.array([0.2 / 0.6, 1.0, 5.0])[codes]
    block = sample_blocks(0, 60_000)
    plain, weighted = BasinSums(blocks=BLOCKS), BasinSums(blocks=BLOCKS)
    for part in np.array_split(np.arange(60_000), 7):
        plain.add(codes[part], block[part])
        weighted.add(codes[part], block[part], weights[part])
        weighted.rescale(1.0)
    first, *others = most_populated(weighted, count=3)
    assert (first, others) == (2, [1, 0])
    basins = [
        describe_basin(
            code,
            name=basin_name(code, residues=1),
            first=first,
            weighted=weighted,
            plain=plain,
            reference=plain,
            draws=Draws(draw_blocks(BLOCKS, generator), draw_blocks(BLOCKS, generator)),
        )
        for code in (first, *others)
    ]
    for basin, population, share in zip(basins, [0.5, 0.3, 0.2], [0.1, 0.3, 0.6], strict=True):
        assert basin.population_model == pytest.approx(share, abs=0.01)
        assert basin.population_interval is not None
        assert basin.population_interval.lower < population < basin.population_interval.upper
        assert basin.population_interval.upper - basin.population_interval.lower < 0.03
        assert basin.population_reference_interval is not None
        assert basin.population_reference == basin.population_model
        assert basin.population_reference_interval.lower < share < basin.population_reference_interval.upper
    assert basins[0].free_energy == 0.0
    interval = basins[2].free_energy_interval
    assert interval is not None
    assert interval.lower < math.log(0.5 / 0.2) < interval.upper


def test_no_basin_above_a_share_is_left_out() -> None:
    sums = BasinSums(blocks=BLOCKS)
    codes = np.repeat(np.arange(6), [500, 300, 100, 60, 39, 1])
    sums.add(codes, sample_blocks(0, 1000))
    assert most_populated(sums, count=2) == [0, 1]
    assert most_populated(sums, count=2, above=0.05) == [0, 1, 2, 3]
    assert most_populated(sums, count=5, above=0.05) == [0, 1, 2, 3, 4]


def test_populations_agree_with_a_reference_within_their_errors() -> None:
    def basin(name: str, here: float, there: float | None, half: float | None = 0.0196) -> Basin:
        around = None if half is None else Interval(here - half, here + half)
        beside = None if there is None else Interval(there - 0.0147, there + 0.0147)
        return Basin(name, here, around, 0.0, None, here, there, beside)

    # Errors of 0.01 and 0.0075 are one of 0.0125.
    found = agreement([basin("a", 0.5, 0.5125), basin("b", 0.3, 0.325), basin("c", 0.2, 0.004)], above=0.005)
    assert found is not None
    assert (found.basins, found.where) == (2, "b")
    assert found.largest == pytest.approx(2.0)
    assert found.mean_square == pytest.approx((1.0 + 4.0) / 2)
    # One that the model never visits has the reference's error alone.
    missed = agreement([basin("a", 0.0, 0.03, half=None)], above=0.005)
    assert missed is not None
    assert missed.largest == pytest.approx(4.0)
    assert agreement([basin("a", 0.5, None)], above=0.005) is None


def test_the_representative_of_a_basin_has_the_lowest_energy() -> None:
    energy = np.array([3.0, 1.0, 2.0, -9.0, 0.5])
    batch = Batch(np.arange(5.0)[:, None], energy, np.array([0.0, 0.0, 0.0, -np.inf, 0.0]), np.zeros(5, dtype=np.int64))
    found = Representatives()
    for part in (np.array([0, 3]), np.array([1, 2, 4])):
        found.add(np.array([7, 7, 7, 7, 8])[part], batch.take(part))
    first, second = found.coordinates(7), found.coordinates(8)
    assert first is not None
    assert second is not None
    assert (first[0], second[0]) == (1.0, 4.0)
    assert found.coordinates(9) is None


def test_thermodynamics_of_an_oscillator() -> None:
    # 3 oscillators u = x^2 / 2; the model is their exact density at T0 = 300, with kT0 = 2.5.
    generator = np.random.default_rng(1)
    points = generator.normal(size=(100_000, 3))
    energy = 0.5 * (points**2).sum(1)
    log_weights = np.full(100_000, 1.5 * math.log(2 * math.pi))
    log_weights += 1e-9 * generator.normal(size=100_000)
    found = states(
        log_weights, energy, temperature=300.0, thermal_energy=2.5, generator=generator, factors=(0.7, 1.0, 1.3, 5.0)
    )
    for state, factor in zip(found[:3], (0.7, 1.0, 1.3), strict=True):
        assert state.reason == ""
        assert state.temperature == 300.0 * factor
        expected = {
            "mean_energy": 1.5 * 2.5 * factor,
            "heat_capacity": 1.5 * 2.5 / 300.0,
            "free_energy": -2.5 * factor * 1.5 * math.log(2 * math.pi * factor),
        }
        for name, value in expected.items():
            assert getattr(state, name) == pytest.approx(value, rel=0.03)
            bracket = state.intervals[name]
            assert bracket is not None
            width = max(bracket.upper - bracket.lower, 1e-8)
            assert bracket.lower - width < value < bracket.upper + width
    # At five times the temperature the weights have a tail of shape 1 - 1/5.
    assert found[3].mean_energy is None
    assert "expected" in found[3].reason
    assert found[3].pareto_k == pytest.approx(0.8, abs=0.15)


def test_failed_samples_count_in_the_free_energy() -> None:
    log_weights = np.tile([0.0, -np.inf], 2000)
    (state,) = states(
        log_weights,
        np.ones(4000),
        temperature=1.0,
        thermal_energy=1.0,
        generator=np.random.default_rng(0),
        factors=(1.0,),
    )
    assert state.free_energy == pytest.approx(math.log(2.0))


def mixture_log_p(points: np.ndarray) -> np.ndarray:
    """log of 4 (0.7 N(0, 1) + 0.3 N(20, 1))."""
    return math.log(4.0) + np.logaddexp(
        math.log(0.7) + norm.logpdf(points), math.log(0.3) + norm.logpdf(points, loc=20.0)
    )


def mixture_samples(count: int, generator: np.random.Generator, *, second: float = 0.3) -> np.ndarray:
    return generator.normal(size=count) + 20.0 * (generator.random(count) < second)


def test_a_collapsed_model_misses_the_mass_of_the_other_mode() -> None:
    generator = np.random.default_rng(2)
    samples = 1.1 * generator.normal(size=20_000)
    reference = mixture_samples(5000, generator)

    def log_weights(points: np.ndarray) -> np.ndarray:
        return np.asarray(mixture_log_p(points) - norm.logpdf(points, scale=1.1))

    own_weights = log_weights(samples)
    own = LogZ("importance", math.log(np.exp(own_weights).mean()), np.exp(own_weights).std() / 2.8 / math.sqrt(20_000))
    # Its own estimate is low by log 0.7, and does not know it.
    assert own.value == pytest.approx(math.log(4.0 * 0.7), abs=0.01)
    covering = cover(
        own_weights,
        log_weights(reference),
        reference_weights=np.ones(5000),
        reference_block=sample_blocks(0, 5000),
        drawn=20_000,
    )
    assert covering.log_z.error is not None
    assert covering.log_z.value == pytest.approx(math.log(4.0), abs=4 * covering.log_z.error)
    assert covering.uncovered == pytest.approx(0.3, abs=0.03)
    found = missing_mass(own, [], covering=covering)
    assert 0.25 < found.at_least < 0.31
    assert "at least 2" in found.message
    assert "too rarely" not in found.message
    assert "too rarely" in missing_mass(own, [], covering=covering, pareto_k=0.9).message
    # Another seed that found both modes shows it without a reference, a blind one does not.
    other = missing_mass(own, [LogZ("seed 2", math.log(4.0), 0.02), LogZ("seed 3", own.value, 0.01)])
    assert other.source == "log Z of seed 2"
    assert 0.2 < other.at_least < 0.3
    blind = missing_mass(own, [LogZ("path", math.log(4.0), None)])
    assert blind.at_least == 0.0
    assert "nothing to compare" in blind.message


@pytest.mark.parametrize(("pareto_k", "least"), [(None, 0.01), (0.6, 0.01), (0.4, 0.001)])
def test_how_little_is_reported_depends_on_the_tail(pareto_k: float | None, least: float) -> None:
    own = LogZ("importance", 0.0, 1e-5)
    seen = missing_mass(own, [LogZ("seed 2", 1.1 * least, 1e-5)], pareto_k=pareto_k)
    assert least < seen.at_least < 1.1 * least
    assert f"at least {100 * least:.1f} % of" in seen.message, "never more than is shown"
    unseen = missing_mass(own, [LogZ("seed 2", 0.9 * least, 1e-5)], pareto_k=pareto_k)
    assert unseen.at_least == 0.0
    assert unseen.message == f"no missing mass of {100 * least:g} % or more shown by 1 comparison"


def test_a_light_tail_gives_no_false_alarms() -> None:
    """Weights of a Pareto shape of 0.45 and a mean of one, against the truth; small shares are reported."""
    generator, fired = np.random.default_rng(5), 0
    for _ in range(300):
        weights = (generator.pareto(1 / 0.45, 20_000) + 1) * (1 - 0.45)
        own = LogZ("importance", math.log(weights.mean()), weights.std() / weights.mean() / math.sqrt(20_000))
        fired += missing_mass(own, [LogZ("truth", 0.0, 0.0)], pareto_k=0.45).at_least > 0
    assert fired <= 15


def test_a_good_model_misses_nothing_and_the_bridge_covers() -> None:
    generator = np.random.default_rng(3)
    fired, covered = 0, 0
    for _ in range(150):
        samples, reference = mixture_samples(4000, generator, second=0.4), mixture_samples(1500, generator)

        def log_weights(points: np.ndarray) -> np.ndarray:
            model = np.logaddexp(math.log(0.6) + norm.logpdf(points), math.log(0.4) + norm.logpdf(points, loc=20.0))
            return np.asarray(mixture_log_p(points) - model)

        own_weights = log_weights(samples)
        covering = cover(
            own_weights,
            log_weights(reference),
            reference_weights=np.ones(1500),
            reference_block=sample_blocks(0, 1500),
            drawn=4000,
        )
        weights = np.exp(own_weights)
        own = LogZ("importance", math.log(weights.mean()), weights.std() / weights.mean() / math.sqrt(4000))
        fired += missing_mass(own, [], covering=covering).at_least > 0
        assert covering.log_z.error is not None
        covered += abs(covering.log_z.value - math.log(4.0)) < 1.96 * covering.log_z.error
    assert fired == 0
    # 95 % of 150 are 142.5 with a deviation of 2.7.
    assert 133 <= covered <= 149


def test_bridge_of_correlated_chains_and_weights() -> None:
    # 20 chains that each hardly move: the error must be that of 20 samples, not of 2000.
    generator = np.random.default_rng(4)
    points = np.repeat(generator.normal(size=20), 100) + 0.01 * generator.normal(size=2000)
    samples = 1.5 * generator.normal(size=4000)

    def log_weights(values: np.ndarray) -> np.ndarray:
        return np.asarray(norm.logpdf(values) - norm.logpdf(values, scale=1.5))

    chains = {"reference_weights": np.ones(2000), "reference_block": np.repeat(np.arange(20), 100), "drawn": 4000}
    slow = cover(log_weights(samples), log_weights(points), **chains).log_z
    fast = cover(log_weights(samples), log_weights(generator.normal(size=2000)), **chains).log_z
    assert slow.error is not None
    assert fast.error is not None
    assert slow.error > 4 * fast.error
    assert abs(fast.value) < 4 * fast.error


def test_a_reference_outside_the_model_is_all_missing() -> None:
    own = LogZ("importance", 0.0, 0.01)
    covering = cover(
        np.zeros(100),
        np.full(50, np.inf),
        reference_weights=np.ones(50),
        reference_block=np.arange(50) % 10,
        drawn=100,
    )
    found = missing_mass(own, [], covering=covering)
    assert found.at_least == 1.0
