r"""A fixed number of steps towards the nearest point, with a factor that is worked out once. Pure functions of tensors.

The nearest point of {x : E x = 0, low <= G x <= high} to y minimises ½|x - y|². G stacks the coordinates themselves,
where they have bounds, on the inequalities' rows, all times the root of the penalty. Splitting on s = G x (ADMM, with
over-relaxation α) has one vector t for the copy of s and its multipliers together. It starts at t = G y, so that points
of the set stay where they are:

.. math:: w = \mathrm{clamp}(t), \qquad t \leftarrow t + α\,(F y + T\,(2 w - t) - w), \qquad x = K y + C\,(2 w - t)

with :math:`K = N (N^T (I + G^T G) N)^{-1} N^T` for a basis N of the equalities' null space, F = G K, C = K Gᵀ and
T = G K Gᵀ: one product a step, no solver, no branch. It compiles, exports and runs on any device. What comes out meets
the equalities and is near the set, not in it: a shrink has to follow.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.maps.graphs import is_plain
from rayhull.sets.rows import Array

# Chosen on ten sets (dense rows, flows, storage, ramps, Birkhoff, cones): fewest steps to 2 % of the way.
RELAXATION, PENALTY = 1.8, 2.0
ROOT = math.sqrt(PENALTY)  # limits of G x are those of the rows and bounds times this


class Factor(NamedTuple):
    """The constants of the steps, as arrays or tensors.

    Shape: rows G, first F (k, n); turn T (k, k), or B (k, r) with T = B Bᵀ where that is less; last C (n, k);
        onto K (n, n)
    """

    rows: Any
    first: Any
    turn: Any
    last: Any
    onto: Any


def factor(rows: Array, null: Array | None, *, bounded: bool) -> Factor:
    """The factor of {E x = 0, G x within limits}.

    Args:
        rows: the inequalities' rows (m, n), of about unit length.
        null: an orthonormal basis (n, q) of the equalities' null space; None without equalities.
        bounded: whether the coordinates have bounds, which come before the rows.

    Examples:
        >>> import numpy as np, torch
        >>> from rayhull.maps.steps import ROOT, Factor, factor, splitting
        >>> found = Factor(*map(torch.as_tensor, factor(np.array([[0.6, 0.8]]), None, bounded=False)))
        >>> low, high = torch.tensor([-torch.inf]), torch.tensor([ROOT])
        >>> splitting(torch.tensor([[3.0, 4.0]], dtype=torch.float64), found, low, high, steps=40).round(decimals=6)
        tensor([[0.6000, 0.8000]], dtype=torch.float64)
    """
    n = rows.shape[1]
    stacked = ROOT * (np.vstack([np.eye(n), rows]) if bounded else rows)
    basis = np.eye(n) if null is None else null
    inside = basis.T @ basis + (stacked @ basis).T @ (stacked @ basis)
    half = scipy.linalg.solve_triangular(np.linalg.cholesky(inside), basis.T, lower=True).T  # K = half halfᵀ
    onto, thin = half @ half.T, stacked @ half
    turn = thin if thin.shape[0] > 2 * thin.shape[1] else thin @ thin.T
    return Factor(stacked, stacked @ onto, turn, onto @ stacked.T, onto)


def splitting(
    y: Tensor, factor: Factor, low: Tensor, high: Tensor, steps: int, *, wide: Factor | None = None
) -> Tensor:
    """y moved by ``steps`` steps towards the nearest point.

    Args:
        y: the points.
        factor: the constants as tensors.
        low, high: limits (k,) of G x, or of each sample (\\*, k); infinite where there is none.
        wide: the constants in float64, for the compiled kernel; None: tensor operations.

    Shape: (\\*, n) → (\\*, n)
    """
    if wide is not None and is_plain(y) and operators.available():
        return _compiled(y, wide, low, high, steps)
    return in_tensor_operations(y, factor, low, high, steps)


def in_tensor_operations(y: Tensor, factor: Factor, low: Tensor, high: Tensor, steps: int) -> Tensor:
    """The definition."""
    t, start = y @ factor.rows.mT, y @ factor.first.mT
    for _ in range(steps):
        w = clamped(t, low, high)
        t = t + RELAXATION * (start + _turned(2 * w - t, factor.turn) - w)
    return y @ factor.onto + (2 * clamped(t, low, high) - t) @ factor.last.mT


def _turned(q: Tensor, turn: Tensor) -> Tensor:
    return q @ turn if turn.shape[0] == turn.shape[1] else (q @ turn) @ turn.mT


def clamped(x: Tensor, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    """min(max(x, lower), upper); a side that is None is open.

    Shape: x (\\*, d), lower and upper (d,) or (\\*, d) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.steps import clamped
        >>> clamped(torch.tensor([-2.0, 0.5]), torch.zeros(2), None)
        tensor([0.0000, 0.5000])
    """
    if lower is not None and upper is not None and not torch.compiler.is_compiling():
        return torch.clamp(x, lower, upper)
    x = x if lower is None else torch.maximum(x, lower)  # ONNX has no clamp between tensors
    return x if upper is None else torch.minimum(x, upper)


def _compiled(y: Tensor, factor: Factor, low: Tensor, high: Tensor, steps: int) -> Tensor:
    """One operator for all steps of all samples."""
    shape = y.shape
    low, high = (v.expand(*shape[:-1], -1).flatten(0, -2) if v.ndim > 1 else v[None] for v in (low, high))
    flat = y.reshape(-1, shape[-1])
    if torch.is_grad_enabled() and (y.requires_grad or low.requires_grad or high.requires_grad):
        x: Tensor = Splitting.apply(flat, low, high, factor, steps)  # type: ignore[no-untyped-call]
    else:
        x = operators.splitting(flat, *factor, low.double(), high.double(), steps, RELAXATION, keep=False)[0]
    return x.reshape(shape)


class Splitting(torch.autograd.Function):
    """The operator with its own backward pass; second derivatives are those of the tensor operations."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, low: Tensor, high: Tensor, factor: Factor, steps: int) -> Tensor:
        x, states = operators.splitting(y, *factor, low.double(), high.double(), steps, RELAXATION, keep=True)
        ctx.save_for_backward(y, low, high, states)
        ctx.factor, ctx.steps = factor, steps
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, low, high, states = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            own = Factor(*(v.to(y.dtype) for v in ctx.factor))
            x = in_tensor_operations(y, own, low.to(y.dtype), high.to(y.dtype), ctx.steps)
            wanted = [v for v in (y, low, high) if v.requires_grad]
            found = iter(torch.autograd.grad(x, wanted, g, create_graph=True, allow_unused=True))
            return *(next(found) if v.requires_grad else None for v in (y, low, high)), None, None
        constants: Any = (*ctx.factor, ctx.steps, RELAXATION)
        gy, *bounds = operators.splitting_backward(g.to(y.dtype), states, *constants)
        sides = (b.sum_to_size(v.shape).to(v.dtype) for b, v in zip(bounds, (low, high), strict=True))
        return gy, *sides, None, None
