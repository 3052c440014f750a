r"""Strictly interior points of many sets at once: phase 1 and centring by damped Newton steps. Tensor programs.

For {y : G y <= c}, with rows of unit length, phase 1 lowers the largest excess t until it is negative,

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

GROWTH, FEASIBLE = 8.0, 1e-9  # of η in each step; excess below which a sample counts as inside, in units of R
TO_BOUNDARY = 0.95  # the share of the way to the boundary that a step may take
SHARES = (1.0, 0.5, 0.25, 0.1, 0.02)  # of the largest step, tried by the line search
CONVERGED = 1e-14  # squared Newton decrement
LARGEST_ETA, RIDGE = 1e12, 1e-6  # of phase 1: no weight beyond it; for directions that no row bounds


class Interior(NamedTuple):
    """What phase 1 found: points (n, d), and the least slack (n,) of their unit rows, positive where inside."""

    point: Tensor
    slack: Tensor


def interior_points(rows: Tensor, rhs: Tensor, *, scale: float = 1.0, steps: int = 40) -> Interior:
    """A well-centred point of each set {y : G y <= c}; differentiable in G and c.

    The derivative is that of the centre: at the minimiser one Newton step has the derivative of the minimiser itself.

    Args:
        rows: G (m, d) for all samples, or (n, m, d).
        rhs: c (n, m); infinite where a row says nothing.
        scale: R, the size of the data.
        steps: at most as many Newton steps in each of the two parts.

    Examples:
        >>> import torch
        >>> from rayhull.maps.phase_one import interior_points
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
    y = torch.where(inside[:, None], _newton_step(G, c, y, scale), y)
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


def _newton_step(G: Tensor, c: Tensor, y: Tensor, scale: float) -> Tensor:
    """One step of the barrier's Newton method, its matrix held fixed: autograd sees the derivative of the minimiser."""
    slack = c - (G @ y[..., None])[..., 0]
    slack = torch.where(slack > 0, slack, torch.ones_like(slack))
    gradient, hessian = _barrier(G, slack, y, scale)
    return y - _solve(hessian.detach(), gradient)


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
