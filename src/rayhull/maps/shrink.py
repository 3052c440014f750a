r"""The way into a set around a base point: the shrink, and its strict forms. Pure functions of tensors.

Seen from a base point x0, a row a·x <= b has the slack h = b - a·x0. With every slack positive, y stays inside as long
as gauge(y) = max_i a_i·y / h_i is at most 1 (it is negative along the rays of an unbounded set): divide by
max(1, gauge).

Strict means zero violation: the last step is in float64 (unit roundoff ε = 2^-53) and rounded once, at the end,
to the dtype that comes out (unit roundoff u, smallest normal number τ). Then x = round(q + t z) meets a row a·x <= b of
n entries when

.. math:: t\,(a·z + k ζ) \le σ - u' (|a|·|q| + τ ‖a‖_1), \qquad k = (γ_n + u') ‖a‖_1

where q is the base point with slack σ = b - a·q, z the direction, ζ >= max|z| and u' = u + 16 ε. docs/strict.md derives
it. Numbers that carry a proof are tensors: the ONNX exporter passes Python's floats through float32, which would undo
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rayhull.maps.closed_forms import times

SMOOTHNESS = 4.0  # the power in the smooth shrink: larger is closer to the identity inside
EPS = 2.0**-53  # the unit roundoff of float64
LARGEST = 2.0**96  # coefficients beyond are cut: products with the numbers of a set stay finite in float32
OPEN = 3e38  # stands in for a right-hand side that is infinite
LARGE = 1e30  # the right-hand side of a row that says nothing
TINY = torch.finfo(torch.float32).tiny


# -- the shrink ------------------------------------------------------------------------------------------------------


def factor(gauge: Tensor) -> Tensor:
    """1 / max(1, gauge): y times it is y inside, and on the boundary outside.

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import factor
        >>> y = torch.tensor([[0.5, 0.2], [4.0, -2.0]])
        >>> y * factor(y.abs().amax(-1, keepdim=True))
        tensor([[ 0.5000,  0.2000],
                [ 1.0000, -0.5000]])
    """
    return gauge.clamp_min(1.0).reciprocal()


def smooth_factor(gauge: Tensor) -> Tensor:
    """1 / (1 + gauge^p)^(1/p): the point stays inside, and its length still grows with that of y everywhere.

    So gradients do not vanish where the plain shrink has reached the boundary; near the base point it is the identity.

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import smooth_factor
        >>> g = torch.tensor([0.1, 1.0, 10.0])
        >>> g * smooth_factor(g)                         # below 1, and increasing
        tensor([0.1000, 0.8409, 1.0000])
    """
    # written for a large gauge through its reciprocal, so that the power neither overflows nor loses the gradient
    large = gauge > 1.0
    small_side = torch.where(large, torch.ones_like(gauge), gauge.clamp_min(0.0))
    large_side = torch.where(large, gauge, torch.ones_like(gauge)).reciprocal()
    below = (1.0 + small_side**SMOOTHNESS) ** (-1.0 / SMOOTHNESS)
    above = large_side * (1.0 + large_side**SMOOTHNESS) ** (-1.0 / SMOOTHNESS)
    return torch.where(large, above, below)


# -- zero violation --------------------------------------------------------------------------------------------------


def roundoff(dtype: torch.dtype) -> float:
    """u' = u + 16 ε: one rounding to dtype, and the float64 steps before it."""
    return torch.finfo(dtype).eps / 2 + 16 * EPS


def gamma(n: int) -> float:
    """(n + 16) ε / (1 - (n + 16) ε): bounds a float64 dot product of n terms, whatever its order, and 16 steps more."""
    return (n + 16) * EPS / (1 - (n + 16) * EPS)


def as_single(value: float) -> float:
    """A bound rounded up to a number of float32, which the ONNX exporter passes on as it is.

    Examples:
        >>> from rayhull.maps.shrink import as_single
        >>> as_single(0.1) >= 0.1, as_single(0.25)
        (True, 0.25)
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(mantissa * 2**24), exponent - 24)


def finite(c: Tensor) -> Tensor:
    """Coefficients cut where they are infinite or so large that products would be. NaN stays NaN."""
    limit = min(LARGEST, torch.finfo(c.dtype).max)
    return c.clamp(-limit, limit)


def overflow_cut(c: Tensor, origin: Sequence[Tensor]) -> Tensor:
    """c with what overflowed cut to the largest number, and NaN for samples whose origin is not finite.

    ``origin`` is what c was computed from: features (\\*, k) with a row for each sample, then weights that serve all.

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import overflow_cut
        >>> c, features = torch.tensor([[torch.inf], [torch.inf]]), torch.tensor([[3e38], [torch.inf]])
        >>> overflow_cut(c, [features, torch.tensor([[9.0]])])
        tensor([[3.4028e+38],
                [       nan]])
    """
    features, *weights = origin
    mark = (features * 0.0).sum(-1, keepdim=True)  # 0, or NaN
    flat = [w.detach().flatten() for w in weights if w.numel()]  # of a single point there are none
    if flat:
        ends = torch.stack([end for w in flat for end in (w.amin(0), w.amax(0))])  # NaN stays NaN
        mark = mark + (ends * 0.0).sum()
    return c.nan_to_num(0.0) + mark.to(c.dtype)


def pull(x: Tensor, base: Tensor, excess: Tensor, limit: Tensor) -> Tensor:
    """x moved towards the base point by the share y / (1 + y), y = max(0, excess), or not at all.

    ``excess`` is an upper bound of max_i (a_i·x - b_i) / σ_i with every rounding error in it; ``limit`` bounds what
    comes out.

    Shape: x, base (\\*, n), excess (\\*) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import pull
        >>> x = torch.tensor([[1.5, 0.0], [0.5, 0.0]])                            # the box |x| <= 1 around 0
        >>> pull(x, torch.zeros_like(x), x.abs().amax(-1) - 1, limit=torch.tensor(1e30))
        tensor([[1.0000, 0.0000],
                [0.5000, 0.0000]])
    """
    away = x - base
    excess = torch.maximum(excess, away.abs().amax(-1) / limit - 1.0).clamp_min(0.0).unsqueeze(-1)
    moved = base + away / (1.0 + excess)
    # q + (x - q) is not quite x: where nothing is to be moved, x itself comes out. NaN takes the first way, and stays.
    return torch.where(excess == 0, x, moved)


def inwards(bounds: Tensor, dtype: torch.dtype, up: bool) -> Tensor:
    """The nearest numbers of dtype that are >= bounds (up) or <= bounds; the largest one where there is no bound."""
    largest, away = float(torch.finfo(dtype).max), torch.tensor(math.inf if up else -math.inf, dtype=dtype)
    numbers = bounds.to(dtype).clamp(-largest, largest)
    while (late := (numbers < bounds) if up else (numbers > bounds)).any():
        numbers[late] = torch.nextafter(numbers[late], away)
    return numbers.to(bounds.dtype)


def proven(x: Tensor, rows: Tensor, rhs: Tensor) -> Tensor:
    """Whether G x <= c holds in rational arithmetic, as far as float64 can prove it. Shape: x (n, d) → (n,)

    A product of d terms is off by at most γ_d Σ|g_j x_j|, whatever its order. A row of one entry ±1 is compared as it
    is: nothing is rounded.

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import proven
        >>> G, c = torch.tensor([[0.5, 0.25]]), torch.tensor([[0.75]])
        >>> proven(torch.tensor([[0.9, 0.9], [1.0, 1.0], [2.0, 0.0]]), G, c).tolist()        # 1, 1 is a tie
        [True, False, False]
    """
    x, rows, rhs = (t.detach().double() for t in (x, rows, rhs))
    steep, size = rows.abs(), x.abs()
    error = as_single(gamma(x.shape[-1])) * (times(steep, size) + rhs.abs().clamp(max=OPEN))
    single = ((rows != 0).sum(-1) == 1) & (steep.sum(-1) == 1)
    return (times(rows, x) + error.masked_fill(single, 0.0) <= rhs).all(-1) & (size < torch.inf).all(-1)


class Ends(NamedTuple):
    """Bounds of each coordinate in float64, and whether they leave it one value."""

    low: Tensor
    high: Tensor
    single: Tensor


def drawn_inside(x: Tensor, x0: Tensor, rows: Tensor, rhs: Tensor, ends: Ends, dtype: torch.dtype) -> Tensor:
    """x drawn towards the base point, with the margins of docs/strict.md for a dtype, row by row."""
    y = (x - x0).masked_fill(ends.single, 0.0)  # one value is kept anyway
    u, g = roundoff(dtype), gamma(x.shape[-1])
    absolute = rows.abs()
    steep, size = absolute.sum(-1), times(absolute, x.abs()) + rhs.abs()
    values = torch.addcmul(times(rows, y), steep, y.abs().amax(-1, keepdim=True), value=as_single(g + u))
    margin = as_single(u + 2 * g) * size + as_single(max(TINY, u * torch.finfo(dtype).tiny)) * steep
    above, below = ends.high - x0, x0 - ends.low
    slack = torch.cat([(rhs - times(rows, x0) - margin).expand_as(values), above, below], -1).clamp(0.0, LARGE)
    share = (torch.cat([values, y, -y], -1) / slack).nan_to_num(0.0, torch.inf, -torch.inf)  # 0 / 0: it stays
    return x0 + y / share.amax(-1, keepdim=True).clamp_min(1.0)


def is_between(x: Tensor, ends: Ends) -> Tensor:
    """Whether coordinates are between bounds, which may cross, or have their one value. Shape: (n, d) → (n,)"""
    wide = x.double()
    return ((wide <= ends.high) & (wide >= ends.low) | ends.single).all(-1)


def clamped_inside(x: Tensor, ends: Ends) -> Tensor:
    """x clamped to the outermost numbers of its dtype inside the bounds; the nearest one where these are equal."""
    sides = _below(torch.stack(torch.broadcast_tensors(-ends.low, ends.high)), x.dtype)  # type: ignore[no-untyped-call]
    x = torch.minimum(torch.maximum(x, -sides[0]), sides[1])
    return torch.where(ends.single, ends.low.to(x.dtype), x)


def _below(bound: Tensor, dtype: torch.dtype) -> Tensor:
    """A number of the dtype that is not above the bound, at most three below the largest one. ONNX has no nextafter."""
    if dtype == torch.float64:
        return bound
    info = torch.finfo(dtype)
    near = bound.to(dtype).clamp(info.min, info.max)
    return torch.where(near.double() > bound, near - (near.abs() * info.eps + info.tiny * info.eps), near)
