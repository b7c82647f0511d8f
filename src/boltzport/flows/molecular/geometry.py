"""Features of a molecule's shape: where its sites are, with all stiff coordinates at their centres.

The density of a torsion depends on the torsions before it mostly through the atoms that they place: what matters is
where these are as seen from the bond that turns. The network of a torsion therefore sees the placed sites in the frame
of that bond, and networks of the stiff coordinates see the distances between sites.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.skeleton import FIXED, Centre, Skeleton

NEAREST = 8
"""Number of torsions, the nearest ones before a torsion, whose angles its network sees."""
SOFT, SOFTER = 0.005, 0.01
"""Squared lengths in nm^2 that keep features finite where atoms coincide."""
SCALE = 0.3
"""Typical distance of a contact, in nm."""

Vectors = Float[Tensor, "3 batch"]


class Frame(NamedTuple):
    """Axes of a centre; the centre is the origin."""

    origin: Vectors
    x: Vectors
    y: Vectors
    z: Vectors


class Geometry:
    """Which sites are known when, for torsions in autoregressive order.

    Args:
        skeleton: How torsions place atoms.
        torsions: Coordinates of the torsions in autoregressive order.

    Attributes:
        seen: For each torsion, the sites that its network sees, in the order of `Placed.sites`.
        pairs: Pairs of sites whose distances depend on torsions, (pairs, 2), in the same order.
        nearest: For each torsion, the torsions before it that are nearest to it in the molecule.
    """

    def __init__(self, skeleton: Skeleton, torsions: list[int]) -> None:
        rank = {coordinate: k for k, coordinate in enumerate(torsions)}
        # The torsions that an atom's position depends on.
        turns: dict[int, frozenset[int]] = dict.fromkeys(range(len(skeleton.first)), frozenset())
        parent: dict[int, int] = {1: 0, 2: 0}
        self._stages: list[list[Centre]] = [[] for _ in range(len(torsions) + 1)]
        self._centre: dict[int, Centre] = {}
        self._rank = rank
        for centre in skeleton.centres:
            own = frozenset[int]() if centre.coordinate == FIXED else frozenset([rank[centre.coordinate]])
            turned = own.union(*(turns[atom] for atom in centre[:3]))
            for child in centre.children:
                turns[child.atom], parent[child.atom] = turned, centre.centre
            if centre.children:
                self._stages[_known(turned)].append(centre)
            if centre.coordinate != FIXED:
                self._centre[rank[centre.coordinate]] = centre
        self.first = torch.tensor(skeleton.first, dtype=torch.float64)
        self._sites = sorted(skeleton.sites, key=lambda site: (_known(turns[site]), site))
        # Atoms that depend on the same torsions do not move relative to each other.
        moving = [pair for pair in skeleton.pairs if turns[pair[0]] != turns[pair[1]]]
        self.pairs = torch.tensor([[self._sites.index(a) for a in pair] for pair in moving], dtype=torch.long)
        self.seen = [self._visible(k, turns) for k in range(len(torsions))]
        self.nearest = [self._nearest(k, parent) for k in range(len(torsions))]

    def _visible(self, k: int, turns: dict[int, frozenset[int]]) -> list[int]:
        """Sites that are placed before a torsion, and move relative to its bond."""
        if k not in self._centre:
            return []
        frame = [turns[atom] for atom in self._centre[k][:3]]
        if _known(frozenset().union(*frame)) > k:
            return []
        common = frozenset.intersection(*frame)
        return [
            i
            for i, site in enumerate(self._sites)
            if _known(turns[site]) <= k and turns[site].union(*frame) - (turns[site] & common)
        ]

    def _nearest(self, k: int, parent: dict[int, int]) -> list[int]:
        if k not in self._centre:
            return list(range(k))
        path = _path(self._centre[k].centre, parent)

        def distance(j: int) -> int:
            other = _path(self._centre[j].centre, parent)
            return len(set(path) ^ set(other))

        known = [j for j in range(k) if j in self._centre]
        return sorted(sorted(known, key=lambda j: (distance(j), -j))[:NEAREST])

    def count(self, k: int) -> int:
        """Number of features of a torsion that describe sites."""
        return 4 * len(self.seen[k])

    def begin(self, like: Float[Tensor, " batch"]) -> "Placed":
        """Place the atoms that no torsion moves."""
        first = self.first.to(like)[:, :, None].expand(-1, -1, len(like))
        placed = Placed(self, dict(enumerate(first)))
        placed.place(0)
        return placed

    def distances(self, angles: Float[Tensor, "torsions batch"]) -> Float[Tensor, "pairs batch"]:
        """Inverse squared distances of the pairs of sites, near one at a contact.

        Args:
            angles: Torsions in radian, in autoregressive order.
        """
        placed = self.begin(angles[0])
        for k, angle in enumerate(angles):
            placed.turn(k, angle)
        first, second = (placed.sites.index_select(1, column) for column in self.pairs.to(angles.device).T)
        return SCALE**2 / (((first - second) ** 2).sum(0) + SOFT)


class Placed:
    """Positions of the atoms that are known so far.

    Args:
        geometry: The order in which atoms become known.
        atoms: Positions by atom.
    """

    def __init__(self, geometry: Geometry, atoms: dict[int, Tensor]) -> None:
        self._geometry, self._atoms = geometry, atoms
        self._frames: dict[int, Frame] = {}
        self._angles: dict[int, Tensor] = {}
        self._known = 0
        self.sites: Tensor = atoms[0].new_empty(3, 0, atoms[0].shape[1])
        """Positions of the known sites, (3, sites, batch)."""

    def features(self, k: int) -> Float[Tensor, "features batch"]:
        """The sites as seen from the bond that torsion k turns; the torsions before it must be known."""
        seen = self._geometry.seen[k]
        batch = self._atoms[0].shape[1]
        if not seen:
            return self._atoms[0].new_empty(0, batch)
        origin, *axes = self._frame(self._geometry._centre[k])
        away = self.sites[:, seen] - origin[:, None]
        frame = torch.stack(axes)[:, :, None]
        local = frame[:, 0] * away[0] + frame[:, 1] * away[1] + frame[:, 2] * away[2]
        square = (away * away).sum(0)
        near = SCALE / (square + SOFTER)
        return torch.cat([local * near, (SCALE**2 / (square + SOFT))[None]]).flatten(0, 1)

    def turn(self, k: int, angle: Float[Tensor, " batch"]) -> None:
        """Set torsion k, in radian, and place the atoms that are known then."""
        self._angles[k] = angle
        self.place(k + 1)

    def place(self, stage: int) -> None:
        """Place the atoms that become known with a number of torsions."""
        geometry = self._geometry
        for centre in geometry._stages[stage]:
            origin, x, y, z = self._frame(centre)
            for child in centre.children:
                sine, cosine = child.bond * math.sin(child.angle), child.bond * math.cos(child.angle)
                if centre.coordinate == FIXED:
                    radial = math.cos(child.azimuth) * x + math.sin(child.azimuth) * y
                else:
                    azimuth = self._angles[geometry._rank[centre.coordinate]] + child.azimuth
                    radial = azimuth.cos() * x + azimuth.sin() * y
                self._atoms[child.atom] = origin + sine * radial - cosine * z
        sites = []
        while self._known < len(geometry._sites) and geometry._sites[self._known] in self._atoms:
            sites.append(self._atoms[geometry._sites[self._known]])
            self._known += 1
        if sites:
            self.sites = torch.cat([self.sites, torch.stack(sites, 1)], 1)

    def _frame(self, centre: Centre) -> Frame:
        if centre.centre not in self._frames:
            reference, axis, origin = (self._atoms[atom] for atom in centre[:3])
            z = _unit(origin - axis)
            away = reference - axis
            x = _unit(away - (away * z).sum(0) * z)
            self._frames[centre.centre] = Frame(origin, x, torch.linalg.cross(z, x, dim=0), z)
        return self._frames[centre.centre]


def _unit(vectors: Vectors) -> Vectors:
    # The floor keeps the frame finite where three atoms lie on a line.
    return vectors * (vectors * vectors).sum(0).clamp_min(1e-8).rsqrt()


def _known(turns: frozenset[int]) -> int:
    """Number of torsions, from the first on, that must be known."""
    return max(turns, default=-1) + 1


def _path(atom: int, parent: dict[int, int]) -> list[int]:
    """An atom and all atoms between it and the root."""
    path = [atom]
    while path[-1] in parent:
        path.append(parent[path[-1]])
    return path
