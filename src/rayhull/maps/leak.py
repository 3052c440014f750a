r"""A leak: gradient that passes by a map into a set while a network trains, so that no sample is stuck on a face.

A free point u outside the set is moved to x. The derivative J of that map has lost the directions of the rows that
bind: what is tied together gets one gradient, a vertex gets none, and nothing says on which side of a row u should be.
With the gradient g of the loss at x, d = u - x and the share s that leaks, u gets

.. math:: (1 - s)\, J^\top g + s \Bigl(g - \min(0, g \cdot d) \frac{d}{\|d\|^2}\Bigr)

Inside the set u = x and J = I, and this is the derivative. Outside, the second term leads back across a row, and only
back: the part of g that would drive u further away from x is left out. Without that, a loss that has no targets (a
price, a return) drives u away for ever. For the nearest point a small step along the negative of this never increases
the distance of u from x; and where the loss is the squared distance to a target t of the set, nothing is left out,
since (x - t)·(u - x) >= 0. Points do not change: only the gradient does, which is then that of no function. All
else that the map takes, such as sides of the sample, has its whole gradient: the first term is damped before the map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

LEAK = 0.1  # the share that a layer takes unless it is told


def check_leak(leak: float) -> float:
    """The share as it is, refused where it is none."""
    if not 0 <= leak <= 1:
        raise ValueError(f"leak is a share of the gradient, from 0 (the derivative alone) to 1, got {leak}.")
    return leak


def block_of_each(P: Polyhedron) -> Tensor:
    """The number of the block that each coordinate belongs to (d,); empty for a set of one block.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.maps.leak import block_of_each
        >>> block_of_each(rh.box(0, 1, 3)), block_of_each(rh.simplex(3))
        (tensor([0, 1, 2]), tensor([], dtype=torch.int64))
    """
    sizes = np.concatenate([np.full(len(kind.index), kind.index.shape[1]) for kind in P.mirrored_groups])
    if len(sizes) == 1:
        return torch.empty(0, dtype=torch.int64)
    number = np.empty(P.dim, np.int64)
    number[np.concatenate([kind.index.ravel() for kind in P.mirrored_groups])] = np.repeat(np.arange(len(sizes)), sizes)
    return torch.from_numpy(number)


def damped(u: Tensor, share: float) -> Tensor:
    """u, of whose gradient 1 - s is left; forward mode has the derivative alone."""
    out: Tensor = u if not share or forward_ad._current_level >= 0 else Damped.apply(u, share)  # type: ignore[no-untyped-call]
    return out


def leaking(x: Tensor, free: Tensor, share: float, shape: Sequence[int], block: Tensor) -> Tensor:
    """x, whose gradient goes to the free point too: the formula's second term, beside the map of the :func:`damped` u.

    Args:
        x: points of the set.
        free: what they were before they were moved there.
        share: s.
        shape: the event shape.
        block: :func:`block_of_each`: each block has its own d.

    Shape: x, free (\\*, event shape) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> from rayhull.maps.leak import block_of_each, damped, leaking
        >>> u = torch.tensor([[2.0, 0.5]], requires_grad=True)
        >>> x = leaking(damped(u, 0.1).clamp(0, 1), u, 0.1, (2,), block_of_each(rh.box(0, 1, 2)))
        >>> inwards, outwards = (torch.autograd.grad(x, u, g, retain_graph=True)[0] for g in (x.detach(), -x.detach()))
        >>> inwards, outwards
        (tensor([[0.1000, 0.5000]]), tensor([[ 0.0000, -0.5000]]))
    """
    if not share or forward_ad._current_level >= 0:
        return x
    first = x.ndim - len(shape)
    flat, u = x.flatten(first), free.expand_as(x).flatten(first)
    out: Tensor = Leak.apply(flat, u, share, block)  # type: ignore[no-untyped-call]
    return out.reshape(x.shape)


class Damped(torch.autograd.Function):
    """u forwards, 1 - s of the gradient backwards."""

    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, share: float) -> Tensor:
        return u.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.share = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return (1 - ctx.share) * g, None


class Leak(torch.autograd.Function):
    """x forwards; backwards the gradient to x, and the formula's second term to the free point."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, free: Tensor, share: float, block: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, free, ctx.share, block = inputs
        ctx.save_for_backward(x, free, block)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, free, block = ctx.saved_tensors
        return g, ctx.share * not_outwards(g, moved(x.detach(), free.detach(), block), block), None, None


def moved(x: Tensor, free: Tensor, block: Tensor) -> Tensor:
    """d = u - x, 0 where it is nothing but rounding of its block, whose direction means nothing.

    Shape: (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.leak import moved
        >>> moved(torch.tensor([1.0, 100.0]), torch.tensor([2.0, 100.00001]), torch.tensor([]))
        tensor([1., 0.])
    """
    d = free - x
    return torch.where(d.abs() > 64 * torch.finfo(x.dtype).eps * largest(free.abs(), block), d, 0.0)


def not_outwards(g: Tensor, d: Tensor, block: Tensor) -> Tensor:
    """g - min(0, g·d) d / |d|², block by block; g where d is 0 or not finite.

    Shape: g, d (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.leak import not_outwards
        >>> g, d, one = torch.tensor([-1.0, 2.0, -3.0]), torch.tensor([1.0, 0.0, 1.0]), torch.tensor([])
        >>> not_outwards(g, d, one), not_outwards(g, d, torch.tensor([0, 0, 1])), not_outwards(-g, d, one)
        (tensor([ 1.,  2., -1.]), tensor([0., 2., 0.]), tensor([ 1., -2.,  3.]))
    """
    unit = torch.nan_to_num(d / largest(d.abs(), block))  # a square of d itself might overflow
    along, square = summed(g * unit, block), summed(unit * unit, block)
    return torch.addcmul(g, unit, along.clamp_max(0) / square.clamp_min(torch.finfo(d.dtype).tiny), value=-1)


def largest(values: Tensor, block: Tensor) -> Tensor:
    """The largest of each coordinate's block, at every coordinate of it; of all, (\\*, 1), for one block."""
    if not block.numel():
        return values.amax(-1, keepdim=True)
    number = block.expand_as(values)
    return torch.zeros_like(values).scatter_reduce(-1, number, values, "amax").gather(-1, number)


def summed(values: Tensor, block: Tensor) -> Tensor:
    """The sum over each coordinate's block, at every coordinate of it; over all, (\\*, 1), for one block."""
    if not block.numel():
        return values.sum(-1, keepdim=True)
    return torch.zeros_like(values).index_add(-1, block, values).index_select(-1, block)
