r"""Rows that each sample brings: products, dual steps, the gauge and a proof by rounding errors. Tensor programs.

Rows are G (m, k), the same for all samples, or (n, m, k); right-hand sides c (n, m); points w (n, k).
"""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.maps.approach import momenta
from rayhull.maps.strict import gamma

SQUARINGS = 3  # of the matrix whose largest eigenvalue is bounded


def times(rows: Tensor, w: Tensor) -> Tensor:
    """g_i·w for every row. Shape: (m, k) or (n, m, k), (n, k) → (n, m)

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import times
        >>> times(torch.tensor([[[1.0, 1.0]], [[1.0, -1.0]]]), torch.tensor([[2.0, 3.0], [2.0, 3.0]]))
        tensor([[ 5.],
                [-1.]])
    """
    return w @ rows.mT if rows.ndim == 2 else (rows @ w.unsqueeze(-1)).squeeze(-1)


def combined(rows: Tensor, weights: Tensor) -> Tensor:
    """Σ v_i g_i. Shape: (m, k) or (n, m, k), (n, m) → (n, k)"""
    return weights @ rows if rows.ndim == 2 else (weights.unsqueeze(-2) @ rows).squeeze(-2)


def approach_rows(w: Tensor, rows: Tensor, rhs: Tensor, steps: int, step: Tensor | None = None) -> Tensor:
    """w moved by accelerated dual steps towards {G w <= c}; right-hand sides may be infinite.

    ``step`` is :func:`step_of` the rows if None. Where G Gᵀ is no larger than G, a step is one product with it, not two
    with G.

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import approach_rows
        >>> approach_rows(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0]]), steps=1)
        tensor([[ 1.5000, -0.5000]])
    """
    if not steps or not rhs.shape[-1]:
        return w
    step = step_of(rows) if step is None else step
    multipliers = _by_gram if rows.shape[-2] <= rows.shape[-1] else _by_points
    return w - combined(rows, multipliers(w, rows, rhs, steps, step))


def _by_gram(w: Tensor, rows: Tensor, rhs: Tensor, steps: int, step: Tensor) -> Tensor:
    """λ after the steps, G (w - Gᵀμ) taken as G w - G Gᵀ μ."""
    pull, scaled = step * (times(rows, w) - rhs), step.unsqueeze(-1) if rows.ndim == 3 else step
    turn = torch.eye(rows.shape[-2], dtype=w.dtype, device=w.device) - scaled * (rows @ rows.mT)
    last = ahead = torch.zeros_like(rhs)
    for momentum in momenta(steps):
        new = torch.relu(pull + combined(turn, ahead))
        ahead, last = torch.lerp(last, new, 1 + momentum), new
    return last


def _by_points(w: Tensor, rows: Tensor, rhs: Tensor, steps: int, step: Tensor) -> Tensor:
    """λ after the steps, by the points w - Gᵀμ themselves."""
    last = ahead = torch.zeros_like(rhs)
    for momentum in momenta(steps):
        new = torch.relu(ahead + step * (times(rows, w - combined(rows, ahead)) - rhs))
        ahead, last = torch.lerp(last, new, 1 + momentum), new
    return last


def step_of(rows: Tensor) -> Tensor:
    """1 / L with L >= ‖G‖₂² (:func:`squared_norm_bound`): steps of this length converge. Shape: (1,) or (n, 1)"""
    if not rows.numel():
        return rows.new_ones(*rows.shape[:-2], 1)
    return squared_norm_bound(rows).clamp_min(torch.finfo(rows.dtype).tiny).reciprocal()


def squared_norm_bound(rows: Tensor) -> Tensor:
    r"""An upper bound of ‖G‖₂² by products alone: :math:`‖M^8‖_F^{1/8}` with M = G Gᵀ, or GᵀG if that is smaller.

    It is at most r^{1/16} times the true value for rows of rank r (1.3 times at r = 50), and hardly more than it for
    rows in general. An eigenvalue solver takes longer for a batch of small matrices, and has no place in an ONNX graph.

    Shape: (m, k) → (1,), or (n, m, k) → (n, 1)

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import squared_norm_bound
        >>> squared_norm_bound(torch.tensor([[3.0, 0.0], [0.0, 0.0]]))
        tensor([9.])
    """
    power = rows @ rows.mT if rows.shape[-2] <= rows.shape[-1] else rows.mT @ rows
    bound = _frobenius(power)
    for k in range(SQUARINGS):
        power = power / _frobenius(power)
        power = power @ power
        bound = bound * _frobenius(power) ** (0.5 ** (k + 1))
    return bound.squeeze(-1)


def _frobenius(matrix: Tensor) -> Tensor:
    """‖M‖_F, positive for M = 0 too. Shape: (\\*, m, m) → (\\*, 1, 1)"""
    return matrix.square().sum((-2, -1), keepdim=True).clamp_min(torch.finfo(matrix.dtype).tiny).sqrt()


def onto_independent_rows(u: Tensor, rows: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    r"""u - A^+ relu(A u - b) by one Cholesky factor for each sample, and whether its rows were independent.

    Rows that u meets stay as they are, the others are met with equality: the identity inside the set. It needs no base
    point and no solver.

    Shape: u (n, d), rows (n, m, d), rhs (n, m) → (n, d), (n,)

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import onto_independent_rows
        >>> A, b = torch.tensor([[[1.0, 1.0]]]), torch.tensor([[1.0]])
        >>> onto_independent_rows(torch.tensor([[2.0, 0.0]]), A, b)
        (tensor([[ 1.5000, -0.5000]]), tensor([True]))
    """
    norms = rows.norm(dim=-1).clamp_min(torch.finfo(u.dtype).tiny)
    unit, over = rows / norms.unsqueeze(-1), torch.relu(times(rows, u) - rhs) / norms
    factor, info = torch.linalg.cholesky_ex(unit @ unit.mT)
    worst = factor.diagonal(dim1=-2, dim2=-1).amin(-1)  # 0 where a row depends on those before it
    independent = (info == 0) & (worst > torch.finfo(u.dtype).eps ** 0.5)
    safe = torch.where(independent[:, None, None], factor, torch.eye(factor.shape[-1], dtype=u.dtype, device=u.device))
    return u - combined(unit, torch.cholesky_solve(over.unsqueeze(-1), safe).squeeze(-1)), independent


def proven(x: Tensor, rows: Tensor, rhs: Tensor) -> Tensor:
    """Whether G x <= c holds in rational arithmetic, as far as float64 can prove it. Shape: x (n, d) → (n,)

    A product of d terms is off by at most γ_d Σ|g_j x_j|, whatever its order. A row of one entry ±1 is compared as it
    is: nothing is rounded.

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import proven
        >>> G, c = torch.tensor([[0.5, 0.25]]), torch.tensor([[0.75]])
        >>> proven(torch.tensor([[0.9, 0.9], [1.0, 1.0], [2.0, 0.0]]), G, c).tolist()        # 1, 1 is a tie
        [True, False, False]
    """
    x, rows, rhs = (t.detach().double() for t in (x, rows, rhs))
    error = gamma(x.shape[-1]) * (times(rows.abs(), x.abs()) + rhs.abs().nan_to_num(posinf=0.0))
    single = ((rows != 0).sum(-1) == 1) & (rows.abs().sum(-1) == 1)
    error = torch.where(single, torch.zeros_like(error), error)
    return (times(rows, x) + error <= rhs).all(-1) & x.isfinite().all(-1)
