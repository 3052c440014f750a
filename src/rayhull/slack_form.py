"""A set in the coordinates of its own slacks: lines split off, hidden blocks apart, each block pointed.

Pick independent rows: the equalities E x = e, then inequalities B x <= b. With y = b - B x the set becomes

    {y >= 0, G y + g >= 0},      x = lift(y) + any combination of the lines,

where G expresses the other rows through the chosen ones. Components of G's pattern are blocks, also those that the
sparsity of A hides. A block without rows in G is simplicial: its rays are the unit vectors of y.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rayhull.elimination import independent_rows, inverse
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact import INT64_SAFE, contents, narrow, primitive, product, sort_rows
from rayhull.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.polyhedron import Polyhedron

# In floats, what is below NEGLIGIBLE (relative) counts as 0 and what is above CERTAIN as not 0; in between we refuse.
NEGLIGIBLE, CERTAIN = 1e-11, 1e-8


@dataclass(frozen=True, eq=False)
class SlackForm:
    """The set {y >= 0, G y + g >= 0} and the way back to x."""

    exact: bool
    G: Array  # (n, r) the other inequalities, each scaled by a positive number
    g: Array  # (n,)
    lines: Array  # (l, d) directions along which no row changes; integers where exact
    pivots: Array  # the columns of x that the lift fills
    back: Array  # (k + r, k + r): back @ [E; B][:, pivots] = scale * I
    scale: int
    offsets: Array  # (k + r,): e, then b
    dim: int

    @property
    def rank(self) -> int:
        """r: the number of slack coordinates."""
        return int(self.G.shape[1])

    @property
    def simplicial(self) -> Array:
        """Slack coordinates that no row of G mentions: the unit vectors along them are rays."""
        return np.flatnonzero(~(self.G != 0).any(axis=0))

    def parts(self) -> Iterator[tuple[Array, Array]]:
        """The other blocks, as (slack coordinates, rows of G)."""
        n, r = self.G.shape
        if not n:
            return
        filled = sp.csr_array((self.G != 0).astype(np.int8))
        graph = sp.block_array([[None, filled.T], [filled, None]], format="csr")
        _, labels = connected_components(graph, directed=False)
        for label in np.unique(np.delete(labels[:r], self.simplicial)):
            yield np.flatnonzero(labels[:r] == label), np.flatnonzero(labels[r:] == label)

    def unit_rays(self, coordinates: Array) -> Array:
        """The directions x along which one slack grows by 1 and the others stay: columns of ``back``."""
        columns = self.back[:, len(self.offsets) - self.rank + coordinates]
        x = np.zeros((len(coordinates), self.dim), dtype=self.back.dtype)
        x[:, self.pivots] = -columns.T
        return primitive(x) if self.exact else x

    def lift(self, t: Array, y: Array) -> tuple[Array, Array]:
        """The points or directions (t, y), homogeneous: numerators (n, d) and denominators (n,).

        t = 0 is a direction (its denominator is 1), t > 0 the point y / t.
        """
        equalities = len(self.offsets) - self.rank
        rhs = t[:, None] * self.offsets[None, :]
        rhs = rhs.astype(object) if y.dtype == object else rhs.astype(np.result_type(rhs, y))
        rhs[:, equalities:] -= y
        filled = product(rhs, self.back.T) if self.exact else rhs @ self.back.T
        x = np.zeros((len(y), self.dim), dtype=filled.dtype)
        x[:, self.pivots] = filled
        if not self.exact:
            x[np.abs(x) < 4 * np.finfo(float).eps * np.abs(x).max(axis=1, keepdims=True, initial=0.0)] = 0.0
            return x / np.where(t > 0, t, 1.0)[:, None], np.ones(len(x))
        return _reduced(x, narrow(t.astype(object) * self.scale))


def _reduced(x: Array, denominator: Array) -> tuple[Array, Array]:
    """Fractions in lowest terms, row by row; directions (denominator 0) become primitive with denominator 1."""
    both = primitive(np.concatenate([x, denominator[:, None]], axis=1))
    bottom = both[:, -1]
    return both[:, :-1], np.where(bottom == 0, 1, bottom)


def slack_form(P: Polyhedron) -> SlackForm:
    """Split off the lines and express every row through independent ones: exactly where P is exact."""
    return _exact_form(P) if P.is_exact else _float_form(P)


def _exact_form(P: Polyhedron) -> SlackForm:
    E, e = P.equality_rows.dense_integers()
    A, b = _tightest(*P.rows.dense_integers())
    both = np.concatenate([E, A])
    rows, pivots = independent_rows(both)
    chosen = both[rows]
    back, scale = inverse(chosen[:, pivots])
    rest = np.setdiff1d(np.arange(len(both)), rows)
    through = product(both[rest[:, None], pivots], back)  # scale * (rest expressed through chosen)
    if not (product(through, chosen) == scale * both[rest].astype(object)).all():
        raise UnverifiedError(
            "Two rows are dependent modulo 2^31 - 1 only, so the rank is not certain: scale a row by 2."
        )
    offsets = np.concatenate([e, b])
    residual = narrow(scale * offsets[rest].astype(object) - product(through, offsets[rows][:, None])[:, 0])
    k = int((rows < len(E)).sum())
    wrong = np.flatnonzero((rest < len(E)) & (residual != 0))
    if len(wrong):
        name = P.equality_rows.names[rest[wrong[0]]]
        raise EmptySetError(f"The equalities have no common point: {name} contradicts those before it.", (name,))
    keep = rest >= len(E)
    joined = primitive(np.concatenate([through[keep][:, k:], residual[keep][:, None]], axis=1))
    free = np.setdiff1d(np.arange(P.dim), pivots)
    tied = product(back, chosen[:, free])  # (k + r, l): how the pivots follow a step of scale along a free column
    lines = np.zeros((len(free), P.dim), dtype=tied.dtype if scale < INT64_SAFE else object)
    lines[np.arange(len(free)), free] = scale
    lines[:, pivots] = -tied.T
    # slack of a rest row: residual + through @ y, both times the positive scale
    return SlackForm(True, joined[:, :-1], joined[:, -1], primitive(lines), pivots, back, scale, offsets[rows], P.dim)


def _tightest(A: Array, b: Array) -> tuple[Array, Array]:
    """Primitive rows in descending lexicographic order, of parallel ones only the tightest."""
    if not len(A):
        return A, b
    common = contents(A)
    A = A if (common == 1).all() else narrow(A // common[:, None])
    order = sort_rows(A)[::-1]
    new = np.concatenate([[True], (A[order[1:]] != A[order[:-1]]).any(axis=1)])
    keep = order
    if not new.all():
        groups = np.split(order, np.flatnonzero(new)[1:])
        keep = np.array([min(g, key=lambda i: Fraction(int(b[i]), int(common[i]))) for g in groups])
    scale = common[keep]
    if (scale == 1).all():
        return A[keep], b[keep]
    whole = b[keep] % scale == 0
    factor = np.where(whole, 1, scale)  # a row stays an integer one: a x <= b / c becomes c a x <= b
    return narrow(A[keep] * factor[:, None]), narrow(np.where(whole, b[keep] // scale, b[keep]))


def _float_form(P: Polyhedron) -> SlackForm:
    E, e = _unit_rows(P.equality_rows)
    A, b = _unit_rows(P.rows)
    span = _row_space(E, P)
    outside = A - (A @ span.T) @ span
    chosen_rows = _pivot_rows(outside, "inequalities")
    chosen_eq = _pivot_rows(E, "equalities")
    chosen = np.concatenate([E[chosen_eq], A[chosen_rows]])
    back = np.linalg.pinv(chosen)  # (d, k + r): the least-norm lift, so every column of x is a pivot
    k, rest = len(chosen_eq), np.setdiff1d(np.arange(len(A)), chosen_rows)
    offsets = np.concatenate([e[chosen_eq], b[chosen_rows]])
    if len(E) and np.abs(E @ (back @ offsets) - e).max(initial=0.0) > CERTAIN * (1 + np.abs(e).max(initial=0.0)):
        raise EmptySetError("The equalities have no common point.", P.equality_rows.names)
    through = _clear(A[rest] @ back, "coefficient")
    residual = _clear(b[rest] - through @ offsets, "right-hand side")
    lines = scipy.linalg.null_space(chosen).T if len(chosen) else np.eye(P.dim)
    return SlackForm(False, through[:, k:], residual, lines, np.arange(P.dim), back, 1, offsets, P.dim)


def _unit_rows(rows: Rows) -> tuple[Array, Array]:
    dense = rows.matrix.toarray()
    norms = np.linalg.norm(dense, axis=1) if len(dense) else np.ones(0)
    return dense / norms[:, None], rows.rhs / norms


def _row_space(E: Array, P: Polyhedron) -> Array:
    if not len(E):
        return np.zeros((0, P.dim))
    _, values, basis = np.linalg.svd(E, full_matrices=False)
    return basis[: _gapped_rank(values, "equalities")]


def _pivot_rows(A: Array, what: str) -> Array:
    """Independent rows by pivoted QR; a rank that rounding could change is refused."""
    if not len(A):
        return np.zeros(0, np.int64)
    _, triangle, order = scipy.linalg.qr(A.T, mode="economic", pivoting=True)
    rank = _gapped_rank(np.abs(np.diag(triangle)), what)
    return np.sort(order[:rank])


def _gapped_rank(values: Array, what: str) -> int:
    unsure = (values > NEGLIGIBLE) & (values < CERTAIN)
    if unsure.any():
        raise UnverifiedError(
            f"Floats cannot tell whether these {what} are independent (a pivot of {values[unsure][0]:.1e} is neither 0 "
            "nor clearly not). Give the rows as integers or fractions, which are converted exactly."
        )
    return int((values >= CERTAIN).sum())


def _clear(values: Array, what: str) -> Array:
    unsure = (np.abs(values) > NEGLIGIBLE) & (np.abs(values) < CERTAIN)
    if unsure.any():
        raise UnverifiedError(
            f"Floats cannot tell whether a {what} is 0 ({values[unsure][0]:.1e} after scaling). "
            "Give the rows as integers or fractions, which are converted exactly."
        )
    return np.where(np.abs(values) <= NEGLIGIBLE, 0.0, values)
