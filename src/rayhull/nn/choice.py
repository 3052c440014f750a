"""The ways into a block by name, and ``"auto"``: the cheapest one that learns about as well as the nearest point.

Closed forms come first. Where there is none, the ways are compared when the layer is built: how well they learn by a
trial (:mod:`rayhull.nn.trial`), what they cost by an estimate (:mod:`rayhull.nn.costs`). Neither is timed or drawn
anew, so that the same set gives the same way.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import BudgetExceededError, RayhullError
from rayhull.nn.base_point import View, coordinates_at, seen_from_inside, unconstrained
from rayhull.nn.closed_forms import order, shift, slopes
from rayhull.nn.closing import ordinary
from rayhull.nn.costs import dual_steps, nearest_point
from rayhull.nn.costs import shrink as shrink_cost
from rayhull.nn.directions import Choice, Clamp, DualSteps, Free, Options, Round, Step, Way
from rayhull.nn.generators import AGAINST, LinesAndRays, Simplicial, apex, from_apex, least_cosine, rays, vertices
from rayhull.nn.orders import is_curve
from rayhull.nn.projection import NearestPoint
from rayhull.nn.trial import WIDE, Figures, Trial, mapped
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

USUAL_STEPS = 10  # of method="approach", where the user says nothing
FIGURES = "error over the nearest point's, way left from afar, reach of those that are near, estimated µs a sample"
FAR_ENOUGH = 1.0  # reach from which a way serves objectives as the nearest point does
STEPS = (5, 10, 20, 40)  # dual steps that are tried, fewest first
ENTRIES, COORDINATES = 1_000_000, 4096  # of a block's rows as a dense matrix, beyond which nothing is tried
FEW_RAYS = 2  # rays for each coordinate up to which a cone takes coefficients of their own
FEW_VERTICES, SMALL = 2, 64  # softmax weights: vertices for each coordinate, and coordinates of a block
LONG_CURVE = 32  # coordinates of a curve up to which it has a coefficient for each slack


def has_bounds(P: Polyhedron) -> bool:
    return bool(np.isfinite(P.lower_bounds).any() or np.isfinite(P.upper_bounds).any())


@dataclass(frozen=True, eq=False)
class Place:
    """The block seen from its base point, and the matrix of its round coordinates there: found once for all ways.

    Ways that end near the nearest point take coefficients in :attr:`extents`, coordinate by coordinate. Round ones are
    for the shrink alone, where a direction in which the set is thin would set the gauge of all others, and for dual
    steps that are themselves taken in them.
    """

    view: View
    matrix: Array  # (n, n), or the diagonal (n,) of a diagonal one
    prepared: dict[str, Choice] = field(default_factory=dict)  # ways in float64, by their metric

    @classmethod
    def of(cls, P: Polyhedron, options: Options) -> Place:
        view = seen_from_inside(P, options.base, options.scale)
        return cls(view, coordinates_at(P, view, options.scale))

    @property
    def extents(self) -> Array:
        """How far the ellipsoid that round coordinates make a ball reaches along each coordinate (n,)."""
        return self.matrix if self.matrix.ndim == 1 else np.linalg.norm(self.matrix, axis=1)


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
    direction = Round(place.matrix if round_metric else place.extents, place.view.equal, options.factory)
    step: Step = DualSteps(P, place.view, steps, options.factory, place.matrix if round_metric else None)
    return Choice("approach", reason, direction, place.view, (step,))


def projection(P: Polyhedron, options: Options, reason: str = "asked for", *, place: Place | None = None) -> Choice:
    """The nearest point, from coefficients in the units of the set."""
    place = place or Place.of(P, options)
    return Choice("projection", reason, NearestPoint(P, place.view.base, place.extents, options.factory), None)


def auto(P: Polyhedron, options: Options) -> Choice:
    """The cheapest way that learns about as well as the nearest point."""
    if options.approach is not None:
        return _asked_steps(P, options)
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
            return (_long_curve(P, options) or way) if _opens(way) else None
    except BudgetExceededError:
        pass
    return None


def _long_curve(P: Polyhedron, options: Options) -> Choice | None:
    """The nearest point of a long curve, of which each row is shared by neighbours only; None for other sets.

    Each of its coordinates would be a sum of many rays, and what a network is told of one of them says little about
    each (docs/learning.md: noisy convex). Along such rows the nearest point costs little. Neighbours take one unit, so
    that a smooth curve has smooth coefficients: extents are large at the ends, where fewer rows hold.
    """
    if options.nonnegative is not None or P.dim <= LONG_CURVE or not is_curve(P):
        return None
    place = Place.of(P, options)
    place = replace(place, matrix=np.full(P.dim, np.sqrt(np.mean(place.extents**2))))
    reason = f"a long curve of {P.dim}: along its {len(P.inequalities)} rows the nearest point costs little"
    return projection(P, options, reason, place=place)


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
    """The cheapest way that is near the nearest point on a trial, or the nearest point where that is cheaper.

    Of the near ones, the first that reaches as far as the nearest point; the cheapest of them where none does.
    """
    if is_large(P):
        return _untried(P, options)
    place, limit = Place.of(P, options), nearest_point(P)
    trial, closing = Trial.of(P, place.view.base, place.matrix), ordinary(P, place.view, WIDE)
    near: list[Candidate] = []
    found: list[str] = []
    for candidate in candidates(P, place):
        if candidate.cost > limit:
            break
        into = partial(mapped, P, candidate.wide(P, options, place), closing=closing)
        figures = trial.judge(into)
        reach = trial.reach(into) if figures.near else None
        near += [candidate] if reach is not None else []
        found.append(f"{candidate.name} {figures}{'' if reach is None else f', {reach:.3f}'}, {candidate.cost:.2g}")
        if reach is not None and reach >= FAR_ENOUGH:
            near = [candidate]
            break
    tried = f"{FIGURES}: {'; '.join([*found, f'nearest point 1, 0%, 1, {limit:.2g}'])}"
    if near:
        return replace(near[0].build(P, options, place), reason=tried)
    return projection(P, options, f"no cheaper way is near the nearest point. {tried}", place=place)


def is_large(P: Polyhedron) -> bool:
    """Whether a trial would take too long."""
    return P.dim * len(P.inequalities) > ENTRIES or P.dim > COORDINATES


def _asked_steps(P: Polyhedron, options: Options) -> Choice:
    """The number of dual steps that the user chose, with a warning where it does badly; none is the plain shrink."""
    if not options.approach or is_large(P) or not len(P.rows):
        return approach(P, options)
    place = Place.of(P, options)
    trial = Trial.of(P, place.view.base, place.matrix)
    figures = trial.judge(partial(mapped, P, approach(P, replace(options, factory=WIDE), place=place)))
    warn_if_poor(figures, f"a shrink after {options.approach} dual steps", "Leave approach= out, or give more of them")
    return approach(P, options, f"asked for; error over the nearest point's, way left: {figures}", place=place)


def warn_if_poor(figures: Figures, way: str, remedy: str) -> None:
    """Say by what figures a layer may learn badly, and what to do."""
    if figures.poor:
        warnings.warn(
            f"This layer may learn badly: {way} leaves {figures.error:.3g} times the nearest point's error, and "
            f'{figures.left:.0%} of the way from points far outside. {remedy}; method="projection" takes the nearest '
            "point itself; base= (and scale=, in an unbounded set) bring the start nearer to the data.",
            stacklevel=_level_of_caller(),
        )


def _untried(P: Polyhedron, options: Options) -> Choice:
    warnings.warn(
        f"{len(P.inequalities)} rows in {P.dim} coordinates are too many to compare ways on: the shrink is taken, "
        f"estimated at {shrink_cost(P):.2g} µs a sample, which may learn slowly. Give approach=20 dual steps "
        f'({dual_steps(P, 20):.2g} µs), or method="projection" ({nearest_point(P):.2g} µs), which learns well; '
        'method="shrink" says that you know.',
        stacklevel=_level_of_caller(),
    )
    return shrink(P, options, "too many rows to compare ways on")


def _level_of_caller() -> int:
    """The stacklevel (for whoever calls this) of the line outside rayhull and torch that makes the layer."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("rayhull", "torch")):
        level, frame = level + 1, frame.f_back
    return level + 1


@dataclass(frozen=True)
class Candidate:
    """The shrink alone (no steps) or after dual steps, and its estimated cost."""

    steps: int
    is_round: bool
    cost: float

    @property
    def name(self) -> str:
        return f"{self.steps} {'round ' if self.is_round else ''}dual steps" if self.steps else "shrink"

    def build(self, P: Polyhedron, options: Options, place: Place) -> Choice:
        if not self.steps:
            return shrink(P, options, place=place)
        return approach(P, replace(options, approach=self.steps), place=place, round_metric=self.is_round)

    def wide(self, P: Polyhedron, options: Options, place: Place) -> Choice:
        """The way in float64, its rows prepared once for all numbers of steps."""
        metric = "round" if self.is_round else "Euclidean" if self.steps else "none"
        if metric not in place.prepared:
            place.prepared[metric] = self.build(P, replace(options, factory=WIDE), place)
        way = place.prepared[metric]
        steps = (step.with_steps(self.steps) if isinstance(step, DualSteps) else step for step in way.approach)
        return replace(way, approach=tuple(steps))


def candidates(P: Polyhedron, place: Place) -> list[Candidate]:
    """The ways that are compared, cheapest first; in round coordinates only where their matrix is worked out."""
    metrics = (False, True) if place.matrix.ndim == 2 else (False,)
    found = [Candidate(k, m, dual_steps(P, k, round_metric=m)) for k in STEPS for m in metrics]
    return sorted([Candidate(0, False, shrink_cost(P)), *found], key=lambda way: way.cost)


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
