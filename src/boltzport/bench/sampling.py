"""`boltzport bench sampling`: set up the race of trained flows against dynamics for a molecule, and show its result."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from boltzport.bench.contenders import Contender, of_annealing, of_chains, of_flow
from boltzport.bench.dynamics import HmcContender, langevin, replica_exchange
from boltzport.bench.effective import CEILING
from boltzport.bench.observed import Part, Torsions, Truth, find_truth, torsions_of
from boltzport.bench.race import Race, run_race
from boltzport.bench.track import Budget
from boltzport.core.errors import InputError
from boltzport.core.progress import Progress, silent
from boltzport.core.seeds import check_seed
from boltzport.ensembles.reference import Reference
from boltzport.experiments import Model, load, load_mixture
from boltzport.targets import Target
from boltzport.targets.boltzmann import BoltzmannTarget

BLOCKS = 32
"""Number of blocks of the truth."""
NAMES = ("flow", "annealed", "mixed", "chains", "HMC", "tempered HMC", "Langevin", "replica exchange")
"""Names of the contenders."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings of a race.

    Attributes:
        seconds: Processor time of each contender, which its runs share.
        evaluations: Target evaluations of each contender; infinite for a limit by time alone.
        runs: Number of independent runs of each contender.
        contenders: Names of the contenders; all by default.
        anneal: Number of densities of the annealed samples, or `auto`.
        truth: Number of samples of the flow that give the truth.
        reference: Directory of a reference ensemble that gives the truth instead.
        torsion: Torsion of the profile; the slowest by default.
        seed: Seed of the random generators.
    """

    seconds: float = 60.0
    evaluations: float = math.inf
    runs: int = 8
    contenders: tuple[str, ...] = ()
    anneal: int | str = "auto"
    truth: int = 200_000
    reference: Path | None = None
    torsion: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if not (self.seconds > 0.0 and self.evaluations > 0.0):
            raise InputError(f"expected a positive budget, got {self.seconds:g} s and {self.evaluations:g} evaluations")
        if math.isinf(self.seconds) and math.isinf(self.evaluations):
            raise InputError("expected a limit of --seconds or --evaluations, got none")
        if self.runs < 4:
            raise InputError(f"--repeats: expected at least 4 independent runs, got {self.runs}")
        if self.truth < 1000:
            raise InputError(f"--truth: expected at least 1000 samples, got {self.truth}")
        for name in self.contenders:
            if name not in NAMES:
                raise InputError(f"--contenders: expected some of {', '.join(NAMES)}, got {name}")


def race(runs: Sequence[str], rules: Rules, *, progress: Progress = silent) -> Race:
    """Race trained flows of a molecule against dynamics, all on one thread.

    Args:
        runs: Run directories, or the name of a system whose trained flow ships. The first flow is reweighted, annealed
            and used in chains; with several, their mixture runs too.
        rules: Settings.
        progress: Progress callback.

    Raises:
        InputError: The runs are not of one molecule, or a setting is wrong.
    """
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        first = stack.enter_context(load(runs[0]))
        if first.molecule is None or first.target.energy is None:
            raise InputError(f"{first.config.system} is not a molecule; a race needs one")
        torsions = torsions_of(first.molecule)
        mixed = stack.enter_context(load_mixture(runs, seed=rules.seed)) if len(runs) > 1 else None
        truth = _truth(mixed or first, torsions, rules, progress)
        contenders, notes = _contenders(first, mixed, torsions, rules, progress)
        if not contenders:
            raise InputError("no contender is left; " + "; ".join(notes))
        budget = Budget(rules.seconds, rules.evaluations)
        standings = run_race(contenders, truth, runs=rules.runs, budget=budget, progress=progress)
    return Race(
        system=first.config.system,
        seed=rules.seed,
        threads=1,
        truth=truth,
        truth_error=own_error(truth),
        standings=standings,
        notes=notes,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Run on one thread, as OpenMM does here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def own_error(truth: Truth) -> float:
    """Expected mean absolute error of the profile of a truth, in kT, from its variances."""
    counted = truth.profile > math.exp(-CEILING) / len(truth.profile)
    relative = np.sqrt(truth.profile_variance[counted]) / truth.profile[counted]
    # The mean of the absolute value of a normal variable.
    return float(math.sqrt(2.0 / math.pi) * relative.mean())


def _contenders(
    first: Model, mixed: Model | None, torsions: Torsions, rules: Rules, progress: Progress
) -> tuple[list[Contender], tuple[str, ...]]:
    """The contenders that take part, and why others do not."""
    wanted, notes = rules.contenders or NAMES, []
    found: list[Contender] = []
    molecule, energy = first.molecule, first.target.energy
    assert molecule is not None
    assert energy is not None
    if "flow" in wanted:
        found.append(of_flow(first, torsions, seed=rules.seed))
    if "annealed" in wanted:
        annealed, note = of_annealing(first, torsions, rules.anneal, seed=rules.seed, progress=progress)
        notes.append(note)
        found += [] if annealed is None else [annealed]
    if "mixed" in wanted and mixed is not None:
        found.append(of_flow(mixed, torsions, name="mixed", seed=rules.seed))
    if "chains" in wanted:
        found.append(of_chains(first, torsions, seed=rules.seed))
    if "HMC" in wanted:
        found.append(HmcContender(molecule, energy.evaluate, torsions, rules.seed, name="HMC", rungs=1))
    if "tempered HMC" in wanted:
        found.append(HmcContender(molecule, energy.evaluate, torsions, rules.seed))
    if energy.backend not in ("tensors", "openmm"):
        notes.append(f"the energy is {energy.message}, so OpenMM's dynamics is left out")
        return found, tuple(notes)
    if "Langevin" in wanted:
        found.append(langevin(molecule, torsions, seed=rules.seed))
    if "replica exchange" in wanted:
        found.append(replica_exchange(molecule, torsions, seed=rules.seed))
    return found, tuple(notes)


def _truth(model: Model, torsions: Torsions, rules: Rules, progress: Progress) -> Truth:
    """The truth from a reference, or from reweighted samples of the flow with a seed of their own."""
    if rules.reference is not None:
        known = Reference.load(rules.reference)
        check_reference(known, model.target.counted.target)
        chains = np.unique(known.chain)
        # Without several chains, pieces of the only one.
        blocks = known.chain if len(chains) > 1 else np.arange(len(known)) * BLOCKS // len(known)
        labels = np.unique(blocks)
        parts = (
            (_part_of(known, np.flatnonzero(blocks == label), torsions), number) for number, label in enumerate(labels)
        )
        source = f"reference {rules.reference}"
        return find_truth(torsions, parts, blocks=len(labels), source=source, torsion=rules.torsion)
    flow = of_flow(model, torsions, name="truth", seed=rules.seed)
    each = -(-rules.truth // BLOCKS)

    def drawn() -> Iterator[tuple[Part, int]]:
        for block in range(BLOCKS):
            done, parts = 0, flow.open(block)
            while done < each:
                part = next(parts)
                done += len(part.torsions)
                yield part, block
            progress("truth", block + 1, BLOCKS)

    return find_truth(torsions, drawn(), blocks=BLOCKS, source="reweighted samples of the flow", torsion=rules.torsion)


def _part_of(known: Reference, rows: np.ndarray, torsions: Torsions) -> Part:
    with np.errstate(divide="ignore"):
        return Part(known.coordinates[rows][:, list(torsions.places)], np.log(known.weights[rows]))


def check_reference(known: Reference, target: Target) -> None:
    """Refuse a reference of another molecule.

    Raises:
        InputError: It has other coordinates, or other energies.
    """
    from boltzport.analysis.evaluation import check_energies

    assert isinstance(target, BoltzmannTarget)
    if known.coordinates.shape[1] != len(target.layout):
        raise InputError(
            f"the reference: expected {len(target.layout)} coordinates, got {known.coordinates.shape[1]}; "
            "it belongs to another molecule"
        )
    rows = np.linspace(0, len(known) - 1, min(len(known), 200)).round().astype(np.int64)
    with torch.no_grad():
        points = target.from_internal(torch.from_numpy(known.coordinates[rows]).double())
        check_energies(target.evaluate(points).log_p.numpy(), known.reduced_energy[rows])
