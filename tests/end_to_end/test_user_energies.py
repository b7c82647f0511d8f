"""Energies and Systems of the user, from training to resuming, and each mistake in one line."""

import json
from pathlib import Path

import numpy as np
import openmm
import openmm.app
import pytest
import torch
from openmm import unit

import boltzport as bp
from boltzport.cli import main
from boltzport.core.errors import InputError
from boltzport.energies import extras
from boltzport.energies.record import Record
from boltzport.experiments import launch
from boltzport.targets.boltzmann import open_energy
from molecules import molecule

pytest.importorskip("ase")
pytest.importorskip("tblite")
import calculators

TINY = {
    "steps": 2,
    "gradient_steps": 3,
    "buffer_size": 30,
    "batch_size": 15,
    "refine": 1,
    "refine_buffer": 30,
    "refine_batch": 15,
    "refine_steps": 2,
    "stiff_steps": 2,
    "stiff_batch": 8,
    "refine_stiff_steps": 2,
    "refine_stiff_batch": 8,
    "pool": 1,
}
SMALL = bp.Molecular(bins=4, torsion_hidden=(8,), hidden=(16,), pairs=1)
NAME = "ACE-GLY-NME"


def train(out: Path, *, resume: bool = False) -> bp.Model:
    return bp.train(
        molecule(NAME), energy="gfn2-xtb", method=bp.CMT(**TINY), flow=SMALL, out=out, resume=resume, progress=False
    )


@pytest.mark.slow
def test_a_resumed_run_pays_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after the evaluations of its second step and before its checkpoint, it ends with the same bits."""
    with train(tmp_path / "whole") as whole:
        assert whole.target.energy is not None
        assert whole.target.energy.backend == "gfn2-xtb"
        assert whole.ledger["failed"] == 0
        assert whole.ledger["training_gradients"] > 0
        paid = whole.target.energy.expensive.evaluations
    keep_step = launch.keep_step

    def interrupt(training, directory) -> None:
        if training.state.step == 2:
            raise KeyboardInterrupt
        keep_step(training, directory)

    monkeypatch.setattr(launch, "keep_step", interrupt)
    with pytest.warns(UserWarning, match="interrupted; 2 steps are kept. Resume with: boltzport train --resume"):
        train(tmp_path / "parts").close()
    monkeypatch.setattr(launch, "keep_step", keep_step)
    first = records(tmp_path / "parts")
    with train(tmp_path / "parts", resume=True) as resumed:
        again = resumed.target.energy.expensive
        assert again.reused > 0
        # One of them is that of the reference structure, which is evaluated when the energy opens.
        assert first + again.evaluations == records(tmp_path / "parts") == records(tmp_path / "whole") == paid
        for name, value in whole.flow.state_dict().items():
            assert torch.equal(value, resumed.flow.state_dict()[name]), name
    with bp.load(tmp_path / "parts") as loaded:
        assert "gfn2-xtb" in (tmp_path / "parts" / "config.toml").read_text()
        frames = loaded.sample(3)
        assert np.isfinite(frames.log_weights).all()
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"gfn2-xtb needs tblite.*pip install 'boltzport\[xtb\]'"):
        bp.load(tmp_path / "parts")
    with pytest.raises(InputError, match="has gfn2-xtb, which opens by itself; leave it out"):
        bp.load(tmp_path / "parts", energy=lambda x: x.sum((1, 2)))


def records(run: Path) -> int:
    elements = molecule(NAME).topology.elements
    identity = f"gfn2-xtb +0 {' '.join(map(str, elements))}"
    with Record(run / "energies.bin", identity=identity, atoms=len(elements)) as record:
        return len(record)


@pytest.mark.slow
def test_an_ase_calculator_is_recorded_by_name(tmp_path: Path) -> None:
    made = calculators.Bonds(molecule(NAME))
    settings = bp.CMT(**(TINY | {"steps": 1, "refine": 0}))
    energy = bp.energies.ASE(made, processes=1)
    with bp.train(
        molecule(NAME), energy=energy, method=settings, flow=SMALL, out=tmp_path / "run", progress=False
    ) as m:
        frames = m.sample(5)
    assert 'energy_settings = "Bonds(stiffness=30.0)"' in (tmp_path / "run" / "config.toml").read_text()
    with pytest.raises(InputError, match=r"is a user's \(Bonds\(stiffness=30.0\)\), which no file holds; pass it"):
        bp.load(tmp_path / "run")
    other = bp.energies.ASE(calculators.Bonds(molecule(NAME), stiffness=31.0), processes=1)
    with pytest.raises(InputError, match=r"has Bonds\(stiffness=30.0\), got Bonds\(stiffness=31.0\)"):
        bp.load(tmp_path / "run", energy=other)
    with bp.load(tmp_path / "run", energy=bp.energies.ASE(made, processes=1)) as again:
        np.testing.assert_array_equal(again.sample(5).log_weights, frames.log_weights)
        # The second time they are read from the file.
        assert again.target.energy.expensive.evaluations == 0


def test_an_energy_that_fails_on_the_reference_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"Spring.* has no energy of the reference structure of ACE-GLY-NME: ValueError"
    ):
        bp.train(
            molecule(NAME).with_structure(molecule(NAME).positions - 9.0), energy=bp.energies.ASE(calculators.Spring())
        )


# Systems.


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A System of a user's own script, with its topology in both formats."""
    folder = tmp_path_factory.mktemp("files")
    made = molecule(NAME)
    positions = made.positions * unit.nanometer
    made.write_system(folder / "system.xml")
    made.write_pdb(folder / "mine.pdb")
    with (folder / "mine.cif").open("w") as file:
        openmm.app.PDBxFile.writeFile(made.openmm_topology, positions, file, keepIds=True)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize("structure", ["mine.pdb", "mine.cif"])
def test_a_system_file_is_a_molecule(files: Path, capsys: pytest.CaptureFixture[str], structure: str) -> None:
    _, out, _ = run(
        capsys,
        "inspect",
        str(files / structure),
        "--system-xml",
        str(files / "system.xml"),
        "--preset",
        "quick",
        "--json",
    )
    found = json.loads(out)
    assert (found["system"], found["atoms"], found["energy_backend"]) == ("mine", 19, "tensors")
    assert found["constrained_bonds"] == len(molecule(NAME).constrained)
    assert found["reference_energy"] == pytest.approx(molecule(NAME).reference_energy(), abs=0.01)


def broken(files: Path, kind: str) -> str:
    system = openmm.XmlSerializer.deserialize((files / "system.xml").read_text())
    if kind == "particles":
        system.addParticle(1.0)
    elif kind == "constraint":
        system.addConstraint(0, molecule(NAME).topology.n_atoms - 1, 0.8)
    elif kind == "text":
        return "no XML"
    elif kind == "integrator":
        return openmm.XmlSerializer.serialize(openmm.VerletIntegrator(0.001))
    elif kind == "empty":
        return ""
    return openmm.XmlSerializer.serialize(system)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("particles", "has 20 particles and .*mine.pdb has 19 atoms"),
        ("constraint", "constrains the distance of ACE1.* and .*, which are not bonded"),
        ("text", "is not a serialized OpenMM System"),
        ("integrator", "holds an OpenMM VerletIntegrator; expected a System"),
        ("empty", "is empty; expected a serialized OpenMM System"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "train"])
def test_a_wrong_system_file_is_one_line(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, message: str, command: str
) -> None:
    import re

    (tmp_path / "system.xml").write_text(broken(files, kind))
    where = ["--out", str(tmp_path / "run")] if command == "train" else []
    code, out, err = run(capsys, command, str(files / "mine.pdb"), "--system-xml", str(tmp_path / "system.xml"), *where)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err), err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_system_file_is_trained_and_resumed(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = [f"--set={key}={value}" for key, value in TINY.items()]
    small = ["--set=flow.bins=4", "--set=flow.torsion_hidden=8", "--set=flow.hidden=16", "--set=flow.pairs=1"]
    out = str(tmp_path / "run")
    code, _, err = run(
        capsys,
        *("train", str(files / "mine.cif"), "--system-xml", str(files / "system.xml"), "--out", out, "--no-page"),
        *settings,
        *small,
    )
    assert code == 0, err
    with bp.load(out) as model:
        assert model.molecule is not None
        assert model.molecule.name == "mine"
        assert model.sample(4).positions.shape == (4, 19, 3)
    code, _, err = run(capsys, "train", "--resume", "--out", out, "--no-page")
    assert code == 0, err


@pytest.mark.parametrize(("name", "charge"), [("C[C@H](O)C(=O)[O-]", -1), ("C[NH3+]", 1), ("CCO", 0)])
def test_the_charge_of_a_small_molecule_is_its_formal_charge(name: str, charge: int) -> None:
    """Also of a molecule that is read back from its run, and with it xTB has an even number of electrons."""
    small = molecule(name)
    assert small.charge == small.with_structure(small.positions).charge == charge
    with open_energy(small, energy="gfn2-xtb") as energy:
        assert f"total charge {charge:+d}" in energy.message


@pytest.mark.parametrize(("name", "charge"), [("ACE-GLY-NME", 0), ("ACE-LYS-NME", 1), ("ACE-ASP-NME", -1), ("GK", 1)])
def test_the_charge_is_that_of_the_residues(name: str, charge: int) -> None:
    assert molecule(name).charge == charge


def test_a_molecule_without_charges_has_no_charge() -> None:
    made = molecule(NAME)
    system = openmm.System()
    for _ in range(made.topology.n_atoms):
        system.addParticle(1.0)
    bare = bp.Molecule(system, topology=made.openmm_topology, positions=made.positions, name="bare")
    with pytest.raises(InputError, match=r"total charge of bare is unknown.*no charges"):
        bp.train(bare, energy="gfn2-xtb")
