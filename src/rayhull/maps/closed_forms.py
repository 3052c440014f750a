r"""Nearest points by a formula: one row and bounds, or one or two rows of each sample. Pure functions of tensors.

With one row, a·z(t) of z(t) = clamp(x - t a) falls piecewise linearly in the multiplier t, with a bend wherever a
coordinate reaches or leaves a bound. Sort the bends, add up the slopes between them, and read off the piece that holds
the root. Tiles, budgets and simplices are of this form. The projection's kernels do the same by Newton steps; these
are for graphs and other devices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.maps.steps import clamped

LARGE = 1e30  # how far inside a row that says nothing counts


def clipped_shift(x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor, *, equality: bool) -> Tensor:
    """The nearest point of {a·z = c (or <= c), lower <= z <= upper}; the set must not be empty.

    Which coordinates are clamped is found without a derivative; the shift of the others is then a formula of x.

    Shape: x (\\*, d), row (d,), rhs () or (\\*), lower and upper (d,) or (\\*, d), perhaps infinite → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.closed_forms import clipped_shift
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


def times(rows: Tensor, x: Tensor) -> Tensor:
    """a_i·x for every row. Shape: (m, d) or (n, m, d), (n, d) → (n, m)

    Examples:
        >>> import torch
        >>> from rayhull.maps.closed_forms import times
        >>> times(torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]]]), torch.tensor([[2.0, 3.0], [2.0, 3.0]]))
        tensor([[ 5.],
                [-1.]])
    """
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
