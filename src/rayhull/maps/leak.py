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

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from rayhull.core import operators
from rayhull.maps.graphs import applied, is_plain

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 1e15  # d in units is cut there
LEAK = 0.1  # the share that a layer takes unless it is told


def check_leak(leak: float) -> float:
    """The share as it is, refused where it is none."""
    if not isinstance(leak, int | float) or not 0 <= leak <= 1:
        raise ValueError(f"leak is a share of the gradient, from 0 (the derivative alone) to 1, got {leak!r}.")
    return leak


class Leak(NamedTuple):
    """What leaks past a map into a set.

    Args:
        share: s.
        unit: r, None for 1.
        block: :func:`block_of_each` where points hold several blocks, each of which has its own d; else empty.
    """

    share: float
    unit: Tensor | None = None
    block: Tensor = torch.empty(0, dtype=torch.int64)

    def gradient(self, g: Tensor, d: Tensor, through: Tensor | None = None, *, clamps: bool = False) -> Tensor:
        """s of the formula's second term, and 1 - s of the gradient that came ``through`` the map, where it is given.

        Of a map that ``clamps`` each coordinate that is g where d is 0, and nothing elsewhere.

        Shape: (\\*, n) each → (\\*, n)
        """
        alike = g.dtype == d.dtype and (self.unit is None or self.unit.dtype == g.dtype)
        if alike and not torch.is_grad_enabled() and is_plain(g) and operators.available():
            flat: Any = (g, d, through)
            if g.ndim != 2:
                flat = [v if v is None else v.reshape(-1, v.shape[-1]) for v in flat]
            return operators.leak(*flat, self.unit, self.block, self.share, FAR, clamps).reshape(g.shape)
        through = torch.where(d == 0, g, 0.0) if clamps else through
        along = along_the_set(g, d if self.unit is None else d / self.unit, self.block)
        return self.share * along if through is None else torch.lerp(through, along, self.share)


def damped(u: Tensor, share: float) -> Tensor:
    """u, of whose gradient 1 - s is left, NaN where it is not finite; forward mode has the derivative alone."""
    return u if not share or forward_ad._current_level >= 0 else torch.lerp(u, u.detach(), share)


def _zero(u: Tensor) -> Tensor:
    """0 with the gradient of u."""
    return (u - u.detach()).nan_to_num(0.0)


def block_of_each(P: Polyhedron) -> Tensor:
    """The number of the block that each coordinate belongs to (d,); empty for a set of one block.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.maps.leak import block_of_each
        >>> block_of_each(rh.box(0, 1, 3)), block_of_each(rh.simplex(3))
        (tensor([0, 1, 2]), tensor([], dtype=torch.int64))
    """
    blocks = [kind.blocks for kind in P.mirrored_groups]
    sizes = np.concatenate([np.full(*own.shape) for own in blocks])
    if len(sizes) == 1:
        return torch.empty(0, dtype=torch.int64)
    number = np.empty(P.dim, np.int64)
    number[np.concatenate([own.ravel() for own in blocks])] = np.repeat(np.arange(len(sizes)), sizes)
    return torch.from_numpy(number)


def leaking(x: Tensor, u: Tensor, leak: Leak, *, kept: float | None = 1.0) -> Tensor:
    """x, whose gradient goes to u too: the formula's second term, beside the map of the :func:`damped` u.

    Args:
        x: points of the set, block by block.
        u: what they were before they were moved there.
        leak: what leaks.
        kept: the share of the gradient that x has: 1 - s where the map took u alone, which was not damped; None for
            a clamp of each coordinate, whose derivative is 1 where nothing was moved, so that u has all of it.

    Shape: x, u (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.leak import Leak, damped, leaking
        >>> u = torch.tensor([[1.0, 1.0], [2.0, 0.0]], requires_grad=True)
        >>> x = leaking(damped(u, 0.1).clamp(0, 1), u, Leak(0.1))
        >>> torch.autograd.grad(x, u, torch.ones_like(x))
        (tensor([[1.0000, 1.0000],
                [0.0500, 1.0000]]),)
    """
    if not leak.share or forward_ad._current_level >= 0:
        return x
    u = u if u.shape == x.shape else u.expand_as(x)
    d = (u - x).detach()
    if torch.compiler.is_exporting():  # the map of the second term is symmetric
        zero = _zero(u)
        own = (1 - leak.share) * torch.where(d == 0, zero, 0.0) if kept is None else kept * _zero(x)
        return x.detach() + own + leak.gradient(zero, d)
    out: Tensor = applied(Leaking, x, u, d, kept, *leak)
    return out


class Leaking(torch.autograd.Function):
    """x forwards; backwards a share of the gradient to x, and the formula's second term to u."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, u: Tensor, d: Tensor, kept: float | None, *leak: Any) -> Tensor:
        return x.detach()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kept, ctx.leak = inputs[3], Leak(*inputs[4:])
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (d,) = ctx.saved_tensors
        clamps = ctx.kept is None
        through = None if clamps else g if ctx.kept == 1 else ctx.kept * g
        return through, ctx.leak.gradient(g, d, clamps=clamps), *(None,) * 5


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
