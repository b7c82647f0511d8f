import pytest

from boltzport.core.errors import InputError
from boltzport.molecules.sequence import parse_sequence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ELIL", "GLU-LEU-ILE-LEU"),
        ("ALA", "ALA-LEU-ALA"),
        ("A-A", "ALA-ALA"),
        ("ACE-ALA-NME", "ACE-ALA-NME"),
        ("ACE-ELIL-NME", "ACE-GLU-LEU-ILE-LEU-NME"),
        ("GLU-LEU", "GLU-LEU"),
        ("ACE-HIP-LYN", "ACE-HIP-LYN"),
        ("AC-NME", "ALA-CYS-NME"),
    ],
)
def test_reads(text: str, expected: str) -> None:
    assert str(parse_sequence(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ELXL", "unknown letter 'X' at position 3"),
        ("elil", "unknown letter 'e' at position 1.*capitals"),
        ("ACE-XYZ-NME", "unknown residue 'XYZ'.*expected one of ACE ALA ARG ASH"),
        ("ACE-NME", "no residue in the sequence"),
        ("ACE", "unknown|no residue"),
        ("", "no residue"),
        ("ALA-ACE-ALA", "cap ACE .* not at the start"),
        ("NME-ALA", "cap NME .* not at the end"),
        ("ALA--ALA", "empty residue"),
        ("ACE-SEP-NME", "phosphoserine, SEP in 'ACE-SEP-NME', cannot be built"),
        ("ACE-CYM-NME", "unknown residue 'CYM'"),
        ("ace-ala-nme", "unknown residue 'ace'.*capitals"),
        ("ALÄ", "unknown letter 'Ä'"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_sequence(text)
