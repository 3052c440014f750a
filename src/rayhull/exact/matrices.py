"""Arithmetic on integer matrices, exactly: products, rows in lowest terms, rows in order."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import INT64_SAFE, Array, largest, narrow, short_kind


def product(left: Array, right: Array) -> Array:
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


def _sums_fit(left: Array, right: Array) -> bool:
    """Whether every entry of left @ right is below 2^62 in size, though terms of it may not be.

    In floats, with a bound on their rounding: (k + 2) 2^-53 of the sum of the terms' sizes, granted twice.
    """
    first, second = left.astype(np.float64), right.astype(np.float64)
    rounding = (left.shape[-1] + 4) * 2.0**-52
    size = np.abs(first @ second) + rounding * (np.abs(first) @ np.abs(second))
    return bool((size < INT64_SAFE).all())


def times(left: Array, right: Array) -> Array:
    """``left * right`` for integers, entry by entry and exactly: int64 where every product is below 2^62."""
    if max(1, largest(left)) * max(1, largest(right)) < INT64_SAFE:
        return left.astype(np.int64) * right.astype(np.int64)
    return narrow(left.astype(object) * right.astype(object))


def _is_sparse(values: Array) -> bool:
    return bool(np.count_nonzero(values) < 0.05 * values.size)


def primitive(rows: Array) -> Array:
    """Integer rows, each divided by the greatest common divisor of its entries (zero rows stay)."""
    divisors = contents(rows)
    return rows if (divisors == 1).all() else narrow(rows // divisors[:, None])


def contents(rows: Array) -> Array:
    """The greatest common divisor of each row's entries, 1 for a zero row."""
    found = np.ones(len(rows), dtype=rows.dtype)
    open_rows = ~(np.abs(rows) == 1).any(axis=1)  # a 1 settles it, and most rows have one
    if open_rows.any() and rows.shape[1]:
        common = np.abs(np.gcd.reduce(rows[open_rows], axis=1))  # of a single entry, reduce gives the entry itself
        found[open_rows] = np.where(common == 0, 1, common)
    return found


def others(chosen: Array, count: int) -> Array:
    """The numbers below ``count`` that are not chosen, ascending."""
    left = np.ones(count, bool)
    left[chosen] = False
    return left.nonzero()[0]


def sort_rows(rows: Array) -> Array:
    """The order that sorts the rows (integers or floats) lexicographically, ascending and stable."""
    if len(rows) < 2 or not rows.size:
        return np.arange(len(rows))
    if rows.dtype == object:
        listed = rows.tolist()
        return np.array(sorted(range(len(rows)), key=listed.__getitem__), np.int64)
    # as big-endian bytes with the sign flipped, rows compare like strings: one sort instead of one for each column
    keys = np.ascontiguousarray(_float_keys(rows) if rows.dtype.kind == "f" else _integer_keys(rows))
    return np.argsort(keys.view(f"V{keys.dtype.itemsize * rows.shape[1]}").ravel(), kind="stable")


def _float_keys(rows: Array) -> Array:
    bits = (rows + 0.0).view(np.int64)
    bits = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # negative floats count down where integers count up
    return (bits ^ np.int64(-(2**63))).astype(">i8")


def _integer_keys(rows: Array) -> Array:
    """Keys as short as they can be: they are compared and copied faster."""
    kind = short_kind(largest(rows))
    keys: Array = rows.astype(kind) ^ kind.type(-1 << (8 * kind.itemsize - 1))
    return keys.astype(kind.newbyteorder(">"))
