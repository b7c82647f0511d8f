"""Files of others, with bytes changed at random: read, or refused in one line."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.experiments import RunConfig, request, run_training
from boltzport.experiments.keeping import read_checkpoint, read_status
from boltzport.flows import load_flow
from boltzport.reporting import read_run
from boltzport.reporting.findings import notices, verdicts

SMALL = (
    "steps=1",
    "gradient_steps=1",
    "buffer_size=100",
    "batch_size=50",
    "pairs=1",
    "hidden=8",
    "average=0",
    "reuse=0",
)
READERS = {
    "config": lambda run: RunConfig.load(run.config),
    "status": read_status,
    "ledger": lambda run: read_run(run.path),
    "metrics": lambda run: read_run(run.path),
    "evaluation": lambda run: (verdicts(read_run(run.path)), notices(read_run(run.path))),
    "checkpoint": read_checkpoint,
    "flow": lambda run: load_flow(run.flow, compiled=False),
}
EVALUATION = {
    "ess": 0.5, "log_z": -1.0, "intervals": {"ess": [0.4, 0.6]}, "basins": [{"name": "a", "population": 0.5}],
    "missing_mass": {"at_least": 0.0, "message": "", "estimates": [{"name": "x", "value": 1.0, "error": None}]},
    "wasserstein": {"energy": 0.1}, "ramachandran": [{"name": "ALA2", "kl": 0.1}], "noise_floor": {}, "warnings": ["w"],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDirectory:
    path = tmp_path_factory.mktemp("fuzz") / "run"
    run_training(request("gmm-2d", preset="quick", settings=SMALL), path, silent=True)
    (path / "evaluation.json").write_text(json.dumps(EVALUATION))
    return RunDirectory(path)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes(run: RunDirectory, name: str, data: st.DataObject) -> None:
    path: Path = getattr(run, name)
    whole = path.read_bytes()
    content = bytearray(whole)
    # Most changes are made where the structure is: headers are at the start.
    ends = st.one_of(st.integers(0, min(400, len(content) - 1)), st.integers(0, len(content) - 1))
    for place in data.draw(st.lists(ends, min_size=1, max_size=4)):
        content[place] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b'"{}[],:0-e=.\n')))
    cut = data.draw(st.one_of(st.none(), ends))
    try:
        path.write_bytes(bytes(content[:cut]))
        READERS[name](run)
    except InputError as error:
        message = str(error)
        assert message.count("\n") == 0
    finally:
        path.write_bytes(whole)
