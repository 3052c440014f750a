"""Exact elimination on integers: which rows are independent, and the inverse of a square matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import numpy as np

from rayhull.exact.numbers import INT64_SAFE, Array, largest, narrow, places, product, short_kind

Eliminate = Callable[[Array, int], tuple[Array, Array]]  # rows and a prime → independent rows, pivot columns

MOST_DIGITS = 20  # of a continued fraction
SMALL = 4096  # entries up to which all rows are eliminated at once
FEW = 3  # times the width: so many rows are looked at first, since they most often span all
DENSE_ENTRIES = 4_000_000  # beyond this many entries rows are not made dense


def independent_rows(matrix: Array, eliminate: Eliminate | None = None) -> tuple[Array, Array]:
    """Rows that span all of them, as early ones as possible, and a pivot column for each (its last one that counts).

    What elimination modulo a prime finds independent is independent over the rationals. That the others depend on
    them is proved by more primes: a rank r is certain once the product of the primes passes Hadamard's bound on every
    minor of r + 1 rows, since such a minor is divisible by all of them and so it is 0. ``eliminate`` takes the place of
    :func:`eliminate_modulo` where it is faster.
    """
    m, width = matrix.shape
    if m > FEW * width > 0 and m * width > SMALL:
        found = independent_rows(matrix[: FEW * width], eliminate)
        if len(found[0]) == width:
            return found
    columns = _echelon_columns(matrix)
    if columns is not None:  # as it stands: chains, tiles
        return np.arange(m), columns
    best, proved, bits = (np.zeros(0, np.int64), np.zeros(0, np.int64)), 0.0, None
    for prime in _primes():
        found = (eliminate or eliminate_modulo)(matrix, prime)
        best, proved = found if len(found[0]) > len(best[0]) else best, proved + math.log2(prime)
        if len(best[0]) == min(m, width):
            break
        if bits is None:
            bits = _bits(np.asarray((matrix.astype(float if matrix.dtype != object else object) ** 2).sum(axis=1)))
        if _is_certain(len(best[0]), proved, bits, width):
            break
    return best


def _echelon_columns(matrix: Array) -> Array | None:
    """The column of each row's last entry that is not zero, if there is one in each and no two rows share it."""
    m, width = matrix.shape
    if m > width or not matrix.size:
        return None if m else np.zeros(0, np.int64)
    filled = matrix != 0
    columns: Array = width - 1 - np.argmax(filled[:, ::-1], axis=1)
    is_echelon = len(np.unique(columns)) == m and filled[np.arange(m), columns].all()
    return columns if is_echelon else None


def rank(data: Array, indices: Array, indptr: Array, width: int) -> int:
    """The rank of sparse integer rows, exactly; dense elimination where that fits into memory."""
    m = len(indptr) - 1
    if m * width <= DENSE_ENTRIES:
        dense = np.zeros((m, width), dtype=data.dtype)
        dense[np.repeat(np.arange(m), np.diff(indptr)), indices] = data
        return len(independent_rows(dense)[0])
    bits = _bits(np.array([sum(int(v) ** 2 for v in row) for row in np.split(data, indptr[1:-1])]))
    best, proved = 0, 0.0
    for prime in _primes():
        best, proved = max(best, _sparse_rank(data, indices, indptr, prime)), proved + math.log2(prime)
        if _is_certain(best, proved, bits, width):
            break
    return best


def _is_certain(rank: int, proved: float, bits: Array, width: int) -> bool:
    return rank == min(len(bits), width) or proved > bits[: rank + 1].sum()


def _primes() -> Iterator[int]:
    """The primes below 2^26, downwards: a product of two residues is exact in float64, which is faster than int64."""
    return (n for n in range(2**26 - 1, 2, -2) if _is_prime(n))


@cache
def _is_prime(n: int) -> bool:
    """Miller and Rabin's test; these bases are enough for every odd n between 8 and 3.2e9."""
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    for base in (2, 3, 5, 7):
        power = pow(base, n >> twos, n)
        if power in (1, n - 1):
            continue
        if not any((power := power * power % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


def _bits(squares: Array) -> Array:
    """log2 of the rows' lengths from their squares, the longest first; a little more, for the roundings."""
    logs = [math.log2(v) / 2 + 1e-6 if v else 0.0 for v in squares.tolist()]
    return np.sort(np.array(logs))[::-1]


def eliminate_modulo(matrix: Array, prime: int) -> tuple[Array, Array]:
    """The first rows that are independent modulo the prime, and a pivot column for each."""
    work = np.asarray(matrix % prime, dtype=np.float64)
    rows: list[int] = []
    columns: list[int] = []
    i = -1
    while len(rows) < work.shape[1] and i + 1 < len(work):
        i += 1
        filled = work[i].nonzero()[0]
        if not len(filled):
            left = work[i:].any(axis=1)
            i += int(left.argmax())
            if not left.any():
                break
            filled = work[i].nonzero()[0]
        pivot = int(filled[-1])
        below = work[i + 1 :, pivot].nonzero()[0]
        if len(below):
            below += i + 1
            row = _reduced(work[i] * float(pow(int(work[i, pivot]), -1, prime)), prime)
            some = work[below]
            work[below] = _reduced(some - some[:, pivot, None] * row, prime)
        rows.append(i)
        columns.append(pivot)
    return np.array(rows, np.int64), np.array(columns, np.int64)


def _reduced(values: Array, prime: int) -> Array:
    """Residues of integers below 2^53, at most half of the prime in size (and a little more, by rounding)."""
    values -= np.rint(values * (1.0 / prime)) * prime
    return values


def _sparse_rank(data: Array, indices: Array, indptr: Array, prime: int) -> int:
    """The rank modulo the prime, without a dense matrix."""
    reduced: dict[int, dict[int, int]] = {}  # pivot column -> what a row has before it, with 1 there
    for i in range(len(indptr) - 1):
        row = {int(indices[e]): int(data[e]) % prime for e in range(indptr[i], indptr[i + 1])}
        row = {c: v for c, v in row.items() if v}
        while row:
            pivot = max(row)
            value = row.pop(pivot)  # taken off: whatever the numbers, the next pivot is a smaller one
            if pivot not in reduced:
                factor = pow(value, -1, prime)
                reduced[pivot] = {c: v * factor % prime for c, v in row.items()}
                break
            for column, v in reduced[pivot].items():
                row[column] = (row.get(column, 0) - value * v) % prime
            row = {c: v for c, v in row.items() if v}
    return len(reduced)


def reduction(matrix: Array) -> tuple[Array, Array, Array, int]:
    """Independent rows, their pivot columns, and integers W and s with W matrix[rows][:, columns] = s · identity.

    W matrix[rows] / s is then the reduced echelon form; another row is matrix[row, columns] W / s times the rows.
    """
    rows, columns = independent_rows(matrix)
    back, scales = (v.astype(object) for v in inverse(matrix[np.ix_(rows, columns)]))
    common = math.lcm(*(int(s) for s in scales))
    return rows, columns, back * (common // scales), common


def inverse(matrix: Array) -> tuple[Array, Array]:
    """Integers K and positive s with matrix @ K = diag(s), exactly. The matrix must be regular.

    Each column of K is the inverse's, over a denominator of its own in lowest terms, so K has no wider numbers than it
    must: the determinant of a matrix of many blocks is the product of theirs, and no column needs all of it.
    """
    found = _triangular_inverse(matrix)
    if found is not None:
        return found, np.ones(len(matrix), np.int64)
    return rounded_inverse(matrix) or fraction_free_inverse(matrix)


def _triangular_inverse(matrix: Array) -> Array | None:
    """Substitution for triangular integers with ±1 on the diagonal, None for others."""
    if matrix.dtype != np.int64 or (np.abs(np.diagonal(matrix)) != 1).any():
        return None
    rows, columns = places(matrix)
    if (columns <= rows).all():
        return substitute(len(matrix), rows, columns, matrix[rows, columns])
    if (columns >= rows).all():
        found = _triangular_inverse(matrix.T)
        return None if found is None else found.T
    return None


def substitute(n: int, rows: Array, columns: Array, values: Array) -> Array | None:
    """The inverse of a lower triangular L (n, n) with ±1 on the diagonal; None where an entry may pass 62 bits.

    It comes in integers as short as will do: what passes through memory is most of the time for a chain. ``rows``,
    ``columns`` and ``values`` are the entries of L, row by row; every row's last is on the diagonal.
    """
    starts = np.searchsorted(rows, np.arange(n + 1))
    signs = values[starts[1:] - 1]
    entries = list(zip(columns.tolist(), (-values * signs[rows]).tolist(), strict=True))
    terms = [entries[first : last - 1] for first, last in pairwise(starts.tolist())]  # row i: ±e_i + factor * row j
    reach: list[int] = []  # no entry of a row is larger
    for row in terms:
        reach.append(_reach(row, reach))
    most = max(reach, default=0)
    found = np.zeros((n, n), short_kind(most))
    np.fill_diagonal(found, signs)
    for i, (out, row) in enumerate(zip(found, terms, strict=True)):
        if most >= INT64_SAFE and not _is_within_reach(i, row, reach, found):
            return None
        for j, factor in row:
            out += found[j] if factor == 1 else factor * found[j]  # a view: written into found
    return found


def _reach(row: list[tuple[int, int]], reach: list[int]) -> int:
    return 1 + sum(abs(factor) * reach[j] for j, factor in row)


def _is_within_reach(i: int, row: list[tuple[int, int]], reach: list[int], found: Array) -> bool:
    """Whether row i stays below 2^62: the largest entries of the rows in it are looked up where their bounds say no."""
    reach[i] = _reach(row, reach)
    if reach[i] >= INT64_SAFE:
        for j, _ in row:
            reach[j] = largest(found[j])
        reach[i] = _reach(row, reach)
    return reach[i] < INT64_SAFE


def rounded_inverse(matrix: Array) -> tuple[Array, Array] | None:
    """The inverse in floats, each column times its denominator and rounded; kept only if the exact product proves it.

    The determinant will do for a denominator (Cramer's rule) where it is small, else they are read off the floats.
    """
    if largest(matrix) >= 2**53:
        return None
    regular = matrix.astype(np.float64)
    try:
        floats = np.linalg.inv(regular)
    except np.linalg.LinAlgError:  # not regular in floats
        return None
    scale = np.rint(abs(np.linalg.det(regular)))
    guess = np.full(len(matrix), scale) if 0 < scale < 2**45 else _denominators(floats)
    if not np.abs(floats * guess).max() < 2**50 or guess.max() >= 2**50:
        return None
    scaled, scales = np.rint(floats * guess).astype(np.int64), guess.astype(np.int64)
    back = product(matrix, scaled)
    back[np.diag_indices(len(matrix))] -= scales
    return None if back.any() else _lowest_terms(scaled, scales)


def _denominators(floats: Array) -> Array:
    """A guess at the least common denominator of each column, by continued fractions."""
    scales = np.ones(floats.shape[1])
    for row in floats:
        value = row * scales
        before, found = np.zeros(len(value)), np.ones(len(value))  # denominators of two convergents, up to sign
        rest = value - np.rint(value)
        for _ in range(MOST_DIGITS):
            multiple = found * value
            short = (np.abs(multiple - np.rint(multiple)) > 1e-7) & (np.abs(found * scales) < 2**40) & (rest != 0)
            if not short.any():
                break
            turned = 1 / np.where(short, rest, 1.0)
            digit = np.rint(turned)
            before, found = np.where(short, [found, digit * found + before], [before, found])
            rest = np.where(short, turned - digit, rest)
        scales *= np.abs(found)
    return scales


def _lowest_terms(integers: Array, scales: Array) -> tuple[Array, Array]:
    common = np.gcd(scales, np.gcd.reduce(integers, axis=0))
    return (integers, scales) if (common == 1).all() else (narrow(integers // common), narrow(scales // common))


def fraction_free_inverse(matrix: Array) -> tuple[Array, Array]:
    """Gauss-Jordan elimination without fractions (Bareiss): every division is exact."""
    n = len(matrix)
    work = np.concatenate([matrix.astype(object), np.eye(n, dtype=np.int64).astype(object)], axis=1)
    previous = 1
    for k in range(n):
        row = k + int(np.flatnonzero(work[k:, k] != 0)[0])
        if row != k:
            work[[k, row]] = work[[row, k]]
        pivot = work[k, k]
        others = np.flatnonzero(np.arange(n) != k)
        work[others] = (work[others] * pivot - work[others, k][:, None] * work[k]) // previous
        previous = pivot
    sign = -1 if previous < 0 else 1
    return _lowest_terms(sign * work[:, n:], np.full(n, sign * previous, dtype=object))
