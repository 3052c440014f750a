r"""Rows that each sample brings: products, dual steps, a proof by rounding errors, interior points. Tensor programs.

Rows are G (m, k), the same for all samples, or (n, m, k); right-hand sides c (n, m); points w (n, k).

Interior points of many sets at once take damped Newton steps. For {y : G y <= c}, with rows of unit length, phase 1
lowers the largest excess t until it is negative,

.. math:: \min_{y,t}\; η t - \sum_i \log(t + c_i - g_i·y) - \log(R + t),

and centring then solves

.. math:: \min_y\; -\sum_i \log(c_i - g_i·y) + m \sqrt{1 + |y|^2 / (d R^2)}.

The last term keeps points of unbounded sets at the scale R of the data, and pulls no harder at sets that are far away.
The slack of the answer certifies it; a sample whose slack is not positive is empty, or too thin to tell.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rayhull.maps.approach import momenta
from rayhull.maps.shrink import as_single, gamma

LONGER, MOST = 1.3, 0.8  # of dual steps: their length over the bound of 1 / ‖G‖₂², and the most momentum
SQUARINGS = 3  # of the matrix whose largest eigenvalue is bounded
GROWTH, FEASIBLE = 8.0, 1e-9  # of η in each step; excess below which a sample counts as inside, in units of R
TO_BOUNDARY = 0.95  # the share of the way to the boundary that a step may take
SHARES = (1.0, 0.5, 0.25, 0.1, 0.02)  # of the largest step, tried by the line search
CONVERGED = 1e-14  # squared Newton decrement
LARGE = 1e30  # slack of a row that says nothing
LARGEST_ETA, RIDGE = 1e12, 1e-6  # of phase 1: no weight beyond it; for directions that no row bounds


# -- rows of the sample ----------------------------------------------------------------------------------------------


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


def finite_size(rhs: Tensor) -> Tensor:
    """|c|, and 0 where a row says nothing. Shape: (n, m) → (n, m)"""
    return torch.where(rhs.isinf(), 0.0, rhs.abs())


def approach_rows(w: Tensor, rows: Tensor, rhs: Tensor, steps: int, step: Tensor | None = None) -> Tensor:
    """w moved by accelerated dual steps towards {G w <= c}; right-hand sides may be infinite.

    ``step`` is :func:`step_of` the rows if None. Where G Gᵀ is no larger than G, a step is one product with it, not two
    with G. Full momentum carries multipliers past their limits: it is capped (MOST), and steps are longer (LONGER).

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import approach_rows
        >>> approach_rows(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0]]), steps=40)
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
    for momentum in momenta(steps, MOST):
        new = torch.relu(pull + combined(turn, ahead))
        ahead, last = torch.lerp(last, new, 1 + momentum), new
    return last


def _by_points(w: Tensor, rows: Tensor, rhs: Tensor, steps: int, step: Tensor) -> Tensor:
    """λ after the steps, by the points w - Gᵀμ themselves."""
    last = ahead = torch.zeros_like(rhs)
    for momentum in momenta(steps, MOST):
        new = torch.relu(ahead + step * (times(rows, w - combined(rows, ahead)) - rhs))
        ahead, last = torch.lerp(last, new, 1 + momentum), new
    return last


def step_of(rows: Tensor) -> Tensor:
    """LONGER / L with L >= ‖G‖₂² (:func:`squared_norm_bound`). Shape: (1,) or (n, 1)

    Such steps with momentum MOST converge, since LONGER < 2 (1 + MOST) / (1 + 2 MOST): see :mod:`maps.approach`.
    """
    if not rows.numel():
        return rows.new_ones(*rows.shape[:-2], 1)
    return squared_norm_bound(rows).clamp_min(torch.finfo(rows.dtype).tiny).reciprocal() * LONGER


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


def onto_two_rows(u: Tensor, rows: Tensor, rhs: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest point that meets one or two rows, in closed form, and whether it was found.

    Where one row alone leads to a point that meets both, it is that row's; otherwise both are met with equality. It is
    not found where both bind and are almost parallel, or where a row of zeros does not hold. The rounding errors of
    two rows at a small angle are mended by a second call.

    Shape: u (n, d), rows (n, m, d) with m = 1 or 2, rhs (n, m) → (n, d), (n,)

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import onto_two_rows
        >>> A, b = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]), torch.tensor([[1.0, 1.0]])
        >>> onto_two_rows(torch.tensor([[3.0, 0.0]]), A, b), onto_two_rows(torch.tensor([[3.0, -9.0]]), A, b)
        ((tensor([[1., 0.]]), tensor([True])), (tensor([[ 1., -9.]]), tensor([True])))
    """
    norms = rows.norm(dim=-1).clamp_min(torch.finfo(u.dtype).tiny)
    unit = rows / norms.unsqueeze(-1)
    over = ((times(rows, u) - rhs) / norms).clamp_min(-LARGE)
    possible = (rows.ne(0).any(-1) | (rhs >= 0)).all(-1)
    if rows.shape[-2] == 1:
        return u - combined(unit, over.relu()), possible
    cosine = (unit[:, :1] * unit[:, 1:]).sum(-1)  # (n, 1)
    alone = over.relu()
    left = over - cosine * alone.flip(-1)  # of each row, once the other one is met
    both, sine = (left > 0).all(-1, keepdim=True), (1 - cosine) * (1 + cosine)
    apart = sine > torch.finfo(u.dtype).eps ** 0.5
    meet = (over - cosine * over.flip(-1)) / torch.where(apart, sine, 1.0)
    first = left[:, 1:] <= 0  # the first row alone serves, else the second
    single = torch.cat([torch.where(first, alone[:, :1], 0.0), torch.where(first, 0.0, alone[:, 1:])], 1)
    x = u - combined(unit, torch.where(both, meet, single))
    return x, possible & (apart | ~both).squeeze(-1)


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
    error = as_single(gamma(x.shape[-1])) * (times(rows.abs(), x.abs()) + finite_size(rhs))
    single = ((rows != 0).sum(-1) == 1) & (rows.abs().sum(-1) == 1)
    error = torch.where(single, torch.zeros_like(error), error)
    return (times(rows, x) + error <= rhs).all(-1) & x.isfinite().all(-1)


# -- interior points -------------------------------------------------------------------------------------------------


class Interior(NamedTuple):
    """What phase 1 found: points (n, d), and the least slack (n,) of their unit rows, positive where inside."""

    point: Tensor
    slack: Tensor


def interior_points(rows: Tensor, rhs: Tensor, *, scale: float = 1.0, steps: int = 40) -> Interior:
    """A well-centred point of each set {y : G y <= c}; differentiable in G and c.

    Its first and second derivatives are those of the centre: at the minimiser Newton steps have them.

    Args:
        rows: G (m, d) for all samples, or (n, m, d).
        rhs: c (n, m); infinite where a row says nothing.
        scale: R, the size of the data.
        steps: at most as many Newton steps in each of the two parts.

    Examples:
        >>> import torch
        >>> from rayhull.maps.sample_rows import interior_points
        >>> G = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        >>> found = interior_points(G, torch.tensor([[3.0, -1.0, 1.0, 1.0], [1.0, -2.0, 1.0, 1.0]]))
        >>> found.point[0].round(decimals=1), (found.slack > 0).tolist()        # 1 <= x <= 3; the second is empty
        (tensor([1.4000, 0.0000]), [True, False])
    """
    wide = rows.expand(len(rhs), -1, -1) if rows.ndim == 2 else rows
    norms = wide.norm(dim=-1).clamp_min(torch.finfo(wide.dtype).tiny)
    G, c = wide / norms[..., None], (rhs / norms).clamp_max(1e6 * scale)
    with torch.no_grad():
        y, t = _phase_one(G, c, scale, steps)
        inside = t < -FEASIBLE * scale
        y = _centred(G, c, y, inside, scale, steps)
    y = torch.where(inside[:, None], _newton_steps(G, c, y, scale), y)
    slack = (c - (G @ y[..., None])[..., 0]).amin(1)
    return Interior(y, torch.where(inside, slack, -t))


def _phase_one(G: Tensor, c: Tensor, scale: float, steps: int) -> tuple[Tensor, Tensor]:
    """Points and their largest excess t, negative once inside; stops when all are well inside or steps run out."""
    n, m, d = G.shape
    rows = torch.cat([G, -G.new_ones(n, m, 1)], -1)  # over (y, t): the slack is c - rows·(y, t)
    v = torch.cat([G.new_zeros(n, d), ((-c).amax(1) + scale).clamp_min(0.0)[:, None]], 1)
    eta = G.new_full((n,), float(m) / scale)
    ridge = RIDGE / scale**2 * torch.eye(d + 1, dtype=G.dtype, device=G.device)
    left = 2  # two more steps once every sample is inside
    for _ in range(steps):
        slack, room = c - (rows @ v[..., None])[..., 0], v[:, -1] + scale
        weighted = rows / slack[..., None]
        gradient = weighted.sum(1)
        gradient[:, -1] += eta - 1 / room
        hessian = weighted.mT @ weighted + ridge
        hessian[:, -1, -1] += 1 / room**2
        step = -_solve(hessian, gradient)
        change = -(rows @ step[..., None])[..., 0]
        longest = torch.maximum((-change / slack).amax(1), -step[:, -1] / room).clamp_min(TO_BOUNDARY)
        v = v + (TO_BOUNDARY / longest)[:, None] * step
        inside = v[:, -1] < -FEASIBLE * scale
        eta = torch.where(inside, eta, (eta * GROWTH).clamp_max(LARGEST_ETA / scale))
        left -= int(bool(inside.all()))
        if left < 0:
            break
    excess = ((G @ v[:, :-1, None])[..., 0] - c).amax(1)
    return v[:, :-1], excess


def _centred(G: Tensor, c: Tensor, y: Tensor, inside: Tensor, scale: float, steps: int) -> Tensor:
    """Newton steps to the minimiser of the barrier from points inside; the others stay."""
    shares = torch.tensor(SHARES, dtype=G.dtype, device=G.device)[:, None]  # (k, 1)
    for _ in range(steps):
        slack = torch.where(inside[:, None], c - (G @ y[..., None])[..., 0], torch.ones_like(c))
        gradient, hessian = _barrier(G, slack, y, scale)
        step = -_solve(hessian, gradient)
        change = -(G @ step[..., None])[..., 0]
        if bool(((gradient * step).sum(1).abs()[inside] < CONVERGED).all()):
            break
        longest = TO_BOUNDARY / (-change / slack).amax(1).clamp_min(TO_BOUNDARY)
        lengths = shares * longest  # (k, n)
        after = y + lengths[..., None] * step  # (k, n, d)
        value = -(slack + lengths[..., None] * change).log().sum(-1) + G.shape[1] * _distance(after, scale)
        best = torch.where(value.isnan(), torch.inf, value).argmin(0)  # (n,)
        moved = after[best, torch.arange(len(y), device=y.device)]
        y = torch.where(inside[:, None], moved, y)
    return y


def _newton_steps(G: Tensor, c: Tensor, y: Tensor, scale: float) -> Tensor:
    """Two steps of the barrier's Newton method, their matrix held fixed: autograd sees derivatives of the minimiser.

    The first step has its first derivatives, the second one its second derivatives too.
    """
    matrix = None
    for _ in range(2):
        slack = c - (G @ y[..., None])[..., 0]
        slack = torch.where(slack > 0, slack, torch.ones_like(slack))
        gradient, hessian = _barrier(G, slack, y, scale)
        matrix = hessian.detach() if matrix is None else matrix
        y = y - _solve(matrix, gradient)
    return y


def _barrier(G: Tensor, slack: Tensor, y: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Gradient (n, d) and Hessian (n, d, d) of -Σ log(slack) + m sqrt(1 + |y|² / (d R²))."""
    m, d = G.shape[1:]
    weighted = G / slack[..., None]
    far, unit = _distance(y, scale)[:, None], d * scale**2
    pull = m / unit * y / far
    eye = torch.eye(d, dtype=G.dtype, device=G.device)
    bend = m / unit * (eye / far[..., None] - y[:, :, None] * y[:, None, :] / (unit * far[..., None] ** 3))
    return weighted.sum(1) + pull, weighted.mT @ weighted + bend


def _distance(y: Tensor, scale: float) -> Tensor:
    """sqrt(1 + |y|² / (d R²)). Shape: (\\*, d) → (\\*)."""
    return (1 + y.square().sum(-1) / (y.shape[-1] * scale**2)).sqrt()


def _solve(hessian: Tensor, gradient: Tensor) -> Tensor:
    factor, _ = torch.linalg.cholesky_ex(hessian)
    return torch.cholesky_solve(gradient[..., None], factor)[..., 0]
