"""What double description takes from compiled code: importing this file needs numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rayhull.conversion import _runs, floats
from rayhull.conversion._edge_table import adjacent_pairs
from rayhull.conversion._kernels import make_rays
from rayhull.conversion._rank_kernel import all_extreme
from rayhull.conversion.adjacency import Ints

if TYPE_CHECKING:
    from rayhull.conversion.double_description import State

__all__ = ["adjacent_pairs", "advance", "all_extreme", "new_rays"]

MOST_PAIRS, MOST_RAYS = 20_000, 4_000  # a row beyond either is not cheap: trees serve it better
FIRST_ROOM = 1_000  # rays beside twice those there are: memory that is not written to costs nothing
BUDGET = 20_000_000  # steps of a run between two looks at the clock: some 50 ms


def advance(state: State, order: Ints, ray_limit: int, room: int = 0) -> tuple[State, int]:
    """Take rows while they are cheap; also says the room to call again with, or 0 to take the next row singly."""
    r, columns = state.S.shape
    S, Z, E = _with_room(state, max(room, 2 * r + FIRST_ROOM))
    left = np.concatenate([np.zeros(state.k, np.int64), state.left])
    taken = state.taken.copy()
    work = (
        np.zeros((3, columns), np.int64),
        np.empty((MOST_PAIRS, 2), np.int64),
        np.empty(MOST_RAYS, np.int64),
        np.empty(MOST_RAYS, np.int64),
    )
    sizes = np.array([r, columns, state.bits, 0])
    status = _runs.advance(_rows(state), S, Z, E, left, taken, order, work, sizes, ray_limit, BUDGET)
    r, columns, bits, wanted = sizes.tolist()
    state = state._replace(
        S=S[:r, :columns].copy(), Z=Z[:r], E=E[:r], left=left[state.k : columns].copy(), taken=taken, bits=bits
    )
    return state, {_runs.PAUSED: 1, _runs.FULL: 2 * wanted}.get(status, 0)


def _with_room(state: State, size: int) -> tuple[NDArray[Any], NDArray[np.uint64], floats.Floats]:
    """The rays of the state in arrays with room for ``size``."""
    r = len(state.S)
    S, Z = np.empty((size, state.S.shape[1]), state.S.dtype), np.empty((size, state.Z.shape[1]), np.uint64)
    E = np.zeros(size)
    S[:r], Z[:r], E[:r] = state.S, state.Z, state.E
    return S, Z, E


def new_rays(state: State, pairs: Ints, column: int) -> tuple[NDArray[Any], floats.Floats] | None:
    """Entries and errors of the rays on these pairs; None where 62 bits, or the precision of floats, are too few."""
    S = np.zeros((len(pairs), state.S.shape[1]), state.S.dtype)
    Z, E = np.zeros((len(pairs), state.Z.shape[1]), np.uint64), np.zeros(len(pairs))
    left = np.concatenate([np.zeros(state.k, np.int64), state.left])
    rows = (S.shape[1], left, state.taken, state.bits)
    made = make_rays(
        _rows(state), state.S, state.Z, state.E, pairs, len(pairs), column, S, Z, E, 0, *rows
    )  # fmt: skip
    return (S, E) if made else None


def _rows(state: State) -> NDArray[Any]:
    """C for the kernels. Exact arithmetic reads its width alone, so Python integers need not be understood."""
    return np.zeros((1, state.k), np.int64) if state.C.dtype == object else state.C
