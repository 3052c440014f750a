"""Derivatives: the projection is linear between its kinks, so one small system of the active rows gives them all.

With D the free coordinates and W the rows that push, the Jacobian is D − D G_W^T (G_W D G_W^T)⁺ G_W D. It is symmetric
in y, and constant nearby: backward is the same linear map, and the second derivative is 0.

At a kink (a row or bound that is met but does not push) the row or bound counts as absent, as in torch.clamp.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rayhull.projection.plan import Given, Part
from rayhull.projection.problem import Found
from rayhull.projection.solve import Call

Gradients = tuple[Tensor | None, ...]


class Nearest(torch.autograd.Function):
    """(x, b, b_eq, lower, upper) → nearest points (n, D)."""

    @staticmethod
    def forward(ctx: Any, call: Call, x: Tensor, *given: Tensor | None) -> Tensor:
        ctx.call = call
        ctx.shapes = [None if v is None else v.shape for v in given]
        ctx.dtypes = [x.dtype, *(None if v is None else v.dtype for v in given)]
        return call.run(x, Given(*given))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        wanted = [i for i, shape in enumerate(ctx.shapes) if shape is not None and ctx.needs_input_grad[i + 2]]
        pulled = Pull.apply(ctx.call, ctx.shapes, wanted, grads[0])  # type: ignore[no-untyped-call]
        return None, *(v if v is None else v.to(t) for v, t in zip(pulled, ctx.dtypes, strict=True))


class Pull(torch.autograd.Function):
    """The transposed derivative; its own derivative is the derivative."""

    @staticmethod
    def forward(ctx: Any, call: Call, shapes: list[Any], wanted: list[int], grad: Tensor) -> Gradients:
        ctx.call, ctx.wanted = call, wanted
        return pull(call, shapes, wanted, grad)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, None, push(ctx.call, grads[0], Given(*grads[1:]))


def pull(call: Call, shapes: list[Any], wanted: list[int], grad: Tensor) -> Gradients:
    """Gradients with respect to x and the wanted ones of b, b_eq, lower, upper. Shape: grad (n, D)."""
    n = len(grad)
    out = torch.empty_like(grad)
    full = [grad.new_zeros((n, shapes[i][1]), dtype=torch.float64) if i in wanted else None for i in range(4)]
    for part, found in zip(call.parts, call.found, strict=True):
        r, w = _pull_part(part, found, grad)
        part.scatter(torch.where(found.state == 0, r, 0.0), out)
        m = part.way.problem.m
        sides = (w / part.norms.to(w.device)).reshape(n, part.count, -1)
        for side, rows, columns in ((full[0], part.inequalities, slice(m)), (full[1], part.equalities, slice(m, None))):
            if side is not None:
                side[:, rows.to(side.device)] = sides[..., columns]
        for bound, sign in ((full[2], -1), (full[3], 1)):
            if bound is not None:
                part.scatter(torch.where(found.state == sign, r, 0.0), bound)
    given = (v if v is None or shapes[i][0] == n else v.sum(0, keepdim=True) for i, v in enumerate(full))
    return (out, *given)


def _pull_part(part: Part, found: Found, grad: Tensor) -> tuple[Tensor, Tensor]:
    """r = g − G^T w with (G D G^T) w = G D g over the active rows; both in plain coordinates times the root."""
    g = part.to_plain(part.gather(grad))
    q = part.way.products(torch.where(found.state == 0, g, 0.0))
    w = part.way.multipliers(q, found)
    return part.to_standard(g - part.way.combine(w)), w


def push(call: Call, dx: Tensor, given: Given) -> Tensor:
    """The derivative along dx and along changes of b, b_eq, lower, upper. Shape: (n, D) → (n, D)."""
    out = torch.empty_like(dx)
    n = len(dx)
    for part, found in zip(call.parts, call.found, strict=True):
        z = part.to_standard(part.gather(dx))
        z = torch.where(found.state == 0, z, 0.0)
        for bound, sign in ((given.lower, -1), (given.upper, 1)):
            if bound is not None:
                z = torch.where(found.state == sign, part.to_standard(part.gather(bound.expand(n, -1))), z)
        q = part.way.products(z) - _changes(part, given, n, z)
        w = part.way.multipliers(torch.where(found.active, q, 0.0), found)
        moved = z - torch.where(found.state == 0, part.way.combine(w), 0.0)
        part.scatter(part.to_plain(moved), out)
    return out


def _changes(part: Part, given: Given, n: int, like: Tensor) -> Tensor:
    """Changes of the right-hand sides in standard form. Shape: (n · count, M)."""
    norms, sides = part.norms.to(like.device), []
    for value, rows in ((given.b, part.inequalities), (given.b_eq, part.equalities)):
        if value is None:
            sides.append(like.new_zeros((n * part.count, rows.shape[1])))
        else:
            sides.append(value.expand(n, -1)[:, rows.to(like.device)].reshape(n * part.count, -1).to(like.dtype))
    return torch.cat(sides, 1) / norms
