"""Sparse rows a·x <= c (or = c): the numbers as they were stated, as floats and as integers; names and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import INT64_SAFE, exact_rationals, joined, largest, narrow, places, rationals
from rayhull.exact.numbers import Array as Array

DEPENDENT = 1e-13  # singular values up to this share of the largest belong to dependent rows
TERMS = 32  # added up at once: the error of 500 equal terms, one after the other, is more than membership tolerates
SHOWN = 6  # terms of a longer sum are left out in the middle


@dataclass(frozen=True, eq=False)
class Rows:
    """m rows over d coordinates, in compressed sparse row form.

    ``data`` and ``offsets`` hold the numbers as they were stated (int64, float64, or Python integers, floats and
    fractions); ``matrix`` and ``rhs`` are their nearest floats, ``integers`` and ``exact`` the same rows in integers.
    """

    data: Array  # one number for each entry
    indices: Array  # its coordinate
    indptr: Array  # where each row begins
    dim: int
    offsets: Array  # (m,)
    names: Names
    dense: bool = False  # stated as a dense matrix, and given back as one

    def __len__(self) -> int:
        return len(self.offsets)

    @staticmethod
    @lru_cache
    def empty(dim: int) -> Rows:
        """No rows (the same object for the same d: nothing changes rows in place)."""
        none = np.zeros(0, np.int64)
        return Rows(none, none, np.zeros(1, np.int64), dim, none, Names((), none, none), True)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """(m, d) in float64."""
        return sp.csr_array((self.data.astype(np.float64), self.indices, self.indptr), shape=(len(self), self.dim))

    @cached_property
    def rhs(self) -> Array:
        """(m,) in float64."""
        return self.offsets.astype(np.float64)

    @cached_property
    def stated(self) -> Any:
        """The matrix as it was stated: a dense array, or sparse in CSR form."""
        if not (self.dense or self.data.dtype == object):
            return sp.csr_array((self.data, self.indices, self.indptr), shape=(len(self), self.dim))
        return self._filled(self.data)

    @cached_property
    def integers(self) -> tuple[Array, Array] | None:
        """(data, rhs): each row times a positive number, so that it states the same half-space in integers.

        None when some number is a float that is not a small dyadic rational: then nobody meant it as an exact one.
        """
        if self.data.dtype == self.offsets.dtype == np.int64:
            return self.data, self.offsets
        entries, offsets = rationals(self.data), rationals(self.offsets)
        return None if entries is None or offsets is None else _to_integers(self.indptr, *entries, *offsets)

    @cached_property
    def exact(self) -> tuple[Array, Array]:
        """(data, rhs) like ``integers``, for any numbers: an inexact float is the dyadic rational that it is."""
        if self.integers is not None:
            return self.integers
        return _to_integers(self.indptr, *exact_rationals(self.data), *exact_rationals(self.offsets))

    @cached_property
    def sizes(self) -> Array:
        """How many coordinates each row mentions, (m,)."""
        return self.indptr[1:] - self.indptr[:-1]

    @cached_property
    def zeros(self) -> tuple[int, ...]:
        """The rows that mention no coordinate."""
        return tuple(np.flatnonzero(self.sizes == 0).tolist())

    @cached_property
    def row_of_entry(self) -> Array:
        return np.repeat(np.arange(len(self)), self.sizes)

    def dense_integers(self) -> tuple[Array, Array]:
        """``exact`` as a matrix (m, d) and right-hand sides (m,). Only for blocks that fit in memory."""
        return self._filled(self.exact[0]), self.exact[1]

    def _filled(self, data: Array) -> Array:
        out = np.zeros((len(self), self.dim), dtype=data.dtype)
        if len(self):
            out[self.row_of_entry, self.indices] = data
        return out

    @cached_property
    def scaled(self) -> tuple[sp.csr_array, Array, Array]:
        """(matrix, rhs, exponents) with each row divided by its power of two: see :func:`scaled_rows`."""
        return scaled_rows(self.matrix, self.rhs)

    @cached_property
    def sums(self) -> list[sp.csr_array]:
        """Matrices whose product is that of ``scaled``, the first at the points: see :func:`short_sums`."""
        return short_sums(self.scaled[0])

    @cached_property
    def unit(self) -> tuple[sp.csr_array, Array, Array]:
        """(matrix, rhs, lengths) with each row divided by its Euclidean length; rows of zeros stay."""
        return unit_rows(self.matrix, self.rhs)

    @cached_property
    def cancelling(self) -> Array:
        """An orthonormal basis (m, r) of the combinations in which rows of length 1 cancel; no r: independent.

        Points meet all rows with equality only if right-hand sides cancel in them, too.
        """
        U, values, _ = np.linalg.svd(self.unit[0].toarray(), full_matrices=len(self) > self.dim)
        return U[:, int((values > DEPENDENT * values.max(initial=0.0)).sum()) :]

    def take(self, rows: Array, columns: Array | None = None, width: int | None = None) -> Rows:
        """The given rows; ``columns`` renames each coordinate (an array of new positions), ``width`` is the new d."""
        rows = np.asarray(rows, np.int64)
        indptr, entries = row_entries(self.indptr, rows)
        indices = self.indices[entries] if columns is None else columns[self.indices[entries]]
        data, offsets, dim = self.data[entries], self.offsets[rows], self.dim if width is None else width
        return Rows(data, indices, indptr, dim, offsets, self.names.take(rows), self.dense)

    def without_zeros(self) -> Rows:
        """The rows that mention at least one coordinate."""
        return self.take(np.flatnonzero(self.sizes)) if self.zeros else self

    def homogeneous(self) -> Rows:
        """The same rows with right-hand sides 0."""
        return replace(self, offsets=np.zeros(len(self), np.int64))

    def text(self, coordinates: Sequence[str], sign: str, i: int) -> str:
        """Row i in words."""
        part = slice(*self.indptr[i : i + 2])
        terms = zip((coordinates[c] for c in self.indices[part]), self.data[part].tolist(), strict=True)
        return f"{affine_text(list(terms), 0)} {sign} {number_text(self.offsets[i : i + 1].tolist()[0])}"

    @staticmethod
    def stack(parts: Sequence[Rows]) -> Rows:
        """Rows of the same coordinates, one under the other."""
        parts = [p for p in parts if len(p)] or [parts[0]]
        if len(parts) == 1:
            return parts[0]
        return Rows(
            joined([p.data for p in parts]),
            np.concatenate([p.indices for p in parts]),
            np.cumsum(np.concatenate([[0], *(p.sizes for p in parts)])),
            parts[0].dim,
            joined([p.offsets for p in parts]),
            Names.join([p.names for p in parts]),
            all(p.dense for p in parts),
        )


def compressed(matrix: Array) -> tuple[Array, Array, Array, int]:
    """A dense matrix in compressed form: data, indices, indptr and d."""
    row, column = places(matrix)
    indptr = np.zeros(len(matrix) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(matrix)), out=indptr[1:])
    return matrix[row, column], column, indptr, matrix.shape[1]


def row_entries(indptr: Array, rows: Array) -> tuple[Array, Array]:
    """Some rows of a matrix in compressed form: where each of them begins, and which entries are theirs."""
    counts = indptr[rows + 1] - indptr[rows]
    starts = np.concatenate([[0], np.cumsum(counts)])
    return starts, np.repeat(indptr[rows] - starts[:-1], counts) + np.arange(starts[-1])


def scaled_rows(matrix: sp.csr_array, rhs: Array) -> tuple[sp.csr_array, Array, Array]:
    """Rows and right-hand sides over 2^k, and k (m,), such that ‖a‖₁ / 2^k is in (1/2, 1]; 0 for a row of zeros.

    Powers of two change no digit, and sums do not overflow.
    """
    counts = np.diff(matrix.indptr)
    rows, some = np.repeat(np.arange(len(counts)), counts), np.flatnonzero(counts)
    top = np.full(len(counts), -1100)
    if len(some):  # ten times as fast as np.maximum.at
        top[some] = np.maximum.reduceat(np.frexp(matrix.data)[1], matrix.indptr[some])
    sums = np.bincount(rows, np.ldexp(np.abs(matrix.data), -top[rows]), len(counts))
    k = np.where(sums > 0, top + np.frexp(np.nextafter(sums, 0.0))[1], 0)
    data = np.ldexp(matrix.data, -k[rows])
    with np.errstate(over="ignore"):  # a right-hand side beyond all floats is an infinite one
        return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape), np.ldexp(rhs, -k), k


def short_sums(matrix: sp.csr_array) -> list[sp.csr_array]:
    """Matrices to multiply with one after the other, in place of one whose rows are sums of many terms."""
    counts, parts = np.diff(matrix.indptr), []
    while counts.max(initial=0) > TERMS:
        pieces = -(-counts // TERMS)  # of each row
        ends = np.concatenate([[0], np.cumsum(pieces)])
        places = np.arange(ends[-1])
        starts = np.repeat(matrix.indptr[:-1] - TERMS * ends[:-1], pieces) + TERMS * places
        shape, starts = (len(places), matrix.shape[1]), np.append(starts, matrix.nnz)
        parts.append(sp.csr_array((matrix.data, matrix.indices, starts), shape=shape))
        matrix = sp.csr_array((np.ones(len(places)), places, ends), shape=(len(counts), len(places)))
        counts = pieces
    return [*parts, matrix]


def unit_rows(matrix: sp.csr_array, rhs: Array) -> tuple[sp.csr_array, Array, Array]:
    """Rows of any scale divided by their Euclidean lengths (rows of zeros stay): matrix, right-hand sides, lengths."""
    unit, rhs, k = scaled_rows(matrix, rhs)
    counts = np.diff(unit.indptr)
    rows = np.repeat(np.arange(len(k)), counts)
    lengths = np.sqrt(np.bincount(rows, unit.data**2, len(k)))
    lengths = np.where(lengths > 0, lengths, 1.0)
    unit.data /= lengths[rows]
    with np.errstate(over="ignore"):
        return unit, rhs / lengths, np.where(counts > 0, np.ldexp(lengths, k), 0.0)


def _to_integers(indptr: Array, num: Array, den: Array, num_rhs: Array, den_rhs: Array) -> tuple[Array, Array]:
    """Fractions scaled to integers, row by row: by one factor where all stay below 2^62, else each by its own."""
    scale = math.lcm(*{int(v) for v in np.unique(den)}, *{int(v) for v in np.unique(den_rhs)}, 1)
    if scale == 1:
        return num, num_rhs
    if max(1, largest(num), largest(num_rhs)) * scale < INT64_SAFE:
        return num * (scale // den), num_rhs * (scale // den_rhs)
    num, den, num_rhs, den_rhs = (v.astype(object) for v in (num, den, num_rhs, den_rhs))
    for i in range(len(num_rhs)):
        row = slice(indptr[i], indptr[i + 1])
        factor = math.lcm(*den[row].tolist(), den_rhs[i])
        num[row] *= factor // den[row]
        num_rhs[i] *= factor // den_rhs[i]
    return narrow(num), narrow(num_rhs)


# -- names and words, for messages -------------------------------------------------------------------------------------


class Names:
    """Names of rows, written out when somebody asks: a rule for each row, and the number that goes into it."""

    def __init__(self, rules: tuple[Callable[[int], str], ...], rule: Array, number: Array) -> None:
        self._rules, self._rule, self._number = rules, rule, number

    @staticmethod
    def by(rule: Callable[[int], str], numbers: Array) -> Names:
        """``rule(number)`` for each number."""
        return Names((rule,), np.zeros(len(numbers), np.int64), numbers)

    @staticmethod
    def join(parts: Sequence[Names]) -> Names:
        starts = np.cumsum([0] + [len(p._rules) for p in parts[:-1]])
        rule = np.concatenate([p._rule + start for p, start in zip(parts, starts, strict=True)])
        return Names(sum((p._rules for p in parts), ()), rule, np.concatenate([p._number for p in parts]))

    def take(self, rows: Array) -> Names:
        return Names(self._rules, self._rule[rows], self._number[rows])

    def __len__(self) -> int:
        return len(self._number)

    def __getitem__(self, i: int) -> str:
        return self._rules[self._rule[i]](int(self._number[i]))

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))


def indexed(name: str, place: int, shape: tuple[int, ...]) -> str:
    """The name of one entry of an array in C order, 'x[2, 5]'; of a scalar, the name alone."""
    return f"{name}[{', '.join(str(i) for i in np.unravel_index(place, shape))}]" if shape else name


def count(n: int, noun: str) -> str:
    """A number and its noun: '1 inequality', '3 inequalities', '2 vertices', '0 bounds'."""
    plural = noun[:-2] + {"ty": "ties", "ry": "ries", "ex": "ices"}.get(noun[-2:], f"{noun[-2:]}s")
    return f"{n} {noun if n == 1 else plural}"


def in_words(names: Sequence[str], most: int = 8) -> str:
    """A few names in a sentence: 'a, b and c', 'a, b and 7 others'."""
    shown = list(names[:most]) + ([f"{len(names) - most} others"] if len(names) > most else [])
    return " and ".join([", ".join(shown[:-1]), *shown[-1:]] if len(shown) > 1 else shown)


def number_text(value: Any) -> str:
    """A number without noise: 2 for 2.0, 1/3 for a fraction."""
    if isinstance(value, int | Fraction):
        return str(value)
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def affine_text(terms: Sequence[tuple[str, Any]], constant: Any) -> str:
    """A sum of terms (name, coefficient) and a constant.

    Examples:
        >>> affine_text([("coal", 1), ("gas", -2)], 3)
        'coal - 2*gas + 3'
        >>> affine_text([("x[0]", -1), ("x[1]", 1)], 0)
        'x[1] - x[0]'
    """
    terms = sorted(terms, key=lambda term: term[1] < 0)[:1] + list(terms)  # x - y rather than -y + x
    terms = [t for i, t in enumerate(terms) if i == 0 or t is not terms[0]]
    parts = [_signed(value, name) for name, value in terms]
    if len(parts) > SHOWN:
        parts = [*parts[:2], ("+", "..."), parts[-1]]
    if constant != 0 or not parts:
        parts.append(_signed(constant, ""))
    first = ("-" if parts[0][0] == "-" else "") + parts[0][1]
    return first + "".join(f" {sign} {text}" for sign, text in parts[1:])


def _signed(value: Any, name: str) -> tuple[str, str]:
    size = number_text(abs(value))
    text = f"{size}*{name}" if name and size != "1" else name or size
    return "-" if value < 0 else "+", text
