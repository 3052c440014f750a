"""The door between layers, projection and the compiled core: operators of torch, on the CPU, over torch's threads.

They are ``torch.ops.rayhull_core``'s; rows travel as tensors. Where the binary is missing, :func:`available` is False.
Compiled graphs see ``rayhull::nearest`` around the solvers, which knows shapes without data and derivatives.
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
    return library.load("operators") is not None


@cache
def _bound(name: str) -> Any:
    """An operator as torch binds it. The wrappers around it take 1 µs of a call, and a layer has 10 for one sample."""
    return getattr(torch.ops.rayhull_core, name).default._op


class Rows(NamedTuple):
    """Rows as the kernels take them.

    Shape:
        ``data`` (M, d) dense, (n, M, d) dense for each sample, or (entries,) with ``columns`` (entries,) and ``begin``
        (M + 1,); ``products`` (M, M) of every row with every row, or empty; ``lengths`` (M,), the 1-norms; ``roots``
        (d,) where every row is a multiple of z[i] / roots[i] − z[j] / roots[j], and ``sweep`` (M,) int32, the order in
        which such rows are tried; None for others. ``sweep`` alone is an order in which only neighbours share
        coordinates; rows that it leaves out must follow from the others.
    """

    data: Tensor
    columns: Tensor  # int32
    begin: Tensor  # int64
    products: Tensor
    lengths: Tensor
    roots: Tensor | None = None
    sweep: Tensor | None = None

    @classmethod
    def of_samples(cls, data: Tensor) -> Rows:
        """Dense rows for each sample, (n, M, d)."""
        none = data.new_zeros(0)
        return cls(data, none.int(), none.long(), none.reshape(0, 0), none)


class InPlace(NamedTuple):
    """Blocks that a kernel reads from their places in the samples, and writes there.

    Coordinate j of block k is ``scale[k, j]`` x[``places[k, j]``].

    Shape:
        ``x`` and ``out`` (n, D), float32 or float64; ``places`` (count, d) int32; ``scale`` (count, d), or None for 1.
    """

    x: Tensor
    places: Tensor
    scale: Tensor | None
    out: Tensor


class Path(NamedTuple):
    """A chain of differences along a path; the index of its places runs along it too.

    Shape:
        ``order`` (d,) int32, the coordinates along the path; ``rows`` (d - 1,) int32, the row between two of them;
        ``unit_steps`` (d - 1,), for each row: x[k] <= x[k + 1] + c · unit step in plain coordinates; ``roots`` (d,)
        along the path: coordinates are roots · x.
    """

    order: Tensor
    rows: Tensor
    unit_steps: Tensor
    roots: Tensor


class Effort(NamedTuple):
    """How long the active-set methods try."""

    gradient_steps: int  # for a first guess
    step: float  # their length; 0.0 where it is to be found from the rows of each sample
    pivots: int  # of block pivoting before it gives up
    exact_steps: int  # of the exact method
    clamped: bool = False  # solve without the bounds, then clip


class Intervals(NamedTuple):
    """Rows as intervals low <= G z <= high, with rows or coordinates in an order of elimination.

    Shape:
        ``data``, ``columns`` (entries,), ``begin`` (count + 1,): G by rows; ``high``, ``low`` (count,): the stated row
        that is the side, -1 for none, the same for an equality; ``coordinate`` (d,): the stated coordinate;
        ``pattern_begin`` (n + 1,), ``pattern_rows``: L below its diagonal by columns, of a system of the rows
        (``by_rows``) or of the coordinates.
    """

    data: Tensor
    columns: Tensor  # int32, as all but the two below
    begin: Tensor  # int64
    high: Tensor
    low: Tensor
    coordinate: Tensor
    pattern_begin: Tensor  # int64
    pattern_rows: Tensor
    by_rows: bool


def clipped_shift(at: InPlace, a: Tensor, sides: Sides, equality: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Blocks with one row and bounds, z = clip(y − t a): t, residuals, steps, status, and how many are not solved.

    Shape:
        ``a`` (d,); ``c`` (1 or N, 1), bounds (1 or N, d); returns (N, 1), and (N,) each, for N = n · count blocks.
    """
    return _bound("clipped_shift")(*at, a, *sides, equality)


def pool_adjacent(at: InPlace, path: Path, sides: Sides) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Nearest sequences along a path: multipliers, residuals, steps, status, and how many are not solved.

    Shape:
        ``c`` (1 or N, d - 1), bounds (1 or N, d); returns (N, d - 1), and (N,) each.
    """
    return _bound("pool_adjacent")(*at, *path, *sides)


def clipped_shift_backward(
    g: Tensor, at: InPlace, a: Tensor, shifts: Tensor, bounds: tuple[Tensor, Tensor], equality: bool
) -> Tensor:
    """The gradient in x for the gradient g in :func:`clipped_shift`'s points, to ``at.out``; returns the row's, w.

    Shape:
        ``g`` (n, D); ``shifts`` (N, 1), what the forward pass returned; returns (N, 1).
    """
    return _bound("clipped_shift_backward")(g, *at, a, shifts, *bounds, equality)


def pool_adjacent_backward(
    g: Tensor, at: InPlace, path: Path, multipliers: Tensor, bounds: tuple[Tensor, Tensor]
) -> Tensor:
    """As :func:`clipped_shift_backward`, of :func:`pool_adjacent`. Shape: (n, D); multipliers (N, d - 1) → alike."""
    return _bound("pool_adjacent_backward")(g, *at, *path, multipliers, *bounds)


def active_set(
    at: InPlace, rows: Rows, m: int, sides: Sides, guess: tuple[Tensor | None, Tensor | None], effort: Effort
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
    """Nearest points under rows (the first ``m`` at most c, the others equal to c) and bounds.

    Args:
        guess: which rows are active, and which bounds (1 upper, -1 lower, 0 none): where the search starts; None for
            the equalities alone.

    Returns multipliers, residuals, steps, status, how many are not solved, and how many residuals are not rounding.

    Shape:
        ``guess`` (N, M) bool and (N, d) int8, ``sides`` (1 or N, M), (1 or N, d), (1 or N, d); returns (N, M), and
        (N,) each.
    """
    return _bound("active_set")(*at, *rows, m, *sides, *guess, *effort)


def active_set_backward(
    g: Tensor, at: InPlace, rows: Rows, m: int, multipliers: Tensor, bounds: tuple[Tensor, Tensor]
) -> None:
    """The gradient in x for the gradient g (n, D) in :func:`active_set`'s points, to ``at.out``."""
    _bound("active_set_backward")(g, *at, *rows, m, multipliers, *bounds)


def interior_point(
    at: InPlace, rows: Rows, m: int, sides: Sides, guess: Tensor | None, intervals: Intervals
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int]:
    """As :func:`active_set`, for sparse rows; ``guess`` are multipliers (N, M) to start from."""
    return _bound("interior_point")(*at, *rows[:3], m, *sides, guess, *intervals)


def sparse_pattern(begin: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """L below its diagonal, of the factor of a symmetric matrix, both by columns: begin (n + 1,), rows (entries,)."""
    return _bound("sparse_pattern")(begin, rows)


def interval_system(intervals: Intervals, q: Tensor, active: Tensor, state: Tensor) -> Tensor:
    """As :func:`active_system`, for sparse rows."""
    return _bound("interval_system")(*intervals, q, active, state)


def active_system(rows: Rows, q: Tensor, active: Tensor, state: Tensor) -> Tensor:
    """w with (G D G^T) w = q over the active rows and free coordinates, 0 elsewhere: the backward rule.

    Shape:
        ``q`` (n, M), ``active`` (n, M) bool, ``state`` (n, d) int8; returns (n, M).
    """
    return _bound("active_system")(*rows[:5], q, active, state)


def splitting(y: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """x = K y + C (2 w − t) after ``steps`` steps t += α (F y + T (2 w − t) − w), w = clamp(t, low, high), t₀ = Ĝ y.

    Takes y, rows, first, turn, last, onto, low, high, steps, α and keep. Returns x and, if ``keep``, the states for a
    backward pass: -1 where a clamp met t < low, 1 where t > high, else 0.

    Shape:
        ``y`` (N, n), float32 or float64; in float64 ``rows`` Ĝ and ``first`` F (k, n), ``turn`` T (k, k) symmetric, or
        a factor B (k, r) of T = B Bᵀ, ``last`` C (n, k), ``onto`` K (n, n), ``low`` and ``high`` (1 or N, k); returns
        (N, n) as ``y``, and (N, steps + 1, k) int8, or (0,).
    """
    return _bound("splitting")(y, *rest)


def splitting_backward(g: Tensor, states: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients in y, low and high for the gradient g in x: takes g, states, rows to onto, steps and α.

    Shape: (N, n), (N, k), (N, k), as ``g``.
    """
    return _bound("splitting_backward")(g, states, *rest)


def leak(g: Tensor, d: Tensor, through: Tensor | None, *rest: Any) -> Tensor:
    """The gradient past a map (:mod:`rayhull.maps.leak`), ``share`` of it, and 1 - ``share`` of what came ``through``.

    Takes g, d, through, unit, block, share, far and clamps. Of a map that ``clamps``, g came through where d is 0, and
    nothing elsewhere.

    Shape:
        ``g``, ``d``, ``through`` (N, n), float32 or float64; ``unit`` (n,) alike; ``block`` (n,), or (0,) for one.
    """
    return _bound("leak")(g, d, through, *rest)


def strict_pull(x: Tensor, *rest: Any) -> Tensor:
    """Points that are inside up to rounding → points that are inside, pulled towards start + scale · along.

    Takes x, places, sign, hull, equal, start, along, tight, tight_bounds, loose, loose_rhs, loose_bounds, numbers,
    moving and conic. First what rounding left of x − ``hull`` in the span of ``equal`` is taken away. A sample that is
    not finite comes out as NaN.

    Shape:
        ``x`` (N, D), float32 or float64; ``places`` (count, n) int32 of its blocks, in float64 ``sign`` (count,), -1
        for mirror images, ``hull``, ``start``, ``along`` (n,), ``equal`` (n, q), ``tight`` (m1, n) and ``loose``
        (m2, n) rows over their slack, ``loose_rhs`` (m2,), ``tight_bounds`` (2, n) 1 / slack of upper and lower
        bounds, ``loose_bounds`` (4, n) with their offsets, or (0, n); ``numbers`` (7,): slopes of loose and tight
        rows, constant, kept, tiny, reach, limit; returns (N, D) as ``x``.
    """
    return _bound("strict_pull")(x, *rest)
