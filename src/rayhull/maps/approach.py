r"""Towards the nearest point: a fixed number of dual steps, or a closed form for one row and bounds. Tensor programs.

The nearest point of {z : G z <= c, lower <= z <= upper} to x is z(λ) for the best multipliers λ >= 0 of the rows:

.. math:: z(λ) = \mathrm{clamp}(x - G^T λ), \qquad λ \leftarrow \max(0,\; λ + s\,(G\,z(λ) - c)), \quad s = 1 / ‖G‖_2^2

A fixed number of such steps with Nesterov's momentum is a short tensor program without a branch: it compiles, exports
and runs on any device. What comes out is near the set, not in it: a shrink has to follow. Bounds need no multiplier,
they are clamped. Equalities are best met beforehand, in coordinates of their null space; beside bounds they keep
multipliers of either sign. The derivative is autograd's through the steps.

Where bounds are clamped, steps are longer (LONGER) and momentum is capped (MOST): coordinates at a bound do not move,
so that multipliers feel less curvature than all of G has, and full momentum carries them past their limits. On any
quadratic of curvature up to ‖G‖² steps of length s with momentum β converge if s‖G‖² < 2 (1 + β) / (1 + 2 β), which
for β = 0.7 is 1.417.

One row and bounds need no steps: a·z(t) falls piecewise linearly in the multiplier t, with a bend wherever a coordinate
reaches or leaves a bound. Sort the bends, add up the slopes between them, and read off the piece that holds the root.
Tiles, budgets and capped simplices are of this form.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rayhull.sets.rows import Array

LONGER, MOST = 1.4, 0.7  # steps beside bounds: their length over 1 / ‖G‖₂², and the most momentum


def approach(
    x: Tensor,
    rows: Tensor,
    rhs: Tensor,
    *,
    steps: int,
    step: float,
    lower: Tensor | None = None,
    upper: Tensor | None = None,
    equalities: int = 0,
    back: Tensor | None = None,
) -> Tensor:
    """x moved by ``steps`` dual steps towards the nearest point of {G z <= c, lower <= z <= upper}.

    Args:
        x: the points.
        rows, rhs: G (m, d) and c (m,), or c of each sample (\\*, m); the last ``equalities`` of them mean =.
        steps: how many; 0 only clamps.
        step: at most 1 / ‖G‖₂², or LONGER times that beside bounds; see :func:`step_size`.
        lower, upper: bounds (d,) or of each sample (\\*, d), infinite where there is none.
        back: G H⁻¹ (m, d), for nearest points in the metric of H; without bounds only. G by default.

    Shape: x (\\*, d) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.approach import approach
        >>> G, c = torch.tensor([[1.0, 1.0]]), torch.tensor([1.0])              # x + y <= 1
        >>> approach(torch.tensor([[2.0, 0.0]]), G, c, steps=1, step=0.5)       # one row: one step is exact
        tensor([[ 1.5000, -0.5000]])
        >>> approach(torch.tensor([[2.0, 0.0]]), G, c, steps=20, step=0.5, lower=torch.zeros(2)).round(decimals=3)
        tensor([[1., 0.]])
    """
    if not steps or not rows.shape[0]:
        return clamped(x, lower, upper)
    back = rows if back is None else back
    if lower is None and upper is None:
        multipliers = _by_gram(x, rows, rhs, steps, step, equalities, back)
    else:
        multipliers = _by_points(x, rows, rhs, steps, step, lower, upper, equalities)
    return clamped(x - multipliers @ back, lower, upper)


def _by_gram(x: Tensor, rows: Tensor, rhs: Tensor, steps: int, step: float, equalities: int, back: Tensor) -> Tensor:
    """Without bounds G z(μ) is affine in μ: one product with 1 - s G Gᵀ a step, not two with G."""
    pull = step * (x @ rows.mT - rhs)  # (*, m)
    turn = torch.eye(rows.shape[0], dtype=x.dtype, device=x.device) - step * (back @ rows.mT)
    last = ahead = torch.zeros_like(pull)
    for momentum in momenta(steps):
        new = _signed(pull + ahead @ turn, equalities)
        ahead, last = torch.lerp(last, new, 1 + momentum), new
    return last


def _by_points(
    x: Tensor,
    rows: Tensor,
    rhs: Tensor,
    steps: int,
    step: float,
    lower: Tensor | None,
    upper: Tensor | None,
    equalities: int,
) -> Tensor:
    """With bounds: the point z(μ) itself, clamped, in every step."""
    last = ahead = torch.zeros_like(x @ rows.mT)
    for momentum in momenta(steps, MOST):
        over = clamped(x - ahead @ rows, lower, upper) @ rows.mT - rhs
        new = _signed(ahead + step * over, equalities)
        ahead, last = torch.lerp(last, new, 1 + momentum), new
    return last


def _signed(multipliers: Tensor, equalities: int) -> Tensor:
    """Multipliers of inequalities are not negative."""
    if not equalities:
        return torch.relu(multipliers)
    return torch.cat([torch.relu(multipliers[..., :-equalities]), multipliers[..., -equalities:]], -1)


def clamped(x: Tensor, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    """min(max(x, lower), upper); a side that is None is open.

    Shape: x (\\*, d), lower and upper (d,) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.approach import clamped
        >>> clamped(torch.tensor([-2.0, 0.5]), torch.zeros(2), None)
        tensor([0.0000, 0.5000])
    """
    x = x if lower is None else torch.maximum(x, lower)
    return x if upper is None else torch.minimum(x, upper)


def momenta(steps: int, most: float = 1.0) -> list[float]:
    """Nesterov's momentum (t - 1) / t' with t' = (1 + sqrt(1 + 4 t²)) / 2, from t = 1: numbers, fixed beforehand.

    Examples:
        >>> from rayhull.maps.approach import momenta
        >>> [round(m, 3) for m in momenta(4)], [round(m, 3) for m in momenta(4, most=0.4)]
        ([0.0, 0.282, 0.434, 0.531], [0.0, 0.282, 0.4, 0.4])
    """
    found, t = [], 1.0
    for _ in range(steps):
        after = (1 + math.sqrt(1 + 4 * t * t)) / 2
        found.append(min(most, (t - 1) / after))
        t = after
    return found


def step_size(rows: Array) -> float:
    """1 / ‖G‖₂², the longest step that surely converges. Shape: rows (m, d)

    Examples:
        >>> import numpy as np
        >>> from rayhull.maps.approach import step_size
        >>> step_size(np.array([[1.0, 1.0]]))
        0.5
    """
    if not rows.size:
        return 1.0
    small = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    return 1.0 / float(np.linalg.eigvalsh(small)[-1])


def clipped_shift(x: Tensor, row: Tensor, rhs: Tensor, lower: Tensor, upper: Tensor, *, equality: bool) -> Tensor:
    """The nearest point of {a·z = c (or <= c), lower <= z <= upper}; the set must not be empty.

    Which coordinates are clamped is found without a derivative; the shift of the others is then a formula of x.

    Shape: x (\\*, d), row (d,), rhs () or (\\*), lower and upper (d,) or (\\*, d), perhaps infinite → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.approach import clipped_shift
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
