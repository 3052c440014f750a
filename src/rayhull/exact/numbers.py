"""Numbers that stay exact: integers, fractions, and floats that are small dyadic rationals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

# A float counts as exact when it is a multiple of 2^-12 below 2^31: 0.5, -3.0, 2.75, but not 0.1, whose nearest
# float is a fraction with a 55-bit denominator that nobody meant.
DYADIC_SCALE = 2.0**12
DYADIC_LIMIT = 2.0**31
INT64_SAFE = 2**62


def rationals(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    """Numerators and positive denominators of ``values``, or None where they are not meant as exact numbers."""
    if values.dtype.kind in "iub":
        if values.dtype == np.uint64 and values.size and int(values.max()) >= INT64_SAFE:
            return values.astype(object), np.ones(values.shape, np.int64)
        return values.astype(np.int64), np.ones(values.shape, np.int64)
    if values.dtype.kind == "f":
        return _dyadic(values.astype(np.float64))
    fractions = [_fraction(v) for v in values.ravel().tolist()]
    if any(f is None for f in fractions):
        return None
    numerators = np.array([f.numerator for f in fractions if f is not None], dtype=object)
    denominators = np.array([f.denominator for f in fractions if f is not None], dtype=object)
    return narrow(numerators.reshape(values.shape)), narrow(denominators.reshape(values.shape))


def _dyadic(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None:
    scaled = values * DYADIC_SCALE
    if not (np.abs(values) < DYADIC_LIMIT).all() or (scaled != np.rint(scaled)).any():
        return None
    numerators = scaled.astype(np.int64)
    common = np.gcd(np.abs(numerators), int(DYADIC_SCALE))
    return numerators // common, int(DYADIC_SCALE) // common


def _fraction(value: Any) -> Fraction | None:
    if isinstance(value, float):
        pair = _dyadic(np.array([value]))
        return None if pair is None else Fraction(int(pair[0][0]), int(pair[1][0]))
    return Fraction(value)  # int or Fraction: checked where input is read


def narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Python integers as int64 where every one of them is below 2^62 in size, else unchanged."""
    if values.dtype != object or largest(values) >= INT64_SAFE:
        return values
    return values.astype(np.int64)


def largest(values: np.ndarray[Any, Any]) -> int:
    """The largest absolute value, as a Python integer (0 for none)."""
    if values.size == 0:
        return 0
    return max(abs(int(values.max())), abs(int(values.min())))


def product(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``left @ right`` for integers, exactly: the bound on every partial sum chooses the arithmetic."""
    bound = max(1, largest(left)) * max(1, largest(right)) * max(1, left.shape[-1])
    if bound >= INT64_SAFE:
        if left.dtype != object and right.dtype != object and _sums_fit(left, right):
            wrapped = left.astype(np.int64).view(np.uint64) @ right.astype(np.int64).view(np.uint64)
            return wrapped.view(np.int64)  # right modulo 2^64, so right
        return narrow(np.dot(left.astype(object), right.astype(object)))
    if left.size * right.shape[-1] > 10**7:  # worth a look at the zeros
        if _is_sparse(right):
            return sp.csr_array(right.T.astype(np.int64)).dot(left.T.astype(np.int64)).T
        if _is_sparse(left):
            return sp.csr_array(left.astype(np.int64)).dot(right.astype(np.int64))
    if bound < 2**53:  # exact in float64, and BLAS is tens of times faster than int64
        return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    return left.astype(np.int64) @ right.astype(np.int64)


def _sums_fit(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Whether every entry of left @ right is below 2^62 in size, though terms of it may not be.

    In floats, with a bound on their rounding: (k + 2) 2^-53 of the sum of the terms' sizes, granted twice.
    """
    first, second = left.astype(np.float64), right.astype(np.float64)
    rounding = (left.shape[-1] + 4) * 2.0**-52
    size = np.abs(first @ second) + rounding * (np.abs(first) @ np.abs(second))
    return bool((size < INT64_SAFE).all())


def times(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``left * right`` for integers, entry by entry and exactly: int64 where every product is below 2^62."""
    if max(1, largest(left)) * max(1, largest(right)) < INT64_SAFE:
        return left.astype(np.int64) * right.astype(np.int64)
    return narrow(left.astype(object) * right.astype(object))


def _is_sparse(values: np.ndarray[Any, Any]) -> bool:
    return bool(np.count_nonzero(values) < 0.05 * values.size)


def primitive(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integer rows, each divided by the greatest common divisor of its entries (zero rows stay)."""
    divisors = contents(rows)
    return rows if (divisors == 1).all() else narrow(rows // divisors[:, None])


def contents(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The greatest common divisor of each row's entries, 1 for a zero row."""
    found = np.ones(len(rows), dtype=rows.dtype)
    open_rows = ~(np.abs(rows) == 1).any(axis=1)  # a 1 settles it, and most rows have one
    if open_rows.any() and rows.shape[1]:
        common = np.abs(np.gcd.reduce(rows[open_rows], axis=1))  # of a single entry, reduce gives the entry itself
        found[open_rows] = np.where(common == 0, 1, common)
    return found


def others(chosen: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """The numbers below ``count`` that are not chosen, ascending."""
    left = np.ones(count, bool)
    left[chosen] = False
    return left.nonzero()[0]


def sort_rows(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The order that sorts the rows (integers or floats) lexicographically, ascending and stable."""
    if len(rows) < 2 or not rows.size:
        return np.arange(len(rows))
    if rows.dtype == object:
        listed = rows.tolist()
        return np.array(sorted(range(len(rows)), key=listed.__getitem__), np.int64)
    # as big-endian bytes with the sign flipped, rows compare like strings: one sort instead of one for each column
    keys = np.ascontiguousarray(_float_keys(rows) if rows.dtype.kind == "f" else _integer_keys(rows))
    return np.argsort(keys.view(f"V{keys.dtype.itemsize * rows.shape[1]}").ravel(), kind="stable")


def _float_keys(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    bits = (rows + 0.0).view(np.int64)
    bits = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # negative floats count down where integers count up
    return (bits ^ np.int64(-(2**63))).astype(">i8")


def _integer_keys(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Keys as short as they can be: they are compared and copied faster."""
    kind = short_kind(largest(rows))
    keys: np.ndarray[Any, Any] = rows.astype(kind) ^ kind.type(-1 << (8 * kind.itemsize - 1))
    return keys.astype(kind.newbyteorder(">"))


def short_kind(size: int) -> np.dtype[Any]:
    """The shortest integers that hold ±size: memory is what large arrays cost."""
    for kind in (np.int8, np.int16, np.int32):
        if size <= np.iinfo(kind).max:
            return np.dtype(kind)
    return np.dtype(np.int64)


def to_float(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Nearest floats of integers or fractions of any size."""
    return values.astype(np.float64)


def directions_to_float(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Nearest floats of integer directions; a row beyond the range of floats is scaled down by a power of two."""
    if rows.dtype != object or largest(rows) < 2**1000:
        return to_float(rows)
    shifts = [max(0, largest(row).bit_length() - 1000) for row in rows]
    scaled = [[float(Fraction(v, 1 << s)) for v in row] for row, s in zip(rows.tolist(), shifts, strict=True)]
    return np.array(scaled).reshape(rows.shape)


def common_denominator(rows: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Integer rows and a positive denominator for each, from rows of fractions."""
    denominators = [math.lcm(*(f.denominator for f in row)) if len(row) else 1 for row in rows.tolist()]
    scale = np.array(denominators, dtype=object)
    integers = [[int(f * s) for f in row] for row, s in zip(rows.tolist(), denominators, strict=True)]
    return narrow(np.array(integers, dtype=object).reshape(rows.shape)), narrow(scale)
