"""Files written beside the frames of `samples.dcd`, for numpy, MDTraj, MDAnalysis and PLUMED.

- `samples.weights.npz`: `weights` (mean 1), `log_weights` (= -reduced_energy - log_q), `reduced_energy` (kT), `log_q`
  (with respect to positions), `draw` (number of the draw of the flow), `torsions` (frames, torsions) in radian and
  `torsion_names`; `frames` and `frames_sha256` are the name and checksum of the frames. A file `samples.npz` holds
  these arrays itself, with `positions` (nm), or `coordinates` for a toy.
- `samples.colvar`: time (number of the frame), torsions, energy and `flow.bias` in kJ/mol, as PLUMED's `READ` takes
  them (with `IGNORE_TIME`); `REWEIGHT_BIAS TEMP=300 ARG=flow.bias` gives the weights.
- `samples.topology.pdb`: atoms, residues and the reference structure, for XTC, DCD and NPZ.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from boltzport.core.belonging import SUFFIX, belonging_of
from boltzport.core.units import thermal_energy
from boltzport.ensembles.frames import add_arrays
from boltzport.ensembles.numbers import Numbers
from boltzport.molecules import Kind, Molecule

IMPOSSIBLE = -1e5
"""Bias in kJ/mol of a frame of weight zero: PLUMED reads only finite numbers, and exp(-1e5 / kT) is zero."""
_ROWS = 4096
"""Number of rows of a table that are formatted at once."""


def torsion_columns(molecule: Molecule | None) -> dict[str, int]:
    """Columns of the named torsions, such as phi and psi; empty for a toy."""
    if molecule is None:
        return {}
    return {
        column.name: place
        for place, column in enumerate(molecule.coordinates.columns)
        # Other torsions are named by their four atoms, joined by dashes.
        if column.kind is Kind.TORSION and "-" not in column.name
    }


def files_beside(path: Path, *, molecular: bool) -> tuple[Path, ...]:
    """Files that are written beside the frames."""
    suffix = path.suffix.lower()
    found = [] if suffix == ".npz" else [path.with_suffix(SUFFIX)]
    found += [path.with_suffix(".colvar")] if molecular else []
    found += [path.with_suffix(".topology.pdb")] if molecular and suffix != ".pdb" else []
    return tuple(found)


def write_beside(
    path: Path, numbers: Numbers, torsions: Float[np.ndarray, "frames torsions"], molecule: Molecule | None
) -> list[Path]:
    """Write the files beside the frames, and return their paths."""
    names = tuple(torsion_columns(molecule))
    largest = np.max(numbers.log_weights)
    weights = np.exp(numbers.log_weights - largest)
    arrays = {
        "weights": weights / weights.mean(),
        **numbers._asdict(),
        "torsions": torsions,
        "torsion_names": np.array(names, dtype=np.str_),
    }
    suffix = path.suffix.lower()
    table = path if suffix == ".npz" else path.with_suffix(SUFFIX)
    if table != path:
        arrays |= belonging_of(path)
    add_arrays(table, arrays)
    files = [] if table == path else [table]
    if molecule is None:
        return files
    kt = thermal_energy(molecule.temperature)
    bias = np.maximum(kt * (numbers.log_weights - largest), IMPOSSIBLE)
    colvar = path.with_suffix(".colvar")
    write_colvar(colvar, names, torsions, energy=kt * numbers.reduced_energy, bias=bias)
    files.append(colvar)
    if suffix != ".pdb":
        topology = path.with_suffix(".topology.pdb")
        molecule.write_pdb(topology)
        files.append(topology)
    return files


def write_colvar(
    path: Path,
    names: tuple[str, ...],
    torsions: Float[np.ndarray, "frames torsions"],
    *,
    energy: Float[np.ndarray, " frames"],
    bias: Float[np.ndarray, " frames"],
) -> None:
    """Write a table for PLUMED: time, periodic torsions, energy and bias in kJ/mol."""
    # A colon separates chains and a hash copies; a hash starts a comment in PLUMED.
    labels = [name.replace(":", "_").replace("#", "_") for name in names]
    formats = ["%.0f", *["%.6f"] * len(labels), "%.6f", "%.6f"]
    with path.open("w") as file:
        file.write(f"#! FIELDS {' '.join(['time', *labels, 'energy', 'flow.bias'])}\n")
        for label in labels:
            file.write(f"#! SET min_{label} -pi\n#! SET max_{label} pi\n")
        for start in range(0, len(energy), _ROWS):
            rows = slice(start, start + _ROWS)
            time = np.arange(start, start + len(energy[rows]))
            np.savetxt(file, np.column_stack([time, torsions[rows], energy[rows], bias[rows]]), fmt=formats)
