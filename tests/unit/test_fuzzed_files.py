"""Files of others, changed at random: read, or refused in one line.

`FUZZ_EXAMPLES=10000 pytest tests/unit/test_fuzzed_files.py` fuzzes for long. What it found is in `tests/data/damaged`.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from boltzport.core.errors import InputError, RunError
from fuzzing import EXAMPLES, File, changed, fed, files

FEW = {
    "xtc": 2, "pdb": 3, "sdf": 3, "mol2": 3, "system": 5, "structure": 5, "checkpoint": 3, "config": 5, "ledger": 5,
    "metrics": 2, "evaluation": 3, "arrays": 2, "checksums": 5,
}  # fmt: skip
NAMES = (
    "config", "status", "ledger", "metrics", "evaluation", "arrays", "origin", "checksums", "flow", "checkpoint",
    "dcd", "xtc", "pdb", "sdf", "mol2", "system", "structure", "forcefield", "space", "weights", "dataset", "samples",
    "positions", "energies",
)  # fmt: skip
FOUND = Path(__file__).parents[1] / "data" / "damaged"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, File]:
    return files(tmp_path_factory.mktemp("fuzz"))


def refused_or_read(file: File, content: bytes) -> None:
    with suppress(InputError, RunError):
        fed(file, content)


def test_all_kinds_are_fuzzed(good: dict[str, File]) -> None:
    assert set(good) == set(NAMES)
    for file in good.values():
        file.read()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_changed_files(good: dict[str, File], name: str) -> None:
    file = good[name]
    content = file.path.read_bytes()

    @settings(
        max_examples=EXAMPLES or FEW.get(name, 15),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=changed(content, name=file.path.name))
    def feed(data: bytes) -> None:
        refused_or_read(file, data)

    feed()


@pytest.mark.parametrize("path", sorted(FOUND.iterdir()), ids=lambda path: path.name)
def test_what_fuzzing_found(good: dict[str, File], path: Path) -> None:
    """Files named KIND-WHAT that once ended in a traceback."""
    refused_or_read(good[path.name.partition("-")[0]], path.read_bytes())
