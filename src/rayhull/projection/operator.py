"""The projection as one opaque operator, so that ``torch.compile(fullgraph=True)`` goes around it without a break.

Eager code does not come here. The operator's backward finds the active rows again instead of keeping them: a compiled
training step pays the forward twice.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from rayhull.projection.derivative import pull

if TYPE_CHECKING:
    from rayhull.projection.project import Projector

_projectors: WeakValueDictionary[int, Projector] = WeakValueDictionary()
_numbers = itertools.count()


def register(projector: Projector) -> int:
    """A number by which the operator finds the projector again."""
    number = next(_numbers)
    _projectors[number] = projector
    return number


@torch.library.custom_op("rayhull::nearest", mutates_args=())
def nearest(
    x: Tensor, b: Tensor | None, b_eq: Tensor | None, lower: Tensor | None, upper: Tensor | None, number: int
) -> Tensor:
    """Nearest points. Shape: x (*, event shape)."""
    with torch.no_grad():
        return _projectors[number](x, b=b, b_eq=b_eq, lower=lower, upper=upper)[0].clone()


@nearest.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("rayhull::nearest_backward", mutates_args=())
def nearest_backward(
    grad: Tensor,
    x: Tensor,
    b: Tensor | None,
    b_eq: Tensor | None,
    lower: Tensor | None,
    upper: Tensor | None,
    number: int,
) -> list[Tensor]:
    """Gradients with respect to x, b, b_eq, lower and upper; empty for what was not given."""
    sides = (b, b_eq, lower, upper)
    projector = _projectors[number]
    with torch.no_grad():
        _, call = projector(x, b=b, b_eq=b_eq, lower=lower, upper=upper)
        batch, flat = projector.flat(x)
        flat_sides = [projector.flat_side(name, v, batch, flat) for name, v in zip(SIDES, sides, strict=True)]
        shapes = [None if v is None else v.shape for v in flat_sides]
        wanted = [i for i, v in enumerate(sides) if v is not None]
        pulled = pull(call, shapes, wanted, grad.reshape(flat.shape).contiguous())
    out = [pulled[0].reshape(x.shape) if pulled[0] is not None else x.new_empty(0)]
    for value, side in zip(pulled[1:], sides, strict=True):
        out.append(x.new_empty(0) if value is None or side is None else value.to(side.dtype).reshape(side.shape))
    return out


@nearest_backward.register_fake
def _(grad: Tensor, x: Tensor, *rest: Any) -> list[Tensor]:
    return [torch.empty_like(x), *(x.new_empty(0) if v is None else torch.empty_like(v) for v in rest[:4])]


SIDES = ("b", "b_eq", "lower", "upper")


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.number = inputs[-1]
    ctx.given = [v is not None for v in inputs[1:5]]
    ctx.save_for_backward(*(v for v in inputs[:5] if v is not None))


def _backward(ctx: Any, grad: Tensor) -> Any:
    x, *saved = ctx.saved_tensors
    rest = iter(saved)
    sides = [next(rest) if given else None for given in ctx.given]
    grads = nearest_backward(grad, x, *sides, ctx.number)
    return grads[0], *(g if given else None for g, given in zip(grads[1:], ctx.given, strict=True)), None


nearest.register_autograd(_backward, setup_context=_keep)
