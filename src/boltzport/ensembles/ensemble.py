"""`Ensemble`: frames with weights, in memory."""

import math
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.analysis.metrics import LARGEST_K, Estimate, bulk_size, smooth, symmetric
from boltzport.core.errors import InputError
from boltzport.core.progress import Progress, silent
from boltzport.core.weights import effective_fraction, log_mean
from boltzport.ensembles.numbers import Frames, Numbers, to_numpy
from boltzport.ensembles.resample import check_weights
from boltzport.ensembles.stream import Stream
from boltzport.ensembles.write import WrittenEnsemble, write_frames
from boltzport.targets import Target
from boltzport.targets.boltzmann import BoltzmannTarget

if TYPE_CHECKING:
    from boltzport.ensembles.chain import ChainSummary
    from boltzport.molecules import Molecule

FEWEST_EFFECTIVE = 25.0
"""Number of effective samples below which an error bar cannot be trusted."""
SHORTEST = 8
"""Number of frames of a chain below which its effective size cannot be estimated."""
BATCH = 8192
"""Number of frames that are transformed or written at once."""


class WeightsWarning(UserWarning):
    """A value or an error bar was computed that the weights do not justify.

    Example:
        >>> import boltzport as bp
        >>> warnings.simplefilter("error", bp.WeightsWarning)  # an error bar that is not justified raises
        >>> warnings.simplefilter("default", bp.WeightsWarning)
    """


class Ensemble:
    """Frames of a target with their weights, as returned by `Model.sample`.

    Args:
        frames: Points of the flow, with their weights and energies.
        target: Target of the frames.
        drawn: Log-weights of all draws that the frames were chosen from; those of the frames by default.
        chains: Summary of the Markov chains that the frames come from, one frame of each after the other; None if they
            do not.
        notes: How the frames were drawn, one line each, such as the number of densities that `anneal="auto"` chose.

    Example:
        >>> import boltzport
        >>> ensemble = boltzport.load("alanine-dipeptide").sample(500, seed=1)
        >>> ensemble.positions.shape, ensemble.log_weights.shape
        ((500, 22, 3), (500,))
        >>> bool(ensemble.ess > 0.9), bool(abs(ensemble.log_z + 178.68) < 5 * ensemble.log_z_error)
        (True, True)
    """

    def __init__(
        self,
        frames: Frames,
        target: Target,
        *,
        drawn: Float[np.ndarray, " draws"] | None = None,
        chains: "ChainSummary | None" = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._frames, self._target, self._drawn = frames, target, drawn
        self.chains, self.notes = chains, notes
        check_weights(self.drawn_log_weights)

    @classmethod
    def from_stream(cls, stream: Stream, target: Target, n: int, *, progress: Progress = silent) -> "Ensemble":
        """Collect all frames of a stream.

        Args:
            stream: The stream.
            target: Target of the frames.
            n: Total number of frames.
            progress: Progress callback, called after each batch.

        Raises:
            RunError: No draw has a finite weight.
        """
        coordinates, numbers = [], []
        for part in stream.frames:
            coordinates.append(part.coordinates)
            numbers.append(part.numbers)
            progress("frames", sum(map(len, coordinates)), n)
        joined = Numbers(*(np.concatenate(column) for column in zip(*numbers, strict=True)))
        chains = None if stream.summary is None else stream.summary()
        points = Frames(torch.cat(coordinates), joined)
        return cls(points, target, drawn=stream.log_weights, chains=chains, notes=stream.notes)

    def __len__(self) -> int:
        """Number of frames."""
        return len(self._frames.numbers.log_weights)

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} frames of {self._target.name}, ESS {self.ess:.1%}, log Z {self.log_z:.3f})"

    @property
    def molecule(self) -> "Molecule | None":
        """The molecule; None for another target."""
        return self._target.molecule if isinstance(self._target, BoltzmannTarget) else None

    @property
    def target(self) -> Target:
        """Target of the frames."""
        return self._target

    @property
    def weighted(self) -> bool:
        """Whether the frames are draws of the flow with their weights, and not chosen from them."""
        return self._drawn is None

    def coordinates_of(self, frame: int) -> Float[Tensor, "1 dimensions"]:
        """A frame in the coordinates of the flow."""
        return self._frames.coordinates[frame : frame + 1]

    @cached_property
    def coordinates(self) -> Float[np.ndarray, "frames dimensions"]:
        """Internal coordinates of a molecule (nm and radian), or the coordinates of another target."""
        target = self._target
        return self._transformed(target.internal) if isinstance(target, BoltzmannTarget) else self._transformed(_same)

    @cached_property
    def positions(self) -> Float[np.ndarray, "frames atoms 3"]:
        """Positions in nm.

        Raises:
            InputError: The target is not a molecule.
        """
        if not isinstance(self._target, BoltzmannTarget):
            raise InputError(f"{self._target.name} is not a molecule and has no positions; its points are coordinates")
        return self._transformed(self._target.positions)

    @property
    def log_weights(self) -> Float[np.ndarray, " frames"]:
        """Log-weights of the frames with respect to the target; zero for resampled frames."""
        return self._frames.numbers.log_weights

    @property
    def weights(self) -> Float[np.ndarray, " frames"]:
        """Weights of the frames, with mean 1."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weights / weights.mean())

    @property
    def reduced_energy(self) -> Float[np.ndarray, " frames"]:
        """Reduced energies in kT: minus the log density of the target."""
        return self._frames.numbers.reduced_energy

    @property
    def log_q(self) -> Float[np.ndarray, " frames"]:
        """Log density of the flow with respect to the target's own measure; NaN if it is not known."""
        return self._frames.numbers.log_q

    @property
    def draw(self) -> np.ndarray:
        """Number of the draw of the flow that each frame is or started from."""
        return self._frames.numbers.draw

    @property
    def drawn_log_weights(self) -> Float[np.ndarray, " draws"]:
        """Log-weights of all draws that the frames were chosen from."""
        return self.log_weights if self._drawn is None else self._drawn

    @cached_property
    def ess(self) -> float:
        """Effective sample size of the draws as a fraction, unclipped."""
        return effective_fraction(torch.from_numpy(self.drawn_log_weights))

    @property
    def log_z(self) -> float:
        """Log of the target's normalising constant: the log of the mean weight of the draws."""
        return log_mean(torch.from_numpy(self.drawn_log_weights)).value

    @property
    def log_z_error(self) -> float:
        """Standard error of `log_z`."""
        return log_mean(torch.from_numpy(self.drawn_log_weights)).error

    @cached_property
    def pareto_k(self) -> float | None:
        """Pareto shape of the tail of the weights, which cannot be trusted above 0.7; None if all weights are equal."""
        return smooth(self.drawn_log_weights).pareto_k

    def expectation(self, function: Callable[[Any], Any], *, name: str = "expectation", unit: str = "") -> Estimate:
        """Mean of a function over the target, with a 95 % interval.

        The error is that of self-normalised importance sampling. For resampled frames it is the error of as many
        independent frames as the draws are worth, plus that of the resampling; for frames of Markov chains, that of as
        many as the chains are worth for this function.

        Args:
            function: A function of positions (frames, atoms, 3) in nm, or of the coordinates of a target that is not a
                molecule, that returns one number for each frame.
            name: Name of the estimate.
            unit: Unit of the estimate.

        Raises:
            InputError: The function does not return one number for each frame.

        Warns:
            WeightsWarning: A few frames carry the weight, so that the value and its error cannot be trusted.

        Example:
            >>> import boltzport
            >>> ensemble = boltzport.load("alanine-dipeptide").sample(500, seed=1)
            >>> end_to_end = lambda x: ((x[:, 0] - x[:, 18]) ** 2).sum(1) ** 0.5
            >>> found = ensemble.expectation(end_to_end, unit="nm")
            >>> 0.4 < found.value < 0.8, found.error < 0.01
            (True, True)
        """
        values = np.asarray(function(self.coordinates if self.molecule is None else self.positions), dtype=np.float64)
        if values.shape != (len(self),):
            raise InputError(f"expected one number for each of {len(self)} frames, got shape {values.shape}")
        if self.chains is not None:
            return self._mean_of_chains(values, name=name, unit=unit)
        self._warn()
        weights = self.weights / len(self)
        counted = weights > 0
        mean = float((weights[counted] * values[counted]).sum())
        squares = (values[counted] - mean) ** 2
        if self._drawn is None:
            error = math.sqrt(float((weights[counted] ** 2 * squares).sum()))
        else:
            error = math.sqrt(float(squares.mean()) * (1 / (self.ess * len(self._drawn)) + 1 / len(self)))
        return Estimate(name=name, value=mean, interval=symmetric(mean, error), unit=unit, note=self._note())

    def _mean_of_chains(self, values: Float[np.ndarray, " frames"], *, name: str, unit: str) -> Estimate:
        assert self.chains is not None
        whole = self.chains.chains * (len(values) // self.chains.chains)
        effective = bulk_size(values[:whole].reshape(-1, self.chains.chains)) if self.chains.draws >= SHORTEST else 1.0
        error = float(values.std()) / math.sqrt(max(effective, 1.0))
        mean = float(values.mean())
        note = "" if effective >= FEWEST_EFFECTIVE else f"the chains are worth {effective:.1f} independent frames"
        return Estimate(name=name, value=mean, interval=symmetric(mean, error), unit=unit, note=note)

    def to_mdtraj(self) -> Any:
        """The frames as an `mdtraj.Trajectory`; `weights` has their weights.

        Raises:
            InputError: The target is not a molecule.
        """
        import mdtraj

        positions = self.positions
        assert self.molecule is not None
        return mdtraj.Trajectory(positions, mdtraj.Topology.from_openmm(self.molecule.openmm_topology))

    def save(self, path: Path | str, *, progress: Progress = silent) -> WrittenEnsemble:
        """Write the frames to .xtc, .dcd, .pdb or .npz, with their weights beside them.

        Args:
            path: Output file; its suffix sets the format, which is .npz for a target that is not a molecule.
            progress: Progress callback, called after each batch.

        Raises:
            InputError: The format is unknown or does not fit the target, or there is no such directory.
        """
        known = self.chains
        stream = Stream(self._batches(), self._drawn, summary=None if known is None else lambda: known)
        return write_frames(Path(path), stream, self._target, len(self), progress=progress)

    def _batches(self) -> Iterator[Frames]:
        coordinates, numbers = self._frames
        for start in range(0, len(self), BATCH):
            part = slice(start, start + BATCH)
            yield Frames(coordinates[part], Numbers(*(column[part] for column in numbers)))

    @torch.no_grad()
    def _transformed(self, function: Callable[[Tensor], Tensor]) -> np.ndarray:
        return np.concatenate([to_numpy(function(part)) for part in torch.split(self._frames.coordinates, BATCH)])

    def _note(self) -> str:
        """Why the weights do not justify an error bar; empty if they do."""
        effective = self.ess * len(self.drawn_log_weights)
        if effective < FEWEST_EFFECTIVE:
            return f"the draws are worth {effective:.1f} independent ones; expected at least {FEWEST_EFFECTIVE:.0f}"
        if self.pareto_k is not None and self.pareto_k > LARGEST_K:
            return f"Pareto k of {self.pareto_k:.2f}, expected at most {LARGEST_K}: a few frames carry the weight"
        return ""

    def _warn(self) -> None:
        if note := self._note():
            warnings.warn(f"the error bar is not justified: {note}", WeightsWarning, stacklevel=3)


def _same(coordinates: Tensor) -> Tensor:
    return coordinates
