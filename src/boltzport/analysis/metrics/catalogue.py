"""Catalogue of the metrics: label, meaning and format of each; a new metric is a new row here."""

from enum import StrEnum
from typing import NamedTuple


class Style(StrEnum):
    """Format of a value in text."""

    NUMBER = "number"
    PERCENT = "percent"
    COUNT = "count"
    DURATION = "duration"


class Metric(NamedTuple):
    """Description of a metric, independent of its value.

    Attributes:
        label: Name in tables and pages.
        meaning: Meaning in one line.
        unit: Unit of the value; empty for a pure number.
        style: Format of the value.
        listed: Whether the terminal table lists it.
    """

    label: str
    meaning: str
    unit: str = ""
    style: Style = Style.NUMBER
    listed: bool = True


def _count(label: str, meaning: str) -> Metric:
    """A count, which the terminal table does not list."""
    return Metric(label, meaning, style=Style.COUNT, listed=False)


def _share(label: str, meaning: str) -> Metric:
    return Metric(label, meaning, style=Style.PERCENT)


METRICS: dict[str, Metric] = {
    "target_evaluations": _count("energy evaluations", "spent on training, including those before its first step"),
    "gradient_evaluations": _count("force evaluations", "energy evaluations with a gradient"),
    "gradient_steps": _count("gradient steps", "of the optimiser"),
    "wall_seconds": Metric("time", "wall-clock time of the training", "s", Style.DURATION, listed=False),
    "samples": _count("samples", "drawn for this evaluation"),
    "failed": _count("failed evaluations", "samples without an energy, which get zero weight"),
    "ess": _share("effective sample size", "fraction of the samples, from their importance weights"),
    "ess_unclipped": _share("effective sample size, unclipped", "without clipping the top 0.01 % of the weights"),
    "ess_torsions": _share(
        "effective sample size, torsions",
        "of the torsions alone, averaged over the stiff coordinates: low if populations of basins are wrong",
    ),
    "ess_stiff": _share(
        "effective sample size, stiff coordinates",
        "of bonds, angles and other stiff motions given the torsions, averaged over the target's torsions",
    ),
    "pareto_k": Metric("Pareto k\u0302", "tail of the weights: below 0.5 good, below 0.7 usable"),
    "largest_weight": _share("largest weight", "share of one sample in the sum of all weights"),
    "log_z": Metric("log Z", "log of the mean weight; minus it is the free energy in kT"),
    "log_z_error": Metric("log Z, standard error", "of log Z, from the weights", listed=False),
    "log_z_smoothed": Metric("log Z, smoothed", "log Z with the tail of the weights smoothed", listed=False),
    "log_z_exact": Metric("log Z, exact", "known for a toy"),
    "log_z_difference": Metric("log Z difference", "log Z minus that of the run it was retargeted from"),
    "reduced_free_energy_difference": Metric(
        "free-energy difference / kT", "F / kT minus that of the run it was retargeted from", "kT", listed=False
    ),
    "free_energy_difference": Metric(
        "free-energy difference", "F = -kT log Z minus that of the run it was retargeted from, kJ/mol", "kJ/mol"
    ),
    "elbo": Metric("ELBO", "mean log-weight, a lower bound of log Z", "nats"),
    "mean_reduced_energy": Metric("mean reduced energy", "reweighted, kT", "kT"),
    "nll": Metric("negative log-likelihood", "of the reference under the model, nats; lower is better", "nats"),
    "eubo": Metric("EUBO", "mean log-weight over the reference, an upper bound of log Z", "nats"),
    "outside": Metric(
        "reference outside", "fraction of the reference outside the flow's range", style=Style.PERCENT, listed=False
    ),
    "noise_floor_samples": _count("frames of the noise floor", "in the second reference"),
    "ramachandran.kl": Metric("Ramachandran KL", "from the reference to the model over (φ, ψ), nats", "nats"),
    "ramachandran.tv": _share("Ramachandran total variation", "fraction of the probability that is misplaced"),
    "phi_profile.mae": Metric("free energy along φ", "mean absolute error, kT", "kT"),
    "phi_profile.unvisited": _count("bins along φ not visited", "among those that the reference visits"),
    "torsion_pairs.kl": Metric("KL over pairs of torsions", "from the reference to the model, nats", "nats"),
    "torsion_pairs.tv": _share("total variation over torsions", "fraction of the probability that is misplaced"),
    "torsion_profile.mae": Metric("free energy along a torsion", "mean absolute error, kT", "kT"),
    "torsion_profile.unvisited": _count("bins along a torsion not visited", "among those that the reference visits"),
    "density_2d.kl": Metric("KL over two coordinates", "from the reference to the model, nats", "nats"),
    "density_2d.tv": _share("total variation over two coordinates", "fraction of the probability that is misplaced"),
    "tica.kl": Metric("TICA KL", "from the reference to the model over the two slowest modes, nats", "nats"),
    "tica.lag": _count("TICA lag", "frames of the reference"),
    "wasserstein.torus": Metric("torus W₂", "distance of the backbone or other torsions, radian", "rad"),
    "wasserstein.plane": Metric("plane W₂", "distance over two coordinates"),
    "wasserstein.energy": Metric("energy W₂", "distance of the reduced energies, kT", "kT"),
    "wasserstein.tica": Metric("TICA W₂", "distance over the two slowest modes"),
    "wasserstein.samples": _count("samples of the W₂ distances", "on which their bias depends"),
    "basins.population": _share("population", "fraction of the reweighted samples in this basin"),
    "basins.free_energy": Metric("free energy", "above the most populated basin, kT", "kT", listed=False),
    "temperatures.effective_samples": _count("effective samples", "reweighted to this temperature"),
    "temperatures.mean_energy": Metric("mean energy", "at this temperature", "kJ/mol", listed=False),
    "temperatures.heat_capacity": Metric("heat capacity", "at this temperature", "kJ/mol/K", listed=False),
    "temperatures.free_energy": Metric("free energy", "at this temperature", "kJ/mol", listed=False),
    "temperatures.entropy": Metric("entropy", "at this temperature", "kJ/mol/K", listed=False),
    "conformational_entropy": Metric("conformational entropy", "of the populations of the basins, in units of k", "k"),
}
"""Metrics by name; those of single residues, basins or temperatures by their group and last part."""

REWEIGHTED = "_reweighted"
"""Suffix of the name of a metric of the weighted samples, if that of the unweighted samples has the plain name."""


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
    """Return the description of a metric.

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
        return plain._replace(label=f"{plain.label}, reweighted", meaning="the same for the weighted samples")
    return Metric(short.replace(".", " ").replace("_", " "), "", listed=False)
