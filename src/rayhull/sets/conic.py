r"""An interior-point method for rows and cones, many samples at once: what interior and nearest points are found by.

.. math:: \min_y \tfrac12 y^T D y - r \cdot y \quad\text{with}\quad s = c + G y \in K

K is a product of second-order cones, a row being one of one entry. Steps are Nesterov and Todd's with Mehrotra's
corrector; with a ``level`` they end at the point of the central path where s ∘ λ = level, the minimiser of a barrier.
Where the minimiser itself is wanted, Newton steps on s = Π(s - λ), Π the projection onto K, give it its last digits;
their matrix is that of the implicit derivative, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rayhull.exact.numbers import Array
from rayhull.sets.cones import gauge, lengths

STEPS, STALLED = 60, 4  # at most so many steps, and so many that bring nothing
DONE = 1e-13  # the residual at which steps end, and Newton steps on the active set go on
POLISH, TOUCH = 8, 1e-14  # of those Newton steps; what keeps dependent active rows apart
TINY = 1e-300


class Solution(NamedTuple):
    """Points (n, q), slacks and multipliers (n, K, 1 + k) of each kind of cone, and the KKT errors (n,)."""

    y: Array
    s: list[Array]
    multipliers: list[Array]
    residual: Array


@dataclass(frozen=True, eq=False)
class Conic:
    """A problem: rows G (K, 1 + k, q) and constants c (n, K, 1 + k) of each kind of cone, D (q,), r (n, q)."""

    G: Sequence[Array]
    c: Sequence[Array]
    D: Array
    r: Array

    def lift(self, y: Array) -> list[Array]:
        return [(y @ g.reshape(-1, g.shape[-1]).T).reshape(len(y), *g.shape[:2]) for g in self.G]

    def drop(self, v: Sequence[Array]) -> Array:
        return np.asarray(
            sum(a.reshape(len(a), -1) @ g.reshape(-1, g.shape[-1]) for g, a in zip(self.G, v, strict=True))
        )

    def size(self) -> Array:
        """The size of each sample's numbers (n,)."""
        each = [lengths(self.r), *(lengths(v.reshape(len(v), -1)) for v in self.c)]
        return np.maximum(np.max(each, axis=0), 1.0)

    def misses(self, y: Array, s: list[Array], m: list[Array]) -> tuple[Array, list[Array]]:
        """What is left of stationarity and of s = c + G y."""
        return self.D * y - self.r - self.drop(m), [a - b for a, b in zip(self.slack(y), s, strict=True)]

    def residual(self, y: Array, s: list[Array], m: list[Array], level: float = 0.0) -> Array:
        """The KKT error (n,): stationarity, feasibility, complementarity over their sizes; NaN is the largest."""
        dual, primal = self.misses(y, s, m)
        size = self.size()
        gap = np.abs(_products(s, m) - level * sum(v.shape[1] for v in s)) / size**2
        parts = [gap, lengths(dual) / size, *(lengths(v.reshape(len(v), -1)) / size for v in primal)]
        return np.nan_to_num(np.max(parts, axis=0), nan=1e300, posinf=1e300)

    def hessian(self, scalings: Sequence[Scaling]) -> Array:
        """D + Gᵀ W⁻² G = D + Σ (2 q qᵀ - g gᵀ + Σ e eᵀ) / η², q = Gᵀ J w: (n, q, q)"""
        found = np.diag(self.D)[None]
        for g, w in zip(self.G, scalings, strict=True):
            sign, flat = np.append(-1.0, np.ones(g.shape[1] - 1)), g.reshape(-1, g.shape[-1])
            q = np.einsum("nka,kaq->nkq", w.w * -sign, g, optimize=True) / w.eta[..., None]
            weights = (sign / w.eta[..., None] ** 2).reshape(len(q), -1)
            found = found + 2 * q.swapaxes(1, 2) @ q + (flat.T * weights[:, None]) @ flat
        found = np.nan_to_num(found, posinf=1.0, neginf=1.0)
        return np.asarray(found + np.eye(len(self.D)) * (1e-15 * np.abs(found).max((1, 2), keepdims=True) + 1e-100))

    def natural_residual(self, y: Array, m: list[Array]) -> Array:
        """|D y - r - Gᵀλ| and |s - Π(s - λ)| over their sizes (n,): 0 at a minimiser and nowhere else."""
        each = [lengths(self.D * y - self.r - self.drop(m)) / self.size()]
        for s, a, b in zip(self.slack(y), m, self.c, strict=True):
            miss, own = ((lengths(v.reshape(len(v), -1))) for v in (s - _onto(s - a), b))
            each.append(miss / (own + lengths((s - b).reshape(len(s), -1)) + 1e-3 * self.size()))  # all 0 at an apex
        return np.nan_to_num(np.max(each, axis=0), nan=1e300, posinf=1e300)

    @np.errstate(all="ignore")
    def polished(self, y: Array, m: list[Array]) -> Solution:
        """Newton steps on s = Π(s - λ); for D = 1. The best of them for each sample."""
        best, out = self.natural_residual(y, m), (y, m)
        for _ in range(POLISH):
            y, m = self._newton(y, m, self.r + self.drop(m) - y)
            found = self.natural_residual(y, m)
            better = found < best
            out = _picked(better, y, out[0]), [_picked(better, a, b) for a, b in zip(m, out[1], strict=True)]
            best = np.where(better, found, best)
            if not better.any():
                break
        y, m = out
        for _ in range(2):  # onto the cones: r + Gᵀλ of a point far away has lost digits
            y = self._newton(y, m, 0 * y)[0]
        better = self.natural_residual(y, m) < np.maximum(2 * best, DONE)
        y = _picked(better, y, out[0])
        return Solution(y, self.slack(y), m, self.natural_residual(y, m))

    def slack(self, y: Array) -> list[Array]:
        return [a + b for a, b in zip(self.c, self.lift(y), strict=True)]

    def _newton(self, y: Array, m: list[Array], miss: Array) -> tuple[Array, list[Array]]:
        s = self.slack(y)
        V, B = self.newton_matrix(s, m)
        outer = _joined(self.lift(miss))[..., None]
        right = _joined([_onto(a - b) - a for a, b in zip(s, m, strict=True)])[..., None] - outer + V @ outer
        step = _split(np.linalg.solve(B, np.nan_to_num(right))[..., 0], m)
        return y + miss + self.drop(step), [a + b for a, b in zip(m, step, strict=True)]

    def newton_matrix(self, s: list[Array], m: list[Array]) -> tuple[Array, Array]:
        """V, the derivative of Π at s - λ, and B = (I - V) G Gᵀ + V: (n, M, M)"""
        sizes = [a.shape[1] * a.shape[2] for a in s]
        V, at = np.zeros((len(s[0]), sum(sizes), sum(sizes))), 0
        for a, b in zip(s, m, strict=True):
            blocks, k = _slope(a - b), a.shape[2]
            for i in range(a.shape[1]):
                V[:, at : at + k, at : at + k] = blocks[:, i]
                at += k
        flat = np.concatenate([g.reshape(-1, g.shape[-1]) for g in self.G])
        gram = flat @ flat.T + TOUCH * np.eye(len(flat))
        return V, gram - V @ gram + V

    @np.errstate(all="ignore")
    def solve(self, y: Array, level: float = 0.0) -> Solution:
        """The minimiser, from any y; the best of all steps for each sample."""
        s = [_inside(v) for v in self.slack(y)]
        m = [_axis(v) * self.size()[:, None, None] for v in s]
        best, stalled = Solution(y, s, m, self.residual(y, s, m, level)), 0
        for _ in range(STEPS):
            y, s, m = self._step(y, s, m, level)
            found = self.residual(y, s, m, level)
            better, useful = found < best.residual, found < 0.5 * best.residual
            stalled = 0 if useful.any() else stalled + 1
            if (best.residual <= DONE).all() or stalled == STALLED:
                break
            pick = [_picked(better, a, b) for a, b in zip((y, *s, *m, found), _flat(best), strict=True)]
            best = Solution(pick[0], pick[1 : 1 + len(s)], pick[1 + len(s) : -1], pick[-1])
        return best

    def _step(self, y: Array, s: list[Array], m: list[Array], level: float) -> tuple[Array, list[Array], list[Array]]:
        scalings = [Scaling.of(a, b) for a, b in zip(s, m, strict=True)]
        hessian, (dual, primal) = self.hessian(scalings), self.misses(y, s, m)
        v = [w.times(a) for w, a in zip(scalings, m, strict=True)]

        def direction(r: list[Array]) -> tuple[Array, list[Array], list[Array]]:
            parts = [w.times(a - w.times(p, -1), -1) for w, a, p in zip(scalings, r, primal, strict=True)]
            dy = np.linalg.solve(hessian, np.nan_to_num(self.drop(parts) - dual)[..., None])[..., 0]
            ds = [a + p for a, p in zip(self.lift(dy), primal, strict=True)]
            return dy, ds, [w.times(a - w.times(d, -1), -1) for w, a, d in zip(scalings, r, ds, strict=True)]

        _, ds, dm = direction([-a for a in v])
        gap = _products(s, m) / sum(a.shape[1] for a in s)
        target = np.maximum((1 - _step_length(s, ds, m, dm)) ** 3 * gap, level)[:, None, None]
        r = []
        for w, a, da, db in zip(scalings, v, ds, dm, strict=True):
            cross = _jordan(w.times(da, -1), w.times(db)) + _jordan(a, a)
            r.append(_quotient(a, target * _axis(a) - cross))
        moves = direction(r)
        length = 0.99 * _step_length(s, moves[1], m, moves[2])
        ys, ss, ms = ([_moved(a, d, length) for a, d in zip(old, new, strict=True)]
                      for old, new in (([y], [moves[0]]), (s, moves[1]), (m, moves[2])))  # fmt: skip
        return ys[0], ss, ms


@dataclass(frozen=True, eq=False)
class Scaling:
    """Nesterov and Todd's W with W λ = W⁻¹ s, for cones (n, K, 1 + k)."""

    w: Array
    eta: Array

    @classmethod
    def of(cls, s: Array, m: Array) -> Scaling:
        a, b = _size(s), _size(m)
        s, m = s / a[..., None], m / b[..., None]
        half = np.sqrt((1 + (s * m).sum(-1)) / 2)
        return cls((s + _flipped(m)) / (2 * half[..., None]), np.sqrt(a / b))

    def times(self, v: Array, sign: int = 1) -> Array:
        """W v, or W⁻¹ v for sign = -1."""
        head, tail = self.w[..., :1], self.w[..., 1:]
        along = (tail * v[..., 1:]).sum(-1, keepdims=True)
        rest = v[..., 1:] + tail * (sign * v[..., :1] + along / (1 + head))
        return np.concatenate([head * v[..., :1] + sign * along, rest], -1) * self.eta[..., None] ** sign


def _size(s: Array) -> Array:
    """√(s0² - |s1|²)."""
    length = lengths(s[..., 1:])
    return np.sqrt(np.maximum((s[..., 0] - length) * (s[..., 0] + length), TINY))


def _flipped(s: Array) -> Array:
    return np.concatenate([s[..., :1], -s[..., 1:]], -1)


def _axis(s: Array) -> Array:
    return np.concatenate([np.ones_like(s[..., :1]), np.zeros_like(s[..., 1:])], -1)


def _products(s: list[Array], m: list[Array]) -> Array:
    return np.asarray(sum((a * b).sum((1, 2)) for a, b in zip(s, m, strict=True)))


def _jordan(a: Array, b: Array) -> Array:
    """a ∘ b = (a·b, a0 b1 + b0 a1)."""
    return np.concatenate([(a * b).sum(-1, keepdims=True), a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:]], -1)


def _quotient(v: Array, d: Array) -> Array:
    """x with v ∘ x = d."""
    first = ((_flipped(v) * d).sum(-1) / _size(v) ** 2)[..., None]
    return np.concatenate([first, (d[..., 1:] - first * v[..., 1:]) / v[..., :1]], -1)


def _inside(s: Array) -> Array:
    """s moved along the axis of its cone until it is well inside."""
    depth, size = s[..., 0] - lengths(s[..., 1:]), 1 + lengths(s.reshape(len(s), -1))[:, None]
    return np.asarray(s + _axis(s) * np.where(depth < 0.1 * size, size - depth, 0.0)[..., None])


def _step_length(s: list[Array], ds: list[Array], m: list[Array], dm: list[Array]) -> Array:
    """The longest step, 1 at most, that stays in the cones (n,)."""
    used = [gauge(a, d).max(1, initial=0.0) for a, d in zip([*s, *m], [*ds, *dm], strict=True)]
    return 1 / np.maximum(np.nan_to_num(np.max(used, axis=0), nan=1e30), 1.0)


def _onto(z: Array) -> Array:
    """The nearest point of the cone."""
    r = lengths(z[..., 1:])[..., None]
    head = np.clip((z[..., :1] + r) / 2, 0.0, None)
    across = np.concatenate([head, z[..., 1:] * (head / np.maximum(r, TINY))], -1)
    return np.where(z[..., :1] >= r, z, np.where(z[..., :1] <= -r, 0.0, across))


def _slope(z: Array) -> Array:
    """The derivative of :func:`_onto`: (n, K, 1 + k) → (n, K, 1 + k, 1 + k)"""
    r, k = lengths(z[..., 1:])[..., None, None], z.shape[-1] - 1
    w, share = z[..., 1:] / np.maximum(r[..., 0], TINY), z[..., :1, None] / np.maximum(r, TINY)
    found = np.zeros((*z.shape, k + 1))
    found[..., 0, 0], found[..., 0, 1:], found[..., 1:, 0] = 0.5, w / 2, w / 2
    found[..., 1:, 1:] = ((1 + share) * np.eye(k) - share * w[..., None] * w[..., None, :]) / 2
    head = z[..., :1, None]
    return np.where(head >= r, np.eye(k + 1), np.where(head <= -r, 0.0, found))


def _joined(v: list[Array]) -> Array:
    return np.concatenate([a.reshape(len(a), -1) for a in v], 1)


def _split(flat: Array, like: list[Array]) -> list[Array]:
    ends = np.cumsum([a.shape[1] * a.shape[2] for a in like])[:-1]
    return [part.reshape(a.shape) for part, a in zip(np.split(flat, ends, 1), like, strict=True)]


def _moved(old: Array, step: Array, length: Array) -> Array:
    return np.asarray(old + length.reshape(-1, *(1,) * (old.ndim - 1)) * np.nan_to_num(step, posinf=0.0, neginf=0.0))


def _picked(better: Array, new: Array, old: Array) -> Array:
    return np.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)


def _flat(solution: Solution) -> list[Array]:
    return [solution.y, *solution.s, *solution.multipliers, solution.residual]
