"""The paper's layer, exactly, for reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.errors import RayhullError
from rayhull.nn.base_point import cone_at, seen_from_apex, unit_rays, unit_rows
from rayhull.nn.closing import How
from rayhull.nn.constrained import Constrained
from rayhull.nn.directions import Choice, Options
from rayhull.nn.generators import LinesAndRays
from rayhull.nn.map_into import MapInto
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class PaperMap(MapInto):
    """x = R |β| / max(1, gauge): lines as two opposite rays, one scaling for all blocks."""

    blocks_are_independent = False

    def __init__(self, P: Polyhedron, *, orthogonal: bool = True, **factory: Any) -> None:
        self.orthogonal = orthogonal  # first: the choice, made in the base class, asks for it
        super().__init__(P, **factory)

    def _choose(self, block: Polyhedron, options: Options) -> Choice:
        view = seen_from_apex(block)
        if view is None:
            raise RayhullError(f"the paper's layer takes a cone, or a cone and a box around 0, not {self.polyhedron}.")
        found, span = cone_at(block, view, options.max_generators)
        lines, rays = unit_rows(found.lines), unit_rays(found.rays, span) if self.orthogonal else unit_rows(found.rays)
        direction = LinesAndRays(np.concatenate([lines, -lines, rays]), None, torch.abs, options.factory)
        return Choice("rays", f"{len(lines)} lines, twice, and {len(rays)} rays", direction, view)

    def _points(self, c: Tensor, sides: Sides, how: How) -> list[Tensor]:
        each = [(part, part.sides(sides), own) for part, own in self.parts.split(c)]
        directions = [part.aim(own, given) for part, given, own in each]
        scales = [
            part.closing.scale(y, part.base_point(given), given, how)
            for (part, given, _), y in zip(each, directions, strict=True)
        ]
        least = _least([s for s in scales if s is not None])
        return [part.place(y, least, given, how) for (part, given, _), y in zip(each, directions, strict=True)]


def _least(scales: list[Tensor]) -> Tensor | None:
    """The smallest factor over all blocks. Shape: (\\*, 1)"""
    return torch.cat(scales, -1).amin(-1, keepdim=True) if scales else None


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
