"""The command line as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import openmm.app
import pytest
from molecules import molecule

from boltzport.cli import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]):
    def call(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        captured = capfd.readouterr()
        return Outcome(int(stop.value.code or 0), captured.out, captured.err)

    return call


@pytest.mark.parametrize(
    ("name", "atoms", "dimension", "flow_dimension", "constrained"),
    [
        ("alanine-dipeptide", 22, 60, 60, 0),
        ("alanine-tetrapeptide", 42, 120, 98, 22),
        ("alanine-hexapeptide", 62, 180, 148, 32),
        ("elil-tetrapeptide", 75, 219, 178, 41),
    ],
)
def test_inspect_gives_the_papers_figures(run, name, atoms, dimension, flow_dimension, constrained) -> None:
    done = run("inspect", name, "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert done.err == ""
    assert found["system"] == name
    assert (found["atoms"], found["dimension"], found["flow_dimension"]) == (atoms, dimension, flow_dimension)
    assert found["constrained_bonds"] == constrained
    assert (found["bonds"], found["angles"], found["torsions"]) == (atoms - 1, atoms - 2, atoms - 3)
    assert found["temperature"] == 300.0


def test_inspect_names_the_groups(run) -> None:
    found = json.loads(run("inspect", "elil", "--json").out)
    assert found["chiral_centres"] == ["GLU1.CA", "LEU2.CA", "ILE3.CA", "ILE3.CB", "LEU4.CA"]
    groups = {(group["centre"], group["kind"]): group["atoms"] for group in found["permutation_groups"]}
    assert groups["GLU1.N", "NH3"] == ["GLU1.H", "GLU1.H2", "GLU1.H3"]
    assert groups["LEU2.CG", "methyls"] == ["LEU2.CD1", "LEU2.CD2"]
    assert len(groups) == 14
    assert found["forcefield"] == ["amber99sbildn.xml", "amber99_obc.xml"]


def test_inspect_for_people(run, tmp_path: Path) -> None:
    done = run("inspect", "alanine-dipeptide", "--pdb", str(tmp_path / "reference.pdb"))
    assert done.code == 0
    for word in ("ALA2.CA", "amber96 + implicit/obc1", "ALA2.phi", "60 = 21 bonds + 20 angles + 19 torsions"):
        assert word in done.out
    again = json.loads(run("inspect", str(tmp_path / "reference.pdb"), "--json").out)
    assert again["atoms"] == 22
    assert again["chiral_centres"] == ["ALA2.CA"]


def test_options_reach_the_molecule(run) -> None:
    options = ("--forcefield", "amber14-all,implicit/gbn2.xml", "--constraints", "none", "--temperature", "310")
    found = json.loads(run("inspect", "ACE-GLU-NME", "--ph", "2", *options, "--json").out)
    assert found["forcefield"] == ["amber14-all", "implicit/gbn2.xml"]
    assert (found["constraints"], found["temperature"], found["constrained_bonds"]) == ("none", 310.0, 0)
    assert found["atoms"] == molecule("ACE-GLU-NME").topology.n_atoms + 1


def test_systems(run) -> None:
    done = run("systems", "--json")
    assert [entry["system"] for entry in json.loads(done.out)["systems"]] == [
        "alanine-dipeptide",
        "alanine-tetrapeptide",
        "alanine-hexapeptide",
        "elil-tetrapeptide",
    ]
    assert "alanine-hexapeptide" in run("systems").out


def test_doctor(run) -> None:
    found = json.loads(run("doctor", "--json").out)
    assert found["healthy"]
    assert {"torch", "openmm", "compiler", "molecule"} <= {check["name"] for check in found["checks"]}
    assert "openmm" in run("doctor").out


def test_doctor_reports_what_is_broken() -> None:
    script = "import sys; sys.modules['openmm'] = None; from boltzport.cli import main; main(['doctor'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "failed" in done.stdout


def test_version_and_help(run) -> None:
    from boltzport import __version__

    assert run("--version").out.strip() == __version__
    assert "inspect" in run("--help").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspct"], 'Did you mean "inspect"'),
        (["inspect"], "SYSTEM"),
        (["inspect", "aldp", "--colour"], "--colour"),
        (["inspect", "aldp", "--constraints", "all"], "hbonds"),
        (["inspect", "aldp", "--ph", "seven"], "--ph"),
        (["inspect", "aldp", "--ph", "15"], "pH from 0 to 14"),
        (["inspect", "aldp", "--temperature", "-1"], "above 0 K"),
        (["inspect", "aldp", "extra"], "extra"),
        (["inspect", "alanine-dipeptid"], "did you mean 'alanine-dipeptide'"),
        (["inspect", "ELXL"], "unknown letter 'X'"),
        (["inspect", "ACE-XYZ-NME"], "unknown residue 'XYZ'"),
        (["inspect", "A"], "does not fit the molecule"),
        (["inspect", "aldp", "--forcefield", "amber69.xml"], "unknown force field 'amber69.xml'.*amber96.xml"),
        (["inspect", "aldp", "--forcefield", "tip3p.xml"], "does not fit the molecule"),
        (["inspect", "aldp", "--pdb", "/no/such/folder/file.pdb"], "cannot be written"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_bad_usage(run, arguments: list[str], message: str) -> None:
    refused(run(*arguments), message)


def refused(done: Outcome, message: str) -> None:
    import re

    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("boltzport: ")
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert "Traceback" not in done.err


def pdb_text(name: str = "ACE-ALA-NME") -> list[str]:
    import io

    mol = molecule(name)
    file = io.StringIO()
    openmm.app.PDBFile.writeFile(mol.openmm_topology, mol.positions * openmm.unit.nanometer, file, keepIds=True)
    return file.getvalue().splitlines()


def without_hydrogens() -> bytes:
    return "\n".join(line for line in pdb_text() if line[76:78].strip() != "H").encode()


def without_one_hydrogen() -> bytes:
    return "\n".join(line for line in pdb_text() if " HA " not in line).encode()


def unknown_residue() -> bytes:
    return "\n".join(pdb_text()).replace("ALA", "XYZ").encode()


def two_molecules() -> bytes:
    water = openmm.app.PDBFile(str(Path(openmm.app.__file__).parent / "data" / "tip3p.pdb"))
    lines = [line for line in pdb_text() if line.startswith(("ATOM", "HETATM"))]
    path = [
        f"HETATM{900 + i:5d}  {atom.name:<3s} HOH B   1    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00           {atom.element.symbol}"
        for i, (atom, (x, y, z)) in enumerate(
            zip(list(water.topology.atoms())[:3], water.getPositions(asNumpy=True)[:3]._value * 10 + 30, strict=True)
        )
    ]
    return "\n".join([*lines, "TER", *path, "END"]).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary file"),
        (b"\xff\xfe\x00", "binary file"),
        (b"hello\nworld\n", "not a PDB file"),
        (b"ATOM      1  N   ALA A   1      xx.xxx\n", "could not be read as a PDB file"),
        (without_hydrogens, "no hydrogens"),
        (without_one_hydrogen, "ALA2.*does not match.*missing 1"),
        (unknown_residue, "unknown residue 'XYZ'"),
        (two_molecules, "holds 2 molecules"),
    ],
    ids=["empty", "blank", "binary", "not-utf8", "text", "malformed", "no-hydrogens", "one-missing", "residue", "two"],
)
def test_bad_file(run, tmp_path: Path, content, message: str) -> None:
    path = tmp_path / "input.pdb"
    path.write_bytes(content if isinstance(content, bytes) else content())
    refused(run("inspect", str(path)), message)


def test_missing_file(run, tmp_path: Path) -> None:
    refused(run("inspect", str(tmp_path / "none.pdb")), "no such file")
    refused(run("inspect", str(tmp_path)), "cannot be read|directory")


def test_broken_forcefield_file(run, tmp_path: Path) -> None:
    path = tmp_path / "mine.xml"
    path.write_text("<ForceField><Residues>")
    refused(run("inspect", "aldp", "--forcefield", str(path)), "cannot be read")


def test_a_pipe_that_closes_early_is_no_error() -> None:
    """As in `boltzport systems --json | head -c 1`."""
    read, write = os.pipe()
    os.close(read)
    script = "from boltzport.cli import main; main(['systems', '--json'])"
    done = subprocess.run([sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_does_not_wait_for_torch() -> None:
    script = (
        "import sys\n"
        "from boltzport.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    sys.exit('torch' in sys.modules or 'openmm' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0
