"""What a good user would write in plain torch for a set: a few lines each, the yardstick of a layer.

Each is the number of coefficients, and a map from them (n, k) to points (n, d); sides of the sample come by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus


@dataclass(frozen=True, eq=False)
class ByHand:
    """``inputs`` coefficients of a sample, and the map ``into``."""

    inputs: int
    into: Callable[..., Tensor]

    def times(self, size: float) -> ByHand:
        """In another unit."""
        return ByHand(self.inputs, lambda c: size * self.into(c))

    def after_linear(self, features: int) -> nn.Module:
        """A Linear and the map."""
        return _Layer(nn.Linear(features, self.inputs), self.into)


class _Layer(nn.Module):
    def __init__(self, linear: nn.Linear, into: Callable[..., Tensor]) -> None:
        super().__init__()
        self.linear, self.into = linear, into

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        return self.into(self.linear(h), **sides)


def dense(values: object) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)


def vertices(V: object) -> ByHand:
    """A polytope with few vertices."""
    points = dense(V)
    return ByHand(len(points), lambda c: c.softmax(-1) @ points)


def simplexes(rows: int, d: int) -> ByHand:
    """Rows of probabilities."""
    return ByHand(rows * d, lambda c: c.unflatten(-1, (rows, d)).softmax(-1).flatten(-2))


def chain(d: int) -> ByHand:
    """x0 <= x1 <= ...: a level and increments."""
    return ByHand(d, lambda c: torch.cat([c[:, :1], softplus(c[:, 1:])], 1).cumsum(1))


def bounded_chain(d: int, low: float, high: float) -> ByHand:
    """low <= x0 <= x1 <= ... <= high: shares of the whole range."""
    return ByHand(d + 1, lambda c: low + (high - low) * c.softmax(1).cumsum(1)[:, :-1])


def convex(d: int) -> ByHand:
    """A level and slopes that increase."""
    slopes = chain(d - 1).into
    return ByHand(d, lambda c: torch.cat([c[:, :1], slopes(c[:, 1:])], 1).cumsum(1))


def convex_lipschitz(d: int, bound: float) -> ByHand:
    """A level and slopes that increase, within bounds."""
    slopes = bounded_chain(d - 1, -bound, bound)
    return ByHand(1 + slopes.inputs, lambda c: torch.cat([c[:, :1], slopes.into(c[:, 1:])], 1).cumsum(1))


def order_in_unit_box(edges: Sequence[tuple[int, int]], d: int) -> ByHand:
    """Edges (i, j), i < j: each coordinate is a share of the way from its largest predecessor to 1."""
    before = [[i for i, j in edges if j == k] for k in range(d)]

    def into(c: Tensor) -> Tensor:
        x: list[Tensor] = []
        for k, share in enumerate(c.sigmoid().unbind(1)):
            floor = torch.stack([x[i] for i in before[k]]).amax(0) if before[k] else torch.zeros_like(share)
            x.append(floor + (1 - floor) * share)
        return torch.stack(x, 1)

    return ByHand(d, into)


def independent_rows(A: object) -> ByHand:
    """A cone of independent rows, A x <= 0."""
    rows, inverse = dense(A), torch.linalg.pinv(dense(A))
    return ByHand(rows.shape[1], lambda c: c - (c @ rows.mT).relu() @ inverse.mT)


def clamp_and_divide(A: object, b: object, lower: float = -torch.inf, upper: float = torch.inf) -> ByHand:
    """Rows A x <= b and bounds around 0: clamp, then shrink towards 0; b may be of the sample."""
    rows, rhs = dense(A), dense(b)

    def into(c: Tensor, b: Tensor = rhs) -> Tensor:
        x = c.clamp(lower, upper)
        return x / (x @ rows.mT / b).amax(-1, keepdim=True).clamp(min=1)

    return ByHand(rows.shape[1], into)


def shifted(c: Tensor, low: Tensor | float, high: Tensor | float, total: Tensor | float, steps: int = 30) -> Tensor:
    """clamp(c + s, low, high), s by bisection such that the sum is the total; the last line has the gradient."""
    low, high = (torch.as_tensor(v).to(c) for v in (low, high))
    with torch.no_grad():
        left, right = (low - c).amin(-1, keepdim=True), (high - c).amax(-1, keepdim=True)
        for _ in range(steps):
            middle = (left + right) / 2
            below = (c + middle).clamp(low, high).sum(-1, keepdim=True) < total
            left, right = torch.where(below, middle, left), torch.where(below, right, middle)
    x = (c + left).clamp(low, high)
    free = ((x > low) & (x < high)).to(c)
    return x + free * (total - x.sum(-1, keepdim=True)) / free.sum(-1, keepdim=True).clamp(min=1)


def fixed_sum(d: int, low: float, high: float) -> ByHand:
    """Bounds and a sum: total and upper bounds may be of the sample."""

    def into(c: Tensor, b_eq: Tensor | float = 1.0, upper: Tensor | float = high) -> Tensor:
        return shifted(c, low, upper, b_eq)

    return ByHand(d, into)


def storage(hours: int, start: float, capacity: float, power: float) -> ByHand:
    """Power within limits, what is stored within limits: hour by hour."""

    def into(c: Tensor) -> Tensor:
        stored, level = [], torch.full_like(c[:, 0], start)
        for wish in c.unbind(1):
            stored.append(level)
            level = (level + wish.clamp(-power, power)).clamp(0, capacity)
        return torch.stack([*stored[1:], level], 1) - torch.stack(stored, 1)

    return ByHand(hours, into)


def checkerboard(tiles: int = 4, side: int = 28) -> ByHand:
    """Tiles whose sums are <= 0 and >= 0 in turn, pixels between -1 and 1: a clipped shift where a sum is broken."""
    size = side // tiles
    sign = torch.tensor([[1.0 if (i + j) % 2 else -1.0 for j in range(tiles)] for i in range(tiles)])[..., None]

    def into(c: Tensor) -> Tensor:
        u = c.reshape(-1, tiles, size, tiles, size).transpose(2, 3).flatten(-2) * sign  # (n, tiles, tiles, pixels)
        x = u.clamp(-1, 1)
        x = torch.where(x.sum(-1, keepdim=True) >= 0, x, shifted(u, -1.0, 1.0, 0.0)) * sign
        return x.unflatten(-1, (size, size)).transpose(2, 3).reshape(-1, side, side)

    return ByHand(side * side, into)


def hierarchy(S: object) -> ByHand:
    """Series that add up and are not negative."""
    sums = dense(S)
    return ByHand(sums.shape[1], lambda c: softplus(c) @ sums.mT)
