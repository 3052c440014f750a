"""The nearest point inside ``torch.func``: both derivatives of any order, and ``vmap`` in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rayhull.projection.operators import nearest, nearest_backward, nearest_forward


class Transformed(torch.autograd.Function):
    """:func:`nearest` in the form that ``torch.func`` takes: gradients, forward-mode derivatives, vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return nearest(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        _keep(ctx, output[1], *inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        own, *given = Pulled.apply(grad, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]
        return own, *_where(ctx.saved_tensors[2:6], given), *(None,) * 7

    @staticmethod
    def jvp(ctx: Any, *changes: Any) -> Any:
        dx = torch.zeros_like(ctx.saved_tensors[1]) if changes[0] is None else changes[0]
        return _pushed(dx, changes[1:5], ctx), None


class Pulled(torch.autograd.Function):
    """:func:`nearest_backward`: gradients of x and of the sides that are given; the transpose of the next."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        own, *rest = nearest_backward(*inputs)
        return own, *(g for g, side in zip(rest, inputs[3:7], strict=True) if side is not None)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _keep(ctx, *inputs[1:])

    @staticmethod
    def backward(ctx: Any, dx: Tensor, *changes: Any) -> Any:
        return _pushed(dx, _where(ctx.saved_tensors[2:6], changes), ctx), *(None,) * 13

    @staticmethod
    def jvp(ctx: Any, change: Tensor, *_: Any) -> Any:
        return Pulled.apply(change, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]


class Pushed(torch.autograd.Function):
    """:func:`nearest_forward`: the derivative along changes of x and of sides."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return nearest_forward(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.changed = [change is not None for change in inputs[1:5]]
        _keep(ctx, *inputs[5:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        own, *given = Pulled.apply(grad, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]
        sides = zip(_where(ctx.saved_tensors[2:6], given), ctx.changed, strict=True)
        return own, *(g if changed else None for g, changed in sides), *(None,) * 13

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, *changes: Any) -> Any:
        return _pushed(dx, changes[:4], ctx)


def _keep(ctx: Any, *inputs: Any) -> None:
    """Multipliers, x, sides and set for both derivatives, and the options."""
    ctx.options = inputs[7:]
    for save in (ctx.save_for_backward, ctx.save_for_forward):
        save(*inputs[:7])


def _pushed(dx: Tensor, changes: Sequence[Tensor | None], ctx: Any) -> Any:
    return Pushed.apply(dx, *changes, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]


def _where(sides: Sequence[Tensor | None], values: Sequence[Tensor]) -> list[Tensor | None]:
    """The values at the places of the sides that are given, None elsewhere."""
    rest = iter(values)
    return [None if side is None else next(rest) for side in sides]


nearest.register_autograd(Transformed.backward, setup_context=Transformed.setup_context)  # of compiled graphs


# -- torch.vmap: all calls at once, as one larger batch ----------------------------------------------------------------


def _stacked(values: Sequence[Tensor | None], places: Sequence[int | None], calls: int) -> Any:
    """What each call is given, along a new first axis."""
    return [
        v if v is None else v.expand(calls, *v.shape) if place is None else v.movedim(place, 0)
        for v, place in zip(values, places, strict=False)
    ]


def _aligned(sides: Sequence[Tensor | None], x: Tensor, options: Sequence[Any]) -> list[Tensor | None]:
    """Sides (calls, \\*, own event shape), with axes of length 1 for the batch axes of the points that they lack."""
    out: list[Tensor | None] = []
    event = options[3]
    for side, own in zip(sides, (1, 1, event, event), strict=True):
        missing = 0 if side is None else x.ndim - event - (side.ndim - own)
        out.append(side if side is None else side.reshape(len(side), *(1,) * missing, *side.shape[1:]))
    return out


@nearest.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[5:]
    x, *sides = _stacked(inputs[:5], in_dims, n)
    z, multipliers = nearest(x, *_aligned(sides, x, options), *options)
    return (z, multipliers.reshape(n, len(multipliers) // n, multipliers.shape[1])), (0, 0)


@nearest_backward.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[7:]
    grad, multipliers, x, *sides = _stacked(inputs[:7], in_dims, n)
    grads = nearest_backward(grad, multipliers.flatten(0, 1), x, *_aligned(sides, x, options), *options)
    shapes = [x.shape, *((n, 0) if side is None else side.shape for side in sides)]
    return [g if not g.numel() else g.reshape(shape) for g, shape in zip(grads, shapes, strict=True)], [0] * len(grads)


@nearest_forward.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[11:]
    dx, *rest = _stacked(inputs[:11], in_dims, n)
    changes, multipliers, x, sides = rest[:4], rest[4], rest[5], rest[6:]
    along, own = _aligned(changes, x, options), _aligned(sides, x, options)
    return nearest_forward(dx, *along, multipliers.flatten(0, 1), x, *own, *options), 0
