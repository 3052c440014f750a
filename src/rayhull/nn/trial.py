"""How well a way into a block learns, seen when the layer is built: its error amplification.

Points of the set, most of them on its faces, get noise and are mapped back; the error that is left, over that of the
nearest points, says how much worse than the nearest point a way is. The draws are fixed, so that the same set gives
the same figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.coefficients import without
from rayhull.nn.closing import Closing, How, ordinary
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice
from rayhull.projection import project
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

POINTS, NOISE, SPREAD = 48, 0.1, 8.0
FEWEST, NUMBERS = 12, 12_000  # points of a trial: fewer in many coordinates, which average over more numbers each
WIDE = Factory(None, torch.float64)
Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Trial:
    """Points of a block, the same with noise, and the error that the nearest points leave."""

    free: Tensor  # (k, n), most of them far outside
    points: Tensor  # the nearest points of those
    noisy: Tensor
    nearest: float

    @classmethod
    def of(cls, P: Polyhedron, base: Array, matrix: Array) -> Trial:
        """Draws around the base point in round coordinates, projected: where many rows and bounds are active."""
        rng, count = np.random.default_rng(0), min(POINTS, max(FEWEST, NUMBERS // P.dim))
        normal = rng.standard_normal((count, P.dim))
        free = torch.as_tensor(base + SPREAD * (normal * matrix if matrix.ndim == 1 else normal @ matrix))
        points = project(P, free.reshape(-1, *P.shape)).reshape(count, -1)
        size = _rms(points - torch.as_tensor(base))
        noisy = points + NOISE * size * torch.as_tensor(rng.standard_normal(points.shape))
        nearest = project(P, noisy.reshape(-1, *P.shape)).reshape(count, -1)
        return cls(free, points, noisy, _rms(nearest - points))

    def judge(self, into: Map) -> tuple[float, float]:
        return self.amplification(into), self.left(into)

    def amplification(self, into: Map) -> float:
        """The error of a map over that of the nearest point; 1 is as good."""
        return _rms(into(self.noisy) - self.points) / self.nearest if self.nearest else 1.0

    def left(self, into: Map) -> float:
        """How far a map's points are from the nearest ones, as a share of how far the free points are; 0 is as good."""
        moved = _rms(self.free - self.points)
        return _rms(into(self.free) - self.points) / moved if moved else 0.0


def _rms(difference: Tensor) -> float:
    return float(difference.square().mean().sqrt())


@torch.no_grad()
def mapped(P: Polyhedron, way: Choice, points: Tensor, closing: Closing | None = None) -> Tensor:
    """Where a shrink, with or without steps before it, takes points of the block. Shape: (n, d) → (n, d)

    ``closing`` is that of the block in float64, where it has been made already.
    """
    assert way.view is not None
    base, sides = torch.as_tensor(way.view.base), Sides()
    y = without(points - base, torch.as_tensor(way.view.equal))
    for step in way.approach:
        y = step(y, base, sides)
    closing = closing or ordinary(P, way.view, WIDE)
    scale = closing.scale(y, base, sides, How(torch.float64))
    return base + (y if scale is None else y * scale.unsqueeze(-1))
