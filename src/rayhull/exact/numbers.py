"""Numbers that stay exact, in arrays: integers, fractions, and floats that are small dyadic rationals.

Integers are kept in 64 bits where every one of them is below 2^62 in size, and as Python's beyond: whatever computes
with them asks for the largest first, and chooses its arithmetic.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

# A float counts as exact when it is a multiple of 2^-12 below 2^31: 0.5, -3.0, 2.75, but not 0.1, whose nearest
# float is a fraction with a 55-bit denominator that nobody meant.
DYADIC_SCALE = 2.0**12
DYADIC_LIMIT = 2.0**31
INT64_SAFE = 2**62  # integers below it in size are kept in 64 bits: a sum or difference of two still fits

Array = np.ndarray[Any, Any]


def rationals(values: Array) -> tuple[Array, Array] | None:
    """Numerators and positive denominators of ``values``, or None where they are not meant as exact numbers."""
    if values.dtype.kind in "iub":
        return safe_integers(values), np.ones(values.shape, np.int64)
    if values.dtype.kind == "f":
        return _dyadic(values.astype(np.float64))
    fractions = [as_fraction(v) for v in values.ravel().tolist()]
    if any(f is None for f in fractions):
        return None
    numerators = np.array([f.numerator for f in fractions if f is not None], dtype=object)
    denominators = np.array([f.denominator for f in fractions if f is not None], dtype=object)
    return narrow(numerators.reshape(values.shape)), narrow(denominators.reshape(values.shape))


def exact_rationals(values: Array) -> tuple[Array, Array]:
    """Numerators and positive denominators of finite numbers, every float taken as the dyadic rational that it is."""
    if values.dtype.kind != "f":
        found = rationals(values)
        if found is not None:
            return found
    pairs = [v.as_integer_ratio() for v in values.ravel().tolist()]
    parts = np.array(pairs, dtype=object).reshape(-1, 2)
    return parts[:, 0].reshape(values.shape), parts[:, 1].reshape(values.shape)


def safe_integers(values: Array) -> Array:
    """Integers of any NumPy kind as int64; as Python integers where one is 2^62 or more in size."""
    return values.astype(object) if largest(values) >= INT64_SAFE else values.astype(np.int64)


def alike(parts: Sequence[Array]) -> list[Array]:
    """The same numbers in arrays of one kind: int64, float64 where no integer is 2^31 or more, else Python numbers."""
    kinds = {part.dtype.kind for part in parts}
    if len(kinds) == 1:
        return list(parts)
    large = any(part.dtype.kind == "i" and largest(part) >= DYADIC_LIMIT for part in parts)
    kind = object if "O" in kinds or large else np.float64
    return [part.astype(kind) for part in parts]


def joined(parts: Sequence[Array]) -> Array:
    """Numbers one after the other, none of them rounded: an integer of 2^31 or more never becomes a float."""
    return parts[0] if len(parts) == 1 else np.concatenate(alike(parts))


def _dyadic(values: Array) -> tuple[Array, Array] | None:
    if not (np.abs(values) < DYADIC_LIMIT).all():
        return None
    scaled = values * DYADIC_SCALE
    if (scaled != np.rint(scaled)).any():
        return None
    numerators = scaled.astype(np.int64)
    common = np.gcd(np.abs(numerators), int(DYADIC_SCALE))
    return numerators // common, int(DYADIC_SCALE) // common


def as_fraction(value: Any) -> Fraction | None:
    """The number meant: integers, fractions, and floats that are small dyadic rationals; None for other floats."""
    if isinstance(value, float):
        pair = _dyadic(np.array([value]))
        return None if pair is None else Fraction(int(pair[0][0]), int(pair[1][0]))
    return Fraction(value)  # int or Fraction: checked where input is read


def narrow(values: Array) -> Array:
    """Python integers as int64 where every one of them is below 2^62 in size, else unchanged."""
    if values.dtype != object or largest(values) >= INT64_SAFE:
        return values
    return values.astype(np.int64)


def largest(values: Array) -> int:
    """The largest absolute value, as a Python integer (0 for none)."""
    if values.size == 0:
        return 0
    return max(int(values.max()), -int(values.min()))


def short_kind(size: int) -> np.dtype[Any]:
    """The shortest integers that hold ±size: memory is what large arrays cost."""
    return np.min_scalar_type(-1 - min(size, INT64_SAFE))


def float_below(values: Array) -> Array:
    """The largest float64 that is at most each number; infinities stay."""
    floats = values.astype(np.float64)
    long = values.dtype.kind in "iu" and largest(values) > 2**53  # Python compares such integers with floats exactly
    return np.where(floats > (values.astype(object) if long else values), np.nextafter(floats, -np.inf), floats)


def float_above(values: Array) -> Array:
    """The smallest float64 that is at least each number; infinities stay."""
    return -float_below(-values)


def floats_as_integers(values: Array) -> tuple[Array, int]:
    """Floats as Python integers over one common power of two: values = integers / 2^shift."""
    mantissa, exponent = np.frexp(values)
    shift = max(0, int((53 - exponent[values != 0]).max(initial=0)))
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    places = np.maximum(exponent - 53 + shift, 0).astype(object)
    return whole << places, shift


def directions_to_float(rows: Array) -> Array:
    """Nearest floats of integer directions; a row beyond the range of floats is scaled down by a power of two."""
    if rows.dtype != object or largest(rows) < 2**1000:
        return rows.astype(np.float64)
    shifts = [max(0, largest(row).bit_length() - 1000) for row in rows]
    scaled = [[float(Fraction(v, 1 << s)) for v in row] for row, s in zip(rows.tolist(), shifts, strict=True)]
    return np.array(scaled).reshape(rows.shape)


# -- arithmetic on arrays that hold integers, floats or fractions: exact where the numbers are -------------------------


def _exactly(operation: Callable[[Any, Any], Any], left: Array, right: Array) -> Array:
    """The operation entry by entry.

    Examples:
        >>> import numpy as np
        >>> multiply(np.array([2**40, 3]), np.array([2**40, 5])).tolist()
        [1208925819614629174706176, 15]
    """
    kinds = left.dtype.kind + right.dtype.kind
    if kinds == "ii":
        overflows = operation(largest(left), largest(right)) >= INT64_SAFE
        left, right = (v.astype(object if overflows else np.int64) for v in (left, right))
    elif "O" in kinds:
        left, right = left.astype(object), right.astype(object)
    return np.asarray(operation(left, right))


add = partial(_exactly, operator.add)
multiply = partial(_exactly, operator.mul)


def grouped_sums(values: Array, into: Array, count: int) -> Array:
    """out[into[i]] += values[i]."""
    if values.dtype.kind == "i" and largest(values) * max(1, len(values)) >= INT64_SAFE:
        values = values.astype(object)
    out = np.zeros(count, values.dtype)
    np.add.at(out, into, values)
    return out


def reciprocals(values: Array) -> Array:
    """1 / values: fractions for integers and fractions, whole ones as integers."""
    if values.dtype.kind == "f":
        return np.asarray(1 / values)
    out = np.empty(values.shape, object)
    out.ravel()[:] = [whole(1 / v if isinstance(v, float) else 1 / Fraction(v)) for v in values.ravel().tolist()]
    return out


def whole(value: Any) -> Any:
    """A fraction without a denominator as an integer; any other number as it is."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


# -- integer matrices: products, rows in lowest terms, rows in order ---------------------------------------------------


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
    return narrow(multiply(left, right))


def _is_sparse(values: Array) -> bool:
    return bool(np.count_nonzero(values) < 0.05 * values.size)


def primitive(rows: Array) -> Array:
    """Integer rows, each divided by the greatest common divisor of its entries (zero rows stay)."""
    divisors = contents(rows)
    return narrow(rows if (divisors == 1).all() else rows // divisors[:, None])


def contents(rows: Array) -> Array:
    """The greatest common divisor of each row's entries, 1 for a zero row."""
    found = np.ones(len(rows), dtype=rows.dtype)
    open_rows = ~(np.abs(rows) == 1).any(axis=1)  # a 1 settles it, and most rows have one
    if open_rows.any() and rows.shape[1]:
        common = np.abs(np.gcd.reduce(rows[open_rows], axis=1))  # of a single entry, reduce gives the entry itself
        found[open_rows] = np.where(common == 0, 1, common)
    return found


def places(matrix: Array) -> tuple[Array, Array]:
    """Rows and columns of the entries that are not 0, row by row: by one axis, which NumPy looks through faster."""
    return np.divmod((matrix != 0).ravel().nonzero()[0], max(1, matrix.shape[1]))  # 2.0 ms -> 0.2 ms for a chain of 784


def others(chosen: Array, count: int) -> Array:
    """The numbers below ``count`` that are not chosen, ascending."""
    return np.delete(np.arange(count), chosen)


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
    short = rows.astype(short_kind(largest(rows)))
    keys: Array = short ^ short.dtype.type(-1 << (8 * short.dtype.itemsize - 1))
    return keys.astype(short.dtype.newbyteorder(">"))
