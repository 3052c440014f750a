"""To and from other libraries: constraints of scipy.optimize, and affine constraints of cvxpy (an extra)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint

from rayhull.errors import MissingExtraError
from rayhull.sets.expressions import Expression, expression
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape
from rayhull.sets.rule import Rule
from rayhull.sets.rules import rules, variables

SIGNS = {"Inequality": "<=", "NonPos": "<=", "NonNeg": ">=", "Equality": "==", "Zero": "=="}  # of cvxpy

# -- scipy.optimize: LinearConstraint (lb <= A x <= ub) and Bounds ---------------------------------------------------


def from_scipy(constraints: Any, bounds: Any = None, shape: Shape | None = None) -> Polyhedron:
    """The set of one or several ``LinearConstraint`` and ``Bounds``; rows with lb = ub become equalities."""
    listed = [constraints] if isinstance(constraints, LinearConstraint) else list(constraints or [])
    above, equal = [], []
    for item in listed:
        if not isinstance(item, LinearConstraint):
            raise TypeError(f"expected scipy.optimize.LinearConstraint, got {type(item).__name__}.")
        A = sp.csr_array(item.A) if sp.issparse(item.A) else sp.csr_array(np.atleast_2d(item.A))
        low, high = (np.broadcast_to(np.asarray(v, float), A.shape[0]) for v in (item.lb, item.ub))
        same, up, down = low == high, (high < np.inf) & (low != high), (low > -np.inf) & (low != high)
        equal.append((A[np.flatnonzero(same)], low[same]))
        above.append((A[np.flatnonzero(up)], high[up]))
        above.append((-A[np.flatnonzero(down)], -low[down]))
    return Polyhedron(
        *_joined(above), *_joined(equal),
        lower=None if bounds is None else _bound(bounds.lb),
        upper=None if bounds is None else _bound(bounds.ub),
        shape=shape,
    )  # fmt: skip


def _bound(values: Any) -> Any:
    """scipy keeps one bound for all coordinates as an array of length 1."""
    array = np.asarray(values)
    return array.reshape(()) if array.size == 1 else array


def _joined(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    if not parts:
        return None, None
    return sp.csr_array(sp.vstack([a for a, _ in parts], format="csr")), np.concatenate([b for _, b in parts])


def to_scipy(P: Polyhedron) -> tuple[LinearConstraint, Bounds]:
    """``A x <= b`` and ``A_eq x = b_eq`` as one LinearConstraint, the bounds as one Bounds."""
    rows, equalities = P.inequalities, P.equalities
    matrix = sp.csr_array(sp.vstack([rows.matrix, equalities.matrix], format="csr"))
    low = np.concatenate([np.full(len(rows), -np.inf), equalities.rhs])
    return LinearConstraint(matrix, low, np.concatenate([rows.rhs, equalities.rhs])), Bounds(
        P.lower_bounds, P.upper_bounds
    )


# -- cvxpy -----------------------------------------------------------------------------------------------------------


def from_cvxpy(constraints: Sequence[Any], order: Sequence[Any] | None = None) -> Polyhedron:
    """The set of affine cvxpy constraints, with the names of their variables (the extra ``cvxpy``).

    Coordinates are the variables in the order of their first mention, each flat in C order; a single array variable
    gives the event shape. ``nonneg``, ``nonpos`` and ``bounds`` of a variable are rules too.

    Args:
        constraints: affine equalities and inequalities.
        order: the cvxpy variables that are the coordinates, where it should be another order.

    Examples:
        >>> import rayhull as rh
        >>> import cvxpy as cp                                                 # doctest: +SKIP
        >>> x = cp.Variable(3, name="x", nonneg=True)                          # doctest: +SKIP
        >>> rh.from_cvxpy([cp.sum(x) == 1]) == rh.simplex(3)                   # doctest: +SKIP
        True
    """
    found = list(order or dict.fromkeys(v for c in constraints for v in c.variables()))
    mine = {v.id: variables(v.name(), shape=v.shape or None) for v in found}
    with _at_zero(found):
        listed = [_rule(c, mine) for c in constraints]
    listed += [rule for v in found for rule in _attributes(v, mine[v.id])]
    return rules(listed, variables=tuple(mine.values()))


@contextmanager
def _at_zero(found: list[Any]) -> Iterator[None]:
    """Variables at 0, where an affine expression is its constant; their values come back afterwards."""
    before = [v.value for v in found]
    for v in found:
        v.save_value(np.zeros(v.shape))
    try:
        yield
    finally:
        for v, value in zip(found, before, strict=True):
            v.save_value(value)


def _rule(constraint: Any, mine: dict[int, Expression]) -> Rule:
    """expr <= 0, >= 0 or == 0 in our expressions."""
    kind = type(constraint).__name__
    if kind not in SIGNS or not constraint.expr.is_affine():
        raise ValueError(f"{constraint} is not an affine equality or inequality: a set is made of those.")
    inner = constraint.expr
    gap = expression(np.asarray(inner.value, float))
    for variable, gradient in inner.grad.items():
        gradient = gradient if sp.issparse(gradient) else np.atleast_2d(gradient)  # a number for one by one
        matrix = sp.csr_array(gradient.T)[_to_c_order(inner.shape)][:, _to_c_order(variable.shape)]
        gap = gap + _product(matrix, mine[variable.id]).reshape(inner.shape)
    return Rule(gap, expression(np.zeros(gap.shape)), SIGNS[kind])


def _product(matrix: sp.csr_array, x: Expression) -> Expression:
    """matrix @ x for the flat entries of x: each row as a weighted sum of the entries that it mentions."""
    entries = sp.coo_array(matrix)
    flat = x.reshape(x.size)
    terms = flat[entries.coords[1]] * entries.data
    order = np.argsort(entries.coords[0], kind="stable")
    return terms[order]._grouped(entries.coords[0][order], (matrix.shape[0],))


def _to_c_order(shape: tuple[int, ...]) -> Any:
    """Positions in cvxpy's column-major order of the entries in C order."""
    return np.arange(int(np.prod(shape, dtype=int))).reshape(shape, order="F").ravel()


def _attributes(variable: Any, x: Expression) -> list[Rule]:
    """What a variable's attributes demand."""
    given = {name for name, value in variable.attributes.items() if value is not None and value is not False}
    other = given - {"nonneg", "nonpos", "bounds"}
    if other:
        raise ValueError(f"the variable {variable.name()} is {', '.join(sorted(other))}, which no linear rule states.")
    found = [x >= 0] if "nonneg" in given else []
    found += [x <= 0] if "nonpos" in given else []
    if "bounds" in given:
        low, high = (np.broadcast_to(np.asarray(side, float), x.shape) for side in variable.attributes["bounds"])
        found += [x[np.isfinite(low)] >= low[np.isfinite(low)], x[np.isfinite(high)] <= high[np.isfinite(high)]]
    return found


def to_cvxpy(P: Polyhedron, x: Any = None) -> tuple[Any, list[Any]]:
    """See :meth:`rayhull.Polyhedron.to_cvxpy`."""
    try:
        import cvxpy as cp
    except ImportError:
        raise MissingExtraError("cvxpy", "cvxpy", "Constraints of cvxpy") from None
    x = cp.Variable(P.shape, name="x") if x is None else x
    flat = cp.vec(x, order="C")
    found = [rows.matrix @ flat <= rows.rhs for rows in (P.rows,) if len(rows)]
    found += [rows.matrix @ flat == rows.rhs for rows in (P.equality_rows,) if len(rows)]
    return x, found
