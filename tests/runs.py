"""Run directories as `train` and `evaluate` leave them, with made-up numbers that look like those of a good run."""

import json
from pathlib import Path

import numpy as np
import torch

from molecules import molecule

BASINS = {
    "C5": (-150.0, 155.0, 0.42),
    "PII": (-70.0, 145.0, 0.31),
    "alphaR": (-75.0, -25.0, 0.23),
    "alphaL": (55.0, 40.0, 0.04),
}
"""Centre in degrees, and population."""
TORUS = np.linspace(-np.pi, np.pi, 101)

CONFIG = """system = "alanine-dipeptide"
kind = "molecule"
method = "cmt"
preset = "laptop"
seed = 0
version = "0.1.0"
command = "boltzport train alanine-dipeptide --method cmt --preset laptop --seed 0 --out runs/aldp"

[molecule]
forcefield = []
ph = 7.0
temperature = 300.0

[flow]
pairs = 6
bins = 8
hidden = [128, 128]

[settings]
trust_region = 0.3
entropy_bound = 1.4
buffer = 100000
"""

TOY_CONFIG = """system = "gmm-2d"
kind = "toy"
method = "reverse-kl"
preset = "quick"
seed = 3
version = "0.1.0"
command = "boltzport train gmm-2d --method reverse-kl --preset quick --seed 3"

[flow]
pairs = 2

[settings]
steps = 500
"""


def write_molecule_run(path: Path, *, evaluated: bool = True, reference: bool = True, state: str = "done") -> Path:
    """A run on the dipeptide."""
    _write_training(path, CONFIG, state=state, steps=38)
    molecule("alanine-dipeptide").write_pdb(path / "reference.pdb")
    if evaluated:
        _write_molecule_evaluation(path, reference=reference)
    return path


def write_toy_run(path: Path, *, evaluated: bool = True, state: str = "done") -> Path:
    """A run on a mixture in two dimensions that lost a mode."""
    _write_training(path, TOY_CONFIG, state=state, steps=20, annealed=False)
    if not evaluated:
        return path
    generator = np.random.default_rng(5)
    edges = np.linspace(-6.0, 6.0, 61)
    centres = np.array([[-3.0, 1.0], [2.0, 2.5], [1.0, -3.0]])
    samples = {}
    for kind, weights in (
        ("model", [0.5, 0.5, 0.0]),
        ("reweighted", [0.55, 0.45, 0.0]),
        ("reference", [0.4, 0.3, 0.3]),
    ):
        samples[kind] = centres[generator.choice(3, 40_000, p=weights)] + generator.normal(size=(40_000, 2)) * 0.7
    arrays = {"density_2d_edges_0": edges, "density_2d_edges_1": edges, "energy_edges": np.linspace(0, 9, 61)}
    for kind, points in samples.items():
        arrays[f"density_2d_{kind}"] = np.histogram2d(*points.T, bins=(edges, edges), density=True)[0]
        arrays[f"energy_{kind}"] = np.histogram(
            generator.gamma(1.0, 1.0, 40_000), arrays["energy_edges"], density=True
        )[0]
        for place in range(2):
            arrays[f"marginal_{place}_edges"] = edges
            arrays[f"marginal_{place}_{kind}"] = np.histogram(points[:, place], edges, density=True)[0]
    arrays["log_weights"] = generator.normal(size=20_000) * 0.3 - 1.0
    np.savez(path / "evaluation.npz", **arrays)
    missing = "at least 27.3 % of the probability is missing (99 % confidence, by the log Z of reference)"
    evaluation = {
        "samples": 40_000, "ess": 0.91, "ess_unclipped": 0.91, "pareto_k": 0.05, "log_z": -0.36, "log_z_error": 0.002,
        "elbo": -0.41, "missing_mass": {"at_least": 0.273, "message": missing},
    }  # fmt: skip
    (path / "evaluation.json").write_text(json.dumps(evaluation))
    return path


def _write_training(path: Path, config: str, *, state: str, steps: int, annealed: bool = True) -> None:
    path.mkdir(parents=True)
    (path / "config.toml").write_text(config)
    generator = np.random.default_rng(1)
    alpha, beta = 0.02, 0.02
    with (path / "metrics.jsonl").open("w") as file:
        for step in range(steps):
            ahead = step / (steps - 1)
            alpha, beta = min(1.0, alpha * 1.16), min(1.0, beta + 0.2 * (1 - beta))
            row = {
                "step": step,
                "trust_region_multiplier": 600.0 * float(np.exp(-9 * ahead)) if ahead < 0.8 else 0.0,
                "entropy_multiplier": 40.0 * float(np.exp(-6 * ahead)) if 0.1 < ahead < 0.9 else 0.0,
                "alpha": alpha, "beta": beta,
                "entropy": 12.0 - 48.0 * ahead + generator.normal() * 0.2,
                "step_ess": 0.58 + 0.04 * generator.normal(), "step_ess_bound": 0.56,
                "ess": 0.34 / (1 + np.exp(-12 * (ahead - 0.7))) * (1 + 0.03 * generator.normal()),
                "log_z": -178.7 - 80 * np.exp(-9 * ahead) + 0.05 * generator.normal(),
                "log_z_path": -178.6 - 90 * np.exp(-8 * ahead),
                "elbo": -180.0 - 120 * np.exp(-7 * ahead),
                "gradient_norm": 3.0, "loss": 40 - 46 * ahead + generator.normal() * 0.3,
                "gradient_steps": 150 * (step + 1), "evaluations": 100_000 * (step + 1), "retries": 0,
                "seconds": 61.0 * (step + 1),
            }  # fmt: skip
            if not annealed:
                row |= dict.fromkeys(("alpha", "beta", "trust_region_multiplier", "entropy_multiplier", "step_ess"))
            file.write(json.dumps(row) + "\n")
        if state == "running":
            file.write('{"step": 38, "alp')
    ledger = {
        "startup": 2000, "startup_gradients": 500, "training": 100_000 * steps, "training_gradients": 0,
        "evaluation": 1_000_000, "evaluation_gradients": 0, "failed": 3,
    }  # fmt: skip
    (path / "ledger.json").write_text(json.dumps(ledger))
    message = {"failed": "the flow drew no sample of finite energy"}.get(state, "")
    status = {
        "state": state, "message": message, "step": steps, "steps": 60 if state != "done" else steps,
        "gradient_steps": 150 * steps, "seconds": 61.0 * steps,
    }  # fmt: skip
    (path / "status.json").write_text(json.dumps(status))


def _torsions(n: int, generator: np.random.Generator, *, widen: float, populations: list[float]) -> np.ndarray:
    """Samples of (phi, psi) from von Mises distributions about the basins."""
    centres = np.radians([basin[:2] for basin in BASINS.values()])
    which = generator.choice(len(centres), n, p=np.array(populations) / np.sum(populations))
    return generator.vonmises(centres[which], 11.0 / widen)


def _write_molecule_evaluation(path: Path, *, reference: bool) -> None:
    generator = np.random.default_rng(2)
    truth = [basin[2] for basin in BASINS.values()]
    kinds = {"model": (1.25, [0.38, 0.33, 0.26, 0.03]), "reweighted": (1.0, truth)}
    if reference:
        kinds["reference"] = (1.0, truth)
    arrays: dict[str, np.ndarray] = {"energy_edges": np.linspace(-45, 15, 91)}
    profile_edges = np.linspace(-np.pi, np.pi, 61)
    arrays["phi_profile_ALA2_edges"] = profile_edges
    aldp = molecule("alanine-dipeptide")
    columns = aldp.coordinates.columns
    centre = aldp.coordinates.to_internal(torch.from_numpy(aldp.positions)[None]).coordinates[0].numpy()
    widths = np.where([column.kind.value == "bond" for column in columns], 0.003, 0.06)
    for kind, (widen, populations) in kinds.items():
        pairs = _torsions(60_000, generator, widen=widen, populations=populations)
        arrays[f"ramachandran_ALA2_{kind}"] = np.histogram2d(*pairs.T, bins=(TORUS, TORUS))[0] / len(pairs)
        if reference:
            arrays |= {f"tica_edges_{axis}": np.linspace(-1.5, 1.5, 41) for axis in (0, 1)}
            slow = (np.sin(pairs[:, 0]), np.cos(pairs[:, 1]))
            arrays[f"tica_{kind}"] = np.histogram2d(*slow, bins=(arrays["tica_edges_0"], arrays["tica_edges_1"]))[0]
        energies = generator.normal(-17 + 3 * (widen - 1), 5.5 * widen, 60_000)
        arrays[f"energy_{kind}"] = np.histogram(energies, arrays["energy_edges"], density=True)[0]
        counts = np.histogram(pairs[:, 0], profile_edges)[0]
        with np.errstate(divide="ignore"):
            profile = -np.log(counts)
        arrays[f"phi_profile_ALA2_{kind}"] = profile - profile.min()
        for place, column in enumerate(columns):
            values = centre[place] + widen * widths[place] * generator.normal(size=4000)
            if column.name in ("ALA2.phi", "ALA2.psi"):
                values = pairs[:, int(column.name == "ALA2.psi")]
            edges = TORUS if column.circular else np.linspace(*(centre[place] + np.array([-5, 5]) * widths[place]), 61)
            arrays[f"marginal_{place}_edges"] = edges
            wrapped = np.mod(values + np.pi, 2 * np.pi) - np.pi if column.circular else values
            arrays[f"marginal_{place}_{kind}"] = np.histogram(wrapped, edges, density=True)[0]
    arrays["phi_profile_ALA2_error"] = np.full(60, 0.15)
    arrays["log_weights"] = generator.normal(size=50_000) * 1.1 - 179.0
    names = [column.name for column in columns]
    coordinates = np.repeat(centre[None], len(BASINS), axis=0)
    for place, (phi, psi, _) in enumerate(BASINS.values()):
        coordinates[place, names.index("ALA2.phi")] = np.radians(phi)
        coordinates[place, names.index("ALA2.psi")] = np.radians(psi)
    arrays["representative_positions"] = aldp.coordinates.to_cartesian(torch.from_numpy(coordinates)).positions.numpy()
    np.savez(path / "evaluation.npz", **arrays)
    pair = {"kl": 0.0123, "kl_reweighted": 0.0031, "tv": 0.061, "tv_reweighted": 0.028}
    intervals = {"ess": [0.3051, 0.3192], "ess_unclipped": [0.12, 0.31]}
    evaluation = {
        "target_evaluations": 3_800_000, "gradient_steps": 5700, "wall_seconds": 2318.0, "samples": 1_000_000,
        "ess": 0.3124, "ess_unclipped": 0.2871, "intervals": intervals, "warnings": [],
        "pareto_k": 0.43, "log_z": -178.712, "log_z_error": 0.0024, "elbo": -179.31, "mean_reduced_energy": -17.02,
        "coordinates": names,
        "basins": [
            {
                "name": name, "population": population, "population_interval": [0.97 * population, 1.03 * population],
                "population_model": model, "population_reference": population * 1.01 if reference else None,
                "free_energy": float(np.log(truth[0] / population)), "free_energy_interval": None,
                "representative": place,
            }
            for place, ((name, (_, _, population)), model) in enumerate(
                zip(BASINS.items(), kinds["model"][1], strict=True)
            )
        ],
        "temperatures": [
            {"temperature": 270.0, "effective_samples": 61.0, "mean_energy": None, "heat_capacity": None,
             "free_energy": None, "reason": "61 effective samples, expected at least 100"},
            {"temperature": 300.0, "effective_samples": 312_400.0, "mean_energy": -42.4, "heat_capacity": 0.25,
             "free_energy": 445.76, "reason": ""},
        ],
    }  # fmt: skip
    if reference:
        for key, bracket in (("kl", [0.0098, 0.0151]), ("kl_reweighted", [0.0024, 0.0040])):
            intervals |= {f"ramachandran.{name}.{key}": bracket for name in ("ALA2", "mean")}
        intervals |= {"nll": [-138.31, -138.08], "wasserstein.torus": [0.27, 0.36]}
        evaluation |= {
            "noise_floor": dict.fromkeys(intervals, 0.0021),
            "nll": -138.2, "eubo": -177.9,
            "ramachandran": [{"name": "ALA2", **pair}, {"name": "mean", **pair}],
            "wasserstein": {"torus": 0.31, "torus_reweighted": 0.22, "energy": 0.72, "samples": 10_000},
            "tica": {"kl": 0.008, "kl_reweighted": 0.002, "reason": "", "lag": 1, "correlations": [0.99, 0.8]},
            "phi_profile": [{"name": "ALA2", "mae": 0.31, "mae_reweighted": 0.08, "unvisited": 2}],
            "missing_mass": {
                "at_least": 0.0, "message": "no missing mass of 1 % or more shown by 2 comparisons",
                "estimates": [
                    {"name": "importance sampling", "value": -178.7123, "error": 0.0024},
                    {"name": "path", "value": -178.6, "error": None},
                ],
            },
            "reference": {
                "diagnostics": {
                    "converged": False, "message": "R-hat of ALA2.phi is 1.08, expected below 1.01",
                    "rhat": {"energy": 1.0012, "ALA2.phi": 1.0812, "ALA2.psi": 1.004},
                    "ess": {"energy": 5321.0, "ALA2.phi": 44.0, "ALA2.psi": 2210.0},
                },
            },
        }  # fmt: skip
    (path / "evaluation.json").write_text(json.dumps(evaluation))


def compared_toy_run(
    path: Path, *, seed: int = 0, method: str = "reverse-kl", settings: str = "steps = 500", pairs: int = 2, **metrics
) -> Path:
    """An evaluated run on the toy, with some of its metrics replaced; with `ess=None` it is not evaluated."""
    write_toy_run(path, evaluated=False)
    config = (path / "config.toml").read_text()
    config = config.replace("seed = 3", f"seed = {seed}").replace('"reverse-kl"', f'"{method}"')
    (path / "config.toml").write_text(config.replace("steps = 500", settings).replace("pairs = 2", f"pairs = {pairs}"))
    if "ess" not in metrics or metrics["ess"] is not None:
        found = {"samples": 1000, "ess": 0.5, "pareto_k": 0.1, "log_z": 0.0, "log_z_error": 0.001, **metrics}
        (path / "evaluation.json").write_text(json.dumps(found))
    return path
