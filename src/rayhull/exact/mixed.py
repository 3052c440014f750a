"""Arithmetic on arrays that hold integers, floats or fractions: exact where the numbers are.

int64 where nothing can overflow, float64 among floats, Python's own numbers (in object arrays) otherwise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from rayhull.exact.numbers import INT64_SAFE, Array, largest, rationals


def add(left: Array, right: Array) -> Array:
    """left + right, entry by entry."""
    return _exactly(operator.add, left, right)


def multiply(left: Array, right: Array) -> Array:
    """left * right, entry by entry.

    Examples:
        >>> import numpy as np
        >>> multiply(np.array([2**40, 3]), np.array([2**40, 5])).tolist()
        [1208925819614629174706176, 15]
    """
    return _exactly(operator.mul, left, right)


def _exactly(operation: Callable[[Any, Any], Any], left: Array, right: Array) -> Array:
    kinds = left.dtype.kind + right.dtype.kind
    overflows = kinds == "ii" and operation(largest(left), largest(right)) >= INT64_SAFE
    if "O" in kinds or overflows:
        left, right = left.astype(object), right.astype(object)
    return np.asarray(operation(left, right))


def grouped_sums(values: Array, into: Array, count: int) -> Array:
    """out[into[i]] += values[i].

    Examples:
        >>> import numpy as np
        >>> grouped_sums(np.array([1, 2, 3]), np.array([0, 0, 1]), 2)
        array([3, 3])
    """
    if values.dtype.kind == "i" and largest(values) * max(1, len(values)) >= INT64_SAFE:
        values = values.astype(object)
    out = np.zeros(count, values.dtype)
    np.add.at(out, into, values)
    return out


def reciprocals(values: Array) -> Array:
    """1 / values: fractions for integers and fractions, whole ones as integers.

    Examples:
        >>> import numpy as np
        >>> reciprocals(np.array([1, 3])).tolist()
        [1, Fraction(1, 3)]
    """
    if values.dtype.kind == "f":
        return np.asarray(1 / values)
    out = np.empty(values.shape, object)
    out.ravel()[:] = [whole(1 / v if isinstance(v, float) else 1 / Fraction(v)) for v in values.ravel().tolist()]
    return out


def whole(value: Any) -> Any:
    """A fraction without a denominator as an integer; any other number as it is."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def as_fraction(value: Any) -> Fraction | None:
    """The number meant: integers, fractions, and floats that are small dyadic rationals; None for other floats."""
    numbers = np.empty(1, object)
    numbers[0] = value
    pair = rationals(numbers)
    return None if pair is None else Fraction(int(pair[0][0]), int(pair[1][0]))
