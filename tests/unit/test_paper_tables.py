"""The paper's metrics as they are printed, and runs beside them in its measure."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from boltzport.cli import main
from boltzport.core.errors import InputError
from boltzport.experiments.compare import compare, paper_json, paper_markdown, paper_table, paper_tables
from boltzport.experiments.compare.paper import MEASURED, PAPER_MEASURE, ROWS, Published, published
from runs import write_molecule_run, write_toy_run


@pytest.mark.parametrize(
    ("text", "mean", "error"),
    [
        ("-175.010 ± 0.000", -175.01, 0.0),
        ("82.14 ± 0.08 %", 0.8214, 0.0008),
        ("1.57e-3 ± 0.09e-3", 1.57e-3, 0.09e-3),
        ("4e8", 4e8, None),
        ("64.3 h", 231_480.0, None),
    ],
)
def test_metrics_are_read_as_printed(text: str, mean: float, error: float | None) -> None:
    found = Published.parse(text)
    assert found.text == text
    assert found.mean == pytest.approx(mean, rel=1e-12)
    assert found.error == (None if error is None else pytest.approx(error, rel=1e-12))


def test_the_papers_metrics_are_in_order() -> None:
    """Bounds bound, total variations are shares, and every figure is a row."""
    for methods in published().values():
        assert list(methods) == ["forward-kl", "reverse-kl", "fab", "ta-bg", "cmt"]
        for metrics in methods.values():
            assert set(metrics) <= set(ROWS)
            assert metrics["elbo"].mean < metrics["log_z"].mean < metrics["eubo"].mean
            assert 0.0 < metrics["ramachandran.mean.tv"].mean < 0.3
            assert 0.0 < metrics["ess"].mean < 1.0
        # Energies of the reference are the same for all: NLL and EUBO differ by a constant.
        differences = [metrics["nll"].mean - metrics["eubo"].mean for metrics in methods.values()]
        assert max(differences) - min(differences) < 0.011


def test_a_run_is_moved_to_the_papers_measure(tmp_path: Path) -> None:
    found = compare([write_molecule_run(tmp_path / "aldp")])
    table = paper_tables(found)[0]
    (spreads,) = found.targets[0].spreads
    rows = {row.name: row for row in table.rows}
    for name in ("log_z", "nll", "ess", "ramachandran.mean.kl_reweighted"):
        moved = PAPER_MEASURE if name in MEASURED else 0.0
        (ours,) = rows[name].ours
        assert ours is not None
        assert ours.mean == pytest.approx(spreads[name].mean + moved)
    assert pytest.approx(math.log(4 * math.pi**2)) == PAPER_MEASURE
    record = paper_json([table])
    json.dumps(record, allow_nan=False)
    lines = paper_markdown([table]).splitlines()
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    assert "97.69 ± 0.03 %" in paper_markdown([table])
    console = Console(width=240, record=True, file=io.StringIO())
    console.print(paper_table(table))
    assert "-175.009 ± 0.000" in console.export_text()


def test_one_run_has_its_interval(tmp_path: Path) -> None:
    table = paper_tables(compare([write_molecule_run(tmp_path / "aldp")]))[0]
    cell = next(row.cells[0] for row in table.rows if row.name == "ess")
    assert " to " in cell


def test_two_seeds_have_a_standard_error(tmp_path: Path) -> None:
    paths = [write_molecule_run(tmp_path / name) for name in "ab"]
    for seed, ess in enumerate((0.5, 0.75)):
        config = paths[seed] / "config.toml"
        config.write_text("\n".join(line for line in config.read_text().splitlines() if not line.startswith("seed")))
        config.write_text(f"seed = {seed}\n" + config.read_text())
        evaluation = paths[seed] / "evaluation.json"
        evaluation.write_text(json.dumps(json.loads(evaluation.read_text()) | {"ess": ess}))
    table = paper_tables(compare(paths))[0]
    cell = next(row.cells[0] for row in table.rows if row.name == "ess")
    assert cell.startswith("62")
    assert "± 12" in cell


def test_systems_without_runs_are_missing_with_a_line_and_the_papers_figures(tmp_path: Path) -> None:
    tables = paper_tables(compare([write_molecule_run(tmp_path / "aldp")]))
    assert [table.system for table in tables] == list(published())
    record = paper_json(tables)
    systems = {entry["system"]: entry for entry in record["systems"]}
    assert [entry["missing"] is None for entry in systems.values()] == [True, False, False, False]
    for system in list(systems)[1:]:
        assert systems[system]["missing"].startswith(f"{system}: missing, there is no run of it.")
        assert f"`boltzport train {system} --out RUN`" in systems[system]["missing"]
        assert systems[system]["metrics"]["ess"]["paper"]["cmt"]["mean"] == published()[system]["cmt"]["ess"].mean
        assert all(figure["ours"] == {} for figure in systems[system]["metrics"].values())
        assert paper_markdown(tables).count(f"{system}: missing") == 1
        console = Console(width=240, record=True, file=io.StringIO())
        console.print(paper_table(tables[list(systems).index(system)]))
        assert console.export_text().startswith(f"{system}: missing")


def test_the_json_has_intervals_in_the_papers_measure_and_states_its_conventions(tmp_path: Path) -> None:
    found = compare([write_molecule_run(tmp_path / "aldp")])
    record = paper_json(paper_tables(found))
    figures = record["systems"][0]["metrics"]
    for name in ("nll", "ess", "ramachandran.mean.kl"):
        own = found.targets[0].members[0].data.metrics[name].interval
        moved = PAPER_MEASURE if name in MEASURED else 0.0
        interval = figures[name]["ours"]["cmt"]["interval"]
        assert interval == pytest.approx([own.lower + moved, own.upper + moved])
        assert interval[0] < figures[name]["ours"]["cmt"]["mean"] < interval[1]
    assert figures["ramachandran.mean.kl"]["noise_floor"] == 0.0021
    assert set(record["conventions"]) >= {"measure", "constants", "noise_floor", "intervals"}
    assert f"{PAPER_MEASURE:.4f}" in record["conventions"]["measure"]
    assert all(sentence in paper_markdown(paper_tables(found)) for sentence in record["conventions"].values())


def test_a_run_evaluated_without_a_reference_says_what_is_missing(tmp_path: Path) -> None:
    run = write_molecule_run(tmp_path / "aldp", reference=False)
    (notice,) = (text for text in paper_tables(compare([run]))[0].notices() if "without a reference" in text)
    assert notice.startswith(str(run))


def test_runs_at_two_temperatures_have_one_table(tmp_path: Path) -> None:
    runs = [write_molecule_run(tmp_path / name) for name in ("cold", "warm")]
    config = runs[1] / "config.toml"
    config.write_text(config.read_text().replace("temperature = 300.0", "temperature = 350.0"))
    table = paper_tables(compare(runs))[0]
    assert [member.data.path for group in table.groups for member in group.members] == [runs[0]]


def test_another_temperature_is_another_system(tmp_path: Path) -> None:
    run = write_molecule_run(tmp_path / "aldp")
    config = (run / "config.toml").read_text()
    assert "temperature = 300.0" in config
    (run / "config.toml").write_text(config.replace("temperature = 300.0", "temperature = 350.0"))
    with pytest.raises(InputError, match="at 300 K"):
        paper_tables(compare([run]))


def test_runs_of_other_systems_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    toy = write_toy_run(tmp_path / "toy")
    with pytest.raises(InputError, match=r"expected runs of alanine-dipeptide.*got runs of gmm-2d"):
        paper_tables(compare([toy]))
    with pytest.raises(SystemExit) as ended:
        main(["bench", "paper", str(toy)])
    assert ended.value.code == 2
    assert "got runs of gmm-2d" in capfd.readouterr().err
