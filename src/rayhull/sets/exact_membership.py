"""Is x in the set, judged in rational arithmetic on the floats given: no tolerance, no rounding.

Floats decide what they can decide for certain: a row whose value is further from its right-hand side than the rounding
error of computing it. The rest, points on or within a few ulp of the boundary, is computed in Python integers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.sets.membership import flatten
from rayhull.sets.rows import Array, Rows, is_torch

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

CHUNK = 4_000_000  # values of rows at samples looked at together


def contains_exactly(P: Polyhedron, x: Any) -> Any:
    """Whether each x is inside, exactly: the judge of ``strict=True``.

    A set stated with inexact floats is judged on those floats as the dyadic rationals that they are.
    """
    flat = flatten(P, x)
    torch_in = is_torch(flat)
    points = flat.detach().cpu().double().numpy() if torch_in else flat.astype(np.float64)
    batch = tuple(x.shape[: x.ndim - len(P.shape)])
    inside = np.isfinite(points).all(1)
    step = max(1, CHUNK // max(1, len(P.rows) + len(P.equality_rows)))
    for start in range(0, len(points), step):
        some = slice(start, start + step)
        inside[some] &= _holds(P.rows, points[some], equal=False) & _holds(P.equality_rows, points[some], equal=True)
    if torch_in:
        import torch

        return torch.as_tensor(inside, device=flat.device).reshape(batch)
    return inside.reshape(batch)


def _holds(rows: Rows, points: Array, *, equal: bool) -> Array:
    """Whether every row holds at each point (n, d), exactly."""
    points = np.where(np.isfinite(points), points, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        value = (rows.matrix @ points.T).T - rows.rhs
        error = _rounding(rows) * ((abs(rows.matrix) @ np.abs(points).T).T + np.abs(rows.rhs)) + 1e-300
    certain = _one_subtraction(rows)
    broken = (value != 0) if equal else (value > 0)
    unsure = ~(np.abs(value) > error) & ~certain
    ok = ~(broken & ~unsure).any(axis=1)
    data, rhs = exact_integers(rows) if unsure.any() else (rows.rhs, rows.rhs)
    for i in np.flatnonzero(unsure.any(axis=0)):
        at = np.flatnonzero(unsure[:, i] & ok)
        entries = slice(rows.matrix.indptr[i], rows.matrix.indptr[i + 1])
        scaled, shift = _as_integers(points[np.ix_(at, rows.matrix.indices[entries])])
        exact = scaled.dot(data[entries]) - (rhs[i] << shift)
        ok[at] = np.asarray(exact == 0 if equal else exact <= 0, bool)
    return ok


def _rounding(rows: Rows) -> float:
    """A bound on the relative error of a row's value: products, sums, and coefficients rounded to floats."""
    return 2.0**-52 * (int(np.diff(rows.matrix.indptr).max(initial=0)) + 4)


def _one_subtraction(rows: Rows) -> Array:
    """Rows ±x_j <= c with c a float: the sign of ±x_j - c is never rounded, so floats decide them for certain."""
    single = np.diff(rows.matrix.indptr) == 1
    first = np.minimum(rows.matrix.indptr[:-1], max(0, len(rows.matrix.data) - 1))
    if not len(rows.matrix.data):
        return single
    unit = single & (np.abs(rows.matrix.data[first]) == 1)
    if rows.integers is None:
        return unit
    data, rhs = rows.integers
    whole = [int(c) == r * abs(int(a)) for a, c, r in zip(data[first], rhs, rows.rhs, strict=True)]
    return unit & np.array(whole, bool)


def _as_integers(points: Array) -> tuple[Array, int]:
    """Floats as Python integers over one common power of two: points = integers / 2^shift."""
    mantissa, exponent = np.frexp(points)
    shift = max(0, int((53 - exponent[points != 0]).max(initial=0)))
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    places = np.maximum(exponent - 53 + shift, 0).astype(object)
    return whole << places, shift


def exact_integers(rows: Rows) -> tuple[Array, Array]:
    """The rows as Python integers, each scaled by a positive number; inexact floats as the dyadics that they are."""
    if rows.integers is not None:
        return rows.integers[0].astype(object), rows.integers[1].astype(object)
    both, _ = _as_integers(np.concatenate([rows.matrix.data, rows.rhs]))
    return both[: len(rows.matrix.data)], both[len(rows.matrix.data) :]
