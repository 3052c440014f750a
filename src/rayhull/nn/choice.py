"""The ways into a block by name, and ``"auto"``: the cheapest one that learns about as well as the nearest point.

Closed forms come first. Where there is none, the ways are compared when the layer is built, by their error
amplification: points of the set, most of them on its faces, get noise and are mapped back; the error that is left,
over that of the nearest points, says how much worse than the nearest point a way is. The draws are fixed, so that the
same set gives the same way.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import BudgetExceededError, RayhullError
from rayhull.maps.coefficients import without
from rayhull.nn.base_point import View, coordinates_at, seen_from_inside, unconstrained
from rayhull.nn.closed_forms import order, shift, slopes
from rayhull.nn.closing import How, ordinary
from rayhull.nn.constants import Factory
from rayhull.nn.directions import (
    Choice,
    Clamp,
    Direction,
    DualSteps,
    Free,
    Options,
    Round,
    Step,
    Way,
    undone,
)
from rayhull.nn.generators import AGAINST, LinesAndRays, Simplicial, apex, from_apex, least_cosine, rays, vertices
from rayhull.nn.projection import Projection
from rayhull.projection import project
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 2.0**36  # how far a point may be, in units of the base point, to have a nearest point of its own
USUAL_STEPS = 10  # of method="approach", where the user says nothing
POINTS, NOISE, SPREAD = 48, 0.1, 8.0
FEWEST, NUMBERS = 12, 12_000  # points of a trial: fewer in many coordinates, which average over more numbers each
GOOD = 1.02  # error amplification up to which a cheaper way takes the place of the nearest point ...
NEAR = 0.15  # ... if it also leaves at most this share of the way of points far outside
STEPS = (5, 10, 20, 40)  # dual steps that are tried, fewest first
ENTRIES, COORDINATES = 1_000_000, 4096  # of a block's rows as a dense matrix, beyond which nothing is tried
FEW_RAYS = 2  # rays for each coordinate up to which a cone takes coefficients of their own
FEW_VERTICES, SMALL = 2, 64  # softmax weights: vertices for each coordinate, and coordinates of a block
WIDE = Factory(None, torch.float64)


def has_bounds(P: Polyhedron) -> bool:
    return bool(np.isfinite(P.lower_bounds).any() or np.isfinite(P.upper_bounds).any())


@dataclass(frozen=True, eq=False)
class Place:
    """The block seen from its base point, and the matrix of its round coordinates there: found once for all ways."""

    view: View
    matrix: Array  # (n, n), or the diagonal (n,) of a diagonal one

    @classmethod
    def of(cls, P: Polyhedron, options: Options) -> Place:
        view = seen_from_inside(P, options.base, options.scale)
        return cls(view, coordinates_at(P, view, options.scale))


def shrink(P: Polyhedron, options: Options, reason: str = "asked for", *, place: Place | None = None) -> Choice:
    """Round coordinates, bounds clamped, the rest by shrinking towards the base point."""
    place = place or Place.of(P, options)
    view = place.view
    direction = Round(place.matrix, view.equal, options.factory)
    clamps = has_bounds(P) and len(P.inequalities) > 0 and not view.equal.shape[1]
    return Choice("shrink", reason, direction, view, (Clamp(P, options.factory),) if clamps else ())


def approach(
    P: Polyhedron,
    options: Options,
    reason: str = "asked for",
    *,
    place: Place | None = None,
    round_metric: bool = False,
) -> Choice:
    """k dual steps towards the nearest point, Euclidean or in round coordinates, then the shrink."""
    place, steps = place or Place.of(P, options), USUAL_STEPS if options.approach is None else options.approach
    direction = Round(place.matrix, place.view.equal, options.factory)
    step: Step = DualSteps(P, place.view, steps, options.factory, place.matrix if round_metric else None)
    return Choice("approach", reason, direction, place.view, (step,))


class NearestPoint(Direction):
    """The nearest point of the block to x0 + M c, in round coordinates around the base point. NaN stays NaN.

    Args:
        base: x0 (n,).
        matrix: M (n, n), or the diagonal (n,) of a diagonal one.
    """

    identity_inside = True
    follows = frozenset({"b", "b_eq", "lower", "upper"})
    base: Tensor
    matrix: Tensor

    def __init__(self, P: Polyhedron, base: Array, matrix: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients, self.diagonal = P.dim, matrix.ndim == 1
        self.nearest = Projection(P)
        self.reach = FAR * max(1.0, float(np.abs(base).max()))
        self.constant("base", base, persistent=True)
        self.constant("matrix", matrix, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        known = c.isfinite().all(-1, keepdim=True)
        free = self.free(torch.where(known, c, torch.zeros_like(c)))
        free = free if sides.given else self._in_reach(free)
        x: Tensor = self.nearest(free, **{name: getattr(sides, name) for name in sides.given})
        return torch.where(known, x, torch.full_like(x, torch.nan))

    def _in_reach(self, x: Tensor) -> Tensor:
        """x, or where it is FAR times as large as the base point the point at that distance on its way to 0.

        Seen from there the set is a point in float64: no solver could certify which one of it is nearest.
        """
        largest = x.abs().amax(-1, keepdim=True)
        return torch.where(largest > self.reach, x / largest * self.reach, x)

    def free(self, c: Tensor) -> Tensor:
        return self.base + (c * self.matrix if self.diagonal else c @ self.matrix)

    def coefficients_of(self, y: Tensor) -> Tensor:
        return undone(y - self.base, self.exact["matrix"])


def projection(P: Polyhedron, options: Options, reason: str = "asked for", *, place: Place | None = None) -> Choice:
    """The nearest point, from coefficients in the units of the set."""
    place = place or Place.of(P, options)
    return Choice("projection", reason, NearestPoint(P, place.view.base, place.matrix, options.factory), None)


def auto(P: Polyhedron, options: Options) -> Choice:
    """The cheapest way that learns about as well as the nearest point."""
    if options.approach is not None:
        return approach(P, options)
    if P.dim == 1 and P.is_bounded:
        return shrink(P, options, "an interval: a clamp")
    formula = order(P, options) or _generated(P, options) or shift(P, options) or slopes(P, options)
    return formula or _measured(P, options)


def _generated(P: Polyhedron, options: Options) -> Choice | None:
    """Few vertices by convex weights, a cone with as many rays as rows by coefficients of their own; or None."""
    if not len(P.rows):
        return shrink(P, options, "only equalities")
    try:
        if P.dim <= SMALL and P.is_bounded:
            most = FEW_VERTICES * P.dim
            return None if has_many_vertices(P, most) else vertices(P, replace(options, max_generators=most))
        view = apex(P)
        if view is not None and not len(view.loose):
            way = from_apex(P, view, options, FEW_RAYS * P.dim)
            return way if _opens(way) else None
    except BudgetExceededError:
        pass
    return None


def has_many_vertices(P: Polyhedron, most: int) -> bool:
    """Whether one inequality and bounds are known to have more than ``most`` vertices, without a conversion.

    Where the middle c of the box keeps the row, one of each two corners v and 2 c - v keeps it too, since their values
    add up to 2 a·c <= 2 b: half of the corners are vertices.
    """
    if len(P.inequalities) != 1 or len(P.equalities) or not (P.upper_bounds - P.lower_bounds < np.inf).all():
        return False
    middle = (P.lower_bounds + P.upper_bounds) / 2
    corners = 2.0 ** int((P.bound_order < 0).sum())
    return corners / 2 > most and bool((P.inequalities.matrix @ middle <= P.inequalities.rhs).all())


def _opens(way: Choice) -> bool:
    """Whether rays leave each other room: own coefficients fail where two of them point against each other."""
    assert isinstance(way.direction, Simplicial | LinesAndRays)
    return least_cosine(way.direction.exact["rays"]) >= AGAINST


def _measured(P: Polyhedron, options: Options) -> Choice:
    """The first way that is near the nearest point on a trial, or the nearest point."""
    if P.dim * len(P.inequalities) > ENTRIES or P.dim > COORDINATES:
        return _untried(P, options)
    place = Place.of(P, options)
    trial = Trial.of(P, place.view.base, place.matrix)
    found = []
    for name, build in candidates(place).items():
        amplification, left = trial.judge(partial(mapped, P, build(P, replace(options, factory=WIDE))))
        found.append(f"{name} {amplification:.2f}, {left:.0%}")
        if amplification <= GOOD and left <= NEAR:
            reason = f"error over the nearest point's, and way left from afar: {'; '.join(found)}"
            return replace(build(P, options), reason=reason)
    return projection(P, options, f"no cheaper way is near the nearest point: {'; '.join(found)}", place=place)


def _untried(P: Polyhedron, options: Options) -> Choice:
    warnings.warn(
        f"{len(P.inequalities)} rows in {P.dim} coordinates are too many to compare ways in: the shrink is taken, "
        'which may learn slowly; method="projection" costs more and learns well. method="shrink" says that you know.',
        stacklevel=_level_of_caller(),
    )
    return shrink(P, options, "too many rows to compare ways on")


def _level_of_caller() -> int:
    """The stacklevel (for whoever calls this) of the line outside rayhull and torch that makes the layer."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("rayhull", "torch")):
        level, frame = level + 1, frame.f_back
    return level + 1


def candidates(place: Place) -> dict[str, Way]:
    """The ways that are compared, cheapest first; in round coordinates only where their matrix is worked out."""

    def steps(k: int, round_metric: bool) -> Way:
        return lambda P, chosen: approach(P, replace(chosen, approach=k), place=place, round_metric=round_metric)

    found: dict[str, Way] = {"shrink": partial(shrink, place=place)}
    for k in STEPS:
        found[f"{k} dual steps"] = steps(k, False)
        if place.matrix.ndim == 2:
            found[f"{k} round dual steps"] = steps(k, True)
    return found


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
        size = float((points - torch.as_tensor(base)).square().mean().sqrt())
        noisy = points + NOISE * size * torch.as_tensor(rng.standard_normal(points.shape))
        nearest = project(P, noisy.reshape(-1, *P.shape)).reshape(count, -1)
        return cls(free, points, noisy, _rms(nearest - points))

    def judge(self, into: Callable[[Tensor], Tensor]) -> tuple[float, float]:
        return self.amplification(into), self.left(into)

    def amplification(self, into: Callable[[Tensor], Tensor]) -> float:
        """The error of a map over that of the nearest point; 1 is as good."""
        return _rms(into(self.noisy) - self.points) / self.nearest if self.nearest else 1.0

    def left(self, into: Callable[[Tensor], Tensor]) -> float:
        """How far a map's points are from the nearest ones, as a share of how far the free points are; 0 is as good."""
        moved = _rms(self.free - self.points)
        return _rms(into(self.free) - self.points) / moved if moved else 0.0


def _rms(difference: Tensor) -> float:
    return float(difference.square().mean().sqrt())


@torch.no_grad()
def mapped(P: Polyhedron, way: Choice, points: Tensor) -> Tensor:
    """Where a shrink, with or without steps before it, takes points of the block. Shape: (n, d) → (n, d)"""
    assert way.view is not None
    base, sides = torch.as_tensor(way.view.base), Sides()
    y = without(points - base, torch.as_tensor(way.view.equal))
    for step in way.approach:
        y = step(y, base, sides)
    scale = ordinary(P, way.view, WIDE).scale(y, base, sides, How(torch.float64))
    return base + (y if scale is None else y * scale.unsqueeze(-1))


def _asked(way: Callable[[Polyhedron, Options], Choice | None], needs: str) -> Way:
    """A closed form asked for by name: refused where it does not fit."""

    def asked(P: Polyhedron, options: Options) -> Choice:
        found = way(P, options)
        if found is None:
            raise RayhullError(f"{needs}, which is not what {P} states. Use method='auto'.")
        return found

    return asked


METHODS: dict[str, Way] = {
    "auto": auto,
    "rays": rays,
    "vertices": vertices,
    "order": _asked(
        lambda P, options: slopes(P, options) or order(P, options),
        "method='order' needs rows x_i <= x_j, of coordinates or of the slopes of a curve, and the same bounds for all",
    ),
    "shift": _asked(shift, "method='shift' needs one row and bounds"),
    "shrink": shrink,
    "approach": approach,
    "projection": projection,
}


def choose(P: Polyhedron, options: Options) -> Choice:
    """The way into one block."""
    if options.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {options.method!r}.")
    if not len(P.rows) and not len(P.equality_rows):
        return Choice("free", "no row holds here", Free(np.zeros((P.dim, 0)), options.factory), unconstrained(P))
    return METHODS[options.method](P, options)
