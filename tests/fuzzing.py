"""Files that other programs or other people wrote, changed at random, and what reads them."""

import io
import json
import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
import torch
from hypothesis import strategies as st

import boltzport as bp
from boltzport.core.belonging import weights_beside
from boltzport.core.files import RunDirectory
from boltzport.core.serving import Evaluated
from boltzport.energies.record import Record, digests
from boltzport.ensembles.reference.trajectory import import_trajectory
from boltzport.experiments import load, request, run_training
from boltzport.experiments.compare import compare
from boltzport.experiments.keeping import read_checkpoint, read_origin, read_status
from boltzport.experiments.opening import SHIPPED
from boltzport.flows import load_flow
from boltzport.molecules import read_system
from boltzport.molecules.parametrise import load_forcefield
from boltzport.molecules.smiles import read_small
from boltzport.reporting import read_run, write_report
from boltzport.reporting.findings import notices, verdicts
from boltzport.targets.boltzmann.harmonic import HarmonicMap
from tiny import TOY

EVALUATION = {
    "ess": 0.5, "ess_unclipped": 0.4, "pareto_k": 0.3, "largest_weight": 0.01, "log_z": -1.0, "log_z_error": 0.1,
    "intervals": {"ess": [0.4, 0.6]}, "basins": [{"name": "a", "population": 0.5}], "samples": 1000,
    "missing_mass": {"at_least": 0.0, "message": "", "estimates": [{"name": "x", "value": 1.0, "error": None}]},
    "wasserstein": {"energy": 0.1}, "ramachandran": [{"name": "ALA2", "kl": 0.1}], "noise_floor": {}, "warnings": ["w"],
}  # fmt: skip
ORIGIN = {
    "run": "a", "before": "b", "after": "c", "by": "reweighting", "log_z": 1.0, "log_z_error": 0.1,
    "thermal_energy": 1.0, "samples": 100, "ess": 0.5, "pareto_k": 0.1, "log_z_difference": 0.5,
    "log_z_difference_error": 0.1,
}  # fmt: skip
MOL2 = """@<TRIPOS>MOLECULE
methanol
6 5 0 0 0
TOY
NO_CHARGES

@<TRIPOS>ATOM
1 C1 -0.36 0.00 0.02 C.3 1 MOL 0.0
2 O1 0.90 0.66 0.05 O.3 1 MOL 0.0
3 H1 -1.16 0.72 0.20 H 1 MOL 0.0
4 H2 -0.42 -0.80 0.76 H 1 MOL 0.0
5 H3 -0.50 -0.45 -0.96 H 1 MOL 0.0
6 H4 1.54 -0.04 -0.10 H 1 MOL 0.0
@<TRIPOS>BOND
1 1 2 1
2 1 3 1
3 1 4 1
4 1 5 1
5 2 6 1
"""
FORCEFIELD = """<ForceField>
 <AtomTypes>
  <Type name="a" class="C" element="C" mass="12.011"/>
  <Type name="b" class="H" element="H" mass="1.008"/>
 </AtomTypes>
 <Residues>
  <Residue name="XYZ"><Atom name="C1" type="a" charge="-0.1"/><Atom name="H1" type="b" charge="0.1"/>
   <Bond from="0" to="1"/></Residue>
 </Residues>
 <HarmonicBondForce><Bond class1="C" class2="H" length="0.11" k="280000"/></HarmonicBondForce>
 <NonbondedForce coulomb14scale="0.83" lj14scale="0.5"><UseAttributeFromResidue name="charge"/>
  <Atom type="a" sigma="0.34" epsilon="0.4"/><Atom type="b" sigma="0.26" epsilon="0.07"/></NonbondedForce>
</ForceField>
"""


class File(NamedTuple):
    """A good file, and what reads it."""

    path: Path
    read: Callable[[], object]


def files(folder: Path) -> dict[str, File]:
    """Every kind of file that is read, in a folder."""
    return _of_a_run(folder) | _of_molecules(folder)


def _of_a_run(folder: Path) -> dict[str, File]:
    run = RunDirectory(folder / "run")
    run_training(request("gmm-2d", preset="quick", settings=TOY), run.path, silent=True)
    run.evaluation.write_text(json.dumps(EVALUATION))
    np.savez(run.arrays, log_weights=np.linspace(-1, 1, 50), energy_edges=np.arange(5.0), energy_model=np.ones(4))
    run.origin.write_text(json.dumps(ORIGIN))

    def page() -> None:
        write_report(read_run(run.path), folder / "page.html", figures=False)

    def shown() -> object:
        return verdicts(read_run(run.path)), notices(read_run(run.path)), compare([run.path])

    def opened() -> None:
        with load(run.path) as model:
            model.sample(3)

    def configured() -> None:
        # An edited configuration is refused by its checksum; runs of others may have none.
        record = run.checksums.read_bytes()
        run.checksums.unlink()
        try:
            opened()
        finally:
            run.checksums.write_bytes(record)

    def resumed() -> None:
        kept, status = {path: path.read_bytes() for path in run.path.iterdir() if path.is_file()}, run.status
        status.write_text(status.read_text().replace('"done"', '"interrupted"'))
        try:
            read_checkpoint(run)
            run_training(request("gmm-2d", preset="quick", settings=TOY), run.path, resume=True, silent=True)
        finally:
            for path, content in kept.items():
                path.write_bytes(content)

    return {
        "config": File(run.config, configured),
        "status": File(run.status, lambda: (read_status(run), read_run(run.path).metrics)),
        "ledger": File(run.ledger, opened),
        "metrics": File(run.metrics, shown),
        "evaluation": File(run.evaluation, shown),
        "arrays": File(run.arrays, page),
        "origin": File(run.origin, lambda: read_origin(run)),
        "checksums": File(run.checksums, opened),
        "flow": File(run.flow, lambda: load_flow(run.flow, compiled=False)),
        "checkpoint": File(run.checkpoint, resumed),
    }


def _of_molecules(folder: Path) -> dict[str, File]:
    import mdtraj

    shipped = SHIPPED / "alanine-dipeptide"
    pdb, cif = folder / "aldp.pdb", folder / "aldp.sdf"
    shutil.copyfile(shipped / "reference.pdb", pdb)
    molecule = bp.Molecule(str(pdb))
    system = folder / "system.xml"
    molecule.write_system(system)
    space = folder / "coordinates.safetensors"
    shutil.copyfile(shipped / "coordinates.safetensors", space)
    small = bp.Molecule("CO")
    assert small.sdf is not None
    cif.write_text(small.sdf)
    (folder / "methanol.mol2").write_text(MOL2)
    (folder / "own.xml").write_text(FORCEFIELD)

    noise = np.random.default_rng(0).normal(scale=0.0003, size=(4, molecule.topology.n_atoms, 3))
    frames = (molecule.positions + noise).astype(np.float32)
    trajectory = mdtraj.Trajectory(frames, mdtraj.load_pdb(str(pdb)).topology)
    energies = torch.zeros(4, dtype=torch.float64)
    found = {}
    for suffix in ("dcd", "xtc"):
        path = folder / f"frames.{suffix}"
        trajectory.save(str(path))
        found[suffix] = File(
            path, lambda path=path: import_trajectory(path, pdb, molecule, lambda x: energies[: len(x)])
        )
    np.savez(folder / "frames.weights.npz", weights=np.ones(4))
    dataset = folder / "reference"
    coordinates = molecule.coordinates.to_internal(torch.from_numpy(frames.astype(np.float64))).coordinates.numpy()
    bp.Reference(
        source=frames, pdb=pdb.read_text(), coordinates=coordinates, reduced_energy=np.zeros(4), weights=np.ones(4),
        chain=np.zeros(4, dtype=np.int64), provenance={"system": "a", "diagnostics": {"converged": True}},
    ).save(dataset)  # fmt: skip
    energy = folder / "energies.bin"
    with Record(energy, identity="zero", atoms=2) as record:
        record.append(digests(np.random.default_rng(1).normal(size=(5, 2, 3))), Evaluated(np.arange(5.0), None, ""))

    def recorded() -> None:
        with Record(energy, identity="zero", atoms=2) as record:
            for key, _with_forces in record._places:
                record.find(key, forces=False)

    return found | {
        "pdb": File(pdb, lambda: bp.Molecule(str(pdb))),
        "sdf": File(cif, lambda: (bp.Molecule(str(cif)), read_small(cif, name="small"))),
        "mol2": File(folder / "methanol.mol2", lambda: bp.Molecule(str(folder / "methanol.mol2"))),
        "system": File(system, lambda: read_system(system, shipped / "reference.pdb")),
        "structure": File(pdb, lambda: read_system(system, pdb)),
        "forcefield": File(folder / "own.xml", lambda: load_forcefield((str(folder / "own.xml"),))),
        "space": File(space, lambda: HarmonicMap.load(space)),
        "weights": File(folder / "frames.weights.npz", lambda: weights_beside(folder / "frames.dcd")),
        "dataset": File(dataset / "dataset.json", lambda: bp.Reference.load(dataset)),
        "samples": File(dataset / "samples.npz", lambda: bp.Reference.load(dataset)),
        "positions": File(dataset / "positions.dcd", lambda: bp.Reference.load(dataset).positions),
        "energies": File(energy, recorded),
    }


ODD: tuple[Any, ...] = (True, -1, 0, 3, 1e308, float("nan"), "", "x", "a\nb", [], {}, [1], {"a": 1}, [[]], 10**30)
"""Values that a program does not expect."""


@st.composite
def changed(draw: st.DrawFn, content: bytes, *, name: str) -> bytes:
    """A file with some bytes changed, cut, doubled or removed; or with another value in its tree of values."""
    if name.endswith((".json", ".toml", ".jsonl", ".npz")) and draw(st.booleans()):
        return _altered(draw, content, name)
    found = bytearray(content)
    # Most changes are made where the structure is: headers are at the start.
    place = st.one_of(st.integers(0, min(400, len(found) - 1)), st.integers(0, len(found) - 1))
    for start in draw(st.lists(place, min_size=1, max_size=4)):
        found[start] = draw(st.one_of(st.integers(0, 255), st.sampled_from(b'"{}[],:0-e=.\n <>/')))
    if draw(st.booleans()):
        first, last = sorted((draw(place), draw(place)))
        part = bytes(found[first:last])
        found[first:last] = draw(st.sampled_from([b"", part + part, part[::-1]]))
    return bytes(found[: draw(st.one_of(st.none(), place))])


def _altered(draw: st.DrawFn, content: bytes, name: str) -> bytes:
    if name.endswith(".npz"):
        return _other_array(draw, content)
    toml = name.endswith(".toml")
    lines = content.decode().splitlines() if name.endswith(".jsonl") else [content.decode()]
    line = draw(st.integers(0, len(lines) - 1))
    tree = tomllib.loads(lines[line]) if toml else json.loads(lines[line])
    holder, keys = tree, _keys(tree)
    while keys:
        key = draw(st.sampled_from(keys))
        deeper = _keys(holder[key])
        if not deeper or draw(st.integers(0, 3)) == 0:
            odd = draw(st.sampled_from(ODD if toml else (*ODD, None)))
            if draw(st.integers(0, 4)) == 0 and isinstance(holder, dict):
                del holder[key]
            else:
                holder[key] = odd
            break
        holder, keys = holder[key], deeper
    lines[line] = tomli_w.dumps(tree) if toml else json.dumps(tree)
    return "\n".join(lines).encode()


def _keys(tree: Any) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []


def _other_array(draw: st.DrawFn, content: bytes) -> bytes:
    arrays = dict(np.load(io.BytesIO(content)))
    name = draw(st.sampled_from(sorted(arrays)))
    shape = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 2), (50,), arrays[name].shape]))
    kind = draw(st.sampled_from(["f8", "i8", "U3", "c16", "?", "nan", "gone"]))
    if kind == "gone":
        del arrays[name]
    else:
        arrays[name] = np.full(shape, np.nan) if kind == "nan" else np.ones(shape).astype(kind)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def fed(file: File, content: bytes) -> None:
    """Read a file with another content; afterwards it is what it was."""
    whole = file.path.read_bytes()
    try:
        file.path.write_bytes(content)
        file.read()
    finally:
        file.path.write_bytes(whole)


EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
"""Number of examples for each kind of file; the tests choose few."""
