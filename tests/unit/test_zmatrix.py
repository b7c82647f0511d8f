import pytest
from hypothesis import given

from boltzport.core.errors import InputError
from boltzport.molecules import build_zmatrix, plain_topology
from molecules import Graph, connected_graphs


@given(connected_graphs())
def test_places_every_atom_once_from_atoms_already_placed(graph: Graph) -> None:
    topology = graph.topology()
    zmatrix = build_zmatrix(topology)
    placed: set[int] = set()
    first_child: dict[int | None, int] = {}
    for i, row in enumerate(zmatrix.rows):
        references = [row.centre, row.axis, row.reference][: min(i, 3)]
        assert None not in references
        assert len({*references, row.atom}) == len(references) + 1
        assert row.centre is None or row.centre in topology.neighbours[row.atom]
        # A sibling is placed relative to the first child of its centre, possibly at the same depth.
        assert set(references[:2]) <= placed
        if row.sibling:
            assert row.reference == first_child.get(row.centre, row.reference)
            assert row.centre in topology.neighbours[row.reference or 0]
        elif i > 2:
            assert row.reference in placed
            assert row.reference in topology.neighbours[row.axis or 0]
            assert row.centre not in first_child
            first_child[row.centre] = row.atom
        placed.add(row.atom)
    assert placed == set(range(topology.n_atoms))
    assert [row.depth for row in zmatrix.rows] == sorted(row.depth for row in zmatrix.rows)


def test_heavy_atoms_come_before_hydrogens_of_a_centre() -> None:
    # Propane with hydrogens listed first.
    elements = [1, 1, 1, 6, 1, 1, 6, 6, 1, 1, 1]
    bonds = [(0, 3), (1, 3), (2, 3), (3, 6), (4, 6), (5, 6), (6, 7), (7, 8), (7, 9), (7, 10)]
    rows = build_zmatrix(plain_topology(elements, bonds)).rows
    assert [elements[row.atom] for row in rows[:3]] == [6, 6, 6]
    first = {row.centre: row.atom for row in reversed(rows) if not row.sibling}
    assert all(elements[row.atom] == 1 for row in rows if row.sibling)
    assert first[3] == 0


@pytest.mark.parametrize(
    ("elements", "bonds"),
    [
        ([8, 1, 1], [(0, 1), (0, 2)]),
        ([6, 1, 1, 1, 1], [(0, 1), (0, 2), (0, 3), (0, 4)]),
        ([6, 6, 6], [(0, 1), (1, 2), (0, 2)]),
    ],
    ids=["water", "methane", "triangle"],
)
def test_stars_and_triangles(elements: list[int], bonds: list[tuple[int, int]]) -> None:
    rows = build_zmatrix(plain_topology(elements, bonds)).rows
    assert [row.atom for row in rows][:1] == [0]
    assert len(rows) == len(elements)


def test_two_atoms_are_too_few() -> None:
    with pytest.raises(InputError, match="at least 3 atoms, got 2"):
        build_zmatrix(plain_topology([1, 1], [(0, 1)]))


def test_two_molecules_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"got 2 that no bond connects.*MOL1.A0.*MOL1.A3"):
        build_zmatrix(plain_topology([8, 1, 1, 8, 1, 1], [(0, 1), (0, 2), (3, 4), (3, 5)]))
