"""How well a way into a block learns, seen when the layer is built: its error amplification.

Points of the set, most of them on its faces, get noise and are mapped back; the error that is left, over that of the
nearest points, says how much worse than the nearest point a way is. The draws are fixed, so that the same set gives
the same figures.

A loss without targets, such as a price, drives free points far out, where the nearest point is a vertex. How much of a
linear objective a way gets there is its reach: what dual steps leave undone from afar, the shrink takes off.

Two limits are read off these figures. ``auto`` takes a cheaper way in place of the nearest point up to GOOD and NEAR.
It warns beyond POOR or ASTRAY, which were set on the problems of docs/learning.md: ways that learnt much worse than
the nearest point there lie beyond one of the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.coefficients import without
from rayhull.nn.closing import Closing, How, ordinary
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice
from rayhull.projection import project
from rayhull.projection.sides import NONE, Sides, event_shape
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.base_rule import BaseRule
    from rayhull.sets.polyhedron import Polyhedron

POINTS, NOISE, SPREAD = 48, 0.1, 8.0
FEWEST, NUMBERS = 12, 12_000  # points of a trial: fewer in many coordinates, which average over more numbers each
GOOD, NEAR = 1.02, 0.05  # error and share of the way left up to which a way is as good as the nearest point
DISTANCES = (0.5, 1.0, 2.0)  # of the free points, at the best of which a way's reach counts
POOR, ASTRAY = 3.0, 0.5  # error or share of the way left beyond which it may learn badly
WIDE = Factory(None, torch.float64)
Map = Callable[[Tensor], Tensor]


class Figures(NamedTuple):
    """How a way did: its error over the nearest point's, and the share of the way from afar that it leaves."""

    error: float
    left: float

    @property
    def near(self) -> bool:
        return self.error <= GOOD and self.left <= NEAR

    @property
    def poor(self) -> bool:
        return self.error > POOR or self.left > ASTRAY

    def __str__(self) -> str:
        return f"{self.error:.2f}, {self.left:.0%}"


@dataclass(frozen=True, eq=False)
class Trial:
    """Points of a block, the same with noise, and the error that the nearest points leave."""

    free: Tensor  # (k, n), most of them far outside
    points: Tensor  # the nearest points of those
    noisy: Tensor
    nearest: float
    base: Tensor  # (n,) or (k, n)
    sides: Sides = NONE  # of the noisy and then the free points, where the set follows the sample

    @classmethod
    def of(cls, P: Polyhedron, base: Array, matrix: Array) -> Trial:
        """Draws around the base point in round coordinates, projected: where many rows and bounds are active."""
        rng, count = np.random.default_rng(0), _count(P)
        normal = rng.standard_normal((count, P.dim))
        free = base + SPREAD * (normal * matrix if matrix.ndim == 1 else normal @ matrix)
        return cls._around(P, torch.as_tensor(base), torch.as_tensor(free), NONE, rng)

    @classmethod
    def of_samples(cls, P: Polyhedron, rule: BaseRule, diagonal: Array) -> Trial:
        """The same for a set that follows the sample: sides drawn from the rule's range, each with its base point."""
        rng, count = np.random.default_rng(0), _count(P)
        theta = rng.uniform(rule.low, rule.high + 0.0, (count, len(rule.low)))  # NumPy refuses a range of 0 to -0
        sides = Sides(**_parted(P, rule, torch.as_tensor(theta))).checked(P)
        base = rule(theta)
        free = base + SPREAD * rng.standard_normal((count, P.dim)) * diagonal
        return cls._around(P, torch.as_tensor(base), torch.as_tensor(free), sides, rng)

    @classmethod
    def _around(cls, P: Polyhedron, base: Tensor, free: Tensor, sides: Sides, rng: np.random.Generator) -> Trial:
        points = _nearest(P, free, sides)
        size = _rms(points - base)
        noisy = points + NOISE * size * torch.as_tensor(rng.standard_normal(points.shape))
        twice = Sides(**{name: torch.cat([getattr(sides, name)] * 2) for name in sides.given})
        return cls(free, points, noisy, _rms(_nearest(P, noisy, sides) - points), base, twice)

    def judge(self, into: Map) -> Figures:
        """Both figures, from one call of the map: its rows are read once."""
        noisy, free = into(torch.cat([self.noisy, self.free])).chunk(2)
        return Figures(self.amplification(lambda _: noisy), self.left(lambda _: free))

    def amplification(self, into: Map) -> float:
        """The error of a map over that of the nearest point; 1 is as good."""
        return _rms(into(self.noisy) - self.points) / self.nearest if self.nearest else 1.0

    def left(self, into: Map) -> float:
        """How far a map's points are from the nearest ones, as a share of how far the free points are; 0 is as good."""
        moved = _rms(self.free - self.points)
        return _rms(into(self.free) - self.points) / moved if moved else 0.0

    def reach(self, into: Map) -> float:
        """What a map gets of random linear objectives, over what the nearest point gets; 1 is as good.

        The free points lie along the objectives, seen from the base point; a network may find the best distance.
        """
        aim = self.free - self.base
        values = [float(((into(self.base + r * aim) - self.base) * aim).sum()) for r in DISTANCES]
        best = float(((self.points - self.base) * aim).sum())
        return max(values) / best if best else 1.0  # a set of one point has nothing to reach


def _count(P: Polyhedron) -> int:
    return min(POINTS, max(FEWEST, NUMBERS // P.dim))


def _parted(P: Polyhedron, rule: BaseRule, theta: Tensor) -> dict[str, Tensor]:
    """The sides that θ stacks. Shape: (k, p) → (k, event shape) each"""
    shapes = {name: event_shape(P, name, len(P.inequalities), len(P.equalities)) for name in rule.sides}
    parts = torch.split(theta, [math.prod(shape) for shape in shapes.values()], -1)
    return {name: part.reshape(-1, *shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def _nearest(P: Polyhedron, x: Tensor, sides: Sides) -> Tensor:
    """Shape: (k, d) → (k, d)"""
    bounds = ("lower", "upper")
    given = {n: getattr(sides, n).reshape(-1, *P.shape) if n in bounds else getattr(sides, n) for n in sides.given}
    return project(P, x.reshape(-1, *P.shape), **given).reshape(x.shape)


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
