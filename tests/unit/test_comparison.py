"""Runs side by side: means and errors by hand, who belongs together, what is not hidden."""

import csv
import io
import json
import math
from pathlib import Path

import pytest

from boltzport.core.errors import InputError
from boltzport.experiments.compare import compare, to_csv, to_json, write_comparison
from boltzport.experiments.compare.rows import caption, table_rows
from boltzport.training.methods import METHODS, Entry
from runs import compared_toy_run as toy_run
from runs import write_molecule_run


def only(*paths: Path):
    (target,) = compare(paths).targets
    return target


def cells(target, name: str) -> tuple[str, ...]:
    return next(row.cells for row in table_rows(target) if row.name == name)


def test_means_and_standard_errors_over_seeds(tmp_path: Path) -> None:
    values = ((0.2, -1.0), (0.3, -2.0), (0.7, -6.0))
    runs = [toy_run(tmp_path / str(seed), seed=seed, ess=ess, log_z=z) for seed, (ess, z) in enumerate(values)]
    target = only(*runs)
    (group,), (found,) = target.groups, target.spreads
    assert group.label == "reverse-kl"
    assert found["log_z"] == pytest.approx((-3.0, math.sqrt((4 + 1 + 9) / 2 / 3), 3))
    assert found["ess"] == pytest.approx((0.4, math.sqrt((0.04 + 0.01 + 0.09) / 2 / 3), 3))
    assert cells(target, "log Z") == ("\u22123.0 ± 1.5",)
    assert cells(target, "runs") == ("3 (seeds 0, 1, 2)",)
    # The same cost for every seed is written without an error, but has one.
    assert found["target_evaluations"] == (2_002_000, 0.0, 3)
    assert cells(target, "energy evaluations") == ("2\u202f002\u202f000",)


def test_one_seed_has_no_error_and_says_so(tmp_path: Path) -> None:
    target = only(toy_run(tmp_path / "a", ess=0.25))
    assert target.spreads[0]["ess"] == (0.25, None, 1)
    assert cells(target, "effective sample size") == ("25\u202f%",)
    assert "Only one seed, so no standard error: reverse-kl." in target.notices()


def test_one_seed_is_written_as_far_as_its_own_interval_knows(tmp_path: Path) -> None:
    metrics = {"log_z": -178.68751, "elbo": -178.88431, "intervals": {"log_z": [-178.690, -178.684]}}
    target = only(toy_run(tmp_path / "a", **metrics))
    assert cells(target, "log Z") == ("\u2212178.688",)
    assert cells(target, "ELBO") == ("\u2212178.9",)
    # A second one without an evaluation changes nothing.
    beside = only(toy_run(tmp_path / "c", seed=2, ess=None), tmp_path / "a")
    assert cells(beside, "log Z") == ("\u2212178.688 (1 of 2)",)
    # With a second seed the spread between them says how far it is known.
    target = only(tmp_path / "a", toy_run(tmp_path / "b", seed=1, **metrics | {"log_z": -178.28751}))
    assert cells(target, "log Z") == ("\u2212178.5 ± 0.2",)


def test_populations_of_basins_are_beside_those_of_the_reference(tmp_path: Path) -> None:
    def basins(**populations: float) -> list[dict[str, object]]:
        reference = {"C5": 0.9, "C7ax": 0.0023}
        return [
            {"name": name, "population": population, "population_reference": reference.get(name)}
            for name, population in populations.items()
        ]

    runs = [
        toy_run(tmp_path / "a", basins=basins(C7ax=0.002, C5=0.89)),
        toy_run(tmp_path / "b", seed=1, basins=basins(C7ax=0.004, C5=0.91)),
        toy_run(tmp_path / "c", method="fab", basins=basins(C5=0.95, epsilon=0.05)),
    ]
    target = only(*runs)
    assert target.spreads[0]["basins.C7ax.population"] == pytest.approx((0.003, 0.001, 2))
    names = [row.name for row in table_rows(target) if row.name.startswith("population")]
    assert names == [
        "population of C5 (reference 90\u202f%)",
        "population of epsilon",
        "population of C7ax (reference 0.23\u202f%)",
    ]
    assert cells(target, names[2]) == ("0.30\u202f% ± 0.10\u202f%", "\u2013")
    assert target.columns.index("basins.C5.population") < target.columns.index("target_evaluations")
    lines = list(csv.DictReader(io.StringIO(to_csv(compare(runs)))))
    assert [line["basins.C7ax.population"] for line in lines] == ["0.003", ""]
    many = toy_run(tmp_path / "d", basins=basins(**{f"b{place}": (20 - place) / 210 for place in range(20)}))
    assert [name for name in only(many).columns if "basins" in name] == [
        f"basins.b{place}.population" for place in range(8)
    ]


def test_the_same_seed_twice_is_no_second_opinion(tmp_path: Path) -> None:
    first, second = toy_run(tmp_path / "a", seed=4), toy_run(tmp_path / "b", seed=4)
    assert any("not independent" in notice for notice in only(first, second).notices())
    assert len(only(first, first, tmp_path / "b" / ".." / "a").members) == 1, "a run that is named twice is one run"
    assert [member.data.path for member in only(first, second, first).members] == [first, second]


def test_groups_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    wide = "trust_region = inf\nsteps = 500"
    target = only(
        toy_run(tmp_path / "b1", seed=1, method="cmt", settings="trust_region = 0.3\nsteps = 500"),
        toy_run(tmp_path / "a", method="fab", settings="trust_region = 7.0\nsteps = 20"),
        toy_run(tmp_path / "b2", seed=2, method="cmt", settings="trust_region = 0.3\nsteps = 500"),
        toy_run(tmp_path / "b3", method="cmt", settings=wide),
        toy_run(tmp_path / "b4", method="cmt", settings=wide, pairs=4),
    )
    labels = [
        "cmt, flow.pairs=2, trust_region=0.3",
        "fab, flow.pairs=2",
        "cmt, flow.pairs=2, trust_region=inf",
        "cmt, flow.pairs=4, trust_region=inf",
    ]
    assert [group.label for group in target.groups] == labels
    assert [member.seed for member in target.groups[0].members] == [1, 2]
    record = json.loads(json.dumps(to_json(compare([tmp_path / "b1", tmp_path / "b3"])), allow_nan=False))
    assert record["systems"][0]["groups"][1]["settings"] == {"trust_region": "inf"}


def test_kinds_of_flows_are_told_apart(tmp_path: Path) -> None:
    """An old run, which names no kind, is one of couplings; sizes are named only where one kind differs in them."""
    old, new, other = (toy_run(tmp_path / name, seed=seed) for seed, name in enumerate(("old", "new", "other")))
    for path, text in ((new, 'kind = "couplings"\npairs = 2'), (other, 'kind = "molecular"\npairs = 3\nharmonics = 2')):
        config = path / "config.toml"
        config.write_text(config.read_text().replace("pairs = 2", text))
    groups = only(old, new, other).groups
    assert [group.label for group in groups] == ["reverse-kl, flow=couplings", "reverse-kl, flow=molecular"]
    assert [member.data.path for member in groups[0].members] == [old, new]
    assert [group.settings for group in groups] == [{"flow": "couplings"}, {"flow": "molecular"}]
    wide = toy_run(tmp_path / "wide", pairs=4)
    labels = [group.label for group in only(old, other, wide).groups]
    assert labels[0] == "reverse-kl, flow=couplings, flow.pairs=2"
    assert labels[2] == "reverse-kl, flow=couplings, flow.pairs=4"


def test_many_settings_are_told_by_what_is_unusual(tmp_path: Path) -> None:
    """Of five settings that differ somewhere, a name has those that most runs have otherwise."""
    changes = ({}, {"a": 9}, {"b": 9}, {"c": 9, "d": 9}, {"e": 9})
    runs = [
        toy_run(tmp_path / str(k), settings="\n".join(f"{name} = {change.get(name, 1)}" for name in "abcde"))
        for k, change in enumerate(changes)
    ]
    labels = ["reverse-kl", "reverse-kl, a=9", "reverse-kl, b=9", "reverse-kl, c=9, d=9", "reverse-kl, e=9"]
    assert [group.label for group in only(*runs).groups] == labels


def test_a_run_without_evaluation_gives_its_last_step_and_a_command(tmp_path: Path) -> None:
    target = only(toy_run(tmp_path / "a", ess=None))
    last = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[-1])
    assert target.spreads[0]["ess"] == (last["ess"], None, 1)
    assert cells(target, "log Z")[0].endswith("†")
    assert cells(target, "missing mass") == ("not checked",)
    assert any(line.startswith("†") for line in caption(target))
    assert any(f"boltzport evaluate {tmp_path / 'a'}" in notice for notice in target.notices())


def test_verdicts_on_the_weights_are_among_the_notices(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "a", ess=0.25)
    assert not any("clipping" in notice for notice in only(run).notices())
    found = json.loads((run / "evaluation.json").read_text())
    (run / "evaluation.json").write_text(json.dumps(found | {"ess_unclipped": 0.006}))
    (notice,) = [notice for notice in only(run).notices() if "clipping" in notice]
    assert notice.startswith(f"{run}: The effective sample size is 25.0 % with clipped weights but 0.6 % without")


def test_training_metrics_are_not_mixed_with_evaluations(tmp_path: Path) -> None:
    target = only(toy_run(tmp_path / "a", seed=0, ess=0.25), toy_run(tmp_path / "b", seed=1, ess=None))
    (found,) = target.spreads
    assert found["ess"] == (0.25, None, 1)
    assert found["wall_seconds"].runs == 1, "what others cost is not what these metrics cost"
    assert cells(target, "effective sample size") == ("25\u202f% (1 of 2)",)
    assert cells(target, "energy evaluations")[0].endswith("(1 of 2)")
    assert any("1 of 2 runs are evaluated" in notice for notice in target.notices())


def test_an_evaluation_of_an_earlier_flow_is_named(tmp_path: Path) -> None:
    now = json.loads((toy_run(tmp_path / "a") / "status.json").read_text())["gradient_steps"]
    for then, stale in ((now, False), (now - 1, True)):
        notices = only(toy_run(tmp_path / str(then), gradient_steps=then)).notices()
        assert any("was trained further after its evaluation" in notice for notice in notices) == stale


def test_a_run_that_found_less_than_others_is_marked(tmp_path: Path) -> None:
    lost = toy_run(tmp_path / "lost", method="reverse-kl", ess=0.99, log_z=math.log(0.5))
    good = toy_run(tmp_path / "good", method="cmt", log_z=0.0)
    heavy = toy_run(tmp_path / "heavy", method="fab", log_z=5.0, log_z_error=0.01, pareto_k=1.4)
    for runs in ((lost, good), (good, heavy, lost)):
        target = only(*runs)
        verdicts = {member.data.path.name: member.missing for member in target.members}
        assert verdicts["lost"].at_least == pytest.approx(0.5, abs=0.01)
        assert verdicts["good"].at_least == 0.0, "a run with a heavy tail says nothing of others"
        place = [group.method for group in target.groups].index("reverse-kl")
        assert cells(target, "missing mass")[place].startswith("! at least 49.")
    # One of two seeds: the group is marked all the same.
    target = only(lost, toy_run(tmp_path / "kept", seed=1, log_z=0.0))
    assert cells(target, "missing mass")[0].endswith("%, 1 of 2")


def test_the_most_that_is_missing_is_written(tmp_path: Path) -> None:
    shares = (0.2, 0.5, 0.0)
    runs = [toy_run(tmp_path / str(seed), seed=seed, log_z=math.log(1 - share)) for seed, share in enumerate(shares)]
    found = compare(runs)
    assert cells(found.targets[0], "missing mass")[0].startswith("! at least 49.")
    assert cells(found.targets[0], "missing mass")[0].endswith("2 of 3")
    missing = to_json(found)["systems"][0]["groups"][0]["missing_mass"]
    assert missing == {"at_least": pytest.approx(0.5, abs=0.01), "fired": 2, "checked": 3}
    (line,) = csv.DictReader(io.StringIO(to_csv(found)))
    columns = ("missing_mass_at_least", "missing_mass_fired", "missing_mass_checked")
    assert [float(line[name]) for name in columns] == [missing["at_least"], 2, 3]


def test_what_is_evaluated_has_the_cost_of_then(tmp_path: Path) -> None:
    cost = {"target_evaluations": 11, "gradient_steps": 12, "wall_seconds": 13.0}
    (found,) = only(toy_run(tmp_path / "a", **cost)).spreads
    assert {name: found[name].mean for name in cost} == cost


def test_other_runs_show_missing_mass_where_nothing_is_known(tmp_path: Path) -> None:
    runs = [write_molecule_run(tmp_path / name, reference=False) for name in ("a", "b")]
    assert {member.missing.at_least for member in only(*runs).members} == {0.0}
    record = json.loads((runs[0] / "evaluation.json").read_text())
    (runs[0] / "evaluation.json").write_text(json.dumps(record | {"log_z": record["log_z"] - 1.0}))
    low, high = only(*runs).members
    # The lower end of the difference: 1 less 2.33 standard errors of it.
    assert low.missing.at_least == pytest.approx(1 - math.exp(-(1 - 2.326 * 0.0024 * math.sqrt(2))), abs=1e-4)
    assert high.missing.at_least == 0.0
    assert only(runs[0]).members[0].missing.at_least is None, "alone, nobody can look"
    looked = {"at_least": 0.0, "message": "none", "estimates": [], "uncovered": 0.002}
    (runs[0] / "evaluation.json").write_text(json.dumps(record | {"missing_mass": looked}))
    assert only(runs[0]).members[0].missing == (0.0, "none"), "a reference has looked"


def test_the_verdict_of_an_evaluation_is_kept(tmp_path: Path) -> None:
    missing = {"at_least": 0.3, "message": "at least 30.0 % of the probability is missing", "estimates": []}
    target = only(toy_run(tmp_path / "a", missing_mass=missing))
    assert target.members[0].missing == (0.3, missing["message"])
    assert any("30.0 %" in notice for notice in target.notices())


def test_what_a_method_learns_from_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(config=object, build=lambda *_: None, within_budget=lambda config, _: config, needs_samples=True)
    monkeypatch.setitem(METHODS, "forward-kl", entry)
    runs = [toy_run(tmp_path / name, method=name) for name in ("cmt", "fab", "forward-kl", "ta-bg")]
    for run, ledger in zip(
        runs,
        ({"startup_gradients": 0}, {"training_gradients": 9, "startup_gradients": 3}, {}, {"startup_gradients": 5}),
        strict=True,
    ):
        (run / "ledger.json").write_text(json.dumps({"training": 100, **ledger}))
    target = only(*runs)
    expected = ("energies", "energies and forces", "reference samples", "energies; forces at the start")
    assert cells(target, "trained on") == expected
    assert cells(target, "force evaluations") == ("0", "12", "0", "5")
    assert "The evaluations do not include the cost of reference samples." in caption(target)
    assert not any("reference samples" in line for line in caption(only(*runs[:2])))


def test_systems_are_kept_apart(tmp_path: Path) -> None:
    cold, warm = (write_molecule_run(tmp_path / name) for name in ("cold", "warm"))
    (warm / "config.toml").write_text((warm / "config.toml").read_text().replace("300.0", "310.0"))
    found = compare([cold, toy_run(tmp_path / "toy"), warm])
    names = ["alanine-dipeptide (temperature 300.0)", "gmm-2d", "alanine-dipeptide (temperature 310.0)"]
    assert [target.name for target in found.targets] == names
    assert [target.exact_log_z for target in found.targets] == [None, pytest.approx(0.0), None]


def test_evaluations_that_differ_are_named(tmp_path: Path) -> None:
    runs = [toy_run(tmp_path / str(count), samples=count, seed=count) for count in (1000, 5000)]
    assert any("(1000, 5000)" in notice for notice in only(*runs).notices())
    first = toy_run(tmp_path / "a", reference={"checksum": "1"})
    assert "same reference" in " ".join(only(first, runs[0]).notices())
    assert "same reference" not in " ".join(only(first).notices())


def test_folders_that_are_no_runs_are_named(tmp_path: Path) -> None:
    run = toy_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    for other, message in (("empty", "has no config.toml"), ("nowhere", "does not exist")):
        with pytest.raises(InputError, match=f"{other} {message}"):
            compare([run, tmp_path / other])
    with pytest.raises(InputError, match="at least one run"):
        compare([])
    with pytest.raises(InputError, match="is a run directory; choose another"):
        write_comparison(compare([run]), run)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be created"):
        write_comparison(compare([run]), tmp_path / "file")
