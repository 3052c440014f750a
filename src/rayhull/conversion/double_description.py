"""Double description: the extreme rays of a pointed cone, one inequality at a time.

The cone {y >= 0} has the unit vectors for rays. Each further row c splits the rays by the sign of c y: those below it
go, and every adjacent pair of one above and one below leaves a new ray where the edge between them meets c y = 0.
Rays are kept as (y, slacks of the rows still to come), so nothing but sums of two rays is ever computed; which rows are
tight at a ray is kept as a set of bits, from which adjacency is read off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rayhull.conversion import adjacency, floats, verification
from rayhull.conversion.adjacency import Ints, Words
from rayhull.conversion.budget import Limits, Watch, interrupts
from rayhull.conversion.combine import SAFE, combine_exact, combine_float, narrowed, primitive
from rayhull.conversion.denominator import common_denominator
from rayhull.conversion.row_order import choose, ranks
from rayhull.errors import MissingExtraError
from rayhull.exact.matrices import sort_rows

PATIENCE = 0.5  # seconds before the compiled kernels are loaded, if they are not yet
MANY_PAIRS = 1_000_000  # or pairs of one row
PART = 500_000  # entries of new rays made at a time, in Python integers a tenth of that


class State(NamedTuple):
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

    def without_columns(self, gone: NDArray[np.bool_]) -> State:
        keep = np.concatenate([np.ones(self.k, bool), ~gone])
        return self._replace(S=np.compress(keep, self.S, axis=1), left=self.left[~gone])


def extreme_rays(
    C: NDArray[Any],
    *,
    limits: Limits | None = None,
    report: Callable[[int, int, int, int], None] | None = None,
    compiled: bool | None = None,
    rounded: bool = True,
) -> NDArray[Any]:
    """Extreme rays of the pointed cone {y in R^k : y >= 0, C y >= 0}, verified.

    Integers (int64 or Python's) are converted exactly, floats with a running error estimate: what they cannot decide
    raises :class:`~rayhull.errors.UnverifiedError`.

    Args:
        C: the rows beside y >= 0.
        limits: what the conversion may cost; by default that of :class:`~rayhull.conversion.budget.Limits`.
        report: called with (rows taken, rows, rays, pairs of rays of the next row), some ten times a second.
        compiled: True asks for numba, False for NumPy alone, None takes numba if it is there and the work is long.
        rounded: whether floats of up to 2^-44 of their row's size count as 0; False where only zeros do.

    Shape:
        ``C`` (n, k); returns (r, k), in lexicographic order: primitive integer vectors (int64, or Python integers
        where one does not fit), or floats scaled to largest entry 1.

    Examples:
        >>> extreme_rays(np.array([[1, 1, -1]]))  # y0 + y1 >= y2
        array([[0, 1, 0],
               [0, 1, 1],
               [1, 0, 0],
               [1, 0, 1]])
    """
    C = _checked(C)
    kernels = _kernels(compiled) if compiled or (compiled is None and _is_loaded()) else None
    watch = Watch(limits or Limits(), report, len(C))
    state = _start(C, rounded)
    order = ranks(C)
    with interrupts():
        while len(state.left) and len(state.S):
            if kernels is not None and state.S.dtype != object:
                state = _run_cheap_rows(state, order, kernels, watch)
            state = state.without_columns(_redundant(state))
            if len(state.left) and len(state.S):
                column = _next_column(state, order)
                if kernels is None and compiled is None and _is_long(state, column, watch):
                    kernels = _kernels(None)
                state = _take_row(state, column, kernels, watch)
        watch.say(len(C), len(state.S), 0, last=True)
        Y = verification.verified(state.C, primitive(state.S[:, : state.k]), state.E, kernels)
        return Y[sort_rows(Y)]


def verified_rays(C: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Rays that came from elsewhere, in our order, if they pass every check; also for missing ones, along edges."""
    C = _checked(C)
    error = np.full(len(Y), 2 * floats.UNCERTAINTY if C.dtype == np.float64 else 0.0)
    Y = verification.verified(C, Y, error, _kernels(None) if _is_loaded() else None, edges=True)
    return Y[sort_rows(Y)]


def _checked(C: NDArray[Any]) -> NDArray[Any]:
    """C in the arithmetic it will be converted in."""
    C = np.asarray(C)
    if C.ndim != 2:
        raise ValueError(f"C must have 2 dimensions (rows, coordinates), got shape {C.shape}.")
    if C.dtype.kind == "f":
        if not np.isfinite(C).all():
            raise ValueError("C has entries that are NaN or infinite: every row must be finite.")
        return floats.scaled(C.astype(np.float64))
    if C.dtype.kind not in "iuO":
        raise ValueError(f"C must hold integers or floats, got dtype {C.dtype}.")
    if C.dtype != np.int64 or C.min(initial=0) <= -SAFE or C.max(initial=0) >= SAFE:
        C = narrowed(C.astype(object))
    return C


def _kernels(required: bool | None) -> ModuleType | None:
    """The compiled kernels, if numba is there."""
    try:
        from rayhull.conversion import _compiled
    except ImportError as error:
        if required:
            raise MissingExtraError("numba", "fast", "Compiled conversion") from error
        return None
    return _compiled


def _is_loaded() -> bool:
    return "rayhull.conversion._compiled" in sys.modules


def _is_long(state: State, column: int, watch: Watch) -> bool:
    """Is there work enough to load numba for? That takes 0.5 s, and once for each machine 7 s of compilation."""
    value = state.S[:, column]
    pairs = int(np.sum(value > 0)) * int(np.sum(value < 0))
    return watch.seconds() > PATIENCE or pairs > MANY_PAIRS


def _start(C: NDArray[Any], rounded: bool) -> State:
    """The orthant: unit vectors, each with all coordinates but one at zero."""
    n, k = C.shape
    E = np.zeros(k)
    S: NDArray[Any] = np.concatenate([np.eye(k, dtype=C.dtype), C.T], axis=1)
    if C.dtype != np.float64:
        denominator = common_denominator(C)
        S = S if denominator < SAFE else S.astype(object)
        S[:, :k] *= denominator
        S = narrowed(primitive(S))
    else:
        E[:] = floats.UNCERTAINTY
        if rounded:
            S[np.abs(S) <= floats.ZERO_LEVEL * floats.UNCERTAINTY] = 0.0
    zeros = np.zeros((k, k + n), bool)
    zeros[:, :k] = ~np.eye(k, dtype=bool)
    return State(C, S, adjacency.packed(zeros), E, np.arange(n), np.zeros(n, np.int64), k)


def _grey(state: State) -> NDArray[np.bool_]:
    """Open slacks too close to call."""
    size = np.abs(state.slacks)
    grey: NDArray[np.bool_] = (size > 0) & (size < floats.CLEAR_LEVEL * state.E[:, None])
    return grey


def _redundant(state: State) -> NDArray[np.bool_]:
    """Open rows that no ray breaks: the taken rows imply them, now and for good."""
    broken: NDArray[np.bool_] = np.any(state.slacks < 0, axis=0)
    if state.S.dtype == np.float64:
        broken |= np.any(_grey(state), axis=0)
    return ~broken


def _next_column(state: State, order: Ints) -> int:
    grey = _grey(state).sum(axis=0) if state.S.dtype == np.float64 else np.zeros(len(state.left), np.int64)
    column = choose(order[state.left], grey)
    if column < 0:
        raise floats.too_close(int(state.left[0]))
    return column + state.k


def _run_cheap_rows(state: State, order: Ints, kernels: Any, watch: Watch) -> State:
    """Take rows in compiled code until one is not cheap (or fails there: the NumPy step then says why)."""
    limit = watch.limits.max_generators
    most = np.iinfo(np.int64).max if limit is None else limit
    room = 1
    while room:
        rays = len(state.S)
        watch.say(len(state.C) - len(state.left), rays, 0)
        watch.check(len(state.C) - len(state.left), rays, 0, _nbytes(state, max(rays, room // 2)))
        state, room = kernels.advance(state, order, most, room)
    return state


def _nbytes(state: State, rays: int) -> int:
    """Memory for this many rays and their copies while a row is taken; a Python integer is a pointer and 32 bytes."""
    entry = 40 if state.S.dtype == object else 8
    return 2 * rays * (int(state.S.shape[1]) * entry + int(state.Z.shape[1]) * 8)


def _take_row(state: State, column: int, kernels: Any, watch: Watch) -> State:
    """The cone with one more row."""
    value = state.S[:, column]
    above, below = np.flatnonzero(value > 0), np.flatnonzero(value < 0)
    row, kept = len(state.C) - len(state.left), len(state.S) - len(below)
    pairs = len(above) * len(below)
    watch.say(row, len(state.S), pairs)
    watch.check(row, len(state.S), pairs, _nbytes(state, len(state.S)))
    adjacent = [np.empty((0, 2), np.int64)]
    found = 0
    for some in _search(state, above, below, kernels):
        adjacent.append(some)
        found += len(some)
        watch.say(row, len(state.S), pairs)
        watch.check(row, max(len(state.S), kept + found), 0, _nbytes(state, kept + found))
    state.taken[state.bits - state.k] = state.left[column - state.k]
    S, Z, E = _new_rays(state, np.concatenate(adjacent), column, kernels, watch)
    return _replaced(state, S, Z, E, column)


def _search(state: State, above: Ints, below: Ints, kernels: Any) -> Iterator[Ints]:
    """Adjacent pairs, a chunk at a time."""
    sets = np.ascontiguousarray(state.Z[:, : -(-state.bits // 64)])
    pairs = adjacency.adjacent_pairs if kernels is None else kernels.adjacent_pairs
    found: Iterator[Ints] = pairs(sets, above, below, state.k - 2)
    return found


def _new_rays(
    state: State, pairs: Ints, column: int, kernels: Any, watch: Watch
) -> tuple[NDArray[Any], Words, floats.Floats]:
    """One ray for each adjacent pair: its entries, zeros and error."""
    k, row = state.k, len(state.C) - len(state.left)
    Z = state.Z[pairs[:, 0]] & state.Z[pairs[:, 1]]
    Z[:, state.bits // 64] |= np.uint64(1) << np.uint64(state.bits % 64)
    parts, errors = [state.S[:0]], [state.E[:0]]
    step = max(1, PART // state.S.shape[1] // (10 if state.S.dtype == object else 1))
    for first in range(0, len(pairs), step):
        watch.check(row, len(state.S), 0, 0)
        some, E = pairs[first : first + step], np.zeros(len(pairs[first : first + step]))
        made = None
        if kernels is not None and state.S.dtype != object:
            made = kernels.new_rays(state, some, column)
        if made is not None:
            S, E = made
        elif state.S.dtype == np.float64:
            S, E = combine_float(
                state.C, state.S, state.E, some, column, Z[first : first + step], state.left,
                state.taken[: state.bits - k + 1],
            )  # fmt: skip
        else:
            S = combine_exact(state.S, some, column)
        parts.append(S)
        errors.append(E)
    return np.concatenate(parts), Z, np.concatenate(errors)


def _replaced(state: State, S: NDArray[Any], Z: Words, E: floats.Floats, column: int) -> State:
    """The rays above and on the row, and the new ones; the row's column goes."""
    value = state.S[:, column]
    on = np.flatnonzero(value == 0)
    state.Z[on, state.bits // 64] |= np.uint64(1) << np.uint64(state.bits % 64)
    kept = value >= 0
    state = state._replace(
        S=np.concatenate([state.S[kept], S]),
        Z=np.concatenate([state.Z[kept], Z]),
        E=np.concatenate([state.E[kept], E]),
        bits=state.bits + 1,
    )
    gone = np.zeros(len(state.left), bool)
    gone[column - state.k] = True
    state = state.without_columns(gone)
    return state._replace(S=narrowed(state.S))
