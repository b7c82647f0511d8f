"""The command line as a user meets it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import openmm.app
import pytest

from boltzport.bench.doctor import dependencies
from boltzport.cli import main
from molecules import molecule


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
def test_inspect_gives_the_papers_numbers(run, name, atoms, dimension, flow_dimension, constrained) -> None:
    done = run("inspect", name, "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert done.err == ""
    assert found["system"] == name
    assert (found["atoms"], found["dimension"], found["flow_dimension"]) == (atoms, dimension, flow_dimension)
    assert found["constrained_bonds"] == constrained
    assert (found["bonds"], found["angles"], found["torsions"]) == (atoms - 1, atoms - 2, atoms - 3)
    assert found["temperature"] == 300.0


@pytest.mark.parametrize(
    ("name", "parameters"), [("aldp", 7_421_512), ("tetra", 9_452_376), ("hexa", 12_124_616), ("elil", 13_727_952)]
)
def test_inspect_counts_the_papers_parameters(run, name: str, parameters: int) -> None:
    found = json.loads(run("inspect", name, "--preset", "paper", "--json").out)
    assert found["flow_parameters"] == parameters
    assert found["circles"] == found["torsions"]


def test_inspect_counts_the_parameters_of_either_kind_of_flow(run) -> None:
    found = [json.loads(run("inspect", "aldp", "--preset", preset, "--json").out) for preset in ("laptop", "paper")]
    assert [one["flow_kind"] for one in found] == ["molecular", "couplings"]
    assert 0 < found[0]["flow_parameters"] < found[1]["flow_parameters"]


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


@pytest.mark.slow
def test_a_force_that_we_do_not_translate_goes_to_openmm(run) -> None:
    done = run("inspect", "ACE-ALA-NME", "--forcefield", "amoeba2018.xml", "--constraints", "none", "--json")
    found = json.loads(done.out)
    assert found["energy_backend"] == "openmm"
    assert "AmoebaBondForce" in found["parity"]


def test_a_run_that_cannot_go_on_says_so_in_a_line(run, monkeypatch: pytest.MonkeyPatch) -> None:
    import boltzport.targets.boltzmann.energies

    def differs(*_: object, **__: object) -> None:
        raise boltzport.core.errors.RunError("the force field DIFFERS from OpenMM in torsions")

    monkeypatch.setattr(boltzport.targets.boltzmann.energies, "check_parity", differs)
    done = run("inspect", "aldp")
    assert (done.code, done.out) == (1, "")
    assert done.err == "boltzport: the force field DIFFERS from OpenMM in torsions\n"


def test_systems(run) -> None:
    entries = json.loads(run("systems", "--json").out)["systems"]
    assert [entry["system"] for entry in entries] == [
        "alanine-dipeptide",
        "alanine-tetrapeptide",
        "alanine-hexapeptide",
        "elil-tetrapeptide",
    ]
    assert entries[0]["trained"]["ess"] > 0.9
    assert entries[3]["trained"]["ess_unclipped"] < 0.5 * entries[3]["trained"]["ess"]
    printed = run("systems").out
    assert "alanine-hexapeptide" in printed
    assert f"ESS {entries[0]['trained']['ess']:.1%}" in printed


def test_doctor(run) -> None:
    found = json.loads(run("doctor", "--json").out)
    assert found["healthy"]
    assert {"torch", "openmm", "compiler", "molecule"} <= {check["name"] for check in found["checks"]}
    assert "openmm" in run("doctor").out


def test_doctor_looks_at_every_dependency(run) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    needed = {re.split("[<>=]", need)[0] for need in project["dependencies"]}
    assert set(dependencies()) == needed
    found = json.loads(run("doctor", "--json").out)
    (packages,) = (check["found"] for check in found["checks"] if check["name"] == "packages")
    assert {entry.split()[0] for entry in packages.split(", ")} == needed


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
        (["sample", "-n", "10", "-o", "a.npz"], "expected a run directory"),
        (["sample", "aldp", "-n", "10", "-o", "a.npz", "--anneal", "many"], "anneal: expected auto or a number"),
        (["sample", "aldp", "-n", "10", "-o", "a.npz", "--defensive", "1.5"], "defensive: expected a share"),
        (
            ["sample", "aldp", "-n", "10", "-o", "a.npz", "--chain", "--mode", "refined"],
            "--chain has a mode of its own",
        ),
        (["sample", "aldp", "-n", "10", "-o", "a.npz", "--chain", "--anneal", "2"], "chain: expected no annealing"),
        (["sample", "aldp", "tetra", "-n", "10", "-o", "a.npz"], "tetra is a run of alanine-tetrapeptide"),
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
        (["inspect", "A"], "no residue with two charged ends.*ACE-A-NME"),
        (["inspect", "A" * 300 + "X"], "unknown letter 'X' at position 301"),
        (["inspect", "mine.cif"], "mmCIF"),
        (["inspect", "mine.sdf"], "no such file: mine.sdf"),
        (["inspect", "C1CC"], "'C1CC' is not a system, a file or a SMILES, and not a sequence"),
        (["train", "CC=CC"], "'CC=CC': the double bond C2=C3 is not specified"),
        (["train", "C[Hg]C"], "the atom Hg2 is mercury"),
        (["inspect", "CC(=O)N", "--forcefield", "amber96.xml"], "is a small molecule, whose force field is MMFF94"),
        (["inspect", "aldp", "--forcefield", "amber69.xml"], "unknown force field 'amber69.xml'.*amber96.xml"),
        (["inspect", "aldp", "--forcefield", "tip3p.xml"], "does not fit the molecule"),
        (["inspect", "aldp", "--pdb", "/no/such/folder/file.pdb"], "cannot be written"),
        (["inspect", "aldp", "--energy", "gfn2"], "unknown energy 'gfn2'; did you mean gfn2-xtb"),
        (["train", "aldp", "--energy", "xtb"], "unknown energy 'xtb'; did you mean gfn"),
        (["train", "gmm-2d", "--energy", "gfn2-xtb"], "gmm-2d is a toy"),
        (["reference", "aldp", "--energy", "gfn2-xtb", "--sampler", "openmm", "--out", "ref"], "sampler hmc"),
        (["inspect", "mine.pdb", "--system-xml", "system.xml"], "no such file: mine.pdb"),
        (["inspect", "mine.pdb", "--system-xml", "system.xml", "--ph", "3"], "leave out their options"),
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
    water = [("O", "O", 30.0, 30.0), ("H1", "H", 30.96, 30.0), ("H2", "H", 29.76, 30.93)]
    lines = [line for line in pdb_text() if line.startswith(("ATOM", "HETATM"))]
    lines += [
        f"HETATM{900 + i:5d}  {name:<3s} HOH B   1    {x:8.3f}{y:8.3f}  30.000  1.00  0.00          {element:>2s}"
        for i, (name, element, x, y) in enumerate(water)
    ]
    return "\n".join([*lines, "END"]).encode()


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
        (without_one_hydrogen, "does not fit the molecule: No template found for residue 1 .ALA.*missing 1"),
        (unknown_residue, "unknown residue 'XYZ'"),
        (two_molecules, "holds 1 water; expected one molecule without solvent.*--keep A"),
    ],
    ids=["empty", "blank", "binary", "not-utf8", "text", "malformed", "no-hydrogens", "one-missing", "residue", "two"],
)
def test_bad_file(run, tmp_path: Path, content, message: str) -> None:
    path = tmp_path / "input.pdb"
    path.write_bytes(content if isinstance(content, bytes) else content())
    refused(run("inspect", str(path)), message)


@pytest.mark.slow
def test_what_we_write_we_read_under_charmm_too(run, tmp_path: Path) -> None:
    path = tmp_path / "written.pdb"
    for name in ("KD", "ACE-AG-NME"):
        written = run("inspect", name, "--forcefield", "charmm36.xml", "--pdb", str(path), "--json")
        read = run("inspect", str(path), "--forcefield", "charmm36", "--json")
        first, second = json.loads(written.out), json.loads(read.out)
        assert first["sequence"] == second["sequence"]
        assert first["reference_energy"] == pytest.approx(second["reference_energy"], abs=0.5)


def test_repeated_residue_numbers_are_told_apart(run, tmp_path: Path) -> None:
    path = tmp_path / "insertion.pdb"
    lines = [line[:22] + "   2A" + line[27:] if line[22:26] == "   3" else line for line in pdb_text("ACE-AA-NME")]
    path.write_text("\n".join(lines))
    found = json.loads(run("inspect", str(path), "--json").out)
    assert found["chiral_centres"] == ["ALA2.CA", "ALA2A.CA"]
    assert {"ALA2.phi", "ALA2A.phi"} <= found["named_torsions"].keys()


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


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from boltzport.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n"
        "    heavy = {'torch', 'openmm', 'numpy', 'scipy', 'matplotlib', 'mdtraj', 'rdkit', 'safetensors', 'jinja2'}\n"
        "    sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
