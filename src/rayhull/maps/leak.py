r"""A leak: gradient that passes by a map into a set while a network trains, so that no sample is stuck on a face.

A point u outside the set is moved to x. The derivative J of that map has lost the directions of the rows that bind:
what is tied together gets one gradient, a vertex gets none, and nothing says on which side of a row u should be. With
the gradient g of the loss at x, d = u - x, the unit r of the coordinates and the share s that leaks, u gets

.. math:: (1 - s)\, J^\top g + s\, \Bigl(g - κ\, \frac{g \cdot d}{\|d\|^2}\, d\Bigr), \qquad
    κ = \frac{\|d\|^2}{r^2 + \|d\|^2}

Inside the set u = x and J = I, and this is the derivative. Outside, the part of g along the set passes, and the part
across it the less the further u is away: a loss without targets (a price, a return) would drive u away for ever. It is
linear in g, so that turning the sign of a gradient after the backward pass (``maximize=True``, gradient reversal)
does what turning that of the loss does. Points do not change: only the gradient does, which is then that of no
function. All else that the map takes, such as sides of the sample, has its whole gradient: the first term is damped
before the map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 1e15  # d in units is cut there
LEAK = 0.1  # the share that a layer takes unless it is told


def check_leak(leak: float) -> float:
    """The share as it is, refused where it is none."""
    if not 0 <= leak <= 1:
        raise ValueError(f"leak is a share of the gradient, from 0 (the derivative alone) to 1, got {leak}.")
    return leak


def damped(u: Tensor, share: float) -> Tensor:
    """u, of whose gradient 1 - s is left; forward mode has the derivative alone."""
    out: Tensor = u if not share or forward_ad._current_level >= 0 else Damped.apply(u, share)  # type: ignore[no-untyped-call]
    return out


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


def leaking(x: Tensor, u: Tensor, share: float, unit: Tensor | float = 1.0, block: Tensor | None = None) -> Tensor:
    """x, whose gradient goes to u too: the formula's second term, beside the map of the :func:`damped` u.

    Args:
        x: points of the set, block by block.
        u: what they were before they were moved there.
        share: s.
        unit: r.
        block: :func:`block_of_each` where x holds several blocks, each of which has its own d.

    Shape: x, u (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.leak import damped, leaking
        >>> u = torch.tensor([[1.0, 1.0], [2.0, 0.0]], requires_grad=True)
        >>> x = leaking(damped(u, 0.1).clamp(0, 1), u, 0.1)
        >>> torch.autograd.grad(x, u, torch.ones_like(x))
        (tensor([[1.0000, 1.0000],
                [0.0500, 1.0000]]),)
    """
    return _leaked(x, u, 1.0, share, unit, block)


def leaking_alone(
    x: Tensor, u: Tensor, share: float, unit: Tensor | float = 1.0, block: Tensor | None = None
) -> Tensor:
    """The whole formula, for a map that takes u alone: x of u itself, which was not damped."""
    return _leaked(x, u, 1 - share, share, unit, block)


def _leaked(x: Tensor, u: Tensor, kept: float, share: float, unit: Tensor | float, block: Tensor | None) -> Tensor:
    if not share or forward_ad._current_level >= 0:
        return x
    out: Tensor = Leak.apply(x, u.expand_as(x), kept, share, unit, block)  # type: ignore[no-untyped-call]
    return out


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
    """x forwards; backwards a share of the gradient to x, and the formula's second term to u."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, u: Tensor, kept: float, share: float, unit: Tensor | float, block: Tensor | None) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, u, ctx.kept, ctx.share, ctx.unit, ctx.block = inputs
        ctx.save_for_backward(x, u)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, u = ctx.saved_tensors
        leaked = ctx.share * along_the_set(g, (u - x).detach() / ctx.unit, ctx.block)
        return g if ctx.kept == 1 else ctx.kept * g, leaked, None, None, None, None


def along_the_set(g: Tensor, d: Tensor, block: Tensor | None = None) -> Tensor:
    """g - (g·d) d / (1 + |d|²) for a d in units, block by block; g where d is not a number.

    Shape: g, d (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.leak import along_the_set
        >>> along_the_set(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 0.0]))
        tensor([0.1000, 1.0000])
    """
    d = torch.nan_to_num(d.clamp(-FAR, FAR))  # squares must not overflow
    return torch.addcmul(g, d, _products(g, d, block) / (1 + _products(d, d, block)), value=-1)


def _products(a: Tensor, b: Tensor, block: Tensor | None) -> Tensor:
    """a·b over each coordinate's block, at every coordinate of it; over all, (\\*, 1), for one block."""
    if block is None or not block.numel():
        return torch.linalg.vecdot(a, b).unsqueeze(-1)
    return torch.zeros_like(a).index_add(-1, block, a * b).index_select(-1, block)
