"""The paper's layer, exactly, for reproduction; and a map drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.errors import RayhullError
from rayhull.nn.frame import at_apex, cone_at, unit_rays, unit_rows
from rayhull.nn.layers import Constrained
from rayhull.nn.map_into import MapInto
from rayhull.nn.recognise import Choice, Options
from rayhull.nn.ways import Rays
from rayhull.projection.sides import NONE, Sides

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

CLOUD = 2000  # random coefficients


class PaperMap(MapInto):
    """x = R |β| / max(1, gauge): lines as two opposite rays, one scaling for all blocks."""

    def __init__(self, P: Polyhedron, *, orthogonal: bool = True, **factory: Any) -> None:
        self.orthogonal = orthogonal  # first: the choice, made in the base class, asks for it
        super().__init__(P, **factory)

    def _choose(self, block: Polyhedron, options: Options) -> Choice:
        frame = at_apex(block)
        if frame is None:
            raise RayhullError(f"the paper's layer takes a cone, or a cone and a box around 0, not {self.polyhedron}.")
        found, span = cone_at(block, frame, options.max_generators)
        lines, rays = unit_rows(found.lines), unit_rays(found.rays, span) if self.orthogonal else unit_rows(found.rays)
        doubled = np.concatenate([lines, -lines, rays])
        way = Rays(block, frame, doubled, lines[:0], torch.abs, options.factory, by_basis=True)
        return Choice(way, f"weights of {len(lines)} lines, twice, and {len(rays)} rays, as in the paper")

    def blocks(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        directions, scales = [], []
        for part, own in self.parts.split(c):
            assert isinstance(part.way, Rays)
            y = part.way.direction(own.reshape(*own.shape[:-1], part.count, -1))
            scales.append(part.way.scale(y))
            directions.append((y * part.places.sign).flatten(-2))
        x = torch.cat(directions, -1)
        x = x if self.in_order else x.index_select(-1, self.order)
        factors = [scale for scale in scales if scale is not None]
        return x * torch.cat(factors, -1).amin(-1, keepdim=True) if factors else x


class PaperLayer(Constrained):
    """BatchNorm, a Linear to one coefficient for each ray, lines as two opposite rays, abs, one global scaling."""

    def __init__(
        self,
        in_features: int,
        P: Polyhedron,
        *,
        orthogonal: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._build(in_features, PaperMap(P, orthogonal=orthogonal, device=device, dtype=dtype), batch_norm=True)

    def reset_parameters(self) -> None:
        reach = 1 / self.polyhedron.dim
        nn.init.uniform_(self.linear.weight, -reach, reach)
        nn.init.zeros_(self.linear.bias)


def paper_layer(
    in_features: int,
    P: Polyhedron,
    *,
    orthogonal: bool = True,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> PaperLayer:
    """The layer of *Homogeneous Linear Inequality Constraints for Neural Network Activations* (2020), section 3.

    ``x = R |β|`` with β = Linear(BatchNorm(features)), rays at unit length and every line doubled into two opposite
    rays; a box around 0 is met by one division by ``max(1, |x|_inf)``, which ``layer.shrinking`` switches. Weights
    start uniform in ±1/d, biases at 0.

    Args:
        in_features: size of each input sample.
        P: a cone, or a cone and a box around 0.
        orthogonal: a ray plus any line is the same ray: take the one orthogonal to the lines, or the one that the
            conversion gives, as the authors' code does (for a half-space one coordinate vector).
        device, dtype: where and in what precision parameters and geometry are made.

    Shape: (\\*, in_features) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
        >>> layer = rh.paper_layer(784, P)
        >>> layer.linear.out_features                    # 768 lines, twice, and 16 rays
        1552
        >>> bool(P.contains(layer(torch.randn(64, 784))).all())
        True
    """
    return PaperLayer(in_features, P, orthogonal=orthogonal, device=device, dtype=dtype)


def draw(into: MapInto, coordinates: Sequence[Any] | None, ax: Any, reach: float) -> Any:
    """The set of a map, and a grid of its two coefficients or a cloud of more: :meth:`rayhull.MapInto.plot`."""
    from rayhull.sets.plotting import axes, picked

    pick, P = picked(into.polyhedron, coordinates), into.polyhedron
    ax = P.plot(coordinates, ax=axes(ax, len(pick)), vertices=False)
    lines = _grid(reach) if into.coefficients == 2 else _cloud(into.coefficients, reach)
    with torch.no_grad():
        c = lines.to(into.device, into.dtype)
        points = into(c).double().cpu().numpy().reshape(*lines.shape[:-1], P.dim)[..., pick]
    if into.coefficients == 2:
        _draw_grid(ax, points)
    else:
        from rayhull.sets.plotting import GREEN

        label = f"{CLOUD} random coefficients, scale {reach:g}"
        ax.scatter(*points[0].T, s=3, color=GREEN, linewidth=0, label=label)
    return ax


def _grid(reach: float, lines: int = 17, steps: int = 201) -> Tensor:
    """Lines of constant first, then of constant second coefficient: (2 lines, steps, 2)."""
    along = torch.linspace(-reach, reach, steps, dtype=torch.float64).expand(lines, steps)
    across = torch.linspace(-reach, reach, lines, dtype=torch.float64)[:, None].expand(lines, steps)
    return torch.cat([torch.stack([across, along], -1), torch.stack([along, across], -1)])


def _cloud(count: int, reach: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, CLOUD, count, generator=generator, dtype=torch.float64) * reach


def _draw_grid(ax: Any, points: np.ndarray[Any, Any]) -> None:
    from rayhull.sets.plotting import GREEN, VERMILION

    half = len(points) // 2
    for number, line in enumerate(points):
        ax.plot(*line.T, color=GREEN if number < half else VERMILION, linewidth=0.7, alpha=0.9)
