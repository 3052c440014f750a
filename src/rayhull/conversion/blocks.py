"""The generators of one block: slack coordinates, rays of each pointed part, and the lift back to x."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rayhull.conversion.rays import RaySource
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact import INT64_SAFE, largest, primitive
from rayhull.exact_membership import exact_integers
from rayhull.generators import ExactGenerators, Generators
from rayhull.rows import Array, Rows
from rayhull.slack_form import SlackForm, slack_form

if TYPE_CHECKING:
    from rayhull.polyhedron import Polyhedron

MANY_PRODUCTS = 1_000_000
FLOAT_ERROR = 1e-7  # relative: what a float generator may break a row by after the lift, else it is refused


def block_generators(P: Polyhedron, source: RaySource) -> Generators:
    """Vertices, rays and lines of a set that is one block of coordinates."""
    form = slack_form(P)
    weights, points, rays = _in_slacks(P, form, source)
    numerators, denominators = form.lift(weights, points)
    lifted, _ = form.lift(np.zeros(len(rays), np.int64), rays)
    directions = np.concatenate([form.unit_rays(form.simplicial), lifted])
    if form.exact:
        G = Generators.from_exact(ExactGenerators(numerators, denominators, directions, form.lines))
        _prove_feasible(P, G)
    else:
        G = Generators(numerators, _scaled(directions), form.lines)
        G.exact = None  # rounded floats may look like small dyadic numbers; they are not meant as such
        _check_feasible(P, G)
    return G


def _in_slacks(P: Polyhedron, form: SlackForm, source: RaySource) -> tuple[Array, Array, Array]:
    """Homogeneous vertices (t, y), and the rays y of the parts that are not simplicial; parts combine as a product."""
    kind = form.G.dtype
    weights, points = np.ones(1, kind), np.zeros((1, form.rank), kind)
    rays = [np.zeros((0, form.rank), kind)]
    for coordinates, rows in form.parts():
        t, y, directions = _part(P, form.G[np.ix_(rows, coordinates)], form.g[rows], source)
        weights, points = _times(weights, points, t, y, coordinates)
        placed = np.zeros((len(directions), form.rank), dtype=directions.dtype)
        placed[:, coordinates] = directions
        rays.append(placed)
        source.limits.check(rays=len(points), row=len(rows), rows=len(rows), nbytes=8 * points.size)
    loose = np.setdiff1d(np.arange(len(form.G)), np.flatnonzero((form.G != 0).any(axis=1)))
    if (form.g[loose] < 0).any():
        raise EmptySetError("The rows have no common point: some of them add up to 0 <= a negative number.")
    return weights, points, np.concatenate(rays)


def _part(P: Polyhedron, G: Array, g: Array, source: RaySource) -> tuple[Array, Array, Array]:
    """One pointed part {y >= 0, G y + g >= 0}: vertices (t, y) and rays."""
    k = G.shape[1]
    if not g.any():  # a cone: its vertex is y = 0
        return np.ones(1, G.dtype), np.zeros((1, k), G.dtype), source.rays(G)
    y, height = _homogeneous_rays(G, g, source)
    finite = height > 0
    if not finite.any():
        raise EmptySetError(f"These {len(P.rows) + len(P.equality_rows)} rows have no common point.")
    return height[finite], y[finite], y[~finite]


def _homogeneous_rays(G: Array, g: Array, source: RaySource) -> tuple[Array, Array]:
    """Rays (y, t) of {y >= 0, t >= 0, G y + g t >= 0}.

    The slack s of one row with g != 0 takes t's place as a coordinate: t >= 0 says nothing about a bounded set, and
    starting from it makes the cones on the way large (a cross-polytope in R^10: 1676 rays instead of 20).
    """
    i = int(np.argmax(np.abs(g))) if g.dtype == np.float64 else int(np.flatnonzero(g)[0])
    others = np.arange(len(g)) != i
    sign, size = (1 if g[i] > 0 else -1), abs(g[i])
    swap = _exact_kind(G, g)
    G, g = G.astype(swap), g.astype(swap)
    rows = np.concatenate([size * G[others] - sign * g[others, None] * G[i], sign * g[others, None]], axis=1)
    above = np.concatenate([-sign * G[[i]], [[sign]]], axis=1)  # |g_i| t = sign (s - G_i y) >= 0
    C = np.concatenate([rows, above])
    rays = source.rays(C if swap == np.float64 else primitive(C))
    wide: Array = rays.astype(swap)
    y, s = wide[:, :-1], wide[:, -1]
    height = sign * (s - y @ G[i])
    if swap == np.float64:
        return y, np.where(np.abs(height) < 1e-9, 0.0, height) / size
    both = primitive(np.concatenate([size * y, height[:, None]], axis=1))
    return both[:, :-1], both[:, -1]


def _exact_kind(G: Array, g: Array) -> type:
    """Floats stay floats; integers become Python's where a product of two of them might not fit."""
    if G.dtype == np.float64:
        return np.float64
    return np.int64 if 2 * largest(G) * largest(g) < INT64_SAFE and largest(g) < 2**31 else object


def _times(t: Array, y: Array, s: Array, z: Array, coordinates: Array) -> tuple[Array, Array]:
    """Every vertex of the parts so far with every vertex of one more part."""
    i, j = (a.ravel() for a in np.meshgrid(np.arange(len(t)), np.arange(len(s)), indexing="ij"))
    if (s == 1).all() and (t == 1).all():
        points = y[i].astype(np.result_type(y, z))
        points[:, coordinates] = z[j]
        return t[i], points
    if y.dtype == np.float64:
        points = y[i] / t[i][:, None]
        points[:, coordinates] = z[j] / s[j][:, None]
        return np.ones(len(i)), points
    pairs = zip(t[i].tolist(), s[j].tolist(), strict=True)
    common = np.array([math.lcm(a, b) for a, b in pairs], dtype=object)
    points = y[i].astype(object) * (common // t[i])[:, None]
    points[:, coordinates] = z[j].astype(object) * (common // s[j])[:, None]
    return common, points


def _scaled(rays: Array) -> Array:
    size = np.abs(rays).max(axis=1, keepdims=True, initial=0.0)
    return rays / np.where(size > 0, size, 1.0)


def _prove_feasible(P: Polyhedron, G: Generators) -> None:
    """Every vertex and ray satisfies every row, in integers.

    That follows from what was proved before (y is feasible, and ``back`` is the inverse, which also makes every row 0
    on the lines), so it guards against a bug of ours, and it is left out where it would take many Python integers.
    """
    exact = G.exact
    assert exact is not None
    if exact.rays.dtype == object and exact.rays.size * len(P.rows) > MANY_PRODUCTS:
        return
    for rows, equal in ((P.rows, False), (P.equality_rows, True)):
        for slack in (_slack(rows, exact.numerators, exact.denominators), _slack(rows, exact.rays, None)):
            if slack.any() if equal else (slack < 0).any():
                raise UnverifiedError("A generator breaks a row in exact arithmetic: please report this as a bug.")


def _slack(rows: Rows, tops: Array, bottoms: Array | None) -> Array:
    """bottoms * rhs - tops @ row for each generator and row, exactly; sparse where the numbers fit."""
    data, rhs = exact_integers(rows) if rows.integers is None else rows.integers
    entries = int(np.diff(rows.matrix.indptr).max(initial=1))
    points = largest(tops) + (1 if bottoms is None else largest(bottoms))
    bound = points * (1 + entries * largest(data) + largest(rhs))
    kind = np.int64 if bound < INT64_SAFE else object
    values = np.zeros((len(tops), len(rows)), dtype=kind)
    tops, data, rhs = tops.astype(kind), data.astype(kind), rhs.astype(kind)
    if bottoms is not None:
        values += bottoms.astype(kind)[:, None] * rhs
    if not len(rows):
        return values
    if kind is np.int64:
        matrix = type(rows.matrix)((data, rows.matrix.indices, rows.matrix.indptr), shape=rows.matrix.shape)
        return values - (matrix @ tops.T).T
    for i in range(len(rows)):
        part = slice(rows.matrix.indptr[i], rows.matrix.indptr[i + 1])
        values[:, i] -= tops[:, rows.matrix.indices[part]].dot(data[part])
    return values


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
                    "A generator breaks a row by more than rounding explains: too ill-conditioned for floats. "
                    "Give the rows as integers or fractions, which are converted exactly."
                )
