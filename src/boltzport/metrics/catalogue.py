"""What each metric is called, what it means and how it is written; a new metric is a new row here."""

from enum import StrEnum
from typing import NamedTuple


class Style(StrEnum):
    """How a value is written for people."""

    NUMBER = "number"
    PERCENT = "percent"
    COUNT = "count"
    DURATION = "duration"


class Metric(NamedTuple):
    """What there is to say of a metric, whatever its value.

    Attributes:
        label: Name for people.
        meaning: One line.
        unit: Unit of the value; empty for a pure number.
        style: How the value is written.
        listed: Whether the terminal table lists it.
    """

    label: str
    meaning: str
    unit: str = ""
    style: Style = Style.NUMBER
    listed: bool = True


def _count(label: str, meaning: str) -> Metric:
    """A number of things, which the terminal table does not list."""
    return Metric(label, meaning, style=Style.COUNT, listed=False)


def _share(label: str, meaning: str) -> Metric:
    return Metric(label, meaning, style=Style.PERCENT)


METRICS: dict[str, Metric] = {
    "target_evaluations": _count("energy evaluations", "spent on training, with those before its first step"),
    "gradient_evaluations": _count("force evaluations", "those among them with a gradient"),
    "gradient_steps": _count("gradient steps", "of the optimiser"),
    "wall_seconds": Metric("time", "on the clock, training", "s", Style.DURATION, listed=False),
    "samples": _count("samples", "drawn for this evaluation"),
    "failed": _count("failed evaluations", "samples without an energy, which have no weight"),
    "ess": _share("effective sample size", "share of the samples that the weights leave"),
    "ess_unclipped": _share(
        "effective sample size, unclipped", "the same without clipping the top 0.01 % of the weights"
    ),
    "ess_torsions": _share(
        "effective sample size, torsions",
        "of the torsions alone, the stiff coordinates averaged over: low where populations of basins are off",
    ),
    "ess_stiff": _share(
        "effective sample size, stiff coordinates",
        "of bonds, angles and other stiff motions given the torsions, averaged over the target's torsions",
    ),
    "pareto_k": Metric("Pareto k\u0302", "tail of the weights: below 0.5 good, below 0.7 usable"),
    "log_z": Metric("log Z", "log of the mean weight; minus it is the free energy in kT"),
    "log_z_error": Metric("log Z, standard error", "of log Z by the weights", listed=False),
    "log_z_smoothed": Metric("log Z, smoothed", "the same with the tail of the weights smoothed", listed=False),
    "elbo": Metric("ELBO", "mean log-weight, a lower bound of log Z", "nats"),
    "mean_reduced_energy": Metric("mean reduced energy", "reweighted, kT", "kT"),
    "nll": Metric("negative log-likelihood", "of the reference under the model, nats; lower is better", "nats"),
    "eubo": Metric("EUBO", "mean log-weight over the reference, an upper bound of log Z", "nats"),
    "outside": Metric(
        "reference outside", "share of the reference outside the range of the flow", style=Style.PERCENT, listed=False
    ),
    "noise_floor_samples": _count("frames of the noise floor", "in the second reference"),
    "ramachandran.kl": Metric("Ramachandran KL", "from the reference to the model over (φ, ψ), nats", "nats"),
    "ramachandran.tv": _share("Ramachandran total variation", "share of probability in the wrong place"),
    "phi_profile.mae": Metric("free energy along φ", "mean absolute error, kT", "kT"),
    "phi_profile.unvisited": _count("bins along φ not visited", "of those that the reference visits"),
    "density_2d.kl": Metric("KL over two coordinates", "from the reference to the model, nats", "nats"),
    "density_2d.tv": _share("total variation over two coordinates", "share of probability misplaced"),
    "tica.kl": Metric("TICA KL", "from the reference to the model over the two slowest modes, nats", "nats"),
    "tica.lag": _count("TICA lag", "frames of the reference"),
    "wasserstein.torus": Metric("torus W₂", "distance of the backbone torsions, radian", "rad"),
    "wasserstein.plane": Metric("plane W₂", "distance over two coordinates"),
    "wasserstein.energy": Metric("energy W₂", "distance of the reduced energies, kT", "kT"),
    "wasserstein.tica": Metric("TICA W₂", "distance over the two slowest modes"),
    "wasserstein.samples": _count("samples of the W₂ distances", "on which their bias depends"),
    "basins.population": _share("population", "share of the reweighted samples in this basin"),
    "basins.free_energy": Metric("free energy", "above the most populated basin, kT", "kT", listed=False),
    "temperatures.effective_samples": _count("effective samples", "reweighted to this temperature"),
    "temperatures.mean_energy": Metric("mean energy", "at this temperature", "kJ/mol", listed=False),
    "temperatures.heat_capacity": Metric("heat capacity", "at this temperature", "kJ/mol/K", listed=False),
    "temperatures.free_energy": Metric("free energy", "at this temperature", "kJ/mol", listed=False),
}
"""By name; metrics of single residues, basins or temperatures by their group and their last part."""

REWEIGHTED = "_reweighted"
"""What the name of a metric of the weighted samples ends in, where that of the samples as drawn has none."""


class Parts(NamedTuple):
    """The parts of a metric's name: `ramachandran`, `ALA2` and `kl` of `ramachandran.ALA2.kl`."""

    group: str
    of: str
    key: str


def parts_of(name: str) -> Parts:
    """Split a name; a metric without a group has its name as the key.

    Example:
        >>> parts_of("temperatures.270.5.mean_energy"), parts_of("tica.kl"), parts_of("ess")
        (Parts(group='temperatures', of='270.5', key='mean_energy'), Parts(group='tica', of='', key='kl'), \
Parts(group='', of='', key='ess'))
    """
    group, separator, rest = name.partition(".")
    if not separator:
        return Parts("", "", name)
    of, _, key = rest.rpartition(".")
    return Parts(group, of, key)


def metric(name: str) -> Metric:
    """What there is to say of a metric.

    Example:
        >>> metric("ramachandran.ALA2.kl_reweighted").label
        'Ramachandran KL, reweighted'
        >>> metric("something.new").label
        'something new'
    """
    group, _, key = parts_of(name)
    short = f"{group}.{key}" if group else key
    if short in METRICS:
        return METRICS[short]
    plain = METRICS.get(short.removesuffix(REWEIGHTED))
    if plain is not None:
        return plain._replace(label=f"{plain.label}, reweighted", meaning="the same of the weighted samples")
    return Metric(short.replace(".", " ").replace("_", " "), "", listed=False)
