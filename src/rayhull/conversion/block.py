"""The generators of one block: slack coordinates, rays of each pointed part, and the lift back to x."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from rayhull.conversion.budget import Limits
from rayhull.conversion.generators import ExactGenerators, Generators
from rayhull.conversion.slack_form import SlackForm, slack_form
from rayhull.conversion.slack_form_floats import float_slack_form
from rayhull.core.reference.floats import ADVICE, UNCERTAINTY, with_largest_1
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact.numbers import INT64_SAFE, joined, largest, primitive, product, short_kind, times
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

RaysOf = Callable[[Array], Array]  # the extreme rays of {y >= 0, C y >= 0}, by whoever finds them
FEW_PRODUCTS, MANY_PRODUCTS = 10_000_000, 1_000_000  # of machine integers, of Python's
CLEARLY_ZERO, CLEARLY_POSITIVE = 2.0**-40, 2.0**-38  # of a ray's t: the gap that double description leaves
FLOAT_ERROR = 1e-10  # relative: what a float generator may break a row by after the lift
MOST_EXACT_ENTRIES = 2500  # rows times coordinates of a block of floats that is still converted as fractions: seconds


def block_generators(P: Polyhedron, rays_of: RaysOf, limits: Limits) -> Generators:
    """Vertices, rays and lines of a set that is one block of coordinates.

    Floats are converted in floats. Where rounding could decide, every float is taken as the fraction that it is, which
    is always right and some 40 times slower; a block too large for that is refused.
    """
    if P.is_exact:
        return _in_integers(P, rays_of, limits)
    try:
        return _in_floats(P, rays_of, limits)
    except (UnverifiedError, EmptySetError) as doubt:
        if (len(P.rows) + len(P.equality_rows)) * P.dim > MOST_EXACT_ENTRIES:
            raise
        try:
            return _in_integers(P, rays_of, limits)
        except EmptySetError:  # perhaps by rounding alone: what floats say is nearer to what was meant
            raise doubt from None


def _in_integers(P: Polyhedron, rays_of: RaysOf, limits: Limits) -> Generators:
    form = slack_form(P)
    weights, points, rays = _in_slacks(P, form, rays_of, limits)
    exact = ExactGenerators(*form.points(weights, points), joined(rays), form.lines)
    _prove_feasible(P, exact)
    return Generators.from_exact(exact)


def _in_floats(P: Polyhedron, rays_of: RaysOf, limits: Limits) -> Generators:
    form = float_slack_form(P)
    weights, points, rays = _in_slacks(P, form, rays_of, limits)
    G = Generators.from_floats(form.points(weights, points)[0], with_largest_1(joined(rays)), form.lines)
    _check_feasible(P, G)
    return G


def _in_slacks(P: Polyhedron, form: SlackForm, rays_of: RaysOf, limits: Limits) -> tuple[Array, Array, list[Array]]:
    """Homogeneous vertices (t, y), parts combined as a product; and the rays of each part, in x."""
    parts, count, rays = [], 1, [form.simplicial_rays()]
    for coordinates, rows in form.parts():
        t, y, directions = _part(P, form.G[rows][:, coordinates], form.g[rows], rays_of)
        parts.append((t, y, coordinates))
        rays.append(form.rays(directions, coordinates))
        count *= len(t)
        limits.check(rays=count, row=len(rows), rows=len(rows), nbytes=8 * count * form.rank)
    if (form.g[~form.pattern.any(axis=1)] < 0).any():
        raise EmptySetError("The rows have no common point: some of them add up to 0 <= a negative number.")
    return *combined(form.rank, parts, form.G.dtype), rays


def combined(dim: int, parts: list[tuple[Array, Array, Array]], kind: Any = np.int64) -> tuple[Array, Array]:
    """Every choice of one point y / t from each part (t, y, coordinates), the first part slowest: (n,), (n, dim)."""
    whole = all((t == 1).all() for t, _, _ in parts)
    kind = np.result_type(kind, *(y.dtype for _, y, _ in parts)) if whole else object
    common = np.ones(math.prod(len(t) for t, _, _ in parts) if whole else 1, kind)
    for t, _, _ in () if whole else parts:
        common = np.lcm.outer(common, t).ravel()
    points, after = np.zeros((len(common), dim), kind), len(common)
    for t, y, places in parts:
        after //= max(1, len(t))
        choice = np.arange(len(common)) // max(1, after) % max(1, len(t))
        points[:, places] = y[choice] if whole else y[choice] * (common // t[choice])[:, None]
    return common, points


def _part(P: Polyhedron, G: Array, g: Array, rays_of: RaysOf) -> tuple[Array, Array, Array]:
    """One pointed part {y >= 0, G y + g >= 0}: vertices (t, y) and rays."""
    k = G.shape[1]
    if not g.any():  # a cone: its vertex is y = 0
        return np.ones(1, G.dtype), np.zeros((1, k), G.dtype), rays_of(G)
    y, height = _homogeneous_rays(G, g, rays_of)
    finite = height > 0
    if not finite.any():
        raise EmptySetError(f"These {len(P.rows) + len(P.equality_rows)} rows have no common point.")
    return height[finite], y[finite], y[~finite]


def _homogeneous_rays(G: Array, g: Array, rays_of: RaysOf) -> tuple[Array, Array]:
    """Rays (y, t) of {y >= 0, t >= 0, G y + g t >= 0}.

    The slack s of one row with g != 0 takes t's place as a coordinate: t >= 0 says nothing about a bounded set, and
    starting from it makes the cones on the way large (a cross-polytope in R^10: 1676 rays instead of 20).
    """
    if G.dtype == np.float64:
        return _float_rays(G, g, rays_of)
    small = 2 * largest(G) * largest(g) < INT64_SAFE and largest(g) < 2**31
    kind = np.int64 if small else object  # Python's integers where a product of two might not fit
    i = int(np.flatnonzero(g)[0])
    C, sign, size = _swapped(G.astype(kind), g.astype(kind), i)
    rays = rays_of(primitive(C))
    y = rays[:, :-1]
    height = sign * (rays[:, -1] - product(y, G[i, :, None])[:, 0])
    both = primitive(np.concatenate([times(y, np.array([int(size)], object)), height[:, None]], axis=1))
    return both[:, :-1], both[:, -1]


def _swapped(G: Array, g: Array, i: int) -> tuple[Array, int, Any]:
    """Rows C (y, s) >= 0 of the cone in which the slack s = G_i y + g_i t has taken t's place; sign and size of g_i.

    The last row says that t >= 0: |g_i| t = sign (s - G_i y).
    """
    rest = np.arange(len(g)) != i
    sign, size = (1 if g[i] > 0 else -1), abs(g[i])
    rows = np.concatenate([size * G[rest] - sign * g[rest, None] * G[i], sign * g[rest, None]], axis=1)
    above = np.concatenate([-sign * G[[i]], [[sign]]], axis=1)
    return np.concatenate([rows, above]), sign, size


def _float_rays(G: Array, g: Array, rays_of: RaysOf) -> tuple[Array, Array]:
    """The same in floats.

    The row of median distance is swapped: a far or a near one would cost the others their digits. A ray's t is its
    slack of the last row, which double description left either 0 up to rounding or clearly positive; vertices come with
    t = 1.
    """
    distance = np.abs(g) / np.maximum(np.abs(G).max(axis=1), 1e-300)
    nonzero = np.flatnonzero(g)
    i = int(nonzero[np.argsort(distance[nonzero], kind="stable")[(len(nonzero) - 1) // 2]])
    C, sign, size = _swapped(G, g, i)
    terms = np.abs(np.delete(G, i, axis=0)) * size, np.abs(np.delete(g, i)[:, None] * G[i])
    difference = C[:-1, :-1]
    difference[np.abs(difference) <= UNCERTAINTY * np.minimum(*terms)] = 0.0  # what two equal terms leave is rounding
    rays = rays_of(C)
    height = sign * (rays[:, -1] - rays[:, :-1] @ G[i])
    relative = height / np.abs(C[-1]).sum()
    if ((relative > CLEARLY_ZERO) & (relative < CLEARLY_POSITIVE)).any():
        raise UnverifiedError(f"Floats cannot tell a vertex that is very far away from a ray. {ADVICE}")
    finite = relative > CLEARLY_ZERO
    return rays[:, :-1] / np.where(finite, height / size, 1.0)[:, None], finite.astype(float)


def _prove_feasible(P: Polyhedron, exact: ExactGenerators) -> None:
    """Every vertex and ray satisfies every row, in integers.

    That follows from what was proved before (y is feasible, and the edges are those of the chosen rows), so it guards
    against a bug of ours, and it is left out where it would take many Python integers.
    """
    if exact.rays.dtype == object and exact.rays.size * len(P.rows) > MANY_PRODUCTS:
        return
    for rows, equal in ((P.rows, False), (P.equality_rows, True)):
        rhs = rows.exact[1]
        if not len(rhs):
            continue
        for tops, bottoms in ((exact.numerators, exact.denominators), (exact.rays, exact.denominators[:0])):
            value = _values(rows, tops) if tops.any() else np.zeros((1, 1), np.int64)
            most = times(bottoms[:, None], rhs) if rhs.any() and len(bottoms) else np.zeros((1, 1), np.int64)
            if (value != most).any() if equal else (value > most).any():
                raise UnverifiedError("A generator breaks a row in exact arithmetic: please report this as a bug.")


def _values(rows: Rows, tops: Array) -> Array:
    """tops @ row for each generator and row, exactly; sparse where that is less work and the numbers fit."""
    m, d, entries = len(rows.sizes), rows.dim, int(rows.sizes.max())
    sparse = len(tops) * m * d >= FEW_PRODUCTS and 20 * entries <= d
    bound = entries * largest(rows.exact[0]) * largest(tops) if sparse else 0
    if not sparse or bound >= INT64_SAFE:
        return product(tops, rows.dense_integers()[0].T)
    kind = short_kind(bound)
    matrix = sp.csr_array((rows.exact[0].astype(kind), rows.indices, rows.indptr), shape=(m, d))
    values: Array = matrix @ np.ascontiguousarray(tops.astype(kind).T)
    return values.T


def _check_feasible(P: Polyhedron, G: Generators) -> None:
    """Float generators break no row by more than rounding after the lift."""
    for rows, equal in ((P.rows, False), (P.equality_rows, True)):
        for points, rhs in ((G.vertices, rows.rhs), (G.rays, 0.0), (G.lines, 0.0)):
            value = (rows.matrix @ points.T).T - rhs
            norms = np.asarray(abs(rows.matrix).sum(axis=1)).ravel()
            size = np.abs(points).max(axis=1, initial=0.0)[:, None] * norms + np.abs(rhs)
            excess = np.abs(value) if equal or points is G.lines else value
            if (excess > FLOAT_ERROR * np.maximum(size, 1e-300)).any():
                raise UnverifiedError(
                    f"A generator breaks a row by more than rounding explains: too ill-conditioned for floats. {ADVICE}"
                )
