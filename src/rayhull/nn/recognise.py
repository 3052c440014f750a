"""Which way into a block: by name, or ``"auto"``.

The nearest point, which learns best (docs/learning.md): by structure, or exactly where the block is small or its rows
have a short sparse factor. Probabilities take softmax weights of their vertices. In other blocks as many steps towards
the nearest point are taken as one trial asks for, and the nearest point itself where no number of them is near; of a
block whose rows stay sparse, where many more steps end stands in for it. Nothing is timed and no draw is new: the same
set gives the same way everywhere.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.coefficients import nonnegative_named, weights_named
from rayhull.maps.steps import clamped
from rayhull.nn.blocks import Part, Parts
from rayhull.nn.conic import ConicSteps, round_centre, units_of
from rayhull.nn.constants import Factory
from rayhull.nn.options import Options
from rayhull.nn.steps import NEAR, STEPS, Steps, Trial
from rayhull.nn.ways import Bounds, Nearest, Rays, Seen, Vertices, Way, Whole
from rayhull.projection.plan import band_of, is_short, structure
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.cones import ConvexSet, with_cones
from rayhull.sets.conic_interior import conic_base_point
from rayhull.sets.frame import Frame, at_apex, cone_at, inside, is_large, row_span, unit_rays, units_at
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

START_MEAN, START_VARIANCE = 0.8, 0.36  # of |β| for a standard normal β; the other functions are near enough
MANY_VERTICES, SMALL = 16, 64  # vertices for each coordinate, and coordinates, up to which probabilities take softmax
USUAL_STEPS = 20  # of method="steps", where the user says nothing
EXACT = 400  # coordinates up to which an exact active set costs no more than the steps that are near it
NEARLY = 0.1  # what they may leave in a large block, whose nearest point takes long
FAR = 0.2  # what they may leave without a warning
INNER = ("rayhull", "torch", "contextlib")  # frames that a warning passes over
TRIED = 500  # rows of cones and others up to which nearest points are worked out for a trial
ENTRIES = 4_000_000  # of a large block's rows, beyond which nothing is tried
AWAY, ALONG, TIED = 56, 72, 48  # steps off the CPU, along curves, with equalities: a layer's budget is 400 launches
MORE, COARSE = 96, 0.02  # steps where those leave more than this: long curves between bounds
BAND = 120  # rows along a band up to which sums of neighbours are taken: their factors are dense


class Choice(NamedTuple):
    """A block's way and why it was taken."""

    way: Way
    why: str


# -- ways by name ----------------------------------------------------------------------------------------------------


def seen(P: Polyhedron, options: Options) -> tuple[Frame, Array]:
    """The block from its base point, and its units there."""
    frame = inside(P, options.base, options.scale)
    return frame, units_at(P, frame, options.scale)


def nearest(P: Polyhedron, options: Options, why: str = "the nearest point, as asked") -> Choice:
    frame, units = seen(P, options)
    return Choice(nearest_way(P, frame.base, units, options.factory), why)


def nearest_way(P: Polyhedron, base: Array, units: Array, factory: Factory, weights: Array | None = None) -> Seen:
    """The nearest point of a block or of the whole set; bounds alone are a clamp."""
    if len(P.inequalities) or len(P.equality_rows) or with_cones(P) is not None:
        return Nearest(P, base, units, factory, weights)
    return Bounds(P, base, units, factory)


def steps(P: Polyhedron, options: Options) -> Choice:
    """A fixed number of steps towards the nearest point, then the shrink."""
    count, why = USUAL_STEPS if options.steps is None else options.steps, "steps and a shrink, as asked"
    frame, units = seen(P, options)
    if not count or is_filled(P):
        return Choice(Steps(P, frame, units, count, options.factory), f"{count} {why}")
    trial = Trial.of(P, frame, units)
    (left,) = trial.left((count,))
    _warn_of_far(trial, count, left, FAR)
    why = f"{count} {why}; they leave {left:.1%} of the way to {trial.judge}"
    return Choice(trial.taken(count, 0, options.factory), why)


def _warn_of_far(trial: Trial, count: int, left: float, far: float) -> None:
    """A warning where so many steps leave much."""
    if left > far:
        warn(
            f"{count} steps leave {left:.0%} of the way to {trial.judge}, so that this layer may learn badly: give "
            'more steps=, or method="nearest".'
        )


def shrink(P: Polyhedron, options: Options, why: str = "bounds clamped, then a shrink, as asked") -> Choice:
    return Choice(Steps(P, *seen(P, options), 0, options.factory), why)


def rays(P: Polyhedron, options: Options) -> Choice:
    """Lines and rays of the rows that meet at a point; other rows by the shrink."""
    frame = at_apex(P)
    if frame is None or not (len(frame.cone) or frame.equal.shape[1]):
        raise RayhullError(
            "method='rays' needs a point where the rows meet (0, or the apex of independent rows), and this set "
            f"has none: {P}. Use method='shrink', which needs only an interior point, or 'vertices'."
        )
    found, span = cone_at(P, frame, options.max_generators)
    way = _rays(P, frame, unit_rays(found.rays, span), found.lines, span, options)
    then = f", then {len(frame.loose)} rows with slack by a shrink" if len(frame.loose) else ""
    return Choice(way, f"weights of {len(found.lines)} lines and {len(found.rays)} rays, as asked{then}")


def vertices(P: Polyhedron, options: Options, why: str = "as asked") -> Choice:
    found = P.generators(max_generators=options.max_generators)
    beyond = None
    if len(found.rays) or len(found.lines):
        span = row_span(P)
        beyond = _rays(P, None, unit_rays(found.rays, span), found.lines, span, options)
    way = Vertices(P, found.vertices, beyond, weights_named(options.simplex), options.factory)
    counts = f"{len(found.vertices)} vertices, {len(found.rays)} rays, {len(found.lines)} lines"
    return Choice(way, f"weights of {counts}, {why}")


def _rays(P: Polyhedron, frame: Frame | None, rays: Array, lines: Array, span: Array, options: Options) -> Rays:
    """Few lines by a basis, many by removing the span of the rows from a free u.

    The basis is the converted lines made orthonormal, in their order and with their signs: a null space from LAPACK
    would give every machine its own coefficients.
    """
    by_basis, matrix = True, lines[:0]
    if 2 * len(lines) < len(span):
        basis, triangle = np.linalg.qr(lines.T)
        matrix = (basis * np.sign(np.diag(triangle))).T
    elif len(lines):
        by_basis, matrix = False, span
    function = nonnegative_named(options.nonnegative)
    return Rays(P, frame, options.scale * unit_start(rays), matrix, function, options.factory, by_basis=by_basis)


def unit_start(rays: Array) -> Array:
    """The rays scaled by one number so that standard normal coefficients give outputs of about unit size."""
    if not len(rays):
        return rays
    mean = START_MEAN * np.linalg.norm(rays.sum(0))
    spread = START_VARIANCE * float((rays**2).sum())
    return rays * np.sqrt(rays.shape[1] / (mean**2 + spread))


# -- sets with cones ---------------------------------------------------------------------------------------------------


def conic(S: ConvexSet, options: Options) -> Choice:
    """Closed forms where balls stand alone, else as many steps as one trial asks for; or as asked."""
    if options.method in ("vertices", "rays"):
        raise RayhullError(
            f"method={options.method!r} is for rows alone, and {S} has cones: use 'auto', 'steps' or 'shrink'."
        )
    alone = round_centre(S) if options.method in ("auto", "shrink") and options.steps is None else None
    base = alone if options.base is None else options.base
    base = conic_base_point(S, options.scale) if base is None else base
    if (S.alone.excess(S.alone.at(base)) >= 0).any():
        raise ValueError("base must be strictly inside: every cone needs slack there. Leave it out, or give another.")
    units = units_of(S, base, options.scale)
    if options.method == "nearest":
        return Choice(Nearest(S, base, units, options.factory), "the nearest point, as asked")  # type: ignore[arg-type]
    if alone is not None and base is alone:
        return Choice(ConicSteps(S, base, units, 0, options.factory), "the nearest point in closed form: balls")
    return _tried(S, base, units, options)


def _tried(S: ConvexSet, base: Array, units: Array, options: Options) -> Choice:
    """As many steps as one trial asks for; a warning where they leave much of the way."""
    many, count = len(S.rules.offsets), options.steps
    if options.method == "shrink" or S.dim * many > ENTRIES:
        why = "as asked" if options.method == "shrink" else "too many rules for steps with a factor"
        return Choice(ConicSteps(S, base, units, 0, options.factory), f"bounds clamped, then a shrink: {why}")
    usual = USUAL_STEPS if count is None else count
    try:
        if many > TRIED:
            raise RayhullError("too many rules for a trial")
        way = ConicSteps(S, base, units, max(STEPS), Factory(None, torch.float64))
        trial = Trial.among((way,), S, base, units)
    except RayhullError:  # not certified in a set that is thin, or large beside its units: layers need none
        why = f"{usual} steps and a shrink, not tried: nearest points could not be certified, or are too dear"
        return Choice(ConicSteps(S, base, units, usual, options.factory), why)
    counts = STEPS if count is None and options.method == "auto" else (usual,)
    count, _, left = trial.best(counts)
    _warn_of_far(trial, count, min(left), NEARLY)
    why = f"{count} steps and a shrink: {left_of_the_way(left, trial.judge, counts)}"
    return Choice(trial.taken(count, 0, options.factory), why)


# -- auto ------------------------------------------------------------------------------------------------------------


def auto(P: Polyhedron, options: Options) -> Choice:
    """The nearest point by structure, softmax for probabilities, else steps that are near it."""
    if options.steps is not None:
        return steps(P, options)
    own_start = options.varies or options.base is not None  # which weights of vertices have not
    if not own_start and (found := probabilities(P, options)) is not None:
        return found
    if (name := structure(P)) is not None:
        return nearest(P, options, f"the nearest point by its structure: {name}")
    if P.dim <= EXACT:
        return nearest(P, options, "the nearest point, by an exact active set: the block is small")
    if is_short(P):
        return nearest(P, options, "the nearest point, by an interior point: its rows have a short sparse factor")
    if is_filled(P):
        warn(
            f"{len(P.inequalities)} rows in {P.dim} coordinates are too many for a factor: the shrink is taken, which "
            'may learn slowly. method="nearest" learns well and takes longer; method="shrink" says that you know.'
        )
        return shrink(P, options, "bounds clamped, then a shrink: too many rows for steps with a factor")
    trial, near = Trial.of(P, *seen(P, options)), NEARLY if is_large(P) else NEAR
    count, way, left = trial.best(near=near)
    why = left_of_the_way(left, trial.judge)
    if left[-1] > near:
        if not is_large(P):
            return nearest(P, options, f"the nearest point: steps are far from it, {why}")
        _warn_of_far(trial, count, min(left), FAR)
    return Choice(trial.taken(count, way, options.factory), f"{count} steps and a shrink: {why}")


def left_of_the_way(left: Sequence[float], judge: str, counts: Sequence[int] = STEPS) -> str:
    tried = ", ".join(f"{share:.1%} after {steps}" for share, steps in zip(left, counts, strict=False))
    return f"what is left of the way to {judge} is {tried}"


def probabilities(P: Polyhedron, options: Options) -> Choice | None:
    """Softmax weights of the vertices where coordinates are shares: none negative, each in a sum that is stated."""
    E = P.equality_rows.matrix
    if P.dim > SMALL or not E.shape[0] or (P.lower_bounds != 0).any():
        return None
    ends = list(zip(E.indptr[:-1].tolist(), E.indptr[1:].tolist(), strict=True))
    shared = {int(j) for a, b in ends if len(set(E.data[a:b].tolist())) == 1 for j in E.indices[a:b]}
    if len(shared) < P.dim:
        return None
    try:
        few = replace(options, max_generators=MANY_VERTICES * P.dim)
        return vertices(P, few, "for probabilities")
    except RayhullError:  # too many, or floats that no conversion can verify: other ways need none
        return None


def is_filled(P: Polyhedron) -> bool:
    """Whether a factor, dense or sparse, would take too long."""
    return is_large(P) and P.rows.matrix.nnz + P.equality_rows.matrix.nnz > ENTRIES


def warn(message: str) -> None:
    warnings.warn(message, stacklevel=_level_of_caller())


def _level_of_caller() -> int:
    """The stacklevel (for whoever calls this) of the line outside rayhull and torch that makes the layer."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(INNER):
        level, frame = level + 1, frame.f_back
    return level + 1


METHODS: dict[str, Callable[[Polyhedron, Options], Choice]] = {
    "auto": auto,
    "nearest": nearest,
    "steps": steps,
    "shrink": shrink,
    "vertices": vertices,
    "rays": rays,
}


def choose(P: Polyhedron, options: Options) -> Choice:
    """The way into one block."""
    if options.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {options.method!r}.")
    if (S := with_cones(P)) is not None:
        return conic(S, options)
    if not len(P.rows) and not len(P.equality_rows):
        return Choice(Whole(P.dim, options.scale, options.factory), "no row holds here")
    return METHODS[options.method](P, options)


# -- other devices and exported graphs -------------------------------------------------------------------------------


def form_of(P: Polyhedron, base: Array, units: Array, factory: Factory, weights: Array | None = None) -> Way | Parts:
    """The nearest point in tensor operations alone: a solver branches on its numbers, which no graph can hold.

    Every block without a formula (:mod:`rayhull.projection.formulas`) takes steps of the kind and the number that a
    trial finds nearest, then the shrink; base point and units are the same, so that weights mean the same.
    """
    if weights is not None:
        return InUnits(P, weights**-0.5, factory)
    if (S := with_cones(P)) is not None:
        form, why = _tried(S, base, units, Options(factory=factory))
        form.elsewhere = why
        return form
    kinds = P.mirrored_groups
    if len(kinds) == len(kinds[0].index) == 1 and kinds[0].sign[0] > 0:
        return near_steps(P, base, units, factory)
    parts = []
    for kind in kinds:
        first = kind.index[0]
        way = Nearest(kind.polyhedron, base[first] * kind.sign[0], units[first], factory)
        way.prepare()
        parts.append(Part(P, kind, way, "", factory))
    return Parts(parts, factory)


def near_steps(P: Polyhedron, base: Array, units: Array, factory: Factory) -> Steps:
    """Steps of the kind that a trial finds nearest; none, which is the shrink, where rows are too many for a factor."""
    frame = inside(P, base)
    if is_large(P):
        return _leaving(1.0, Steps(P, frame, units, 0, factory))
    band = band_of(P)
    band = None if band is None or len(band) > BAND or not np.isin(band, frame.loose).all() else band
    trial = Trial.of(P, frame, units, band, kernel=False)
    is_curve = band is not None and P.inequalities.matrix.nnz > 2 * len(P.inequalities)
    usual = TIED if frame.equal.shape[1] else (ALONG if is_curve else AWAY)
    count, number, left = trial.best((usual,))
    if min(left) > COARSE:
        count, number, left = trial.best((MORE,))
    return _leaving(min(left), trial.taken(count, number, factory))


def _leaving(left: float, way: Steps) -> Steps:
    """The same, which says what it leaves."""
    way.elsewhere = f"{way.steps} steps and a shrink, which leave {left:.1%} of the way to the nearest point"
    return way


class InUnits(Way):
    """The nearest point by weighted distances, which is that of the set in units in which all weigh the same."""

    def __init__(self, P: Polyhedron, std: Array, factory: Factory) -> None:
        super().__init__(factory)
        Q = P.in_units(0, std.reshape(P.shape))
        base = inside(Q).base
        self.way = Nearest(Q, base, np.ones_like(base), factory)
        self.way.prepare()
        self.constant("std", std)
        self.keep_bounds(P)
        self.elsewhere = self.way.elsewhere

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        x = self.way(u / self.std, self._scaled(sides)) * self.std
        lower = self.lower if sides.lower is None else sides.lower
        return clamped(x, lower, self.upper if sides.upper is None else sides.upper) if self.bounded else x

    def _scaled(self, sides: Sides) -> Sides:
        lengths = {name: getattr(sides, name) for name in ("lower", "upper", "base")}
        return sides._replace(**{name: side / self.std for name, side in lengths.items() if side is not None})

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        return self.way.fits_graphs(sides)

    def certified(self, sides: Sides) -> Tensor | None:
        return self.way.certified(self._scaled(sides))


Nearest.form_of = staticmethod(form_of)
