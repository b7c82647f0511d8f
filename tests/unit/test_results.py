"""Metrics as records: what is written is read again, and every reader has the same names."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from boltzport.analysis.metrics import METRICS, Estimate, Interval, Results, estimate, metric, results_table
from boltzport.core.errors import InputError
from boltzport.experiments import shipped_systems
from boltzport.reporting.tables import metric_rows


@pytest.mark.parametrize("system", shipped_systems())
def test_the_evaluations_that_ship_come_back(system: str) -> None:
    """They were written by an earlier version: its files still open, and nothing in them is lost."""
    record = json.loads((Path(str(files("boltzport"))) / "trained" / system / "evaluation.json").read_text())
    # What ships has no table of temperatures, and the intervals that belong to it.
    record["intervals"] = {name: ends for name, ends in record["intervals"].items() if "temperatures" not in name}
    results = Results.from_json(record)
    assert results.to_json() == record
    assert results["ess"].interval == Interval(*record["intervals"]["ess"])
    assert results["log_z"].note == METRICS["log_z"].meaning
    assert set(record["intervals"]) <= set(results), "every interval is one of a metric"
    assert Results.from_json(json.loads(json.dumps(results.to_json()))).to_json() == record


def test_groups_are_nested_and_flattened() -> None:
    found = Results(
        [
            estimate("ess", 0.5, Interval(0.4, 0.6)),
            estimate("ramachandran.ALA2.kl", 0.25, floor=0.125),
            estimate("ramachandran.mean.kl", 0.25),
            estimate("wasserstein.energy", float("nan")),
            estimate("tica.lag", 3),
        ],
        details={"tica": {"reason": "", "correlations": [0.9]}, "warnings": ["careful"]},
    )
    record = found.to_json()
    assert record == {
        "ess": 0.5,
        "ramachandran": [{"name": "ALA2", "kl": 0.25}, {"name": "mean", "kl": 0.25}],
        "wasserstein": {"energy": None},
        "tica": {"lag": 3, "reason": "", "correlations": [0.9]},
        "warnings": ["careful"],
        "intervals": {"ess": [0.4, 0.6]},
        "noise_floor": {"ramachandran.ALA2.kl": 0.125},
    }
    again = Results.from_json(record)
    assert dict(again) == dict(found)
    assert again.details == found.details
    assert again.value("nothing") is None
    with pytest.raises(KeyError):
        again["nothing"]


def test_every_reader_has_the_metric() -> None:
    """Table, page and frame, from one record each."""
    found = Results([estimate("nll", -138.2, Interval(-138.31, -138.08), floor=0.5)])
    assert "-138.2" in str(found)
    assert "noise floor" in [column.header for column in results_table(found).columns]
    (row,) = metric_rows(found)
    assert row.name == metric("nll").label
    assert "to" in row.interval
    assert row.floor
    frame = found.to_frame()
    assert frame.loc["nll"].to_dict() == {
        "value": -138.2, "lower": -138.31, "upper": -138.08, "floor": 0.5, "unit": "nats",
        "note": METRICS["nll"].meaning,
    }  # fmt: skip


def test_an_estimate_has_its_error() -> None:
    found = Estimate(name="x", value=1.0, interval=Interval(1.0 - 1.96 * 0.25, 1.0 + 1.96 * 0.25), unit="nm")
    assert found.error == pytest.approx(0.25)
    assert float(found) == 1.0
    assert str(found) == "x = 1.00 (0.51 to 1.49) nm"
    assert Estimate(name="y", value=None).error is None


def test_files_that_are_none_are_named(tmp_path: Path) -> None:
    for content, said in (("[1]", "expected a JSON object, got list"), ("{", "is not JSON")):
        (tmp_path / "evaluation.json").write_text(content)
        with pytest.raises(InputError, match=said):
            Results.load(tmp_path / "evaluation.json")
    with pytest.raises(InputError, match="no such file"):
        Results.load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    "record",
    [
        {"missing_mass": {"estimates": 3}},
        {"missing_mass": {"estimates": [3]}},
        {"reference": {"diagnostics": "converged"}},
        {"reference": {"diagnostics": {"rhat": [1.0]}}},
    ],
)
def test_parts_of_parts_are_what_they_should_be(record: dict) -> None:
    with pytest.raises(TypeError, match="got"):
        Results.from_json(record)


def test_names_mean_other_things_elsewhere() -> None:
    record = {"basin_agreement": {"basins": 25}, "seconds": {"temperatures": 0.1}}
    assert Results.from_json(record).details == record
