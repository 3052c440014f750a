"""The paper's layer, exactly, for reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.errors import RayhullError
from rayhull.nn.blocks import Part, Parts
from rayhull.nn.layers import Constrained
from rayhull.nn.map_into import MapInto
from rayhull.nn.options import Options
from rayhull.nn.recognise import Choice
from rayhull.nn.ways import Rays
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.frame import at_apex, cone_at, unit_rays, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class PaperParts(Parts):
    """One scaling for all blocks."""

    def forward(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        directions, scales = [], []
        for part, own in self.split(c):
            way: Any = part.way
            y = way.direction(own.reshape(*own.shape[:-1], part.count, -1))
            scales.append(way.scale(y))
            directions.append((y * part.sign).flatten(-2))
        x = self.flat(directions)
        factors = [scale for scale in scales if scale is not None]
        return x * torch.cat(factors, -1).amin(-1, keepdim=True) if factors else x


class PaperMap(MapInto):
    """x = R |β| / max(1, gauge): lines as two opposite rays."""

    def __init__(self, P: Polyhedron, *, orthogonal: bool = True, **factory: Any) -> None:
        self.orthogonal = orthogonal  # first: the parts, made in the base class, ask for it
        super().__init__(P, **factory)

    def _parts(self, P: Polyhedron, options: Options) -> Parts:
        chosen = [(kind, self._rays(kind.polyhedron, options)) for kind in P.mirrored_groups]
        parts = PaperParts([Part(P, kind, *rays, options.factory) for kind, rays in chosen], options.factory)
        parts.single = False  # one block is scaled by its parts, too
        return parts

    def _rays(self, block: Polyhedron, options: Options) -> Choice:
        frame = at_apex(block)
        if frame is None:
            raise RayhullError(f"the paper's layer takes a cone, or a cone and a box around 0, not {self.polyhedron}.")
        found, span = cone_at(block, frame, options.max_generators)
        lines, rays = unit_rows(found.lines), unit_rays(found.rays, span) if self.orthogonal else unit_rows(found.rays)
        doubled = np.concatenate([lines, -lines, rays])
        way = Rays(block, frame, doubled, lines[:0], torch.abs, options.factory, by_basis=True)
        return Choice(way, f"weights of {len(lines)} lines, twice, and {len(rays)} rays, as in the paper")


class PaperLayer(Constrained):
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


paper_layer = PaperLayer  # called like a function that makes the layer
