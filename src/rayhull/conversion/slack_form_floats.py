"""The slack form of rows given as floats: the same coordinates, with a bound on the rounding of every number.

Rows are scaled to length 1, and what is compared is relative, so that the answer does not depend on the scale of a row
or on the unit of x. A number counts as 0 only where its own rounding error explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from rayhull.conversion.slack_form import SlackForm
from rayhull.core.reference.floats import ADVICE, CLEAR_LEVEL, UNCERTAINTY
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact.numbers import others
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

EPS = float(np.finfo(float).eps)
# Pivots of unit rows up to NEGLIGIBLE are rounding and from CERTAIN on are not; in between we refuse.
NEGLIGIBLE, CERTAIN = 2.0**-43, 1e-8
MOST_ERROR = CLEAR_LEVEL * UNCERTAINTY / 2  # of a row in slack coordinates, so that a sign that is clear is right


@dataclass(frozen=True, eq=False)
class FloatSlackForm(SlackForm):
    """A slack form in floats."""

    def rays(self, y: Array, coordinates: Array) -> Array:
        return _without_rounding(y @ self.edges[self.equalities + coordinates])

    def points(self, t: Array, y: Array) -> tuple[Array, Array]:
        weights = np.broadcast_to(-self.offsets, (len(y), len(self.offsets))).copy()
        weights[:, self.equalities :] += y
        return _without_rounding(weights @ self.edges), t


def _without_rounding(x: Array) -> Array:
    """Entries that are only rounding beside the largest one of their row become 0."""
    x[np.abs(x) < 4 * EPS * np.abs(x).max(axis=1, keepdims=True, initial=0.0)] = 0.0
    return x


def float_slack_form(P: Polyhedron) -> FloatSlackForm:
    """Express every row through independent ones; what rounding could change is refused."""
    (E, e), (A, b) = ((unit.toarray(), rhs) for unit, rhs, _ in (P.equality_rows.unit, P.rows.unit))
    chosen_eq = _independent(E, np.abs(e), "equalities")
    span = scipy.linalg.orth(E[chosen_eq].T).T if len(chosen_eq) else np.zeros((0, P.dim))
    chosen_rows = _independent(A - (A @ span.T) @ span, np.abs(b), "inequalities")
    chosen = np.concatenate([E[chosen_eq], A[chosen_rows]])
    offsets = np.concatenate([e[chosen_eq], b[chosen_rows]])
    back, error = _right_inverse(chosen)
    _refuse_contradiction(P, E, e, back @ offsets)
    rest = others(chosen_rows, len(A))
    G, g = _expressed(A[rest], b[rest], offsets, back, error)
    lines = scipy.linalg.null_space(chosen).T if len(chosen) else np.eye(P.dim)
    return FloatSlackForm(G[:, len(chosen_eq) :], g, lines, -back.T, np.ones(len(offsets)), offsets)


def _independent(A: Array, offsets: Array, what: str) -> Array:
    """As many independent rows as the rank, by pivoted QR; those near the origin first, since offsets cancel.

    A right-hand side of 1e9 among the chosen rows would leave the others 7 digits.
    """
    if not len(A):
        return np.zeros(0, np.int64)
    pivots, order = _pivoted(A)
    rank = _gapped_rank(pivots, what)
    nearest = offsets[offsets > 0].min(initial=np.inf)
    with np.errstate(over="ignore"):  # infinitely far serves as well
        weights = np.where(np.count_nonzero(A, axis=1) == 1, 1.0, 0.5) / (1.0 + offsets / nearest)
    near = _pivoted(A * weights[:, None])[1][:rank]
    if rank and _pivoted(A[near])[0].min() >= CERTAIN:
        return np.sort(near)
    return np.sort(order[:rank])


def _pivoted(A: Array) -> tuple[Array, Array]:
    """The pivots of a QR decomposition of the rows, largest first, and the order of the rows."""
    _, triangle, order = scipy.linalg.qr(A.T, mode="economic", pivoting=True)
    return np.abs(np.diag(triangle)), order


def _gapped_rank(pivots: Array, what: str) -> int:
    unsure = pivots[(pivots > NEGLIGIBLE) & (pivots < CERTAIN)]
    if len(unsure):
        raise UnverifiedError(
            f"Floats cannot tell whether these {what} are independent (a pivot of {unsure[0]:.1e} is neither 0 "
            f"nor clearly not). {ADVICE}"
        )
    return int((pivots >= CERTAIN).sum())


def _right_inverse(chosen: Array) -> tuple[Array, Array]:
    """X (d, k + r) of least norm with chosen X = 1, and a bound on the error of each entry."""
    if not len(chosen):
        return chosen.T, chosen.T
    Q, R = scipy.linalg.qr(chosen.T, mode="economic")
    X = scipy.linalg.solve_triangular(R, Q.T).T
    value, rounding = _product(chosen, X)
    return X, np.abs(X) @ (np.abs(np.eye(len(chosen)) - value) + rounding)


def _product(left: Array, right: Array) -> tuple[Array, Array]:
    """left @ right, and a bound on its rounding where several terms are added."""
    terms = (left != 0).astype(float) @ (right != 0).astype(float)
    return left @ right, EPS * np.where(terms > 1, terms, 0.0) * (np.abs(left) @ np.abs(right))


def _refuse_contradiction(P: Polyhedron, E: Array, e: Array, x: Array) -> None:
    """Dependent equalities must agree, at the point x that the independent ones give."""
    residual = np.abs(E @ x - e) / np.maximum(np.abs(E) @ np.abs(x) + np.abs(e), 1e-300)
    i = int(np.argmax(residual, axis=0)) if len(E) else -1
    if i >= 0 and residual[i] > CERTAIN:
        raise EmptySetError(
            f"The equalities have no common point: {P.equality_rows.names[i]} contradicts the others.",
            tuple(P.equality_rows.names),
        )
    if i >= 0 and residual[i] > NEGLIGIBLE:
        raise UnverifiedError(
            f"Floats cannot tell whether the equalities have a common point: {P.equality_rows.names[i]} differs from "
            f"what the others imply by {residual[i]:.1e} (relative). {ADVICE}"
        )


def _expressed(A: Array, b: Array, offsets: Array, back: Array, error: Array) -> tuple[Array, Array]:
    """Each row through the chosen ones: slack = g + G y with G = A back and g = b - G offsets, rounding cleared."""
    G, rounding = _product(A, back)
    error = rounding + np.abs(A) @ error
    through, rounding_g = _product(G, offsets[:, None])
    g = b - through[:, 0]
    error_g = error @ np.abs(offsets) + rounding_g[:, 0] + 4 * EPS * (np.abs(b) + np.abs(G) @ np.abs(offsets))
    errors, sizes = np.maximum(error.max(axis=1, initial=0.0), error_g), np.abs(G).sum(axis=1) + np.abs(g)
    worst = float((errors / np.maximum(sizes, 1e-300)).max(initial=0.0))
    if worst > MOST_ERROR:
        raise UnverifiedError(
            f"The rows are too ill-conditioned for floats: one of them keeps an error of {worst:.1e} (relative) "
            f"when it is expressed through independent ones. {ADVICE}"
        )
    return np.where(np.abs(G) <= error, 0.0, G), np.where(np.abs(g) <= error_g, 0.0, g)
