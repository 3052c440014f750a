"""To and from scipy.optimize: LinearConstraint (lb <= A x <= ub) and Bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint

from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape


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
