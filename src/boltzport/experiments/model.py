"""`Model`: a trained flow with its target, in memory."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from boltzport.core.closing import Closing
from boltzport.core.errors import InputError
from boltzport.core.files import Row, RunDirectory, finite, write_atomically, write_json
from boltzport.core.interrupt import StopRequest
from boltzport.core.progress import Progress, silent
from boltzport.experiments.build import OpenTarget
from boltzport.experiments.config import RunConfig
from boltzport.experiments.drawing import Drawing, annealed_log_z, open_drawing, seeded
from boltzport.experiments.exact import exact_samples
from boltzport.experiments.inputs import keep_inputs
from boltzport.experiments.keeping import keep_origin
from boltzport.flows import Flow, MixedFlow
from boltzport.targets import Ledger, Target
from boltzport.training import Status

if TYPE_CHECKING:
    from boltzport.analysis.evaluation import Cost, LogZ, ReferenceSamples
    from boltzport.analysis.metrics import Origin, Results
    from boltzport.energies import EnergyLike
    from boltzport.ensembles import Ensemble, Mode, Stream, WrittenEnsemble
    from boltzport.molecules import Molecule
    from boltzport.reporting import RunData


class Model(Closing):
    """A trained flow with its target.

    `boltzport.train` and `boltzport.load` return models.

    Args:
        flow: The flow.
        target: The target that it was trained on.
        config: Configuration of the training.
        status: Status of the training.
        rows: Metrics of the training steps.
        results: Results of the last evaluation.
        origin: What a retargeted model was before.
        directory: Run directory; None for a model in memory.

    Example:
        >>> import boltzport
        >>> model = boltzport.load("alanine-dipeptide")
        >>> model
        Model(alanine-dipeptide, molecular flow, cmt)
        >>> results = model.evaluate(n=500, seed=1)
        >>> results["ess"].value > 0.9
        True
    """

    def __init__(
        self,
        *,
        flow: Flow,
        target: OpenTarget,
        config: RunConfig,
        status: Status,
        rows: Sequence[Row] = (),
        results: "Results | None" = None,
        origin: "Origin | None" = None,
        directory: RunDirectory | None = None,
    ) -> None:
        self.flow, self.target, self.config, self.status = flow, target, config, status
        self.rows, self.results, self.origin, self.directory = list(rows), results, origin, directory

    def __repr__(self) -> str:
        return f"Model({self.config.system}, {self.flow.kind} flow, {self.config.method})"

    def close(self) -> None:
        """End the processes of the energy, if it has any; they also end with the model."""
        self.target.close()

    @property
    def molecule(self) -> "Molecule | None":
        """The molecule; None for another target."""
        return self.target.molecule

    @property
    def ledger(self) -> Ledger:
        """Number of target evaluations, by purpose."""
        return self.target.counted.ledger

    @property
    def cost(self) -> "Cost":
        """Cost of the training."""
        from boltzport.analysis.evaluation import Cost

        return Cost(
            target_evaluations=self.ledger.cost,
            gradient_steps=self.status.gradient_steps,
            wall_seconds=round(self.status.seconds, 3),
        )

    def sample(
        self,
        n: int,
        *,
        seed: int = 0,
        mode: "Mode | str" = "weighted",
        draws: int | None = None,
        anneal: int | str = 0,
        defensive: float | None = None,
        progress: Progress = silent,
    ) -> "Ensemble":
        """Draw frames with weights.

        Args:
            n: Number of frames.
            seed: Seed of the random generator; the same seed as in training gives other random numbers.
            mode: `weighted`: samples with their weights. `resampled`: frames of equal weight, some of them repeated.
                `refined`: resampled, then moved by Markov chains that leave the target invariant. `chain`: frames of
                Markov chains of trajectories and of proposals from the flow, without weights.
            draws: Number of samples that resampled or refined frames are chosen from; n by default.
            anneal: Number of intermediate densities through which trajectories carry each sample to the target, whose
                energy must have forces; its weight stays exact. `auto` for the number with the most effective samples
                per second, which is 0 for a good flow.
            defensive: Share of a broader version of the flow that is mixed in, so that weights are bounded where the
                flow is thin. By default 0.05 if the evaluation of the model found a Pareto k above 0.7, and else 0.
            progress: Progress callback.

        Raises:
            InputError: There is no such mode, a number is not positive, or the energy has no forces.
            RunError: No sample has a finite weight.
        """
        from boltzport.ensembles import Ensemble

        how = Drawing(seed=seed, mode=mode, draws=draws, anneal=anneal, defensive=defensive)
        stream = self._stream(n, how, progress)
        return Ensemble.from_stream(stream, self.target.counted.target, n, progress=progress)

    def write(
        self,
        path: Path | str,
        n: int,
        *,
        seed: int = 0,
        mode: "Mode | str" = "weighted",
        draws: int | None = None,
        anneal: int | str = 0,
        defensive: float | None = None,
        overwrite: bool = True,
        progress: Progress = silent,
        stop: StopRequest | None = None,
    ) -> "WrittenEnsemble":
        """Draw frames and write them as `sample(...).save(path)` does, without holding all of them in memory.

        Args:
            path: Output file, with the suffix .xtc, .dcd, .pdb or .npz.
            n: Number of frames.
            seed: Seed of the random generator.
            mode: Kind of frames; see `sample`.
            draws: Number of samples that resampled or refined frames are chosen from; n by default.
            anneal: Number of intermediate densities; see `sample`.
            defensive: Share of a broader version of the flow; see `sample`.
            overwrite: Whether earlier files of these names may be replaced.
            progress: Progress callback.
            stop: Stop request, checked after each batch; the files then hold the frames so far.

        Raises:
            InputError: The format is unknown, or a file exists or belongs to other frames.
        """
        from boltzport.ensembles import check_file, write_frames

        target = self.target.counted.target
        check_file(Path(path), target, overwrite=overwrite)
        how = Drawing(seed=seed, mode=mode, draws=draws, anneal=anneal, defensive=defensive)
        stream = self._stream(n, how, progress)
        return write_frames(Path(path), stream, target, n, progress=progress, stop=stop)

    def evaluate(
        self,
        *,
        reference: "ReferenceSamples | Path | str | None" = None,
        floor: "ReferenceSamples | Path | str | None" = None,
        n: int = 100_000,
        seed: int = 0,
        transport_samples: int = 10_000,
        exact: int = 0,
        other_log_z: "Sequence[LogZ]" = (),
        anneal: int | str = 0,
        progress: Progress = silent,
    ) -> "Results":
        """Draw and reweight samples, and compare them with a reference; `results` holds the outcome.

        Args:
            reference: A `Reference`, or the directory of one.
            floor: A second, independent reference for the noise floor of each metric.
            n: Number of samples.
            seed: Seed of the random generator; the same seed as in training gives other random numbers.
            transport_samples: Number of samples for the Wasserstein distances.
            exact: Number of exact samples of a toy to compare with, if there is no reference; 0 for none.
            other_log_z: Other estimates of log Z, such as those of other runs.
            anneal: Number of intermediate densities of annealed samples, whose log Z the search for missing mass
                compares with the model's own; 0 for none, `auto` as in `sample`.
            progress: Progress callback.

        Raises:
            InputError: The reference belongs to another target, or there are too few samples.
        """
        from boltzport.analysis.evaluation import evaluate

        toy = self.target.toy
        known = _opened(reference)
        if known is None and toy is not None and exact:
            known = exact_samples(toy, exact, seed=seed)
        annealed = annealed_log_z(self.flow, self.target.counted, anneal, seed=seed, progress=progress)
        self.results = evaluate(
            self.flow,
            self.target.counted,
            n=n,
            generator=seeded(seed, self.flow.device),
            reference=known,
            floor=_opened(floor),
            transport_samples=transport_samples,
            cost=self.cost,
            path_log_z=self._path_log_z(),
            other_log_z=[*other_log_z, *([annealed] if annealed is not None else [])],
            origin=self.origin,
            progress=progress,
        )
        return self.results

    def retarget(
        self,
        *,
        temperature: float | None = None,
        forcefield: Sequence[str] | str = (),
        energy: "EnergyLike | None" = None,
        molecule: "Molecule | None" = None,
        density: Target | None = None,
        n: int = 100_000,
        budget: float | None = None,
        overlap: float = 0.3,
        settings: Sequence[str] = (),
        seed: int = 0,
        out: Path | str | None = None,
        progress: bool = False,
    ) -> "Model":
        """Take the model to another temperature, force field or energy of the same molecule.

        Samples of the flow are reweighted to the new description if their weights allow it. Otherwise a few constrained
        steps with the present flow as their initial density come first. The new model is evaluated: its `results` have
        `log_z_difference`, `reduced_free_energy_difference` and `free_energy_difference` with their intervals, and its
        `origin` says what reweighting alone found.

        Args:
            temperature: Temperature in K.
            forcefield: Names of OpenMM's XML force fields, or XML files.
            energy: Your own energy instead of the force field, as in `boltzport.train`.
            molecule: The same molecule with other forces, if they are an `openmm.System`.
            density: Another density on the same coordinates, if the target is not a molecule.
            n: Number of samples of the evaluation.
            budget: Maximum number of evaluations of the new description, with those of the evaluation.
            overlap: Smallest effective size, as a fraction, with which reweighting is enough; 1 for constrained steps
                in any case.
            settings: `key=value` of the constrained steps, such as `trust_region=0.5`.
            seed: Seed of the random generator.
            out: Run directory of the new model; None for a model in memory.
            progress: Show the progress of the constrained steps.

        Raises:
            InputError: Nothing changes, the constraints or the molecule do, or the budget is too small.
            RunError: A step failed after all retries.

        Example:
            >>> import boltzport
            >>> warmer = boltzport.load("alanine-dipeptide").retarget(temperature=310.0, n=500, budget=1e4)
            >>> warmer.origin.by, warmer.molecule.temperature
            ('reweighting', 310.0)
        """
        from boltzport.experiments.redescribe import Changes
        from boltzport.experiments.retarget import retarget

        changes = Changes(
            temperature=temperature,
            forcefield=(forcefield,) if isinstance(forcefield, str) else tuple(forcefield),
            energy=energy,
            molecule=molecule,
            density=density,
        )
        return retarget(
            self,
            changes,
            n=n,
            budget=budget,
            overlap=overlap,
            settings=tuple(settings),
            seed=seed,
            out=None if out is None else Path(out),
            silent=not progress,
        )

    def report(self, path: Path | str | None = None, *, progress: Progress = silent) -> Path:
        """Write a page about the model: one file that opens offline. The model is evaluated first if necessary.

        Args:
            path: Output file; `report.html` in the run directory by default, with its figures as files beside it.
            progress: Progress callback of the evaluation.

        Raises:
            InputError: There is no such directory, or a model without a run directory gets no path.
        """
        from boltzport.reporting import write_report

        if self.results is None or not self.results.arrays:
            self.evaluate(progress=progress)
        if path is None and self.directory is None:
            raise InputError("expected a path: the model has no run directory")
        return write_report(self.data(), None if path is None else Path(path), figures=self.directory is not None)

    def data(self) -> "RunData":
        """The data that a page shows."""
        from boltzport.reporting import RunData, columns

        directory = self.directory
        return RunData(
            path=Path(self.config.system) if directory is None else directory.path,
            config=self.config.to_record(),
            config_text=self.config.to_toml(),
            status=self.status.to_json(),
            steps=columns(self.rows),
            ledger=self.ledger.to_json(),
            results=self.results,
            structure=None if self.molecule is None else self.molecule.to_pdb(),
        )

    def save(self, path: Path | str | None = None) -> Path:
        """Write the model, its evaluation and the metrics of its training to a run directory.

        Args:
            path: Run directory, new or empty; the model's own by default.

        Raises:
            InputError: The directory is not empty, or a model without a run directory gets no path.
        """
        if path is None and self.directory is None:
            raise InputError("expected a path: the model has no run directory")
        directory = self.directory if path is None else RunDirectory(Path(path))
        assert directory is not None
        if isinstance(self.flow, MixedFlow):
            raise InputError("a mixture has no file of its own; save its members, and mix them again")
        if self.directory is None or directory.path.resolve() != self.directory.path.resolve():
            directory.create()
            self._write(directory)
        write_json(directory.ledger, self.ledger.to_json())
        if self.results is not None and self.results.arrays:
            _write_results(self.results, directory)
        self.directory = self.directory or directory
        return directory.path

    def _stream(self, n: int, how: Drawing, progress: Progress) -> "Stream":
        counted, warning = self.target.counted, self.status.warning
        return open_drawing(self.flow, counted, n, how, results=self.results, warning=warning, progress=progress)

    def _write(self, directory: RunDirectory) -> None:
        self.config.save(directory.config)
        self.target.save(directory)
        keep_inputs(self.config, directory, source=self.directory)
        self.flow.save(directory.flow)
        for row in self.rows:
            directory.append(row)
        write_json(directory.status, self.status.to_json())
        keep_origin(self.origin, directory)
        if self.results is not None:
            write_json(directory.evaluation, self.results.to_json())

    def _path_log_z(self) -> "LogZ | None":
        from boltzport.analysis.evaluation import LogZ

        values = [row["log_z_path"] for row in self.rows if row.get("log_z_path") is not None]
        return LogZ("the training's own estimate", float(values[-1] or 0.0), None) if values else None


def _write_results(results: "Results", directory: RunDirectory) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, **results.arrays)  # type: ignore[arg-type]
    write_atomically(directory.arrays, lambda file: file.write(packed.getvalue()))
    # Written last: if it is new, so are the arrays.
    write_json(directory.evaluation, finite(results.to_json()))


def _opened(reference: "ReferenceSamples | Path | str | None") -> "ReferenceSamples | None":
    if not isinstance(reference, Path | str):
        return reference
    # This imports OpenMM, which toys do not need.
    from boltzport.ensembles.reference import Reference

    return Reference.load(reference)
