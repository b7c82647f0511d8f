"""A flow for molecules: autoregressive torsions, then the stiff coordinates given the torsions."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from boltzport.core.layout import Layout
from boltzport.core.seeds import child
from boltzport.flows.couplings.coupling import Moved
from boltzport.flows.flow import Samples, in_unit_box
from boltzport.flows.halves import HalvedFlow, SlopedSamples
from boltzport.flows.molecular.config import MolecularConfig
from boltzport.flows.molecular.geometry import Geometry
from boltzport.flows.molecular.stiff import Stiff, normal_log_prob
from boltzport.flows.molecular.torsions import Torsions

FARTHEST = 1e3
"""Distance from the centre, in widths, beyond which a stiff coordinate has no density, to avoid overflow."""


class MolecularFlow(HalvedFlow):
    """An autoregressive density of the torsions, and a smooth density of the stiff coordinates given the torsions.

    Torsions are the circular coordinates of a layout, and intervals without a width of their own. All others are stiff;
    their range is unbounded.

    Args:
        layout: The coordinates.
        config: Size of the flow.
        generator: Random generator for masks and initial weights.
        compiled: Whether to compile the transforms at their first use, if a compiler is available.
        chunk: Number of points processed at once when no gradient is needed.
    """

    kind = "molecular"
    config: MolecularConfig
    centre: Tensor
    width: Tensor
    place: Tensor

    def __init__(
        self,
        layout: Layout,
        config: MolecularConfig,
        *,
        generator: torch.Generator,
        compiled: bool = True,
        chunk: int = 8192,
    ) -> None:
        super().__init__(layout, compiled=compiled, chunk=chunk)
        self.config = config
        turning = [i for i, axis in enumerate(layout) if axis.whole_turn or not math.isfinite(axis.width)]
        turning.sort(key=lambda i: (layout[i].whole_turn, layout[i].order, i))
        stiff = [i for i in range(len(layout)) if i not in turning]
        self._geometry = Geometry(layout.skeleton, turning) if config.geometry and layout.skeleton else None
        axes = [layout[i] for i in turning]
        self.torsion_half = Torsions(axes, config, generator=generator, geometry=self._geometry)
        self.stiff_half = self._new_stiff(len(stiff), len(turning), generator)
        self.register_buffer("torsions", torch.tensor(turning, dtype=torch.long), persistent=False)
        self.register_buffer("stiff", torch.tensor(stiff, dtype=torch.long), persistent=False)
        self.register_buffer("place", torch.tensor(turning + stiff, dtype=torch.long).argsort(), persistent=False)
        for name in ("centre", "width"):
            values = torch.tensor([getattr(layout[i], name) for i in stiff], dtype=torch.float64)
            self.register_buffer(name, values, persistent=False)
        # Log of the volume of coordinates per unit of the variables that the halves model.
        self._log_turning = float(self.length[self.torsions].log().sum())
        self._log_stiff = float(self.width.log().sum())

    @property
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Ranges of the torsions, widths of the stiff coordinates."""
        return torch.cat([self.length[self.torsions], self.width]).index_select(0, self.place)

    @property
    def torsion_parameters(self) -> list[nn.Parameter]:
        """Parameters of the density of the torsions."""
        return list(self.torsion_half.parameters())

    @property
    def stiff_parameters(self) -> list[nn.Parameter]:
        """Parameters of the density of the stiff coordinates."""
        return list(self.stiff_half.parameters())

    def renew_stiff(self, *, generator: torch.Generator) -> None:
        """Reinitialise the density of the stiff coordinates with new random masks and weights."""
        # Networks are made on the processor.
        made = generator if generator.device.type == "cpu" else child(generator)
        new = self._new_stiff(len(self.stiff), len(self.torsions), made)
        self.stiff_half.load_state_dict(new.state_dict())

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained flow."""
        self._check(coordinates)
        points = self._split(coordinates)
        log_prob = self.torsion_half.initial_log_prob(points.torsions) - self._log_turning
        log_prob = log_prob + normal_log_prob(points.stiff) - self._log_stiff
        return torch.where(points.inside, log_prob, -torch.inf)

    def log_prob_of_torsions(self, torsions: Float[Tensor, "batch torsions"]) -> Float[Tensor, " batch"]:
        """Log density of torsions, in the order of `torsions`."""
        return self._chunked(self._torsion_log_prob, torsions)

    def stiff_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the stiff coordinates of points given their torsions."""
        self._check(coordinates)
        return self._chunked(self._stiff_log_prob, coordinates)

    def sample_stiff(self, coordinates: Float[Tensor, "batch dimensions"], *, generator: torch.Generator) -> Samples:
        """Draw stiff coordinates given the torsions of points."""
        self._check(coordinates)
        if torch.is_grad_enabled():
            return self._sample_stiff(coordinates, generator)
        parts = [self._sample_stiff(part, generator) for part in torch.split(coordinates, self.chunk)]
        return Samples(*(torch.cat(pieces) for pieces in zip(*parts, strict=True)))

    def sample_stiff_with_slope(
        self, coordinates: Float[Tensor, "batch dimensions"], *, generator: torch.Generator
    ) -> SlopedSamples:
        """Draw stiff coordinates given the torsions of points, with the slope of their log density."""
        self._check(coordinates)
        features = self._features(self._split(coordinates).torsions).detach()
        return self._sloped(coordinates, self._normal(len(coordinates), generator), features)

    def stiff_with_slope(self, coordinates: Float[Tensor, "batch dimensions"]) -> SlopedSamples:
        """Points as if their stiff coordinates had been sampled, with the slope of their log density."""
        self._check(coordinates)
        with torch.no_grad():
            points = self._split(coordinates)
            features = self._features(points.torsions)
            normal = self.stiff_half.to_base(points.stiff, features, compiled=self.compiled).normal
        return self._sloped(coordinates, normal, features)

    def broad_log_prob(
        self, coordinates: Float[Tensor, "batch dimensions"], *, anywhere: float, stretch: float
    ) -> Float[Tensor, " batch"]:
        """Log density of what `broad_sample` draws."""
        points = self._split(coordinates)
        each = self.torsion_half.log_conditionals(points.torsions, self.torsion_half.features(points.torsions))
        # The uniform density in the unit box is one.
        here, uniform = each + math.log1p(-anywhere), torch.full_like(each, math.log(anywhere))
        log_torsions = torch.logaddexp(here, uniform).sum(0) - self._log_turning
        base = self.stiff_half.to_base(points.stiff, self._features(points.torsions), compiled=self.compiled)
        log_normal = normal_log_prob(base.normal / stretch) - len(self.stiff) * math.log(stretch)
        log_prob = log_torsions + log_normal + base.log_det - self._log_stiff
        return torch.where(points.inside & base.near, log_prob, -torch.inf)

    def broad_sample(
        self, n: int, *, anywhere: float, stretch: float, generator: torch.Generator
    ) -> Float[Tensor, "batch dimensions"]:
        """Draw from a broader density than that of the flow.

        Args:
            n: Number of points.
            anywhere: Probability of each torsion to be drawn uniformly, whatever those before it are; less than one.
            stretch: Width of the base density of the stiff coordinates.
            generator: Random generator on the device of the flow.
        """
        shape = (len(self.torsions), n)
        uniform, chance = (
            torch.rand(shape, dtype=self.dtype, device=self.device, generator=generator) for _ in range(2)
        )
        turning = self.torsion_half.sample(uniform, kept=chance < anywhere).points
        normal = stretch * self._normal(n, generator)
        stiff = self.stiff_half.sample(normal, self._features(turning), compiled=self.compiled).points
        return self._placed(turning, stiff)

    def _sloped(self, coordinates: Tensor, normal: Tensor, features: Tensor) -> SlopedSamples:
        with torch.enable_grad():
            points, slope, log_q = self.stiff_half.sample_with_slope(normal, features, compiled=self.compiled)
            drawn = coordinates.detach().index_copy(1, self.stiff, self._stretched(points).T)
        return SlopedSamples(drawn, (slope / self.width[:, None].to(slope)).T, log_q - self._log_stiff)

    def _new_stiff(self, stiff: int, torsions: int, generator: torch.Generator) -> Stiff:
        features = self.torsion_half.count_features(torsions)
        if self._geometry is not None:
            features += len(self._geometry.pairs)
        return Stiff(stiff, features, self.config, generator=generator)

    def _features(self, torsions: Float[Tensor, "torsions batch"]) -> Float[Tensor, "features batch"]:
        """Features of torsions in the unit box that the stiff coordinates depend on."""
        features = self.torsion_half.features(torsions)
        if self._geometry is None or not len(self._geometry.pairs):
            return features
        return torch.cat([features, self._geometry.distances(self.torsion_half.angles(torsions))])

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        return self._torsion_log_prob(coordinates[:, self.torsions]) + self._stiff_log_prob(coordinates)

    def _torsion_log_prob(self, torsions: Tensor) -> Tensor:
        unit, inside = self._unit_torsions(torsions)
        log_prob = self.torsion_half.log_prob(unit, self.torsion_half.features(unit)) - self._log_turning
        return torch.where(inside, log_prob, -torch.inf)

    def _stiff_log_prob(self, coordinates: Tensor) -> Tensor:
        points = self._split(coordinates)
        features = self._features(points.torsions)
        log_prob = self.stiff_half.log_prob(points.stiff, features, compiled=self.compiled) - self._log_stiff
        return torch.where(points.inside, log_prob, -torch.inf)

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        uniform = torch.rand(len(self.torsions), n, dtype=self.dtype, device=self.device, generator=generator)
        turning, log_det = self.torsion_half.sample(uniform)
        stiff, log_stiff = self._draw_stiff(self._features(turning), n, generator)
        return Samples(self._placed(turning, stiff), log_stiff - log_det - self._log_turning)

    def _placed(self, turning: Tensor, stiff: Tensor) -> Float[Tensor, "batch dimensions"]:
        """Coordinates from torsions in the unit box and stiff coordinates in units of their widths."""
        lower, length = (part[self.torsions, None].to(turning) for part in (self.lower, self.length))
        values = torch.cat([lower + length * turning, self._stretched(stiff)]).index_select(0, self.place)
        return values.T.contiguous()

    def _sample_stiff(self, coordinates: Tensor, generator: torch.Generator) -> Samples:
        features = self._features(self._split(coordinates).torsions)
        stiff, log_stiff = self._draw_stiff(features, len(coordinates), generator)
        return Samples(coordinates.detach().index_copy(1, self.stiff, self._stretched(stiff).T), log_stiff)

    def _draw_stiff(self, features: Tensor, n: int, generator: torch.Generator) -> Moved:
        """Stiff coordinates in units of their widths, and their log density in the units of the layout."""
        normal = self._normal(n, generator)
        stiff, log_det = self.stiff_half.sample(normal, features, compiled=self.compiled)
        return Moved(stiff, normal_log_prob(normal) - log_det - self._log_stiff)

    def _normal(self, n: int, generator: torch.Generator) -> Tensor:
        return torch.randn(len(self.stiff), n, dtype=self.dtype, device=self.device, generator=generator)

    def _stretched(self, stiff: Tensor) -> Tensor:
        centre, width = (part[:, None].to(stiff) for part in (self.centre, self.width))
        return centre + width * stiff

    def _split(self, coordinates: Tensor) -> "_Points":
        unit, inside = self._unit_torsions(coordinates[:, self.torsions])
        stiff = coordinates[:, self.stiff]
        finite = stiff.isfinite()
        deviation = (torch.where(finite, stiff, 0.0) - self.centre.to(stiff)) / self.width.to(stiff)
        near = finite & (deviation.abs() <= FARTHEST)
        return _Points(unit, deviation.clamp(-FARTHEST, FARTHEST).T, inside & near.all(1))

    def _unit_torsions(self, torsions: Tensor) -> tuple[Tensor, Tensor]:
        """Torsions in the unit box, (torsions, batch), and a mask of those that have a density."""
        finite = torsions.isfinite()
        lower, length, period = (
            part[self.torsions].to(torsions.dtype) for part in (self.lower, self.length, self.period)
        )
        unit, inside = in_unit_box(torch.where(finite, torsions, lower), lower, length, period)
        return unit, finite.all(1) & inside.all(0)


class _Points(NamedTuple):
    """Points as the halves see them.

    Attributes:
        torsions: Torsions in the unit box.
        stiff: Stiff coordinates relative to their centres, in units of their widths.
        inside: Mask of the points that have a density.
    """

    torsions: Float[Tensor, "torsions batch"]
    stiff: Float[Tensor, "stiff batch"]
    inside: Bool[Tensor, " batch"]
