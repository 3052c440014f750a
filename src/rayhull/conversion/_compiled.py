"""What double description takes from compiled code: importing this file needs numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rayhull.conversion import _kernels, _runs, floats
from rayhull.conversion._pattern_tree import adjacent_pairs
from rayhull.conversion._rank_kernel import all_extreme
from rayhull.conversion._runs import PAUSED

if TYPE_CHECKING:
    from rayhull.conversion.double_description import State

__all__ = ["PAUSED", "adjacent_pairs", "advance", "all_extreme", "new_rays"]


def advance(C: NDArray[Any], *args: Any) -> Any:
    """Take cheap rows: :func:`rayhull.conversion._runs.advance`, raising what floats cannot decide."""
    status, reason, *rest = _runs.advance(_rows(C), *args)
    if reason == _kernels.ILL_CONDITIONED:
        raise floats.ill_conditioned()
    return status, *rest


def new_rays(state: State, pairs: NDArray[np.int64], column: int) -> tuple[NDArray[Any], floats.Floats] | None:
    """Entries and errors of the rays on these pairs; None where 62 bits are too few."""
    out = (
        np.zeros((len(pairs), state.S.shape[1]), state.S.dtype),
        np.zeros((len(pairs), state.Z.shape[1]), np.uint64),
        np.zeros(len(pairs)),
    )
    rows = (state.S.shape[1], state.left, state.taken, state.bits)
    status = _kernels.make_rays(_rows(state.C), state.S, state.Z, state.E, pairs, column, out, 0, rows)
    if status == _kernels.ILL_CONDITIONED:
        raise floats.ill_conditioned()
    return None if status == _kernels.TOO_WIDE else (out[0], out[2])


def _rows(C: NDArray[Any]) -> NDArray[Any]:
    """C for the kernels. Exact arithmetic reads its width alone, so Python integers need not be understood."""
    return np.zeros((1, C.shape[1]), np.int64) if C.dtype == object else C
