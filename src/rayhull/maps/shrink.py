r"""The way into a set around a base point: divide by max(1, gauge). Pure functions of tensors.

Seen from a base point x0, a row a·x <= b has the room h = b - a·x0. With every room positive, y stays inside as long as
gauge(y) = max_i a_i·y / h_i is at most 1 (it is negative along the rays of an unbounded set).
"""

from __future__ import annotations

import torch
from torch import Tensor

SMOOTHNESS = 4.0  # the power in the smooth shrink: larger is closer to the identity inside


def shrink(y: Tensor, gauge: Tensor) -> Tensor:
    """y / max(1, gauge): the identity inside, radially onto the boundary outside.

    Shape: y (\\*, d), gauge (\\*) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import shrink
        >>> y = torch.tensor([[0.5, 0.2], [4.0, -2.0]])
        >>> shrink(y, y.abs().amax(-1))
        tensor([[ 0.5000,  0.2000],
                [ 1.0000, -0.5000]])
    """
    return y * factor(gauge).unsqueeze(-1)


def factor(gauge: Tensor) -> Tensor:
    """1 / max(1, gauge)."""
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


def clamp_then_shrink(y: Tensor, rows: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Bounds first, coordinate by coordinate, then the rows by shrinking: one broken bound moves no other coordinate.

    The box holds the base point, so what shrinks towards it stays in the box.

    Args:
        y: directions from the base point x0.
        rows: a_i / σ_i (m, d), the rows over their slacks at x0.
        lower, upper: the bounds less x0 (d,): lower <= 0 <= upper.

    Shape: (\\*, d) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.shrink import clamp_then_shrink
        >>> y = torch.tensor([[9.0, 0.5], [0.2, 0.1]])
        >>> clamp_then_shrink(y, torch.tensor([[0.5, 1.0]]), -torch.ones(2), torch.ones(2))
        tensor([[1.0000, 0.5000],
                [0.2000, 0.1000]])
    """
    y = torch.minimum(torch.maximum(y, lower), upper)
    return shrink(y, (y @ rows.mT).amax(-1)) if len(rows) else y
