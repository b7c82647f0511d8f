"""Files of others, changed at random: read, or refused in one line.

`FUZZ_EXAMPLES=10000 pytest tests/unit/test_fuzzed_files.py` fuzzes for long. What it found is in `tests/data/damaged`.
"""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from boltzport.core.errors import InputError, RunError
from fuzzing import EXAMPLES, File, changed, fed, files

FEW = {"xtc": 3, "pdb": 5, "sdf": 5, "mol2": 5, "system": 10, "structure": 10, "checkpoint": 10, "config": 20}
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
        max_examples=EXAMPLES or FEW.get(name, 25),
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
