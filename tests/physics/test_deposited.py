"""PDB files as they come from the data bank: what is in them is named, and one chain of them becomes a molecule."""

from pathlib import Path

import numpy as np
import pytest

from boltzport.core.errors import InputError
from boltzport.molecules import Molecule, count_atoms
from boltzport.molecules.deposited import contents, keep_chains
from molecules import molecule

SEQUENCE = "ASC"


def atoms_of(sequence: str, *, chain: str = "A", first: int = 5, shift: float = 0.0) -> list[str]:
    """Heavy atoms of a peptide as the data bank writes them."""
    lines = []
    for line in molecule(sequence).to_pdb().splitlines():
        if line.startswith(("ATOM", "HETATM")) and line[76:78].strip() != "H":
            number = int(line[22:26]) + first - 1
            x = float(line[30:38]) + shift
            lines.append(f"ATOM  {line[6:21]}{chain}{number:4d}    {x:8.3f}{line[38:]}")
    return lines


def hetero(name: str, residue: str, chain: str, number: int, element: str) -> str:
    place = f"      30.000  30.000 {number:7.3f}  1.00  0.00"
    return f"HETATM 9{number:3d} {name:<4s} {residue:>3s} {chain}{number:4d}{place}          {element:>2s}"


def deposited() -> str:
    """Two chains, the first of which has two locations of the side chain of its serine; waters, an ion, a ligand."""
    first = atoms_of(SEQUENCE)
    (oxygen,) = [line for line in first if line[12:16].strip() == "OG"]
    moved = f"{oxygen[:30]}{float(oxygen[30:38]) + 0.6:8.3f}{oxygen[38:]}"
    place = first.index(oxygen)
    first[place : place + 1] = [
        f"{moved[:16]}A{moved[17:54]}  0.30{moved[60:]}",
        f"{oxygen[:16]}B{oxygen[17:54]}  0.70{oxygen[60:]}",
    ]
    others = [hetero("ZN", "ZN", "A", 101, "ZN"), hetero("O", "HOH", "A", 102, "O"), hetero("O", "HOH", "B", 103, "O")]
    others += [hetero("C1", "GOL", "A", 104, "C"), hetero("O1", "GOL", "A", 104, "O")]
    text = ["HEADER    PEPTIDE", *first, "TER", *atoms_of("GA", chain="B", shift=40.0), "TER", *others]
    return "\n".join([*text, "CONECT    1    5", "END", ""])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "1abc.pdb"
    file.write_text(deposited())
    return file


def test_what_a_file_holds() -> None:
    found = contents(deposited())
    assert found.chains == {"A": 3, "B": 2}
    assert (found.waters, found.ions, found.ligands) == (2, {"ZN": 1}, {"GOL": 1})
    assert found.locations == {"SER6.OG": "AB"}


def test_a_chain_with_hydrogens_is_the_molecule_of_its_sequence(path: Path) -> None:
    """The location of higher occupancy is that of the molecule, so that the minimum is the same."""
    found, expected = Molecule(str(path), keep="A", add_hydrogens=True), molecule(SEQUENCE)
    assert sorted(found.topology.elements) == sorted(expected.topology.elements)
    assert len(found.topology.bonds) == len(expected.topology.bonds)
    assert found.reference_energy() == pytest.approx(expected.reference_energy(), abs=30.0)
    assert found.made is not None
    assert found.notes == (
        f"{path} has alternate locations of SER6.OG; of each residue that with the highest occupancy is used",
    )
    assert (found.made.keep, found.made.add_hydrogens) == (("A",), True)
    assert count_atoms(str(path), keep=("A",), add_hydrogens=True) == expected.topology.n_atoms
    again = Molecule(str(path), keep=("A",), add_hydrogens=True)
    np.testing.assert_array_equal(found.positions, again.positions)


def test_the_fullest_location_and_the_bonds_are_kept() -> None:
    kept = keep_chains(deposited(), ("A",), "1abc.pdb").splitlines()
    (oxygen,) = [line for line in kept if line[12:16].strip() == "OG"]
    assert (oxygen[16], float(oxygen[54:60])) == (" ", 0.7)
    assert "CONECT    1    5" in kept
    assert not any(name in line for line in kept for name in ("HOH", "ZN", "GOL"))
    both = keep_chains(deposited(), ("A", "B"), "1abc.pdb")
    assert {line[21] for line in both.splitlines() if line.startswith("ATOM")} == {"A", "B"}


@pytest.mark.parametrize(
    ("without", "options", "message"),
    [
        ("", {}, r"holds 2 waters and 1 ion \(ZN\); expected one molecule without solvent: keep='A' \(--keep A\)"),
        ("HETATM", {}, r"has alternate locations of SER6.OG; expected one location of each atom"),
        ("", {"keep": "C"}, r"has no chain 'C'; expected one of A \(3 residues\), B \(2 residues\)"),
        ("", {"keep": "A"}, r"has no hydrogens.*add_hydrogens=True \(--add-hydrogens\) adds them"),
        ("", {"keep": ("A", "B"), "add_hydrogens": True}, "holds 2 molecules"),
        (" OG ", {"keep": "A"}, r"lacks heavy atoms: SER6 \(OG\); expected complete residues"),
        (" OXT CYS", {"keep": "A"}, r"lacks heavy atoms: CYS7 \(OXT\)"),
        ("SER", {"keep": "A"}, r"ALA5 and CYS7 are 0\.\d\d nm apart, so that residues are missing between them"),
    ],
)
def test_what_cannot_be_used_is_named(path: Path, without: str, options: dict, message: str) -> None:
    if without:
        path.write_text("\n".join(line for line in deposited().splitlines() if without not in line))
    with pytest.raises(InputError, match=message) as error:
        Molecule(str(path), **options)
    assert "\n" not in str(error.value)


def test_the_options_belong_to_pdb_files() -> None:
    with pytest.raises(InputError, match="keep: expected a PDB file, got ELIL"):
        Molecule("ELIL", keep="A")
    with pytest.raises(InputError, match="add_hydrogens: expected a PDB file, got CCO"):
        Molecule("CCO", add_hydrogens=True)
