"""The door between layers, projection and the compiled core: operators of torch, on the CPU, over torch's threads.

They are ``torch.ops.rayhull_core``'s; rows travel as tensors. Where the binary is missing, :func:`available` is False.
Compiled graphs see ``rayhull::nearest`` around the solvers, and ``rayhull::layer_tail`` (:func:`layer_tail_in_graph`),
which know shapes without data and derivatives; exported ones see neither.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    lazy: bool  # bounds last
    clamped: bool = False  # solve without the bounds, then clip


def clipped_shift(at: InPlace, a: Tensor, sides: Sides, equality: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Blocks with one row and bounds, z = clip(y − t a): t, residuals, steps, status, and how many are not solved.

    Shape:
        ``a`` (d,); ``c`` (1 or N, 1), bounds (1 or N, d); returns (N, 1), and (N,) each, for N = n · count blocks.
    """
    return torch.ops.rayhull_core.clipped_shift(*at, a, *sides, equality)


def pool_adjacent(at: InPlace, path: Path, sides: Sides) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Nearest sequences along a path: multipliers, residuals, steps, status, and how many are not solved.

    Shape:
        ``c`` (1 or N, d - 1), bounds (1 or N, d); returns (N, d - 1), and (N,) each.
    """
    return torch.ops.rayhull_core.pool_adjacent(*at, *path, *sides)


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
    return torch.ops.rayhull_core.active_set(*at, *rows, m, *sides, *guess, *effort)


def active_system(rows: Rows, q: Tensor, active: Tensor, state: Tensor) -> Tensor:
    """w with (G D G^T) w = q over the active rows and free coordinates, 0 elsewhere: the backward rule.

    Shape:
        ``q`` (n, M), ``active`` (n, M) bool, ``state`` (n, d) int8; returns (n, M).
    """
    found: Tensor = torch.ops.rayhull_core.active_system(*rows[:5], q, active, state)
    return found


def layer_tail(c: Tensor, origin: Sequence[Tensor], layout: Tensor, numbers: Tensor) -> Tensor:
    """Coefficients → points of the set, as a program of :mod:`rayhull.nn.tail` says.

    Args:
        origin: what c was computed from, with one row for each sample first. Where it is given, coefficients that are
            not numbers overflowed and count as 0, and samples whose origin is not finite come out as NaN.

    Shape:
        ``c`` (*, coefficients), float32 or float64; returns (*, event shape).
    """
    found: Tensor = _bound("layer_tail")(c, origin, layout, numbers)
    return found


def linear_tail(features: Tensor, weight: Tensor, bias: Tensor, layout: Tensor, numbers: Tensor) -> Tensor:
    """:func:`layer_tail` of ``weight`` · ``features`` + ``bias``; a strict program takes these three for the origin.

    Shape:
        ``features`` (*, k), ``weight`` (coefficients or more, k), one dtype; returns (*, event shape).
    """
    found: Tensor = _bound("linear_tail")(features, weight, bias, layout, numbers)
    return found


def layer_tail_backward(
    g: Tensor, c: Tensor, origin: Sequence[Tensor], layout: Tensor, numbers: Tensor, leak: float = 0.0
) -> Tensor:
    """The gradient in c for the gradient g in the points, of which a share leaks. Shape: as ``c``."""
    found: Tensor = _bound("layer_tail_backward")(g, c, origin, layout, numbers, leak)
    return found


def leak(g: Tensor, x: Tensor, free: Tensor, block: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """The two parts of a gradient g in points x: for the map's derivative, and for the free points past the map.

    Shape:
        ``g``, ``x``, ``free`` (n, d), one dtype; ``block`` (d,) int64, or empty for one block; returns (n, d) each.
    """
    found: tuple[Tensor, Tensor] = torch.ops.rayhull_core.leak(g, x, free, block, share)
    return found


OfSample = Sequence[Tensor | None]  # base point, b, lower, upper: (n, width) each, or None


def layer_tail_of_samples(
    c: Tensor, origin: Sequence[Tensor], sides: OfSample, layout: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor, int]:
    """The same with sides of the sample: points, which samples are certified inside, and how many are not.

    Shape:
        ``c`` (n, coefficients), sides (n, width), float32 or float64 each; returns (n, event shape) and (n,) bool.
    """
    found: tuple[Tensor, Tensor, int] = torch.ops.rayhull_core.layer_tail_of_samples(c, origin, *sides, layout, numbers)
    return found


def layer_tail_of_samples_backward(
    g: Tensor,
    c: Tensor,
    origin: Sequence[Tensor],
    sides: OfSample,
    layout: Tensor,
    numbers: Tensor,
    leak: float = 0.0,
) -> tuple[Tensor, ...]:
    """The gradients in c, of which a share leaks, and in the sides; empty for a side that is None."""
    found: tuple[Tensor, ...] = torch.ops.rayhull_core.layer_tail_of_samples_backward(
        g, c, origin, *sides, layout, numbers, leak
    )
    return found


# -- in compiled graphs ----------------------------------------------------------------------------------------------

_LIBRARY: Any = torch.library.Library("rayhull", "FRAGMENT")  # type: ignore[no-untyped-call]
_GIVEN = "Tensor c, Tensor[] origin, Tensor layout, Tensor numbers"
_LIBRARY.define(f"layer_tail({_GIVEN}, int[] event, float leak) -> Tensor")
_LIBRARY.define(f"layer_tail_backward(Tensor g, {_GIVEN}, float leak) -> Tensor")


def layer_tail_in_graph(
    c: Tensor, origin: Sequence[Tensor], layout: Tensor, numbers: Tensor, event: Sequence[int], leak: float = 0.0
) -> Tensor:
    """:func:`layer_tail` as a graph that ``torch.compile`` makes calls it; it needs to be told the event shape."""
    found: Tensor = torch.ops.rayhull.layer_tail(c, origin, layout, numbers, event, leak)
    return found


def _run(c: Tensor, origin: Sequence[Tensor], layout: Tensor, numbers: Tensor, *_: Any) -> Tensor:
    return layer_tail(c, origin, layout, numbers)


def _shape(c: Tensor, origin: Any, layout: Any, numbers: Any, event: Sequence[int], leak: float) -> Tensor:
    return c.new_empty(*c.shape[:-1], *event)


def _shape_of_gradient(g: Tensor, c: Tensor, *_: Any) -> Tensor:
    return c.new_empty(c.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    c, origin, layout, numbers, _, ctx.leak = inputs
    ctx.save_for_backward(c, layout, numbers, *origin)


def _backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    c, layout, numbers, *origin = ctx.saved_tensors
    gradient = torch.ops.rayhull.layer_tail_backward(g.to(c.dtype), c, origin, layout, numbers, ctx.leak)
    return gradient, [None] * len(origin), None, None, None, None


_LIBRARY.impl("layer_tail", _run, "CPU")
_LIBRARY.impl("layer_tail_backward", layer_tail_backward, "CPU")
# Shapes, for tracing. register_fake would look through every loaded module for this file: half of a first projection.
_LIBRARY.impl("layer_tail", _shape, "Meta")
_LIBRARY.impl("layer_tail_backward", _shape_of_gradient, "Meta")
torch.library.register_autograd("rayhull::layer_tail", _backward, setup_context=_keep, lib=_LIBRARY)
