"""What a user states about a set, read and checked: shapes, matrices, offsets, bounds; and two statements joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.sets.rows import Array, Rows, as_array

Shape = int | Sequence[int]


def as_shape(shape: Shape) -> tuple[int, ...]:
    """An event shape as a tuple of sizes: 5 means (5,)."""
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    if not all(isinstance(n, int | np.integer) and n > 0 for n in sizes):
        raise ValueError(f"a shape is one or more positive sizes, got {shape!r}.")
    return tuple(int(n) for n in sizes)


def common_dim(event: tuple[int, ...] | None, A: Rows | None, A_eq: Rows | None, lower: Any, upper: Any) -> int:
    """d, from whatever tells it; all that do must agree."""
    sizes: dict[str, int] = {}
    if event is not None:
        sizes[f"shape {event}"] = math.prod(event)
    for name, rows in (("A", A), ("A_eq", A_eq)):
        if rows is not None:
            sizes[f"{name} ({rows.dim} columns)"] = rows.dim
    for name, values in (("lower", lower), ("upper", upper)):
        if values is not None and np.ndim(values) and not sizes:
            sizes[f"{name} ({np.size(values)} entries)"] = int(np.size(values))
    if not sizes:
        raise ValueError("how many coordinates? Give A, A_eq, bounds for each coordinate, or shape.")
    if len(set(sizes.values())) > 1:
        raise ValueError(f"the numbers of coordinates disagree: {' but '.join(sizes)}.")
    dim = next(iter(sizes.values()))
    if dim == 0:
        raise ValueError("a set needs at least one coordinate, got an empty matrix with 0 columns.")
    return dim


def stated_matrix(matrix: Any, name: str, dim: int) -> Any:
    """The rows as given: an array, or a sparse one in CSR form; none are (0, d)."""
    if matrix is None:
        return np.zeros((0, dim), np.int64)
    return sp.csr_array(matrix) if sp.issparse(matrix) else as_array(matrix, name)


def stated_offsets(offsets: Any, name: str, m: int) -> Array:
    """The right-hand sides as given, one for each row."""
    values = as_array(0 if offsets is None else offsets, name)
    return np.broadcast_to(values, (m,)).copy() if values.ndim == 0 else values


def stated_bound(values: Any, name: str, shape: tuple[int, ...], none: float) -> Array | None:
    """Bounds in the event shape as given, None where no coordinate has one (all equal to ``none``)."""
    if values is None:
        return None
    array = as_array(values, name)
    if array.ndim and array.shape != shape and array.shape != (math.prod(shape),):
        raise ValueError(
            f"{name} has shape {array.shape}: expected a number, shape {shape} or one entry per coordinate."
        )
    array = np.broadcast_to(array, shape) if array.ndim == 0 else array.reshape(shape)
    floats = array.astype(float)
    if np.isnan(floats).any():
        raise ValueError(f"{name} holds NaN; use infinities where there is no bound.")
    if (floats == -none).any():
        sign = "-inf" if none > 0 else "inf"
        raise ValueError(f"{name} holds {sign}, which no number satisfies.")
    return None if (floats == none).all() else array.copy()


def stack(first: Any, second: Any) -> Any:
    """Two stated matrices, one under the other; sparse if one of them is."""
    if not first.shape[0]:
        return second
    if not second.shape[0]:
        return first
    if sp.issparse(first) or sp.issparse(second):
        return sp.csr_array(sp.vstack([sp.csr_array(first), sp.csr_array(second)], format="csr"))
    return np.concatenate([first, second])


def join(first: Array, second: Array) -> Array:
    """Two stated right-hand sides, one after the other."""
    return second if not len(first) else first if not len(second) else np.concatenate([first, second])


def tighter(first: Array | None, second: Array | None, pick: Any) -> Array | None:
    """The tighter of two bounds in each coordinate; ``pick`` is np.maximum or np.minimum."""
    if first is None or second is None:
        return second if first is None else first
    return np.asarray(pick(first, second))
