r"""One row and bounds: the nearest point in closed form, by one sort. Pure functions of tensors.

.. math:: z = \mathrm{clamp}(x - t a,\; lower,\; upper), \qquad a·z = c \;\text{ or }\; a·z \le c,\; t \ge 0

a·z(t) falls piecewise linearly in t, with a bend wherever a coordinate reaches or leaves a bound: sort the bends, add
up the slopes between them, and read off the piece that holds the root. Tiles, budgets and capped simplices are of this
form.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.maps.approach import clamped


def clipped_shift(x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor, *, equality: bool) -> Tensor:
    """The nearest point of {a·z = c (or <= c), lower <= z <= upper}; the set must not be empty.

    Which coordinates are clamped is found without a derivative; the shift of the others is then a formula of x.

    Shape: x (\\*, d), row (d,), rhs () or (\\*), lower and upper (d,) or (\\*, d), perhaps infinite → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.clipped_shift import clipped_shift
        >>> x, zero, one = torch.tensor([[2.0, 0.0, 0.0], [0.5, 0.5, 0.3]]), torch.zeros(3), torch.ones(3)
        >>> clipped_shift(x, one, torch.tensor(1.0), zero, one, equality=True)
        tensor([[1.0000, 0.0000, 0.0000],
                [0.4000, 0.4000, 0.2000]])
    """
    with torch.no_grad():
        shift = _root(x, row, rhs, lower, upper)
        shift = shift if equality else shift.clamp_min(0.0)
        moved = x - shift.unsqueeze(-1) * row
        free = (moved > lower) & (moved < upper)
        held = torch.where(free, torch.zeros_like(x), clamped(moved, lower, upper))
    weight = torch.where(free, row, torch.zeros_like(row))  # (*, d)
    square = (weight * weight).sum(-1)
    meets = (square > 0) & (equality | (shift > 0))
    exact = ((weight * x).sum(-1) + (row * held).sum(-1) - rhs) / torch.where(meets, square, torch.ones_like(square))
    shift = torch.where(meets, exact, shift)
    return torch.where(free, x - shift.unsqueeze(-1) * row, held)


def _root(x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """t with a·clamp(x - t a) = c. Shape: (\\*, d) → (\\*)"""
    moves = row != 0
    safe = torch.where(moves, row, torch.ones_like(row))
    ends = torch.stack([(x - upper) / safe, (x - lower) / safe], -1).sort(-1).values  # when it leaves, reaches a bound
    real = ends.isfinite() & moves.unsqueeze(-1)
    square = (row * row).unsqueeze(-1)
    bend = torch.where(real, torch.cat([-square, square], -1).expand(ends.shape), torch.zeros_like(ends)).flatten(-2)
    bends, order = torch.where(real, ends, torch.zeros_like(ends)).flatten(-2).sort(-1)
    before = -torch.where(ends[..., 0].isfinite(), torch.zeros_like(x), row * row).sum(-1, keepdim=True)
    slope = torch.cat([before, before + bend.gather(-1, order).cumsum(-1)], -1)  # of the pieces, (*, 2 d + 1)
    first = (row * clamped(x - bends[..., :1] * row, lower, upper)).sum(-1, keepdim=True)
    value = torch.cat([first, first + (slope[..., 1:-1] * bends.diff(dim=-1)).cumsum(-1)], -1)  # at the bends
    rhs = rhs.unsqueeze(-1)
    piece = (value > rhs).sum(-1, keepdim=True)  # how many bends lie before the root
    start = (piece - 1).clamp_min(0)
    steep = slope.gather(-1, piece)
    along = (rhs - value.gather(-1, start)) / torch.where(steep < 0, steep, -torch.ones_like(steep))
    return (bends.gather(-1, start) + torch.where(steep < 0, along, torch.zeros_like(along))).squeeze(-1)
