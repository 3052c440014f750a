r"""Nearest points by a formula: one row and bounds, or one or two rows of each sample. Pure functions of tensors.

With one row, a·z(t) of z(t) = clamp(x - t a) falls piecewise linearly in the multiplier t, with a bend wherever a
coordinate reaches or leaves a bound. Its value at all bends together says between which two of them the root is: which
coordinates are at a bound, and so what t is. Tiles, budgets and simplices are of this form. The projection's kernels do
the same by Newton steps; these are for graphs and other devices, in few and wide operations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from rayhull.maps.steps import clamped

LARGE = 1e30  # how far inside a row that says nothing counts; the multiplier at which a bound that is open is reached
FEW = 128  # bends that are looked at together


def clipped_shift(x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor, *, equality: bool) -> Tensor:
    """The nearest point of {a·z = c (or <= c), lower <= z <= upper}; the set must not be empty.

    Which coordinates are between their bounds is found without a derivative; the shift is then a formula of x.

    Shape: x (\\*, d), row (d,), rhs () or (\\*), lower and upper (d,) or (\\*, d), perhaps infinite → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.closed_forms import clipped_shift
        >>> x, zero, one = torch.tensor([[2.0, 0.0, 0.0], [0.5, 0.5, 0.3]]), torch.zeros(3), torch.ones(3)
        >>> clipped_shift(x, one, torch.tensor(1.0), zero, one, equality=True)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.4000, 0.4000, 0.2000]])
    """
    shift = shift_of(x, row, rhs.unsqueeze(-1), lower, upper)
    return clamped(torch.addcmul(x, shift if equality else shift.relu(), row, value=-1), lower, upper)


def shift_of(x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor, *, far: bool = False) -> Tensor:
    """The t with a·clamp(x - t a) = c. Shape: as for :func:`clipped_shift`, rhs (1,) or (\\*, 1) → (\\*, 1)

    Where no coordinate is free any t of the piece serves; with x ``far`` away rounding hides bends, and it is the end
    that leads to c.
    """
    at, a, c, *bounds = (v.detach() for v in (x, row, rhs, lower, upper))  # a graph elsewhere knows no other no_grad
    ends = torch.stack(torch.broadcast_tensors(*bounds), -2)  # type: ignore[no-untyped-call]
    bends = ((at.unsqueeze(-2) - ends) / a).nan_to_num(0.0, LARGE, -LARGE).flatten(-2)
    first, last = _around_root(bends, at, a, c, *bounds)
    middle = torch.lerp(first, last, 0.5)
    moved = torch.addcmul(at, middle, a, value=-1)
    held = clamped(moved, lower, upper)
    free = held.detach() == moved
    weight = (free * row) @ row.unsqueeze(-1)
    held = torch.where(free, x, held)
    over = held @ row.unsqueeze(-1) - rhs
    if far:
        middle = torch.where((over > 0) & (last < LARGE), last, torch.where(first > -LARGE, first, last.clamp_max(0.0)))
    return torch.where(weight > 0, over / weight.clamp_min(torch.finfo(x.dtype).tiny), middle)


def _around_root(bends: Tensor, x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor) -> Sequence[Tensor]:
    """The bends before and after the root, ±LARGE where there is none. Shape: (\\*, k), x (\\*, d) → (\\*, 1) each

    All bends are looked at together where they are few; else about √k of them, and then those between two of these.
    """
    if bends.shape[-1] <= FEW:
        return _between(bends, x, row, rhs, lower, upper)
    stride = math.isqrt(bends.shape[-1])
    bends = bends.sort(-1).values
    first, last = _between(bends[..., ::stride], x, row, rhs, lower, upper)
    start = (bends <= first).sum(-1, keepdim=True)
    near = start + torch.arange(stride, device=x.device)
    inner = _between(bends.gather(-1, near.clamp_max(bends.shape[-1] - 1)), x, row, rhs, lower, upper)
    return torch.maximum(first, inner[0]), torch.minimum(last, inner[1])


def _between(t: Tensor, x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor) -> Sequence[Tensor]:
    """The largest t with a·clamp(x - t a) >= c, and the smallest below c."""
    low, high = (bound.unsqueeze(-2) if bound.ndim > 1 else bound for bound in (lower, upper))
    value = clamped(torch.addcmul(x.unsqueeze(-2), t.unsqueeze(-1), row, value=-1), low, high) @ row
    first = t.masked_fill(value < rhs, -LARGE).amax(-1, keepdim=True)
    return first, t.masked_fill(value >= rhs, LARGE).amin(-1, keepdim=True)


def times(rows: Tensor, x: Tensor) -> Tensor:
    """a_i·x for every row. Shape: (m, d) or (n, m, d), (n, d) → (n, m)"""
    return x @ rows.mT if rows.ndim == 2 else (rows @ x.unsqueeze(-1)).squeeze(-1)


def onto_two_rows(u: Tensor, rows: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest point that meets one or two rows, in closed form, and whether it was found.

    Where one row alone leads to a point that meets both, it is that row's; otherwise both are met with equality. It is
    not found where both bind and are almost parallel, or where a row of zeros does not hold. The rounding errors of
    two rows at a small angle are mended by a second call.

    Shape: u (n, d), rows (n, m, d) with m = 1 or 2, rhs (n, m) → (n, d), (n,)

    Examples:
        >>> import torch
        >>> from rayhull.maps.closed_forms import onto_two_rows
        >>> A, b = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), torch.tensor([[1.0, 1.0]])
        >>> onto_two_rows(torch.tensor([[3.0, 0.0]]), A, b), onto_two_rows(torch.tensor([[3.0, -9.0]]), A, b)
        ((tensor([[1., 0.]]), tensor([True])), (tensor([[ 1., -9.]]), tensor([True])))
    """
    norms = rows.norm(dim=-1).clamp_min(torch.finfo(u.dtype).tiny)
    unit = rows / norms.unsqueeze(-1)
    over = ((times(rows, u) - rhs) / norms).clamp_min(-LARGE)
    possible = (rows.ne(0).any(-1) | (rhs >= 0)).all(-1)
    if rows.shape[-2] == 1:
        return u - (over.relu().unsqueeze(-2) @ unit).squeeze(-2), possible
    cosine = (unit[:, :1] * unit[:, 1:]).sum(-1)  # (n, 1)
    alone = over.relu()
    left = over - cosine * alone.flip(-1)  # of each row, once the other one is met
    both, sine = (left > 0).all(-1, keepdim=True), (1 - cosine) * (1 + cosine)
    apart = sine > torch.finfo(u.dtype).eps ** 0.5
    meet = (over - cosine * over.flip(-1)) / torch.where(apart, sine, 1.0)
    first = left[:, 1:] <= 0  # the first row alone serves, else the second
    single = torch.cat([torch.where(first, alone[:, :1], 0.0), torch.where(first, 0.0, alone[:, 1:])], 1)
    x = u - (torch.where(both, meet, single).unsqueeze(-2) @ unit).squeeze(-2)
    return x, possible & (apart | ~both).squeeze(-1)
