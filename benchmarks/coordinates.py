"""Internal coordinates <-> positions: molecules per second, and growth of the cost with the number of atoms.

Absolute times depend on the machine and its load. The ratios are measured side by side in one run: to the same
placement atom by atom (a z-matrix loop), and to the floor, which is copying the positions once.
Run: python benchmarks/coordinates.py [--json] [--batch 4096] [--compile]
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from boltzport.molecules import SYSTEMS, CoordinateMap, Kind, Molecule, ZMatrix, build_zmatrix
from boltzport.molecules.sequence import build_peptide, parse_sequence
from boltzport.molecules.topology import from_openmm

GROWTH = (1, 2, 4, 8, 16)


def seconds(function: Callable[[], object], *, repeats: int) -> float:
    """Shortest time of several calls, after a warm-up."""
    function()
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def draw(map_: CoordinateMap, batch: int) -> Tensor:
    """Plausible coordinates in float32."""
    generator = torch.Generator().manual_seed(0)
    uniform = torch.rand(batch, map_.dimension, generator=generator)
    scale = {Kind.BOND: (0.1, 0.05), Kind.ANGLE: (1.6, 0.6), Kind.TORSION: (-math.pi, 2 * math.pi)}
    offset = torch.tensor([scale[column.kind][0] for column in map_.columns])
    return offset + uniform * torch.tensor([scale[column.kind][1] for column in map_.columns])


def atom_by_atom(zmatrix: ZMatrix, coordinates: Tensor) -> Tensor:
    """The textbook loop: each atom from three placed ones, by cross products."""
    n = zmatrix.n_atoms
    bonds, angles, torsions = torch.split_with_sizes(coordinates, [n - 1, n - 2, n - 3], dim=1)
    zero = torch.zeros(len(coordinates))
    place: dict[int, Tensor] = {}
    for i, row in enumerate(zmatrix.rows):
        if i == 0:
            place[row.atom] = torch.zeros(len(coordinates), 3)
        elif i == 1:
            place[row.atom] = torch.stack([bonds[:, 0], zero, zero], dim=1)
        elif i == 2:
            polar = torch.stack([angles[:, 0].cos(), angles[:, 0].sin(), zero], dim=1)
            place[row.atom] = place[zmatrix.rows[0].atom] + bonds[:, 1, None] * polar
        else:
            reference, axis, centre = (place[atom] for atom in row.torsion)
            along = torch.nn.functional.normalize(centre - axis, dim=1)
            normal = torch.nn.functional.normalize(torch.linalg.cross(reference - axis, along), dim=1)
            across = torch.linalg.cross(along, normal)
            theta, phi, bond = angles[:, i - 2, None], torsions[:, i - 3, None], bonds[:, i - 1, None]
            step = -theta.cos() * along + theta.sin() * (phi.cos() * across - phi.sin() * normal)
            place[row.atom] = centre + bond * step
    return torch.stack([place[atom] for atom in range(n)], dim=1)


def measure(name: str, zmatrix: ZMatrix, *, batch: int, repeats: int, compiled: bool) -> dict[str, object]:
    """Rates of one molecule, every bond a coordinate."""
    map_ = CoordinateMap(zmatrix)
    coordinates = draw(map_, batch)
    to_cartesian = torch.compile(map_.to_cartesian) if compiled else map_.to_cartesian
    to_internal = torch.compile(map_.to_internal) if compiled else map_.to_internal
    positions = to_cartesian(coordinates).positions
    forward = seconds(lambda: to_cartesian(coordinates), repeats=repeats)
    inverse = seconds(lambda: to_internal(positions), repeats=repeats)
    loop = seconds(lambda: atom_by_atom(zmatrix, coordinates), repeats=max(1, repeats // 2))
    copy = seconds(lambda: positions.clone(), repeats=repeats)
    return {
        "system": name,
        "atoms": zmatrix.n_atoms,
        "depth": zmatrix.rows[-1].depth,
        "to_cartesian_per_second": round(batch / forward),
        "to_internal_per_second": round(batch / inverse),
        "ratio_to_atom_by_atom": round(loop / forward, 2),
        "ratio_to_copying": round(forward / copy, 1),
    }


def exponent(rows: list[dict[str, object]], key: str) -> float:
    """Slope of log(seconds per molecule) against log(atoms)."""
    x = torch.tensor([math.log(float(str(row["atoms"]))) for row in rows])
    y = torch.tensor([-math.log(float(str(row[key]))) for row in rows])
    return round(float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()), 2)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="measure torch.compile'd functions")
    options = parser.parse_args()
    settings = {"batch": options.batch, "repeats": options.repeats, "compiled": options.compile}
    systems = [measure(entry.name, Molecule(entry.name).zmatrix, **settings) for entry in SYSTEMS]
    chains = []
    for n in GROWTH:
        topology = from_openmm(build_peptide(parse_sequence(f"ACE-{'A' * n}-NME")).topology)
        chains.append(measure(f"ACE-(ALA){n}-NME", build_zmatrix(topology), **settings))
    growth = {key: exponent(chains, key) for key in ("to_cartesian_per_second", "to_internal_per_second")}
    result = {"threads": torch.get_num_threads(), **settings, "systems": systems, "chains": chains, "growth": growth}
    if options.json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
        return
    for row in (*systems, *chains):
        print(
            f"{row['system']:24s} {row['atoms']:4d} atoms, depth {row['depth']:3d}: "
            f"{row['to_cartesian_per_second']:>9,d}/s to positions ({row['ratio_to_atom_by_atom']} x atom by atom, "
            f"{row['ratio_to_copying']} copies), {row['to_internal_per_second']:>9,d}/s back"
        )
    print(f"seconds per molecule grow as atoms^{growth['to_cartesian_per_second']} to positions, ", end="")
    print(f"atoms^{growth['to_internal_per_second']} back")


if __name__ == "__main__":
    main()
