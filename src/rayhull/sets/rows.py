"""Sparse rows a·x <= c (or = c): floats always, integers beside them where the input was exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import INT64_SAFE, largest, narrow, rationals

Array = np.ndarray[Any, Any]


def is_torch(x: object) -> bool:
    """Whether x is a torch tensor, without importing torch."""
    return type(x).__module__.partition(".")[0] == "torch" or any(
        base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(x).__mro__
    )


def as_array(values: Any, name: str) -> Array:
    """Numbers as a NumPy array of integers, floats or Python numbers; a clear refusal for anything else."""
    if is_torch(values):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers, got a ragged one: {error}.") from None
    if array.dtype.kind == "c":
        raise TypeError(f"{name} is complex ({array.dtype}); linear inequalities need real numbers.")
    if array.dtype.kind == "O":
        for v in array.ravel().tolist():
            if not isinstance(v, int | float | Fraction):
                raise TypeError(f"{name} must hold numbers, got {v!r} of type {type(v).__name__}.")
    elif array.dtype.kind not in "iubf":
        raise TypeError(f"{name} must hold numbers, got an array of {array.dtype}.")
    return array if array.dtype.kind in "iuO" else array.astype(np.int64 if array.dtype.kind == "b" else float)


@dataclass(frozen=True, eq=False)
class Rows:
    """m rows over d coordinates.

    ``matrix`` (m, d) and ``rhs`` (m,) are float64. ``integers`` holds (data, rhs) with one integer for each stored
    entry of ``matrix``: each row scaled by a positive number, so that it states the same half-space exactly; it is
    None when some number is a float that is not a small dyadic rational.
    """

    matrix: sp.csr_array
    rhs: Array
    integers: tuple[Array, Array] | None
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.rhs)

    @property
    def dim(self) -> int:
        return int(self.matrix.shape[1])

    @staticmethod
    @lru_cache
    def empty(dim: int) -> Rows:
        """No rows (the same object for the same d: nothing changes rows in place)."""
        return Rows(sp.csr_array((0, dim)), np.zeros(0), (np.zeros(0, np.int64), np.zeros(0, np.int64)), ())

    @staticmethod
    def read(matrix: object, rhs: object, names: Sequence[str] | None, letters: tuple[str, str]) -> Rows:
        """Rows from what a user gave: ``letters`` are what the two are called in error messages."""
        a_name, b_name = letters
        if sp.issparse(matrix):
            data, indices, indptr, width = _from_sparse(matrix, a_name)
        else:
            data, indices, indptr, width = _from_dense(as_array(matrix, a_name), a_name)
        m = len(indptr) - 1
        offsets = as_array(0 if rhs is None else rhs, b_name)
        if offsets.ndim == 0:
            offsets = np.full(m, offsets[()], dtype=offsets.dtype)
        if offsets.shape != (m,):
            got = f"{len(offsets)} entries" if offsets.ndim == 1 else f"shape {offsets.shape}"
            raise ValueError(f"{a_name} has {m} rows but {b_name} has {got}: give one offset for each row.")
        if names is not None and len(names) != m:
            raise ValueError(f"{a_name} has {m} rows but {len(names)} names were given.")
        labels = tuple(names) if names is not None else tuple(f"{a_name}[{i}]" for i in range(m))
        return Rows.from_parts(data, indices, indptr, width, offsets, labels, letters)

    @staticmethod
    def from_parts(
        data: Array,
        indices: Array,
        indptr: Array,
        width: int,
        rhs: Array,
        names: tuple[str, ...],
        letters: tuple[str, str] = ("A", "b"),
    ) -> Rows:
        floats = data.astype(np.float64)
        for name, values in zip(letters, (floats, rhs.astype(np.float64)), strict=True):
            if not np.isfinite(values).all():
                bad = "NaN" if np.isnan(values).any() else "an infinity"
                raise ValueError(
                    f"{name} holds {bad}; every number must be finite (leave a row out to state no limit)."
                )
        matrix = sp.csr_array((floats, indices, indptr), shape=(len(indptr) - 1, width))
        return Rows(matrix, rhs.astype(np.float64), _to_integers(data, indptr, rhs), names)

    @cached_property
    def sizes(self) -> Array:
        """How many coordinates each row mentions, (m,)."""
        return np.diff(self.matrix.indptr)

    @cached_property
    def row_of_entry(self) -> Array:
        return np.repeat(np.arange(len(self)), self.sizes)

    def dense_integers(self) -> tuple[Array, Array]:
        """The integer rows (m, d) and right-hand sides (m,), dense. Only for blocks that fit in memory."""
        assert self.integers is not None
        data, rhs = self.integers
        out = np.zeros((len(self), self.dim), dtype=data.dtype if data.size else np.int64)
        out[self.row_of_entry, self.matrix.indices] = data
        return out, rhs

    def take(self, rows: Array, columns: Array | None = None, width: int | None = None) -> Rows:
        """The given rows; ``columns`` renames each coordinate (an array of new positions), ``width`` is the new d."""
        starts, stops = self.matrix.indptr[rows], self.matrix.indptr[np.asarray(rows) + 1]
        counts = stops - starts
        entries = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        indices = self.matrix.indices[entries]
        indices = indices if columns is None else columns[indices]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        shape = (len(indptr) - 1, self.dim if width is None else width)
        matrix = sp.csr_array((self.matrix.data[entries], indices, indptr), shape=shape)
        integers = None if self.integers is None else (self.integers[0][entries], self.integers[1][rows])
        return Rows(matrix, self.rhs[rows], integers, tuple(self.names[i] for i in rows))

    def without_zeros(self) -> Rows:
        """The rows that mention at least one coordinate."""
        return self if self.sizes.all() else self.take(np.flatnonzero(self.sizes))

    @staticmethod
    def stack(parts: Sequence[Rows]) -> Rows:
        """Rows of the same coordinates, one under the other."""
        parts = [p for p in parts if len(p)] or [parts[0]]
        if len(parts) == 1:
            return parts[0]
        matrix = sp.csr_array(sp.vstack([p.matrix for p in parts], format="csr"))
        rhs = np.concatenate([p.rhs for p in parts])
        names = tuple(n for p in parts for n in p.names)
        exact = [p.integers for p in parts if p.integers is not None]
        if len(exact) < len(parts):
            return Rows(matrix, rhs, None, names)
        integers = np.concatenate([d for d, _ in exact]), np.concatenate([r for _, r in exact])
        return Rows(matrix, rhs, integers, names)


def _from_dense(matrix: Array, name: str) -> tuple[Array, Array, Array, int]:
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix (rows, coordinates), got shape {matrix.shape}.")
    # NaN != 0, so a NaN is stored and refused later with its message.
    row, column = np.nonzero(matrix != 0)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))]).astype(np.int64)
    return matrix[row, column], column.astype(np.int64), indptr, matrix.shape[1]


def _from_sparse(matrix: Any, name: str) -> tuple[Array, Array, Array, int]:
    csr = sp.csr_array(matrix)
    if csr.dtype.kind == "c":
        raise TypeError(f"{name} is complex ({csr.dtype}); linear inequalities need real numbers.")
    csr.sum_duplicates()
    csr.eliminate_zeros()
    data = csr.data if csr.dtype.kind in "iu" else csr.data.astype(float)
    return data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64), int(csr.shape[1])


def _to_integers(data: Array, indptr: Array, rhs: Array) -> tuple[Array, Array] | None:
    """Data and right-hand sides scaled, row by row, to integers; None where a number is not exact."""
    entries, offsets = rationals(data), rationals(rhs)
    if entries is None or offsets is None:
        return None
    (num, den), (num_rhs, den_rhs) = entries, offsets
    if data.dtype.kind in "iub" and rhs.dtype.kind in "iub":
        return num, num_rhs
    scale = math.lcm(*{int(v) for v in np.unique(den)}, *{int(v) for v in np.unique(den_rhs)}, 1)
    if scale == 1:
        return num, num_rhs
    if max(largest(num), largest(num_rhs)) * scale < INT64_SAFE:
        return num * (scale // den), num_rhs * (scale // den_rhs)
    num, den, num_rhs, den_rhs = (v.astype(object) for v in (num, den, num_rhs, den_rhs))
    for i in range(len(rhs)):
        row = slice(indptr[i], indptr[i + 1])
        factor = math.lcm(*den[row].tolist(), den_rhs[i])
        num[row] *= factor // den[row]
        num_rhs[i] *= factor // den_rhs[i]
    return narrow(num), narrow(num_rhs)
