"""The paper's figures of several methods, from runs that are trained and evaluated for these tests."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from boltzport.ensembles.reference import Reference
from boltzport.experiments import EvaluationEffort, Variant, load, make_plan, run_campaign
from boltzport.experiments.compare import compare, pictures, side_by_side
from boltzport.experiments.compare.compare import TargetComparison
from boltzport.reporting import Artist, MapRow, Triple, energies_figure, map_matrix, read_run
from boltzport.reporting.figures.maps import CEILING, free_energy

TINY = ("steps=1", "gradient_steps=2", "buffer_size=400", "batch_size=100", "stiff_steps=1", "stiff_batch=20")
TINY += ("torsion_hidden=8", "flow.hidden=8", "flow.pairs=1", "flow.bins=6")
EFFORT = EvaluationEffort(samples=600, transport=50)
NAMES = ("narrow", "wide", "none")
VARIANTS = tuple(
    Variant(name, "cmt", (f"trust_region={bound}", "refine=0"))
    for name, bound in zip(NAMES, ("0.3", "1.0", "inf"), strict=True)
)
EDGES = (np.linspace(0.0, 1.0, 4), np.linspace(0.0, 2.0, 4))


def write_reference(path: Path, *, seed: int) -> Path:
    """Resampled frames of the flow that ships; in the order of phi, they have a time."""
    with load("alanine-dipeptide") as model:
        ensemble = model.sample(400, seed=seed, mode="resampled")
        coordinates = model.molecule.coordinates
        model.molecule.write_pdb(path.with_suffix(".pdb"))
    positions = np.asarray(ensemble.positions, dtype=np.float64)
    found = coordinates.to_internal(torch.from_numpy(positions)).coordinates.numpy()
    order = np.argsort(found[:, [column.name for column in coordinates.columns].index("ALA2.phi")])
    Reference(
        source=positions[order].astype(np.float32),
        pdb=path.with_suffix(".pdb").read_text(),
        coordinates=found[order].astype(np.float32),
        reduced_energy=np.asarray(ensemble.reduced_energy)[order],
        weights=np.ones(len(order)),
        chain=np.arange(len(order)) % 8,
        provenance={"system": "alanine-dipeptide"},
    ).save(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three variants with molecular flows, evaluated against one reference; the last also against another."""
    folder = tmp_path_factory.mktemp("side-by-side")
    reference = write_reference(folder / "reference", seed=1)
    plan = make_plan("alanine-dipeptide", VARIANTS, folder, seeds=1, settings=TINY, reference=reference)
    results = run_campaign(plan, effort=EFFORT, silent=True)
    assert [result.state for result in results] == ["done"] * 3
    shutil.copytree(folder / "none-seed0", folder / "elsewhere")
    with load(folder / "elsewhere") as model:
        other = write_reference(folder / "other", seed=2)
        model.evaluate(n=EFFORT.samples, reference=other, transport_samples=EFFORT.transport)
        model.save()
    return folder


def target_of(folder: Path, *names: str) -> TargetComparison:
    return compare([folder / name for name in names]).targets[0]


def drawn_maps(monkeypatch: pytest.MonkeyPatch, target: TargetComparison, name: str) -> tuple[Figure, str]:
    """The figure of a name for a desktop, and its caption."""
    figures: list[Figure] = []

    def recorded(*arguments: object, **layout: object) -> Figure:
        figures.append(map_matrix(*arguments, **layout))
        return figures[-1]

    monkeypatch.setattr(side_by_side, "map_matrix", recorded)
    draw = {"ramachandrans": side_by_side._ramachandrans, "ticas": side_by_side._tica}[name]
    (picture,) = draw(target, Artist(None), "")
    assert picture.name == name
    return figures[0], picture.caption


def maps_of(figure: Figure) -> list[tuple[Axes, QuadMesh]]:
    """Maps from left to right, and from top to bottom in each column."""
    found = [(axes, mesh) for axes in figure.axes for mesh in axes.collections if isinstance(mesh, QuadMesh)]
    # The colour scale is a mesh too, of one column.
    found = [(axes, mesh) for axes, mesh in found if mesh.get_array().size == 100 * 100]
    return sorted(found, key=lambda pair: (round(pair[0].get_position().x0, 3), -pair[0].get_position().y0))


@pytest.mark.slow
def test_maps_are_those_of_the_evaluations_with_the_reference_in_front(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [f"{name}-seed0" for name in NAMES]
    for name, stem in (("ramachandrans", "ramachandran_ALA2"), ("ticas", "tica")):
        figure, _ = drawn_maps(monkeypatch, target_of(folder, *runs), name)
        found = maps_of(figure)
        arrays = [read_run(folder / run).arrays for run in runs]
        stored = [arrays[0][f"{stem}_reference"]]
        stored += [each[f"{stem}_{kind}"] for each in arrays for kind in ("model", "reweighted")]
        assert len(found) == len(stored) == 7
        for (_, mesh), values in zip(found, stored, strict=True):
            energies = free_energy(values).T
            expected = np.where(energies <= CEILING, energies, np.nan)
            np.testing.assert_array_equal(np.ma.filled(mesh.get_array(), np.nan).reshape(expected.shape), expected)
        assert len({(mesh.norm.vmin, mesh.norm.vmax) for _, mesh in found}) == 1, "one scale"
        heads = [text.get_text() for text in figure.texts if "seed 0" in text.get_text()]
        assert [head.split("trust_region=")[1].split()[0] for head in heads] == ["0.3", "1", "inf"]


@pytest.mark.slow
def test_projections_of_another_reference_are_left_out_and_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(folder, "narrow-seed0", "wide-seed0", "elsewhere")
    figure, caption = drawn_maps(monkeypatch, target, "ticas")
    assert len(maps_of(figure)) == 5
    assert caption.endswith("Left out, since evaluated against another reference: cmt, trust_region=inf seed 0.")
    figure, _ = drawn_maps(monkeypatch, target, "ramachandrans")
    assert len(maps_of(figure)) == 7, "torsions are the same for every reference"


@pytest.mark.slow
def test_all_energies_are_in_one_figure_over_those_of_the_reference(folder: Path) -> None:
    runs = [f"{name}-seed0" for name in NAMES]
    curves = list(pictures._curves(target_of(folder, *runs)))
    figure = energies_figure(curves)
    assert figure is not None
    arrays = [read_run(folder / run).arrays for run in runs]
    for axes, kind in zip(figure.axes, ("model", "reweighted"), strict=True):
        lines = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
        stored = [arrays[0]["energy_reference"]] * 2 + [each[f"energy_{kind}"] for each in arrays]
        for line, values in zip(lines, stored, strict=True):
            np.testing.assert_array_equal(line.get_data().values, values)
        assert axes.get_ylim()[1] <= 2.0 * arrays[0]["energy_reference"].max()
    styles = {(line.get_edgecolor(), str(line.get_linestyle())) for line in lines[2:]}
    assert len(styles) == 3
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["cmt, trust_region=0.3", "cmt, trust_region=1", "cmt, trust_region=inf", "reference"]


@pytest.mark.slow
def test_the_page_has_them_if_there_is_something_to_compare(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Figures of single runs take long, and are tested elsewhere.
    for name in ("_ramachandrans", "_densities", "_energies"):
        monkeypatch.setattr(pictures, name, lambda *_: ())
    both, one = target_of(folder, "narrow-seed0", "none-seed0"), target_of(folder, "narrow-seed0")
    names = [picture.name for picture in pictures.draw_target(both, Artist(tmp_path), prefix="x_")]
    assert names == ["x_work", "x_steps", "x_ramachandrans", "x_ticas", "x_energies"]
    assert all((tmp_path / f"{name}.{form}").is_file() for name in names for form in ("png", "svg"))
    assert side_by_side.draw_side_by_side(one, list(pictures._curves(one)), Artist(None)) == []


@pytest.mark.parametrize("columns", [1, 2, 5])
@pytest.mark.parametrize("reference", [True, False])
def test_no_map_overlaps_another_or_leaves_the_figure(columns: int, reference: bool) -> None:
    values = np.full((3, 3), 1 / 9)
    both, plain = Triple(model=values, reweighted=values), Triple(model=values)
    rows = [MapRow(name, EDGES, (both, plain, None, both, both), values if reference else None) for name in "ab"]
    heads = ["a name\nof two lines", "b", "c", "d", "e"]
    figure = map_matrix(rows, heads, labels=("x", "y"), columns=columns)
    boxes = [axes.get_position() for axes in figure.axes]
    maps = 2 * (2 + 1 + 0 + 2 + 2)
    bands = -(-len(heads) // columns)
    assert len(boxes) == maps + 2 * bands * reference + 1, "and the scale"
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= 1 and box.y1 <= 1 for box in boxes)
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            assert one.x1 <= other.x0 or other.x1 <= one.x0 or one.y1 <= other.y0 or other.y1 <= one.y0


def test_a_map_that_nothing_visits_is_white() -> None:
    empty = Triple(model=np.zeros((3, 3)), reweighted=np.full((3, 3), np.nan))
    figure = map_matrix([MapRow("a", EDGES, (empty,), None)], ["one"], labels=("x", "y"), columns=1)
    for axes in figure.axes[:2]:
        (mesh,) = (artist for artist in axes.collections if isinstance(artist, QuadMesh))
        assert np.ma.getmaskarray(np.ma.masked_invalid(mesh.get_array())).all()
