"""A leak around a map that the compiled tail does not take, such as the nearest point: one operator backwards.

:mod:`rayhull.maps.leak` is the definition, in tensor operations. They serve graphs, ``torch.func``, other devices,
second derivatives and machines without the binary; and sides of the sample, whose gradient is not damped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.maps.leak import moved, not_outwards
from rayhull.nn import tail


def leaks_in_one_call(u: Tensor, share: float) -> bool:
    """Whether a map without sides of the sample may take :func:`past` in place of the tensor operations."""
    return share > 0 and tail.is_plain(u) and u.requires_grad and operators.available()


def past(x: Tensor, free: Tensor, share: float, shape: Sequence[int], block: Tensor) -> Tensor:
    """x, of whose gradient 1 - s goes back to x and the leak to the free point: there is no ``damped`` before the map.

    Shape: x, free (\\*, event shape) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> from rayhull.maps.leak import block_of_each
        >>> from rayhull.nn.leaking import past
        >>> u = torch.tensor([[2.0, 0.5]], requires_grad=True)
        >>> x = past(u.clamp(0, 1), u, 0.1, (2,), block_of_each(rh.box(0, 1, 2)))
        >>> torch.autograd.grad(x, u, x.detach())
        (tensor([[0.1000, 0.5000]]),)
    """
    out: Tensor = Past.apply(x, free, share, len(shape), block)  # type: ignore[no-untyped-call]
    return out


class Past(torch.autograd.Function):
    """The operator; second derivatives are those of the tensor operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, free: Tensor, share: float, axes: int, block: Tensor) -> Tensor:
        ctx.save_for_backward(x, free)
        ctx.share, ctx.axes, ctx.block = share, axes, block
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, free = ctx.saved_tensors
        size = x.shape[x.ndim - ctx.axes :].numel()
        own, points, seen = (v.reshape(-1, size) for v in (g.to(x.dtype), x, free))
        if torch.is_grad_enabled() or not operators.available():  # create_graph=True, or no binary
            d = moved(points.detach(), seen.detach(), ctx.block)
            found = (1 - ctx.share) * own, ctx.share * not_outwards(own, d, ctx.block)
        else:
            found = operators.leak(own, points, seen, ctx.block, ctx.share)
        return found[0].reshape(x.shape), found[1].reshape(x.shape), None, None, None
