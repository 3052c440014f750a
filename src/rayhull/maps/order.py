r"""The way into an order. Pure functions of tensors.

A chain, or any set with independent rows, has coefficients of its own for its slacks: no ties by construction. A set
{A x <= b} with independent rows has one ray for each row, along which only that row's slack grows. So

.. math:: x = x_0 + L γ + \sum_j σ_j (f(β_j) - 1)\, r_j, \qquad f(β) = \mathrm{softplus}(β) / \log 2

has the slacks σ_j f(β_j) > 0, where σ are those of the base point x0: coefficients 0 give the base point, and unit ones
change each slack by a fair share of itself. For a chain x_1 <= x_2 <= ... the slacks are the increments.

Other orders go halfway between the least majorant and the greatest minorant:

.. math:: x_j = \tfrac12 \bigl(\max_{i \preceq j} u_i + \min_{i \succeq j} u_i\bigr)

Both terms keep the order, so their mean does, in floats too: maxima and minima are exact, and halving and rounding a
sum are monotone. Inside the order the map is the identity, and two points come out no further apart than they went in
(in the maximum norm). Any increasing function keeps an order: bounds are a clamp or a sigmoid afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.coefficients import softplus
from rayhull.sets.rows import Array


def share(beta: Tensor) -> Tensor:
    """softplus(β) / log 2: positive, 1 at 0, about linear above.

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import share
        >>> share(torch.tensor([-30.0, 0.0, 30.0])).round(decimals=2)
        tensor([ 0.0000,  1.0000, 43.2800])
    """
    return softplus(beta) * (1 / math.log(2))


def chain(level: Tensor, beta: Tensor, steps: Tensor) -> Tensor:
    """An increasing chain from its mean level and its own increments: x_j - x_{j-1} = steps_j · share(β_j).

    Shape: level (\\*, 1), beta (\\*, n - 1), steps (n - 1,) > 0 → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import chain
        >>> chain(torch.zeros(1), torch.zeros(2), torch.ones(2))
        tensor([-1.,  0.,  1.])
    """
    return from_slopes(level, steps * share(beta))


def from_slopes(mean: Tensor, slopes: Tensor) -> Tensor:
    """A curve from its mean and its slopes x_{j+1} - x_j.

    Shape: mean (\\*, 1), slopes (\\*, n - 1) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import from_slopes
        >>> from_slopes(torch.zeros(1), torch.tensor([1.0, 2.0, -1.0]))
        tensor([-1.5000, -0.5000,  1.5000,  0.5000])
    """
    risen = torch.nn.functional.pad(slopes, (1, 0)).cumsum(-1)
    return mean + (risen - risen.mean(-1, keepdim=True))


def between(x: Tensor, lower: float, upper: float) -> Tensor:
    """lower + (upper - lower) sigmoid(x): increasing, so it keeps every order, and strictly between the bounds.

    With one bound only, softplus takes the sigmoid's place; with none x stays.

    Examples:
        >>> import math, torch
        >>> from rayhull.maps.order import between
        >>> between(torch.tensor([-9.0, 0.0, 9.0]), 0.0, 1.0).round(decimals=2), between(torch.zeros(1), 1.0, math.inf)
        (tensor([0.0000, 0.5000, 1.0000]), tensor([1.6931]))
    """
    if math.isinf(lower) and math.isinf(upper):
        return x
    if math.isinf(upper):
        return lower + softplus(x)
    if math.isinf(lower):
        return upper - softplus(-x)
    return lower + (upper - lower) * torch.sigmoid(x)


def between_inverse(x: Tensor, lower: float, upper: float) -> Tensor:
    """The x of :func:`between`, for points strictly between the bounds.

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import between, between_inverse
        >>> between_inverse(between(torch.tensor([0.5]), -1.0, 3.0), -1.0, 3.0)
        tensor([0.5000])
    """
    if math.isinf(lower) and math.isinf(upper):
        return x
    if math.isinf(upper):
        return inverse_softplus(x - lower)
    if math.isinf(lower):
        return -inverse_softplus(upper - x)
    return torch.logit((x - lower) / (upper - lower))


def inverse_softplus(y: Tensor) -> Tensor:
    """x with softplus(x) = y > 0: y + log(1 - exp(-y))."""
    return y + torch.log(-torch.expm1(-y))


def into_grid_order(u: Tensor, axes: int) -> Tensor:
    """Not decreasing along each of the last ``axes`` axes: chains (one), isotonic images (two), and so on.

    Shape: (\\*, n1, ..., n_axes) → the same

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import into_grid_order
        >>> into_grid_order(torch.tensor([1.0, 3.0, 2.0, 4.0]), 1)
        tensor([1.0000, 2.5000, 2.5000, 4.0000])
    """
    above, below = u, -u
    for axis in range(-axes, 0):
        above = running_max(above, axis)
        below = running_max(below.flip(axis), axis).flip(axis)
    return mean(above, -below)


def running_max(u: Tensor, axis: int) -> Tensor:
    """max over all that come before along an axis, and itself.

    In a compiled or exported graph by maxima over windows of 1, 2, 4, ... entries: they fuse, and ONNX has them.

    Shape: (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import running_max
        >>> running_max(torch.tensor([1.0, 3.0, 2.0]), -1)
        tensor([1., 3., 3.])
    """
    if not torch.compiler.is_compiling():
        return torch.cummax(u, axis).values
    n, width = u.shape[axis], 1
    while width < n:
        u = torch.cat([u.narrow(axis, 0, width), _later_max(u, axis, width)], axis)
        width *= 2
    return u


def _later_max(u: Tensor, axis: int, width: int) -> Tensor:
    """max(u_j, u_{j - width}) for j >= width."""
    rest = u.shape[axis] - width
    return torch.maximum(u.narrow(axis, width, rest), u.narrow(axis, 0, rest))


def mean(above: Tensor, below: Tensor) -> Tensor:
    """(above + below) / 2, increasing in both in floats too. Halving first keeps large numbers from overflowing."""
    return 0.5 * above + 0.5 * below


@dataclass(frozen=True, eq=False)
class Levels:
    """A partial order in rounds: in each, some coordinates take the maximum over their predecessors in earlier rounds.

    ``take[k]`` are coordinates that come later than all of ``before[k]``, (size, width), padded with themselves.
    """

    take: tuple[Array, ...]
    before: tuple[Array, ...]


def levels(pairs: Sequence[tuple[int, int]] | Array, n: int) -> Levels:
    """The rounds of the order i ⪯ j for each pair (i, j), by the longest chain below each coordinate.

    Examples:
        >>> from rayhull.maps.order import levels
        >>> found = levels([(0, 1), (0, 2), (1, 3), (2, 3)], 4)
        >>> [t.tolist() for t in found.take], [b.tolist() for b in found.before]
        ([[1, 2], [3]], [[[0], [0]], [[1, 2]]])
    """
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    depth = depths(pairs, n)
    take, before = [], []
    for level in range(1, int(depth.max(initial=0)) + 1):
        here = np.flatnonzero(depth == level)
        found = [pairs[pairs[:, 1] == j, 0] for j in here]
        width = max(map(len, found))
        take.append(here)
        before.append(np.stack([np.resize(f, width) for f in found]))  # repeats do not change a maximum
    return Levels(tuple(take), tuple(before))


def depths(pairs: Array, n: int) -> Array:
    """The length of the longest chain below each coordinate; a cycle is refused."""
    depth = np.zeros(n, np.int64)
    for _ in range(n + 1):
        after = depth.copy()
        np.maximum.at(after, pairs[:, 1], depth[pairs[:, 0]] + 1)
        if (after == depth).all():
            return depth
        depth = after
    raise ValueError("the pairs have a cycle, i before j before i: state such coordinates as equal (A_eq).")


def least_majorant(u: Tensor, take: Sequence[Tensor], before: Sequence[Tensor]) -> Tensor:
    """max over all predecessors, round by round. Shape: (\\*, n) → (\\*, n)"""
    for here, earlier in zip(take, before, strict=True):
        over = u[..., earlier].amax(-1)  # (*, size)
        u = u.index_copy(-1, here, torch.maximum(u[..., here], over))
    return u


def into_order(
    u: Tensor, up: tuple[Sequence[Tensor], Sequence[Tensor]], down: tuple[Sequence[Tensor], Sequence[Tensor]]
) -> Tensor:
    """The same for any partial order: ``up`` its :func:`levels` as tensors, ``down`` those of the pairs turned round.

    Shape: (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import as_tensors, into_order, levels
        >>> pairs = [(0, 1), (0, 2), (1, 3), (2, 3)]
        >>> up, down = as_tensors(levels(pairs, 4)), as_tensors(levels([(j, i) for i, j in pairs], 4))
        >>> into_order(torch.tensor([1.0, 0.0, 2.0, 1.0]), up, down)
        tensor([0.5000, 0.5000, 1.5000, 1.5000])
    """
    return mean(least_majorant(u, *up), -least_majorant(-u, *down))


def as_tensors(found: Levels, device: torch.device | str | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """The rounds as index tensors."""
    return (
        [torch.as_tensor(t, device=device) for t in found.take],
        [torch.as_tensor(b, device=device) for b in found.before],
    )
