"""New rays from adjacent pairs, in NumPy: int64 where it provably fits, Python integers beyond, or floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rayhull.core.reference import floats
from rayhull.core.reference.adjacency import Ints, Words

SAFE = 2**62


def combine_exact(S: NDArray[Any], pairs: Ints, column: int) -> NDArray[Any]:
    """Primitive vectors on each pair with slack 0 in ``column``; int64 if every entry is below 2^62, else objects."""
    i, j = pairs.T
    a, b = -S[j, column], S[i, column]
    first, second = S[i], S[j]
    if S.dtype != object:
        # float64 is off by 2^-50 at most here, and SAFE leaves a whole bit
        bound = np.abs(first).max(axis=1) * a.astype(float) + np.abs(second).max(axis=1) * b.astype(float)
        if bound.max(initial=0.0) >= SAFE:
            first, second, a, b = (x.astype(object) for x in (first, second, a, b))
    new = first * a[:, None] + second * b[:, None]
    return narrowed(primitive(new))


def primitive(S: NDArray[Any]) -> NDArray[Any]:
    """Rows of integers divided by their greatest common divisor; floats as they are."""
    if S.dtype == np.float64 or not S.size:
        return S
    out: NDArray[Any] = S // np.gcd.reduce(S, axis=1)[:, None]
    return out


def narrowed(S: NDArray[Any]) -> NDArray[Any]:
    """Python integers as int64 where all of them are below 2^62."""
    if S.dtype == object and all(-SAFE < x < SAFE for x in S.flat):
        return S.astype(np.int64)
    return S


def combine_float(
    C: floats.Floats,
    S: floats.Floats,
    E: floats.Floats,
    pairs: Ints,
    column: int,
    sets: Words,
    left: Ints,
    taken: Ints,
) -> tuple[floats.Floats, floats.Floats]:
    """Rays on each pair with slack 0 in ``column``, and their errors; slacks that are zero become exact zeros.

    Args:
        sets: the new rays' zero sets, this row's bit included.
        left: row of each open column.
        taken: row of each bit from k on.
    """
    k = C.shape[1]
    i, j = pairs.T
    a, b = -S[j, column], S[i, column]
    largest = (S[i, :k] * a[:, None] + S[j, :k] * b[:, None]).max(axis=1, initial=0.0)
    a, b = a / largest, b / largest
    new = S[i] * a[:, None] + S[j] * b[:, None]
    error = (a + 1 / largest) * E[i] + (b + 1 / largest) * E[j] + 4 * np.finfo(float).eps * (a + b)
    stale = np.flatnonzero(error > floats.REFRESH)
    if len(stale):
        zeros = unpacked(sets[stale], k + len(taken))
        new[stale, :k], error[stale] = refreshed(C[taken], zeros[:, k:], ~zeros[:, :k])
        new[stale, k:] = new[stale, :k] @ C[left].T
    slack = new[:, k:]
    slack[np.abs(slack) <= floats.zero_level(error)[:, None]] = 0.0
    return new, error


def unpacked(sets: Words, width: int) -> NDArray[np.bool_]:
    """The inverse of :func:`~rayhull.core.reference.adjacency.packed`, cut to ``width`` columns."""
    octets = np.ascontiguousarray(sets.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=width, bitorder="little").astype(bool)


def refreshed(rows: floats.Floats, tight: floats.Bools, support: floats.Bools) -> tuple[floats.Floats, floats.Floats]:
    """Rays recomputed from their tight rows, and their errors; raises where those do not determine them.

    Shape:
        ``rows`` (n, k), ``tight`` (r, n), ``support`` (r, k); returns (r, k), (r,).
    """
    y, error = np.empty(support.shape), np.empty(len(support))
    step = max(1, 1_000_000 // max(1, rows.size))
    for first in range(0, len(y), step):
        part = slice(first, first + step)
        most = int(tight[part].sum(axis=1).max(initial=0))
        chosen = np.argsort(~tight[part], axis=1, kind="stable")[:, :most]  # tight rows first
        padded = rows[chosen] * np.take_along_axis(tight[part], chosen, axis=1)[:, :, None]
        y[part], pivots, _ = floats.null_vectors(padded, support[part])
        if (pivots < floats.SMALLEST_PIVOT).any() or (y[part][support[part]] <= 0).any():
            raise floats.ill_conditioned()
        error[part] = floats.error_of(pivots)
    return y, error
