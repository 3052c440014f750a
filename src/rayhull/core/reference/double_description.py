"""Double description in NumPy: one inequality at a time, in integers of any size or in floats.

Each row c splits the rays by the sign of c y: those below it go, and every adjacent pair of one above and one below
leaves a new ray where the edge between them meets c y = 0. Rays are kept as (y, slacks of the rows still to come), so
nothing but sums of two rays is ever computed; which rows are tight at a ray is kept as a set of bits, from which
adjacency is read off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rayhull.core.reference import adjacency, floats
from rayhull.core.reference.adjacency import Ints, Words
from rayhull.exact.numbers import add, multiply, narrow, primitive

PART = 500_000  # entries of new rays made at a time, in Python integers a tenth of that

Pairs = Callable[[Words, Ints, Ints, int], Iterator[Ints]]


class Cone(NamedTuple):
    """The cone of the rows taken so far."""

    C: NDArray[Any]  # (n, k)
    S: NDArray[Any]  # (r, k + open rows): y, up to a scale, and the open slacks of each ray
    Z: Words  # (r, words): its zeros among the coordinates and the taken rows
    E: floats.Floats  # (r,): its error, 0 in exact arithmetic
    left: Ints  # row of each open column
    taken: Ints  # row of each bit from k on
    bits: int  # coordinates and taken rows

    @property
    def k(self) -> int:
        return int(self.C.shape[1])

    @property
    def slacks(self) -> NDArray[Any]:
        return self.S[:, self.k :]

    @property
    def row(self) -> int:
        """Rows done with."""
        return len(self.C) - len(self.left)

    def nbytes(self, rays: int) -> int:
        """Memory for so many rays and their copies while a row is taken; a Python integer: a pointer and 32 bytes."""
        entry = 40 if self.S.dtype == object else 8
        return 2 * rays * (int(self.S.shape[1]) * entry + int(self.Z.shape[1]) * 8)

    def without_columns(self, gone: NDArray[np.bool_]) -> Cone:
        keep = np.concatenate([np.ones(self.k, bool), ~gone])
        return self._replace(S=np.compress(keep, self.S, axis=1), left=self.left[~gone])


def take_next_row(cone: Cone, order: Ints, watch: Any, pairs: Pairs = adjacency.adjacent_pairs) -> Cone:
    """The cone with one more row, the first in ``order`` that can be told apart from zero, and no redundant ones.

    ``watch`` is told where the conversion stands, and may raise.
    """
    cone = cone.without_columns(_redundant(cone))
    if not len(cone.left) or not len(cone.S):
        return cone
    return _take_row(cone, _next_column(cone, order), watch, pairs)


def _grey(cone: Cone) -> NDArray[np.bool_]:
    """Open slacks too close to call."""
    size = np.abs(cone.slacks)
    return (size > 0) & (size < floats.CLEAR_LEVEL * cone.E[:, None])


def _redundant(cone: Cone) -> NDArray[np.bool_]:
    """Open rows that no ray breaks: the taken rows imply them, now and for good."""
    broken: NDArray[np.bool_] = np.any(cone.slacks < 0, axis=0)
    if cone.S.dtype == np.float64:
        broken |= np.any(_grey(cone), axis=0)
    return ~broken


def _next_column(cone: Cone, order: Ints) -> int:
    """The open row that comes first and has no grey slack: the rays in question may go before its turn comes."""
    grey = _grey(cone).any(axis=0) if cone.S.dtype == np.float64 else np.zeros(len(cone.left), bool)
    if grey.all():
        raise floats.too_close(int(cone.left[0]))
    return cone.k + int(np.where(grey, np.iinfo(np.int64).max, order[cone.left]).argmin())


def _take_row(cone: Cone, column: int, watch: Any, search: Pairs) -> Cone:
    value = cone.S[:, column]
    above, below = np.flatnonzero(value > 0), np.flatnonzero(value < 0)
    kept, many = len(cone.S) - len(below), len(above) * len(below)
    watch.say(cone.row, len(cone.S), many)
    watch.check(cone.row, len(cone.S), many, cone.nbytes(len(cone.S)))
    adjacent, found = [np.empty((0, 2), np.int64)], 0
    for some in search(np.ascontiguousarray(cone.Z[:, : -(-cone.bits // 64)]), above, below, cone.k - 2):
        adjacent.append(some)
        found += len(some)
        watch.say(cone.row, len(cone.S), many)
        watch.check(cone.row, max(len(cone.S), kept + found), 0, cone.nbytes(kept + found))
    cone.taken[cone.bits - cone.k] = cone.left[column - cone.k]
    return _replaced(cone, *_new_rays(cone, np.concatenate(adjacent), column, watch), column)


def _new_rays(cone: Cone, pairs: Ints, column: int, watch: Any) -> tuple[NDArray[Any], Words, floats.Floats]:
    """One ray for each adjacent pair: its entries, zeros and error."""
    Z = cone.Z[pairs[:, 0]] & cone.Z[pairs[:, 1]]
    Z[:, cone.bits // 64] |= np.uint64(1) << np.uint64(cone.bits % 64)
    parts, errors = [cone.S[:0]], [cone.E[:0]]
    step = max(1, PART // cone.S.shape[1] // (10 if cone.S.dtype == object else 1))
    for first in range(0, len(pairs), step):
        watch.check(cone.row, len(cone.S), 0, 0)
        some, sets = pairs[first : first + step], Z[first : first + step]
        if cone.S.dtype == np.float64:
            taken = cone.taken[: cone.bits - cone.k + 1]
            S, E = floats.combine_float(cone.C, cone.S, cone.E, some, column, sets, cone.left, taken)
        else:
            S, E = combine_exact(cone.S, some, column), np.zeros(len(some))
        parts.append(S)
        errors.append(E)
    return np.concatenate(parts), Z, np.concatenate(errors)


def _replaced(cone: Cone, S: NDArray[Any], Z: Words, E: floats.Floats, column: int) -> Cone:
    """The rays above and on the row, and the new ones; the row's column goes."""
    value = cone.S[:, column]
    on = np.flatnonzero(value == 0)
    cone.Z[on, cone.bits // 64] |= np.uint64(1) << np.uint64(cone.bits % 64)
    kept = value >= 0
    cone = cone._replace(
        S=np.concatenate([cone.S[kept], S]),
        Z=np.concatenate([cone.Z[kept], Z]),
        E=np.concatenate([cone.E[kept], E]),
        bits=cone.bits + 1,
    )
    gone = np.zeros(len(cone.left), bool)
    gone[column - cone.k] = True
    cone = cone.without_columns(gone)
    return cone._replace(S=narrow(cone.S))


def combine_exact(S: NDArray[Any], pairs: Ints, column: int) -> NDArray[Any]:
    """Primitive vectors on each pair with slack 0 in ``column``; int64 if every entry is below 2^62, else objects."""
    i, j = pairs.T
    return primitive(add(multiply(S[i], -S[j, column][:, None]), multiply(S[j], S[i, column][:, None])))
