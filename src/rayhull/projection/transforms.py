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
        ctx.options = inputs[6:]
        ctx.mark_non_differentiable(output[1])
        for save in (ctx.save_for_backward, ctx.save_for_forward):
            save(output[1], *inputs[:6])

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
        ctx.options = inputs[8:]
        for save in (ctx.save_for_backward, ctx.save_for_forward):
            save(*inputs[1:8])

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
        ctx.changed, ctx.options = [change is not None for change in inputs[1:5]], inputs[12:]
        for save in (ctx.save_for_backward, ctx.save_for_forward):
            save(*inputs[5:12])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        own, *given = Pulled.apply(grad, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]
        sides = zip(_where(ctx.saved_tensors[2:6], given), ctx.changed, strict=True)
        return own, *(g if changed else None for g, changed in sides), *(None,) * 13

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, *changes: Any) -> Any:
        return _pushed(dx, changes[:4], ctx)


def _pushed(dx: Tensor, changes: Sequence[Tensor | None], ctx: Any) -> Any:
    return Pushed.apply(dx, *changes, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]


def _where(sides: Sequence[Tensor | None], values: Sequence[Tensor]) -> list[Tensor | None]:
    """The values at the places of the sides that are given, None elsewhere."""
    rest = iter(values)
    return [None if side is None else next(rest) for side in sides]


# -- torch.vmap: all calls at once, as one larger batch ----------------------------------------------------------------


def _stacked(value: Tensor | None, place: int | None, calls: int) -> Any:
    """What each call is given, along a new first axis."""
    if value is None:
        return None
    return value.expand(calls, *value.shape) if place is None else value.movedim(place, 0)


def _aligned(sides: Sequence[Tensor | None], batch: int, event: int) -> list[Tensor | None]:
    """Sides (calls, \\*, own event shape), with axes of length 1 for the ``batch`` axes of points that they lack."""
    out: list[Tensor | None] = []
    for side, own in zip(sides, (1, 1, event, event), strict=True):
        missing = 0 if side is None else batch - (side.ndim - 1 - own)
        out.append(side if side is None else side.reshape(len(side), *(1,) * missing, *side.shape[1:]))
    return out


@nearest.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[5:]
    x, *sides = (_stacked(v, place, n) for v, place in zip(inputs[:5], in_dims[:5], strict=True))
    event = options[3]
    z, multipliers = nearest(x, *_aligned(sides, x.ndim - 1 - event, event), *options)
    return (z, multipliers.reshape(n, len(multipliers) // n, multipliers.shape[1])), (0, 0)


@nearest_backward.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[7:]
    grad, multipliers, x, *sides = (_stacked(v, place, n) for v, place in zip(inputs[:7], in_dims[:7], strict=True))
    event = options[3]
    aligned = _aligned(sides, x.ndim - 1 - event, event)
    grads = nearest_backward(grad, multipliers.flatten(0, 1), x, *aligned, *options)
    shapes = [x.shape, *((n, 0) if side is None else side.shape for side in sides)]
    return [g if not g.numel() else g.reshape(shape) for g, shape in zip(grads, shapes, strict=True)], [0] * len(grads)


@nearest_forward.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[11:]
    all_calls = [_stacked(v, place, n) for v, place in zip(inputs[:11], in_dims[:11], strict=True)]
    changes, multipliers, x, sides = all_calls[:5], all_calls[5], all_calls[6], all_calls[7:]
    event = options[3]
    batch = x.ndim - 1 - event
    along = _aligned(changes[1:], batch, event)
    own = _aligned(sides, batch, event)
    return nearest_forward(changes[0], *along, multipliers.flatten(0, 1), x, *own, *options), 0
