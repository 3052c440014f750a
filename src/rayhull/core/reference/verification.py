"""Whether rays are what they claim to be, in NumPy: computed afresh from the rows, in integers of any size.

A ray is extreme if its tight rows have rank k - 1, which is proved modulo a prime, where a rank can only drop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rayhull.core.reference.adjacency import Ints, Words, by_tight_rows, packed
from rayhull.core.reference.floats import Bools, Floats

NO_FAULT, NEGATIVE, BROKEN = 0, 1, 2
PRODUCTS = 1_000_000  # entries of a product at a time
MATRICES = 1_000_000  # entries of a batch of matrices


class Examined(NamedTuple):
    """What the rows say of some rays; with a fault, the rest says nothing."""

    fault: int  # NO_FAULT, or a coordinate is NEGATIVE, or a row is BROKEN
    zeros: Words  # (r, words): the coordinates, and from bit k on the rows, that are 0 at each ray
    extreme: Bools  # (r,): proved to be; what is not proved may still be


def examine(C: NDArray[Any], Y: NDArray[Any], prime: int) -> Examined:
    """The rays Y (r, k) against the rows of {y >= 0, C y >= 0}, C (n, k)."""
    support = (Y != 0).astype(bool)
    tight = np.zeros((len(Y), len(C)), bool)
    fault = NEGATIVE if (Y < 0).any() else NO_FAULT
    step = max(1, PRODUCTS // max(1, len(C)))
    for first in range(0, len(Y), step):
        part = slice(first, first + step)
        high, low = products(C, Y[part])
        tight[part] = (high == 0) & (low == 0)
        if not fault and (high < 0).any():
            fault = BROKEN
    extreme = are_extreme((C % prime).astype(np.int64), prime, tight, support)
    return Examined(fault, packed(np.concatenate([~support, tight], axis=1)), extreme)


def products(C: NDArray[Any], Y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Y C^T exactly, as (high, low): the sign of high is that of the product, which is zero only if both are.

    Digits so short that floats add their products without rounding: matrix products at full speed, for any integers.
    """
    bits = (52 - C.shape[1].bit_length()) // 2
    digits_Y, digits_C = _digits(Y, bits), _digits(C, bits)
    if len(digits_Y) == len(digits_C) == 1:
        exact = digits_Y[0] @ digits_C[0].T
        return exact, exact
    high = low = np.zeros((len(Y), len(C)), np.int64)
    for place in range(len(digits_Y) + len(digits_C) - 1):
        for a in range(max(0, place - len(digits_C) + 1), min(place + 1, len(digits_Y))):
            high = high + (digits_Y[a] @ digits_C[place - a].T).astype(np.int64)
        low = low | (high & ((1 << bits) - 1))
        high = high >> bits
    return high, low


def _digits(X: NDArray[Any], bits: int) -> list[Floats]:
    """X = sum of digits[i] 2^(i bits), lowest first; all digits but the last are >= 0."""
    digits = []
    while X.min(initial=0) < -(1 << bits) or X.max(initial=0) >= 1 << bits:
        digits.append((X & ((1 << bits) - 1)).astype(np.float64))
        X = X >> bits
    return [*digits, X.astype(np.float64)]


def are_extreme(residues: Ints, prime: int, tight: Bools, support: Bools) -> Bools:
    """For each ray: do its tight rows, restricted to its support, have rank support - 1 modulo the prime?

    A coordinate that is zero is a tight unit row, so it takes one from both sides and need not be eliminated.
    """
    extreme, size = np.zeros(len(tight), bool), support.sum(axis=1)
    for some, rows in by_tight_rows(tight, residues.shape[1], MATRICES):
        rank = _rank(residues[rows] * support[some, None, :], prime)
        extreme[some] = (rank == size[some] - 1) & (size[some] > 0)
    return extreme


def _rank(M: Ints, prime: int) -> Ints:
    """Rank of each matrix of a batch modulo the prime, (r, t, k) -> (r,); M is eliminated column by column."""
    r, t, k = M.shape
    rank = np.zeros(r, np.int64)
    for c in range(k if t else 0):
        below = (M[:, :, c] != 0) & (np.arange(t) >= rank[:, None])
        on = np.flatnonzero(below.any(axis=1))
        a, top = below[on].argmax(axis=1), rank[on]
        row = M[on, a]
        M[on, a] = M[on, top]
        inverse = [[pow(v, -1, prime)] for v in row[:, c].tolist()]
        row = row * np.array(inverse, np.int64).reshape(-1, 1) % prime
        M[on, top] = row
        factor = M[on, :, c]
        factor[np.arange(t) <= top[:, None]] = 0
        M[on] = (M[on] - factor[:, :, None] * row[:, None, :]) % prime
        rank[on] += 1
    return rank
