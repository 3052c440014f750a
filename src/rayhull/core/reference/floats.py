"""What floating-point slacks can be trusted for: error levels, new rays, and rays recomputed from their tight rows.

Rows are scaled to sum of absolute entries 1 and rays to largest entry 1, so a slack is at most 1 and its error is at
most the ray's error plus the row's. Each ray carries an error estimate e. A slack is *zero* up to ``ZERO_LEVEL`` e (but
never past ``MOST_ZERO``: an ill-conditioned ray's small slack may be anything), *clear* from ``CLEAR_LEVEL`` e on, and
*grey* between: a grey slack decides nothing, the conversion raises instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rayhull.core.reference.adjacency import Ints, Words, by_tight_rows, unpacked
from rayhull.errors import UnverifiedError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

UNCERTAINTY = 2.0**-48  # relative error granted to the entries of the rows: about 16 roundings
ZERO_LEVEL = 16.0
CLEAR_LEVEL = 1024.0
MOST_ZERO = 2.0**-37
REFRESH = 2.0**-44  # a ray whose error estimate is larger is recomputed from its tight rows
CACHED = 100_000  # entries of the matrices eliminated at a time
SMALLEST_PIVOT = 1e-9  # tight rows closer to dependent than this say nothing about their ray

ADVICE = "Give the rows as integers or fractions, which are converted exactly."


def ill_conditioned() -> UnverifiedError:
    """Tight rows so close to dependent that they do not determine their ray."""
    return UnverifiedError(
        "A ray's tight rows are so close to dependent that floating point cannot tell where it points "
        f"(smallest pivot under {SMALLEST_PIVOT:g}). {ADVICE}"
    )


def too_close(row: int) -> UnverifiedError:
    """A slack between zero and clear."""
    return UnverifiedError(
        f"Row {row} is too close to call: some ray's slack is neither clearly zero (rounding) nor clearly not "
        f"(at least {CLEAR_LEVEL / ZERO_LEVEL:g} times larger). {ADVICE}"
    )


def scaled(C: Floats) -> Floats:
    """The rows scaled to sum of absolute entries 1; a zero row stays.

    Coordinates keep their scale: a row's entries are granted an error relative to its largest one, and a column of what
    is only such error must not be blown up into something that looks like data.
    """
    C = with_largest_1(C)  # first, lest the sum overflow
    sums = np.abs(C).sum(axis=1, keepdims=True)
    return C / np.where(sums > 0, sums, 1.0)


def with_largest_1(rows: Floats) -> Floats:
    """Each row divided by its largest entry; a zero row stays."""
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return rows / np.where(largest > 0, largest, 1.0)


def zero_level(error: Floats) -> Floats:
    """Largest slack that counts as zero at rays with this error."""
    return np.minimum(ZERO_LEVEL * error, MOST_ZERO)


def null_vectors(rows: Floats, support: Bools) -> tuple[Floats, Floats, Floats]:
    """For each matrix of a batch, the y on its support with rows y = 0, by Gauss-Jordan with complete pivoting.

    y has largest entry 1; with it come the smallest pivot (1 if none was needed), and the largest entry that is left
    after rank = support - 1 pivots, which would be 0 in exact arithmetic.

    Shape: rows (r, t, k), support (r, k), at least one coordinate for each ray → (r, k), (r,), (r,)
    """
    rows = rows if rows.shape[1] else np.zeros_like(support[:, None, :], float)  # a row of zeros says as little
    r, t, k = rows.shape
    M = np.where(support[:, None, :], rows, 0.0)
    each, steps = np.arange(r), support.sum(axis=1) - 1
    unused, pivots = np.ones((r, t), bool), np.ones(r)
    owner = np.full((r, k), -1)  # the row that each pivot column belongs to
    for step in range(int(steps.max(initial=0))):
        on = np.flatnonzero(step < steps) if step >= steps.min() else slice(None)  # a slice copies nothing
        size = np.abs(M[on])
        size[~unused[on]] = 0.0
        place = size.reshape(-1, t * k).argmax(axis=1)
        ids, a, c = each[on], place // k, place % k
        pivot = M[ids, a, c]
        pivots[on] = np.minimum(pivots[on], np.abs(pivot))
        row = M[ids, a] / np.where(pivot == 0.0, 1.0, pivot)[:, None]  # (on, k)
        M[on] -= M[ids, :, c][:, :, None] * row[:, None, :]
        M[ids, a] = row
        unused[ids, a] = False
        owner[ids, c] = a
    free = np.argmax(support & (owner < 0), axis=1)
    y = -np.take_along_axis(M[each, :, free], np.maximum(owner, 0), axis=1)
    rest = np.where(unused[:, :, None], np.abs(M), 0.0).max(axis=(1, 2))
    y[owner < 0] = 0.0
    y[each, free] = 1.0
    y /= np.abs(y).max(axis=1, keepdims=True, initial=0.0)
    return y, pivots, rest


def error_of(pivots: Floats | float) -> Floats | float:
    """Error of a ray computed from its tight rows: their uncertainty, through the smallest pivot."""
    return UNCERTAINTY * (1.0 + 0.5 / pivots)


def combine_float(
    C: Floats, S: Floats, E: Floats, pairs: Ints, column: int, sets: Words, left: Ints, taken: Ints
) -> tuple[Floats, Floats]:
    """Rays on each pair with slack 0 in ``column``, and their errors; slacks that are zero become exact zeros.

    ``sets`` are the new rays' zero sets, this row's bit included; ``left`` is the row of each open column, ``taken``
    that of each bit from k on.
    """
    k = C.shape[1]
    i, j = pairs.T
    a, b = -S[j, column], S[i, column]
    largest = (S[i, :k] * a[:, None] + S[j, :k] * b[:, None]).max(axis=1, initial=0.0)
    a, b = a / largest, b / largest
    new = S[i] * a[:, None] + S[j] * b[:, None]
    error = (a + 1 / largest) * E[i] + (b + 1 / largest) * E[j] + 4 * np.finfo(float).eps * (a + b)
    stale = np.flatnonzero(error > REFRESH)
    if len(stale):
        zeros = unpacked(sets[stale], k + len(taken))
        new[stale, :k], error[stale], _ = determined(C[taken], zeros[:, k:], ~zeros[:, :k])
        new[stale, k:] = new[stale, :k] @ C[left].T
    slack = new[:, k:]
    slack[np.abs(slack) <= zero_level(error)[:, None]] = 0.0
    return new, error


def determined(rows: Floats, tight: Bools, support: Bools) -> tuple[Floats, Floats, Floats]:
    """Rays recomputed from their tight rows, their errors and what is left of the rows; raises where those are too few.

    Shape: rows (n, k), tight (r, n), support (r, k) → (r, k), (r,), (r,)
    """
    y, error, rest = np.empty(support.shape), np.empty(len(support)), np.empty(len(support))
    for ids, chosen in by_tight_rows(tight, rows.shape[1], CACHED):
        y[ids], pivots, rest[ids] = null_vectors(rows[chosen], support[ids])
        if (pivots < SMALLEST_PIVOT).any() or (y[ids][support[ids]] <= 0).any():
            raise ill_conditioned()
        error[ids] = error_of(pivots)
    return y, error, rest
