"""The figures of a run, from the contents of its directory."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from boltzport.reporting.drawing import Artist, Picture
from boltzport.reporting.figures import (
    Marginal,
    Triple,
    density_figure,
    energy_figure,
    marginal_figure,
    path_figure,
    profile_figure,
    progress_figure,
    ramachandran_figure,
    torsions_figure,
    weights_figure,
)
from boltzport.reporting.rundata import Arrays, RunData


class Pictures(NamedTuple):
    """The figures of a page, by section; a section without data is empty."""

    maps: list[Picture]
    profiles: list[Picture]
    energies: list[Picture]
    marginals: list[Picture]
    training: list[Picture]


def draw_pictures(run: RunData, folder: Path | None) -> Pictures:
    """Draw all figures that have data, and write each as SVG and PNG if a directory is given."""
    artist = Artist(folder)
    return Pictures(
        maps=[*_ramachandrans(run.arrays, artist), *_torsions(run.arrays, artist), *_densities(run, artist)],
        profiles=_profiles(run.arrays, artist),
        energies=_energies(run.arrays, artist),
        marginals=_marginals(run, artist),
        training=_training(run, artist),
    )


def triple(arrays: Arrays, stem: str) -> Triple | None:
    """The arrays STEM_model, STEM_reweighted and STEM_reference, as far as they exist; None if there is none."""
    names = ("model", "reweighted", "reference")
    found = {name: np.asarray(arrays[f"{stem}_{name}"], float) for name in names if f"{stem}_{name}" in arrays}
    return Triple(**found) if found else None


def stems(arrays: Iterable[str], pattern: str) -> list[str]:
    """Distinct matches of a pattern's group among the names of the arrays, in order."""
    return list(dict.fromkeys(match[1] for name in arrays if (match := re.fullmatch(pattern, name))))


def _ramachandrans(arrays: Arrays, artist: Artist) -> list[Picture]:
    found = []
    for name in stems(arrays, r"ramachandran_(.+)_(?:model|reweighted|reference)"):
        maps = triple(arrays, f"ramachandran_{name}")
        assert maps is not None
        found.append(
            artist(
                f"ramachandran_{name}",
                lambda columns, name=name, maps=maps: ramachandran_figure(name, maps, columns=columns),  # type: ignore[misc]
                alt=f"Ramachandran free energies of residue {name}: {_labels(maps)}.",
                caption=f"Free energy of {name} over its backbone torsions φ and ψ. Dark is populated, yellow is rare, "
                "white is above 10 kT or was not visited. All panels share one scale: regions that are dark in one "
                "panel should be dark in all.",
            )
        )
    return found


def _torsions(arrays: Arrays, artist: Artist) -> list[Picture]:
    found = []
    for number, pair in enumerate(stems(arrays, r"torsions_(.+)_(?:model|reweighted|reference)"), start=1):
        maps = triple(arrays, f"torsions_{pair}")
        assert maps is not None
        first, _, second = pair.partition("_")
        names = shorten(first), shorten(second)
        found.append(
            artist(
                f"torsions_{number}",
                lambda columns, names=names, maps=maps: torsions_figure(names, maps, columns=columns),  # type: ignore[misc]
                alt=f"Free energies over the torsions {names[0]} and {names[1]}: {_labels(maps)}.",
                caption=f"Free energy over {names[0]} and {names[1]}, which tell much about each other. Dark "
                "is populated, yellow is rare, white is above 10 kT or was not visited. All panels share one scale.",
            )
        )
    return found


def _densities(run: RunData, artist: Artist) -> list[Picture]:
    found = []
    for stem, title, labels in (
        ("density_2d", "the first two coordinates", ("first coordinate", "second coordinate")),
        ("tica", "the two slowest modes (TICA)", ("first mode", "second mode")),
    ):
        maps = triple(run.arrays, stem)
        if maps is None or f"{stem}_edges_0" not in run.arrays:
            continue
        edges = (run.arrays[f"{stem}_edges_0"], run.arrays[f"{stem}_edges_1"])
        found.append(
            artist(
                stem,
                lambda columns, maps=maps, edges=edges, labels=labels: density_figure(  # type: ignore[misc]
                    maps, edges, labels=labels, columns=columns
                ),
                alt=f"Densities over {title}: {_labels(maps)}.",
                caption=f"Density over {title}, all panels on one scale: dark is populated, "
                "white was not visited. A mode that one panel lacks is missing there.",
            )
        )
    return found


def _profiles(arrays: Arrays, artist: Artist) -> list[Picture]:
    found = []
    for name in stems(arrays, r"phi_profile_(.+)_edges"):
        profiles = triple(arrays, f"phi_profile_{name}")
        if profiles is None:
            continue
        error = arrays.get(f"phi_profile_{name}_error")
        edges = arrays[f"phi_profile_{name}_edges"]
        found.append(
            artist.single(
                f"phi_profile_{name}",
                profile_figure(name, edges, profiles, error=error),
                alt=f"Free energy of residue {name} along phi.",
                caption=f"Free energy of {name} along φ. The band is one standard error. The barrier near 0° and the "
                "basin beyond it are what molecular dynamics samples last.",
            )
        )
    for number, pair in enumerate(stems(arrays, r"torsion_profile_(.+)_edges"), start=1):
        profiles = triple(arrays, f"torsion_profile_{pair}")
        assert profiles is not None
        name = shorten(pair.partition("_")[0])
        error, edges = arrays.get(f"torsion_profile_{pair}_error"), arrays[f"torsion_profile_{pair}_edges"]
        found.append(
            artist.single(
                f"torsion_profile_{number}",
                profile_figure(name, edges, profiles, error=error, label="torsion"),
                alt=f"Free energy along the torsion {name}.",
                caption=f"Free energy along the torsion {name}. The band is one standard error.",
            )
        )
    return found


def _energies(arrays: Arrays, artist: Artist) -> list[Picture]:
    found = []
    densities = triple(arrays, "energy")
    if densities is not None and "energy_edges" in arrays:
        found.append(
            artist.single(
                "energy",
                energy_figure(arrays["energy_edges"], densities),
                alt=f"Histogram of the reduced energy: {_labels(densities)}.",
                caption="Reduced energies. Small errors of the atoms' positions give the model a tail to the right, "
                "which the weights correct.",
            )
        )
    if "log_weights" in arrays and np.isfinite(arrays["log_weights"]).any():
        found.append(
            artist.single(
                "weights",
                weights_figure(np.asarray(arrays["log_weights"], float)),
                alt="Histogram of the log-weights, by samples and by weight.",
                caption="Distribution of the log-weights by number of samples and by weight. The more the two curves "
                "overlap, the more samples count. Weight at the right end, where there are few samples, is a warning.",
            )
        )
    return found


def _marginals(run: RunData, artist: Artist) -> list[Picture]:
    names = run.details.get("coordinates") or []
    groups: dict[str, list[Marginal]] = {}
    for stem in stems(run.arrays, r"marginal_(\d+)_edges"):
        densities = triple(run.arrays, f"marginal_{stem}")
        if densities is None:
            continue
        given = names[int(stem)] if int(stem) < len(names) else None
        name = str(given.get("name")) if isinstance(given, dict) else given
        marginal = Marginal(shorten(name or f"coordinate {stem}"), run.arrays[f"marginal_{stem}_edges"], densities)
        groups.setdefault(kind_of(name), []).append(marginal)
    return [
        artist(
            f"marginals_{kind}",
            lambda columns, marginals=marginals: marginal_figure(marginals, columns=columns),  # type: ignore[misc]
            alt=f"Densities of {len(marginals)} {kind}, one panel each.",
            caption=f"Densities of the {len(marginals)} {kind}{_UNITS.get(kind, '')}. Each panel has its own scale; "
            "the outlines should coincide.",
            columns=(5, 2),
        )
        for kind, marginals in groups.items()
    ]


_UNITS = {"bonds": " in nm", "angles": " in radian", "torsions": " in radian"}


def kind_of(name: str | None) -> str:
    """Kind of an internal coordinate from its name, which joins its atoms by dashes.

    Example:
        >>> kind_of("ALA2.N-ALA2.CA"), kind_of("ALA2.phi"), kind_of(None)
        ('bonds', 'torsions', 'coordinates')
    """
    if name is None or "." not in name:
        return "coordinates"
    return {1: "bonds", 2: "angles"}.get(name.count("-"), "torsions")


def shorten(name: str) -> str:
    """Name of a coordinate without repeated residues.

    Example:
        >>> shorten("ALA2.N-ALA2.CA-ALA2.C"), shorten("ALA2.C-NME3.N"), shorten("ALA2.phi")
        ('ALA2 N–CA–C', 'ALA2 C–NME3 N', 'ALA2 φ')
    """
    greek = {"phi": "φ", "psi": "ψ", "omega": "ω", "chi1": "χ1", "chi2": "χ2", "chi3": "χ3", "chi4": "χ4"}
    last, parts = None, []
    for atom in name.split("-"):
        residue, _, label = atom.rpartition(".")
        label = greek.get(label, label)
        parts.append(label if residue == last or not residue else f"{residue} {label}")
        last = residue
    return "–".join(parts)


def _training(run: RunData, artist: Artist) -> list[Picture]:
    steps = run.steps
    found = []
    if path_figure(steps) is not None:
        found.append(
            artist(
                "path",
                lambda columns: _drawn(path_figure(steps, temperature=run.temperature, columns=columns)),
                alt="The annealing path over the steps: powers alpha and beta, temperature, multipliers.",
                caption="The annealing path: the density of a step is q₀ to the power 1 − β, times the target to the "
                "power αβ. β measures the distance from the initial flow q₀, 1/α the temperature of the target. A "
                "multiplier is drawn where its constraint is active.",
            )
        )
    if progress_figure(steps) is not None:
        found.append(
            artist(
                "progress",
                lambda columns: _drawn(progress_figure(steps, columns=columns)),
                alt="Progress of the training: ESS against evaluations and time, step ESS, log Z, entropy, loss.",
                caption="Progress against work. The ESS of a step should stay near its bound: below it, the flow does "
                "not follow the path. The estimates of log Z should converge to one value.",
            )
        )
    return found


def _drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def _labels(values: Triple) -> str:
    return ", ".join(kind.label for kind, _ in values.present())
