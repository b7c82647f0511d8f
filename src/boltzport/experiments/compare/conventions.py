"""Conventions behind the paper's tables, and what the runs beside them lack."""

import math
from collections.abc import Iterator

from boltzport.experiments.compare.compare import TargetComparison

PAPER_MEASURE = 2 * math.log(2 * math.pi)
"""log Z of the paper minus ours.

Our densities are with respect to all Cartesian coordinates, with the Haar measure of the orientation (Euler angles in
radian, the middle one as a cosine). The paper's coordinates (bgflow) measure the outer two angles in turns, which makes
a density larger by (2 pi)^2.
"""
MEASURED = ("nll", "elbo", "log_z", "eubo")
"""Metrics that depend on the measure."""

CONVENTIONS = {
    "measure": "Densities are with respect to all Cartesian coordinates in nm, with the Haar measure of the "
    "orientation; constrained bonds are constants. log Z, ELBO, EUBO and the negative log-likelihood are shown in the "
    f"paper's measure, which counts two Euler angles in turns: ours plus 2 log 2π = {PAPER_MEASURE:.4f}.",
    "constants": "log Z is that of exp(-U / kT) with all terms of the force field, regularised at high energies as in "
    "the paper; no constant is subtracted.",
    "weights": "For the ESS and all reweighted metrics the largest 0.01 % of the weights are set to the smallest of "
    "them; for the ELBO the lowest 0.01 % of the log-weights are set to the highest of them, as in the paper.",
    "histograms": "KL is from the reference to the model, with 1e-10 added to both densities; total variation is half "
    "the sum of the absolute differences; 100 x 100 bins; mean over residues. Both depend on the number of samples "
    "and of reference frames: the paper has 1e7 of each.",
    "wasserstein": "Distances depend on the number of samples: the paper has 1e4.",
    "intervals": "± is the standard error over runs, in the paper over four. A single run of ours has a 95 % interval "
    "instead, from a bootstrap over blocks.",
    "noise_floor": "The same metric between two references, or between two halves of one: what is below it cannot be "
    "distinguished from zero.",
    "cost": "Energy evaluations are those of a whole training. Times are of the machine of each run; the paper's are "
    "of one A100.",
}
"""Conventions of the tables, by topic."""


def conventions_text() -> list[str]:
    """The conventions, one line each."""
    return [f"{topic.replace('_', ' ').capitalize()}: {sentence}" for topic, sentence in CONVENTIONS.items()]


def missing_run(system: str) -> str:
    """What to say about a system of the paper that has no run."""
    return (
        f"{system}: missing, there is no run of it. Train one with `boltzport train {system} --out RUN`, evaluate it "
        "with `boltzport evaluate RUN --reference DIR`, and pass RUN."
    )


def shortcomings(target: TargetComparison) -> Iterator[str]:
    """What the evaluations of the runs lack, one sentence each."""
    for member in target.members:
        results = member.data.results
        if results is None:
            # The comparison itself says that the run is not evaluated.
            continue
        if results.details.get("reference") is None:
            yield (
                f"{member.data.path} was evaluated without a reference (`boltzport evaluate RUN --reference DIR`): "
                "NLL, EUBO and all distances are missing."
            )
        elif results.value("noise_floor_samples") is None:
            yield (
                f"{member.data.path} has no noise floor (`boltzport evaluate RUN --reference DIR --floor DIR2`): its "
                "reference has too few chains to compare its halves."
            )
