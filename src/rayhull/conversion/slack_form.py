"""A set in the coordinates of its own slacks: lines split off, hidden blocks apart, each block pointed.

Pick independent rows: the equalities E x = e, then inequalities B x <= b. With y = b - B x the set becomes

    {y >= 0, G y + g >= 0},      x = a sum of edges + any combination of the lines,

where G expresses the other rows through the chosen ones. Components of G's pattern are blocks, also those that the
sparsity of A hides. A block without rows in G is simplicial: its rays are edges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rayhull.core.conversion import independent_rows, primitive_product
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact.elimination import inverse
from rayhull.exact.numbers import INT64_SAFE, contents, narrow, others, places, primitive, product, sort_rows, times
from rayhull.sets.products import tied_columns
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STRIP = 64  # rows that are transposed at a time: columns of a large matrix are far apart in memory


@dataclass(frozen=True, eq=False)
class SlackForm:
    """The set {y >= 0, G y + g >= 0} and the way back to x, in integers.

    :class:`~rayhull.conversion.slack_form_floats.FloatSlackForm` is the same for rows of floats.
    """

    G: Array  # (n, r) the other inequalities, each scaled by a positive number
    g: Array  # (n,)
    lines: Array  # (l, d) directions along which no row changes; integers where exact
    edges: Array  # (k + r, d): along edge j the slack of chosen row j grows by scales[j] and no other changes
    scales: Array  # (k + r,), positive
    offsets: Array  # (k + r,): e, then b

    @property
    def rank(self) -> int:
        """r: the number of slack coordinates."""
        return int(self.G.shape[1])

    @property
    def equalities(self) -> int:
        """k: the number of independent equalities."""
        return len(self.offsets) - self.rank

    @cached_property
    def pattern(self) -> Array:
        """Where G is not 0."""
        return self.G != 0

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """The other blocks, as (slack coordinates, rows of G)."""
        sizes = self.pattern.sum(axis=1)
        if sizes.max(initial=0) == self.rank:  # one row ties all of them
            yield np.arange(self.rank), sizes.nonzero()[0]
            return
        rows, columns = places(self.pattern)
        labels = tied_columns(rows, columns, self.rank)
        of_row = np.full(len(self.G), -1)
        of_row[rows] = labels[columns]
        for label in np.unique(labels[columns]):
            yield np.flatnonzero(labels == label), np.flatnonzero(of_row == label)

    def simplicial_rays(self) -> Array:
        """Edges of coordinates that no row of G mentions; primitive, as a divisor would divide their scales too."""
        rays, simplicial = self.edges[self.equalities :], ~self.pattern.any(axis=0)
        return rays if simplicial.all() else rays[simplicial]

    def rays(self, y: Array, coordinates: Array) -> Array:
        """The directions y in x, (n, d), from the slack coordinates (n, c) that are not 0."""
        chosen = self.equalities + coordinates
        weights, edges, _ = _over_one_scale(y, self.edges[chosen], self.scales[chosen])
        return primitive_product(weights, edges)

    def points(self, t: Array, y: Array) -> tuple[Array, Array]:
        """The points y / t, t > 0, in x: numerators (n, d) and denominators (n,), in lowest terms."""
        if not y.any() and not self.offsets.any():  # the vertex of a cone
            return np.zeros((len(y), self.edges.shape[1]), self.edges.dtype), np.ones(len(y), self.edges.dtype)
        weights = -times(t[:, None], self.offsets)
        weights = weights.astype(np.result_type(weights, y))
        weights[:, self.equalities :] += y
        x, scale = sum_of_edges(weights, self.edges, self.scales)
        bottom = times(t, np.array([scale], dtype=object))
        both = primitive(np.concatenate([x, bottom[:, None]], axis=1))
        return both[:, :-1], both[:, -1]


def sum_of_edges(weights: Array, edges: Array, scales: Array) -> tuple[Array, int]:
    """(weights / scales) @ edges as integers and their common denominator."""
    weights, edges, scale = _over_one_scale(weights, edges, scales)
    return product(weights, edges), scale


def _over_one_scale(weights: Array, edges: Array, scales: Array) -> tuple[Array, Array, int]:
    """Weights that are used, their edges over one denominator, and it."""
    scale = math.lcm(*scales.tolist())
    used = np.asarray(weights.any(axis=0))
    if 2 * used.sum() < len(used):  # a product looks through both of its factors
        weights, edges, scales = weights[:, used], edges[used], scales[used]
    if scale > min(scales.tolist(), default=scale):
        edges = times(edges, narrow(np.array([[scale // s] for s in scales.tolist()], dtype=object)))
    return weights, edges, scale


def slack_form(P: Polyhedron) -> SlackForm:
    """Split off the lines and express every row of an exact set through independent ones."""
    E, e = P.equality_rows.dense_integers()
    A, b = _tightest(*P.rows.dense_integers())
    both = np.concatenate([E, A]) if len(E) else A
    rows, pivots = _independent(both, len(E))
    chosen = both[rows] if len(rows) < len(both) else both
    edges, scales = _edges(chosen, pivots)
    lines, rest = _lines(chosen, pivots, edges, scales), others(rows, len(both))
    if len(lines) and product(both[rest], lines.T).any():
        raise UnverifiedError("A row changes along a line: this is a fault in rayhull; please report the rows.")
    offsets = np.concatenate([e, b]) if len(E) else b
    sums = -product(both[rest], edges.T) if len(rest) else np.zeros((0, len(rows)), np.int64)
    G, g = _through(sums, scales, offsets[rest], offsets[rows])
    if len(E):
        wrong = np.flatnonzero((rest < len(E)) & (g != 0))
        if len(wrong):
            name = P.equality_rows.names[rest[wrong[0]]]
            raise EmptySetError(f"The equalities have no common point: {name} contradicts those before it.", (name,))
        keep, k = rest >= len(E), int((rows < len(E)).sum())
        G, g = G[keep, k:], g[keep]
    joined = primitive(np.concatenate([G, g[:, None]], axis=1))
    return SlackForm(joined[:, :-1], joined[:, -1], lines, edges, scales, offsets[rows])


def _edges(chosen: Array, pivots: Array) -> tuple[Array, Array]:
    """For each chosen row the direction in the pivot columns along which its slack alone grows, and by how much."""
    # neighbours in order as a slice, which copies nothing: chains of 784 coordinates are a matrix of 5 MB
    neighbours = len(pivots) > 0 and bool((pivots[1:] == pivots[:-1] + 1).all())
    columns = slice(int(pivots[0]), int(pivots[-1]) + 1) if neighbours else pivots
    back, scales = inverse(chosen[:, columns])
    edges = np.zeros(chosen.shape, np.promote_types(back.dtype, np.int64))
    for start in range(0, len(edges), STRIP):
        edges[start : start + STRIP, columns] = -back[:, start : start + STRIP].T
    return edges, scales


def _independent(both: Array, equalities: int) -> tuple[Array, Array]:
    """Independent rows that span all of them, as many equalities as can be, and a pivot column for each.

    Elimination is modulo a prime, where an equality may seem to depend on those before it and an inequality then takes
    its place. That shows in the rank of the equalities; inequalities are then chosen by what they do along their lines.
    """
    rows, pivots = independent_rows(both)
    if not equalities:
        return rows, pivots
    E, A = both[:equalities], both[equalities:]
    first, columns = independent_rows(E)
    if (rows < equalities).sum() == len(first):
        return rows, pivots
    along = product(A, _lines(E[first], columns, *_edges(E[first], columns)).T)
    rows = np.concatenate([first, equalities + independent_rows(along)[0]])
    return rows, independent_rows(both[rows])[1]


def _lines(chosen: Array, pivots: Array, edges: Array, scales: Array) -> Array:
    """Primitive directions along which no chosen row changes, one for each column that is no pivot."""
    free = others(pivots, chosen.shape[1])
    if not len(free):
        return edges[:0]
    lines, scale = sum_of_edges(chosen[:, free].T, edges, scales)  # how the pivots follow a step along a free column
    if scale >= INT64_SAFE:
        lines = lines.astype(object)
    lines[np.arange(len(free)), free] = scale
    return primitive(lines)


def _through(sums: Array, scales: Array, offsets: Array, chosen: Array) -> tuple[Array, Array]:
    """G and g: each row, slack = its offset - (sums / scales) @ (chosen offsets - y), times a positive integer."""
    if (scales == 1).all():
        G, factors = sums, np.ones(len(sums), np.int64)
    else:
        factors = _common(sums != 0, scales)
        G = times(sums, np.where(sums != 0, factors[:, None] // scales, 0))
    if not offsets.any() and not chosen.any():  # a cone
        return G, np.zeros(len(G), np.int64)
    return G, narrow(times(factors, offsets) - product(G, chosen[:, None])[:, 0])


def _common(used: Array, scales: Array) -> Array:
    """The least common multiple of the scales that each row uses: (n, k + r), (k + r,) -> (n,)."""
    if math.lcm(*scales.tolist()) < INT64_SAFE:
        return np.lcm.reduce(np.where(used, scales, 1).astype(np.int64), axis=1, initial=1)
    return narrow(np.array([math.lcm(*scales[row].tolist()) for row in used], dtype=object))


def _tightest(A: Array, b: Array) -> tuple[Array, Array]:
    """Primitive rows, small ones first, then in descending lexicographic order; of parallel ones only the tightest.

    The first independent rows become coordinates: small ones keep all later numbers small, and rows that others imply
    tend to be sums of them. Sizes count by factors of 8, so that rows of 0, 1, 2 and 3 stay in order.
    """
    if not len(A):
        return A, b
    common = contents(A)
    A = primitive(A)
    keep = sort_rows(A)[::-1]
    sizes = np.abs(A).max(axis=1)
    sizes = np.array([v.bit_length() for v in sizes.tolist()]) if A.dtype == object else np.frexp(sizes)[1]
    keep = keep[np.argsort(sizes[keep] // 3, kind="stable")]
    ordered = A[keep]
    new = (ordered[1:] != ordered[:-1]).any(axis=1)
    if not new.all():
        groups = np.split(keep, np.flatnonzero(new) + 1)
        keep = np.array([min(g, key=lambda i: Fraction(int(b[i]), int(common[i]))) for g in groups])
    if (common == 1).all():
        return (A, b) if np.array_equal(keep, np.arange(len(A))) else (A[keep], b[keep])
    scale = common[keep]
    whole = b[keep] % scale == 0
    factor = np.where(whole, 1, scale)  # a row stays an integer one: a x <= b / c becomes c a x <= b
    return narrow(A[keep] * factor[:, None]), narrow(np.where(whole, b[keep] // scale, b[keep]))
