"""Derivatives: the projection is linear between its kinks, so one small system of the active rows gives them all.

With D the coordinates at no bound and W the active rows, the Jacobian is D − D G_W^T (G_W D G_W^T)⁺ G_W D. It is
symmetric in y, and constant nearby: backward is the same linear map, and the second derivative is 0.

At a kink (a row or bound that is met without a multiplier) the row or bound counts as absent, as in torch.clamp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rayhull.projection.plan import Plan
from rayhull.projection.problem import Problem
from rayhull.projection.sides import NONE, Sides
from rayhull.projection.solve import Projected

Gradients = tuple[Tensor | None, ...]
SIDES = 4  # b, b_eq, lower, upper; rows of the sample have a derivative of their own


class Nearest(torch.autograd.Function):
    """(x, b, b_eq, lower, upper) → nearest points (n, D); ``solve`` finds them."""

    @staticmethod
    def forward(ctx: Any, solve: Callable[[Tensor, Sides], Projected], x: Tensor, *sides: Tensor | None) -> Tensor:
        given = Sides(*sides)
        done = solve(x, given if given.given else NONE)
        ctx.save_for_backward(
            x, *(v for v in sides if v is not None)
        )  # autograd then sees if they are changed in place
        ctx.pattern = Pattern.of(done)
        ctx.shapes = [None if v is None else v.shape for v in sides]
        ctx.dtypes = [x.dtype, *(None if v is None else v.dtype for v in sides)]
        return done.z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        _ = ctx.saved_tensors
        wanted = [i for i, shape in enumerate(ctx.shapes) if shape is not None and ctx.needs_input_grad[i + 2]]
        pulled = Pull.apply(ctx.pattern, ctx.shapes, wanted, grads[0])  # type: ignore[no-untyped-call]
        return None, *(v if v is None else v.to(t) for v, t in zip(pulled, ctx.dtypes, strict=True))


class Pull(torch.autograd.Function):
    """The transposed derivative; its own derivative is the derivative."""

    @staticmethod
    def forward(ctx: Any, pattern: Pattern, shapes: list[Any], wanted: list[int], grad: Tensor) -> Gradients:
        ctx.pattern, ctx.wanted = pattern, wanted
        return pull(pattern, shapes, wanted, grad)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, None, push(ctx.pattern, grads[0], Sides(*grads[1:]))


@dataclass(frozen=True, eq=False)
class Pattern:
    """For each block its problem and multipliers: what is active follows from them when a derivative is asked for."""

    plan: Plan
    problems: list[Problem]
    multipliers: list[Tensor]

    @staticmethod
    def of(done: Projected) -> Pattern:
        return Pattern(done.plan, done.problems, [s.multipliers for s in done.solutions])

    def __iter__(self) -> Any:
        """(block, problem, active, at_bound, constant) of each."""
        for block, problem, multipliers in zip(self.plan, self.problems, self.multipliers, strict=True):
            constant = (problem.lower > problem.upper).any(1) | multipliers.isnan().any(1)  # no feasible point
            yield block, problem, problem.active(multipliers), problem.at_bound(multipliers), constant[:, None]


def pull(pattern: Pattern, shapes: list[Any], wanted: list[int], grad: Tensor) -> Gradients:
    """Gradients with respect to x and the wanted ones of b, b_eq, lower, upper. Shape: grad (n, D)."""
    n = len(grad)
    out = torch.empty_like(grad)
    full = [grad.new_zeros((n, shapes[i][1]), dtype=torch.float64) if i in wanted else None for i in range(SIDES)]
    for block, problem, active, at_bound, constant in pattern:
        own = block.on(grad.device)
        places = own.places
        g = torch.where(constant, 0.0, places.read_gradient(grad))
        w = _multipliers(problem, torch.where(at_bound == 0, g, 0.0), active, at_bound)
        r = g - problem.matrix.transposed_times(w)
        places.write_gradient(torch.where(at_bound == 0, r, 0.0), out)
        side_of = places.pick(at_bound, -at_bound)  # of the sample's bounds, not of a mirror image's
        for side, rows, part in zip(full[:2], (own.inequalities, own.equalities), block.stated_units(w), strict=True):
            if side is not None:
                side[:, rows] = part
        for bound, sign in ((full[2], -1), (full[3], 1)):
            if bound is not None:
                places.write_gradient(torch.where(side_of == sign, r, 0.0), bound)
    sides = (v if v is None or shapes[i][0] == n else v.sum(0, keepdim=True) for i, v in enumerate(full))
    return (out, *sides)


def push(pattern: Pattern, dx: Tensor, sides: Sides) -> Tensor:
    """The derivative along dx and along changes of b, b_eq, lower, upper. Shape: (n, D) → (n, D)."""
    out, n = torch.empty_like(dx), len(dx)
    for block, problem, active, at_bound, constant in pattern:
        places = block.on(dx.device).places
        z = torch.where(at_bound == 0, places.read(dx), 0.0)
        side_of = places.pick(at_bound, -at_bound)
        for bound, sign in ((sides.lower, -1), (sides.upper, 1)):
            if bound is not None:
                z = torch.where(side_of == sign, places.read(bound.expand(n, -1)), z)
        still = z.new_zeros((1, problem.matrix.count))
        w = _multipliers(problem, z, active, at_bound, block.right_hand_sides(sides, n, still))
        moved = z - torch.where(at_bound == 0, problem.matrix.transposed_times(w), 0.0)
        places.write(torch.where(constant, 0.0, moved), out)
    return out


def _multipliers(problem: Problem, z: Tensor, active: Tensor, at_bound: Tensor, c: Tensor | float = 0.0) -> Tensor:
    """w with G_W D G_W^T w = G_W z − c over the active rows, 0 elsewhere."""
    if not problem.matrix.count:
        return z.new_zeros((len(z), 0))
    q = torch.where(active, problem.matrix.times(z) - c, 0.0)
    return problem.matrix.solve_active(q, active, at_bound)
