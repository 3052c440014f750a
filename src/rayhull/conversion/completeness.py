"""Is a ray missing? Every edge of a simple ray must end at another ray of the list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rayhull.conversion.adjacency import Words, packed
from rayhull.errors import UnverifiedError

MOST_COMPARISONS = 50_000_000  # words compared to find the ends of edges at rays that are not simple


def check_edges(zeros: NDArray[np.bool_], sets: Words, k: int) -> None:
    """Raise unless each edge of each simple ray is shared with exactly one other ray.

    A simple ray has exactly k - 1 tight rows; leaving one out gives an edge, on which exactly two rays lie. If all rays
    are simple this proves the list complete, since the edges of a cone connect all its rays. Edges that end at a ray
    with more tight rows are followed while that is cheap.

    Shape:
        ``zeros`` (r, k + n), the tight rows of each ray; ``sets``, the same packed.
    """
    if k < 2:
        return
    simple = zeros.sum(axis=1) == k - 1
    rows = np.nonzero(zeros[simple])[1].reshape(-1, k - 1)
    keys = np.random.default_rng(0).integers(0, 2**64, zeros.shape[1], np.uint64)  # an edge's name: a sum of keys
    edges = keys[rows].sum(axis=1, dtype=np.uint64)[:, None] - keys[rows]  # (simple, k - 1)
    _, where, times = np.unique(edges, return_inverse=True, return_counts=True)
    times = times[where].reshape(edges.shape)
    if (times > 2).any():
        raise _incomplete("more than two rays share an edge")
    ray, drop = np.nonzero(times == 1)
    others = sets[~simple]
    if len(ray) * others.size > MOST_COMPARISONS:
        return
    wanted = zeros[simple][ray]
    wanted[np.arange(len(ray)), rows[ray, drop]] = False
    ends = _supersets(packed(wanted), others)
    if (ends != 1).any():
        raise _incomplete("an edge has no ray at its other end" if (ends == 0).any() else "an edge has three ends")


def _supersets(wanted: Words, sets: Words) -> NDArray[np.int64]:
    """How many of ``sets`` contain each wanted set."""
    count = np.zeros(len(wanted), np.int64)
    step = max(1, 2_000_000 // max(1, len(sets)))
    for first in range(0, len(wanted), step):
        some = wanted[first : first + step]
        inside = np.ones((len(some), len(sets)), bool)
        for w in range(sets.shape[1]):
            inside &= (some[:, w][:, None] & ~sets[:, w]) == 0
        count[first : first + step] = inside.sum(axis=1)
    return count


def _incomplete(what: str) -> UnverifiedError:
    return UnverifiedError(
        f"The rays found in floating point do not fit together ({what}). "
        "Give the rows as integers or fractions, which are converted exactly."
    )
