"""Which inequality comes next. No order wins everywhere: this is the mix that lost least on our cases."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

EXPENSIVE = 100_000  # pairs from which on a far cheaper row is preferred
FAR_CHEAPER = 64


def ranks(C: NDArray[Any]) -> Ints:
    """Place of each row in ascending lexicographic order."""
    order = np.lexsort(C.T[::-1]) if C.shape[1] else np.arange(len(C))
    out = np.empty(len(C), np.int64)
    out[order] = np.arange(len(C))
    return out


def choose(positive: Ints, negative: Ints, grey: Ints, rank: Ints) -> int:
    """Column of the next row: the first in order, unless its pairs explode and another's are far fewer.

    Rows with a slack too close to call wait: the rays in question may go before their turn comes.
    Returns -1 if only such rows are left. Plain NumPy that numba compiles as it stands.
    """
    best, cheapest = -1, -1
    for c in range(len(rank)):
        if grey[c] > 0:
            continue
        if best < 0 or rank[c] < rank[best]:
            best = c
        if cheapest < 0 or positive[c] * negative[c] < positive[cheapest] * negative[cheapest]:
            cheapest = c
    if best >= 0:
        pairs = positive[best] * negative[best]
        if pairs > EXPENSIVE and pairs > FAR_CHEAPER * positive[cheapest] * negative[cheapest]:
            best = cheapest
    return best
