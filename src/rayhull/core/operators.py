"""The door between projection and the compiled core: operators of torch, on the CPU, over torch's threads.

They are ``torch.ops.rayhull_core``'s; rows travel as tensors. Shapes without data (for ``torch.compile`` and
``torch.export``) are registered here. Where the binary is missing, :func:`available` is False.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rayhull.core import library

Sides = tuple[Tensor, Tensor, Tensor]  # c, lower, upper: one row for all samples or one for each


def available() -> bool:
    """Whether the compiled operators are there."""
    found = library.load("operators") is not None
    if found:
        _register_shapes()
    return found


class Rows(NamedTuple):
    """Rows as the kernels take them.

    Shape:
        ``data`` (M, d) dense, (n, M, d) dense for each sample, or (entries,) with ``columns`` (entries,) and ``begin``
        (M + 1,); ``products`` (M, M) of every row with every row, or empty; ``lengths`` (M,), the 1-norms.
    """

    data: Tensor
    columns: Tensor  # int32
    begin: Tensor  # int64
    products: Tensor
    lengths: Tensor

    @classmethod
    def of_samples(cls, data: Tensor) -> Rows:
        """Dense rows for each sample, (n, M, d)."""
        none = data.new_zeros(0)
        return cls(data, none.int(), none.long(), none.reshape(0, 0), none)


class Effort(NamedTuple):
    """How long the active-set methods try."""

    gradient_steps: int  # for a first guess
    step: float  # their length; 0.0 where it is to be found from the rows of each sample
    pivots: int  # of block pivoting before it gives up
    exact_steps: int  # of the exact method
    lazy: bool  # bounds last


def clipped_shift(
    y: Tensor, index: Tensor, a: Tensor, sides: Sides, equality: bool, out: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Blocks with one row and bounds, z = clip(y − t a): writes to ``out``; returns t, residuals and steps.

    Shape:
        ``y`` and ``out`` (n, D), float32 or float64; ``index`` (count, size) int32, the places of the blocks; ``a``
        (size,); ``c`` (1 or n · count, 1), bounds (1 or n · count, size); returns (n · count,) each.
    """
    return torch.ops.rayhull_core.clipped_shift(y, index, a, *sides, equality, out)


def pool_adjacent(y: Tensor, weights: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Nearest increasing sequences: points, multipliers of x[i] <= x[i + 1], residuals, status.

    Shape:
        ``y`` (n, d), ``weights`` (d,), bounds (1 or n, d); returns (n, d), (n, d - 1), (n,), (n,).
    """
    return torch.ops.rayhull_core.pool_adjacent(y, weights, lower, upper)


def active_set(
    rows: Rows, m: int, sides: Sides, y: Tensor, guess: tuple[Tensor, Tensor], effort: Effort
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Nearest points under rows (the first ``m`` at most c, the others equal to c) and bounds.

    Args:
        guess: which rows are active, and which bounds (1 upper, -1 lower, 0 none): where the search starts.

    Shape:
        ``y`` (n, d), ``guess`` (n, M) bool and (n, d) int8, ``sides`` (1 or n, M), (1 or n, d), (1 or n, d); returns
        points (n, d), multipliers (n, M), residuals, steps and status (n,) each.
    """
    c, lower, upper = sides
    return torch.ops.rayhull_core.active_set(*rows, c, m, lower, upper, y, *guess, *effort)


def active_system(rows: Rows, q: Tensor, active: Tensor, state: Tensor) -> Tensor:
    """w with (G D G^T) w = q over the active rows and free coordinates, 0 elsewhere: the backward rule.

    Shape:
        ``q`` (n, M), ``active`` (n, M) bool, ``state`` (n, d) int8; returns (n, M).
    """
    found: Tensor = torch.ops.rayhull_core.active_system(*rows, q, active, state)
    return found


@cache
def _register_shapes() -> torch.library.Library:
    """What the operators return, for tracing; as meta kernels, since ``register_fake`` looks through all modules."""
    make: Any = torch.library.Library  # untyped
    kernels: torch.library.Library = make("rayhull_core", "IMPL", "Meta")
    register: Any = kernels.impl
    for name, shapes in _SHAPES.items():
        register(name, shapes)
    return kernels


def _pool_shapes(y: Tensor, weights: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, ...]:
    n, d = y.shape
    return torch.empty_like(y), y.new_empty((n, d - 1)), y.new_empty(n), y.new_empty(n, dtype=torch.int64)


def _shift_shapes(y: Tensor, index: Tensor, *_: Any) -> tuple[Tensor, ...]:
    found = y.new_empty(y.shape[0] * index.shape[0], dtype=torch.float64)
    return found, torch.empty_like(found), found.new_empty(found.shape, dtype=torch.int64)


def _solve_shapes(*given: Any) -> tuple[Tensor, ...]:
    y, active = given[9], given[10]
    n = y.shape[0]
    counts = y.new_empty(n, dtype=torch.int64)
    return torch.empty_like(y), y.new_empty(active.shape), y.new_empty(n), counts, torch.empty_like(counts)


def _system_shape(*given: Any) -> Tensor:
    return torch.empty_like(given[5])


_SHAPES = {
    "pool_adjacent": _pool_shapes,
    "clipped_shift": _shift_shapes,
    "active_set": _solve_shapes,
    "active_system": _system_shape,
}
