r"""The nearest point of rows and cones, many samples at once, in float64 on the CPU.

Along the equalities z = z0 + N y, and s = c + G y lies in a product K of cones, a row being one of one entry:

.. math:: \min_y \tfrac12 |y - p|^2 \text{ with } s \in K: \qquad y = p + G^T λ, \quad λ = Π(λ - s)

Multipliers λ ← Π(λ - σ s), at the minimiser in y of ½ |y - p|² + |Π(λ - σ s)|² / 2σ, come near: the augmented
Lagrangian, by Newton steps with a line search. After each σ a few Newton steps on the two equations give the last
digits, whether they go down or not: the best of all is kept, and a last one carries the derivative. Every answer has
its KKT residual; what cannot be certified raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.projection.sides import Sides, flat_points, flat_sides
from rayhull.sets.conic_interior import Along, Rules, joined

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet

CHUNK = 20_000_000  # numbers of all samples' matrices together
CERTIFIED = 1e-9  # the largest residual of an answer
DISAGREE = 1e-6  # of the size of sides: by more, equalities that depend on each other have no point
LOST = 1e-4  # a residual beyond shows that a set is empty
PENALTIES = [4.0**k for k in range(1, 17)]  # σ, until the residual is near
NEAR, INNER, HALVINGS = 1e-11, 30, 20  # that residual; at most so many Newton steps for each σ, and halvings of one
POLISH, LAST = 9, 1e-13  # points of Newton steps on both equations, and the residual at which they end
TOUCH = 1e-10, 1e-8  # what keeps dependent rules apart in them, and in the one that carries the derivative
TRUSTED = 1e-5  # a residual up to which the next σ starts from the best of these steps, not from its own last point


class Info(NamedTuple):
    """How nearest points were found: the KKT residual of each (\\*), relative to the size of its numbers."""

    residual: Tensor


class ConicProjector:
    """Nearest points of a set with cones; what depends on the set alone is worked out once."""

    is_dense, solver = True, "auto"

    def __init__(self, S: ConvexSet) -> None:
        self.polyhedron, self.along = S, S.along

    def direct(self, *_: Any) -> None:
        """No kernel finds these."""

    def info(self, done: Info, x: Tensor) -> Info:
        """Residuals of a call."""
        return done

    def __call__(self, x: Tensor, **given: Any) -> tuple[Tensor, Info]:
        S, (batch, flat) = self.polyhedron, flat_points(self.polyhedron, x)
        sides = flat_sides(S, given, batch, flat)
        if sides.has_rows:
            raise TypeError("rows of the sample (A, A_eq) and cones do not go together: state the rows in the set.")
        sides = Sides(*(None if v is None else v.double().cpu() for v in sides))
        start, null = torch.as_tensor(self.along.start)[None], torch.as_tensor(self.along.null)
        if sides.b_eq is not None:  # a point that meets the equalities of each sample
            more = (sides.b_eq - torch.as_tensor(S.equalities.rhs))[:, S.layout.equalities]
            rows = torch.as_tensor(S.equality_rows.matrix.toarray())
            moved = more @ torch.linalg.pinv(rows)[:, : more.shape[1]].mT
            _refuse_disagreeing(moved @ rows.mT, more, sides.b_eq)
            start = start + moved
        heads = right_hand_sides(S, sides, torch.as_tensor(S.heads))
        c = S.rules.like(start).at(start, heads, sides.centre) * torch.as_tensor(self.along.unit)
        p = (flat.double().cpu() - start) @ null
        p, c = (Once.apply(v.expand(len(flat), -1)) for v in (p, c))  # type: ignore[no-untyped-call]
        some = max(1, CHUNK // (self.along.matrix.size + 1))
        found = [Problem(self.along, *own).solve() for own in zip(p.split(some), c.split(some), strict=True)]
        y, residual = (torch.cat(part) for part in zip(*found, strict=True))
        _refuse(residual, stated=not sides.given)
        return (start + y @ null.mT).to(x).reshape(x.shape), Info(residual.reshape(batch))


def right_hand_sides(S: ConvexSet, sides: Sides, stated: Tensor) -> Tensor | None:
    """``S.heads`` for each sample, ``stated`` where it gives none; None where all are stated. Shape: (\\*, rules)"""
    layout, given = S.layout, (sides.h, sides.b, sides.upper, sides.lower)
    if all(v is None for v in given):
        return None
    picks = np.arange(len(S.cones)), layout.inequalities, layout.upper, layout.lower
    parts = torch.split(stated, [len(pick) for pick in picks])
    each = zip(given, parts, picks, (1, 1, 1, -1), strict=True)
    return joined([own if v is None else sign * v[..., pick] for v, own, pick, sign in each])


def _refuse_disagreeing(found: Tensor, wanted: Tensor, b_eq: Tensor) -> None:
    """Raise where equalities that depend on each other have no point."""
    wanted = torch.nn.functional.pad(wanted, (0, found.shape[1] - wanted.shape[1]))  # fixed coordinates stay
    size = torch.cat([b_eq, wanted], 1).abs().amax(1)
    _refuse(torch.where((found - wanted).abs().amax(1) > DISAGREE * size, torch.inf, 0.0), stated=False)


def _refuse(residual: Tensor, *, stated: bool) -> None:
    """Raise where a residual is too large; the stated set is not empty."""
    lost, bad = ((residual > most).nonzero()[:, 0].tolist() for most in (LOST, CERTIFIED))
    if lost and not stated:
        raise EmptySetError(
            f"the set of sample {lost[0]} is empty: no point keeps its rows and cones ({len(lost)} in all)."
        )
    if bad:
        raise UnverifiedError(
            f"the nearest point of sample {bad[0]} could not be certified (residual {float(residual[bad[0]]):.1e}, "
            f"{len(bad)} in all): its set has next to no interior, or the point is very far from it. Give the set more "
            "slack, state equalities, or bound the points first."
        )


class Once(torch.autograd.Function):
    """x; a second derivative through it is refused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


class Problem:
    """½ |y - p|² over s = c + G y in K, all numbers of a sample divided by their size: p (n, q), c (n, M).

    A pair is y and its multipliers λ, side by side.
    """

    def __init__(self, along: Along, p: Tensor, c: Tensor) -> None:
        self.rules, self.q = along.like(p), p.shape[1]
        self.G: Any = self.rules.matrix
        self.size = torch.cat([p, c], 1).detach().norm(dim=1, keepdim=True).clamp_min(1e-300)
        self.p, self.c = p / self.size, c / self.size

    def residual(self, pair: Tensor) -> Tensor:
        """The largest of |y - p - Gᵀλ|, |λ - Π(λ - s)| and |Π(-s)|, the last in units of s, 0 at the minimiser (n,)."""
        y, m = pair[:, : self.q], pair[:, self.q :]
        s = self.c + y @ self.G.mT
        outside, found = (Onto(self.rules, z).times(z) for z in (-s, m - s))
        size = self.c.norm(dim=1) + s.norm(dim=1) + 1e-6  # all are 0 at an apex
        each = [v.norm(dim=1) for v in (y - self.p - m @ self.G, m - found, outside / size.unsqueeze(1))]
        return torch.stack(each).amax(0).nan_to_num(1e300)

    def solve(self) -> tuple[Tensor, Tensor]:
        """Nearest points (n, q), and their residuals (n,)."""
        with torch.no_grad():
            best = pair = torch.cat([self.p, 0 * self.c], 1)
            residual = self.residual(best)
            for penalty in PENALTIES:
                if bool((residual < NEAR).all()):
                    break
                new = pair = self._minimised(pair, penalty)
                for k in range(POLISH):
                    new = self.newton(new, TOUCH[0]) if k else new
                    after = self.residual(new)
                    best = torch.where((after < residual).unsqueeze(1), new, best)
                    residual = torch.minimum(residual, after)
                    if bool((residual < LAST).all()):
                        break
                pair = torch.where((residual < TRUSTED).unsqueeze(1), best, pair)
        if self.p.requires_grad or self.c.requires_grad:
            last = self.newton(best, TOUCH[1])
            best = best + last - last.detach()
        return best[:, : self.q] * self.size, residual

    def _minimised(self, pair: Tensor, penalty: float) -> Tensor:
        """The minimiser of the augmented Lagrangian, and its multipliers."""
        y, m = pair[:, : self.q], pair[:, self.q :]

        def at(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            z = m - penalty * (self.c + y @ self.G.mT)
            found = Onto(self.rules, z).times(z)
            return ((y - self.p).square().sum(1) + found.square().sum(1) / penalty) / 2, found, z

        value, found, z = at(y)
        for _ in range(INNER):
            slope, V = y - self.p - found @ self.G, Onto(self.rules, z.unsqueeze(1))
            if bool((slope.norm(dim=1) < NEAR / 10).all()):
                break
            hessian = V.times(self.G.mT, penalty, 0.0, penalty * V.share) @ self.G + torch.eye(y.shape[1]).to(y)
            step, length = torch.linalg.solve(hessian, -slope), torch.ones_like(y[:, :1])
            for _ in range(HALVINGS):
                after, found, z = at(y + length * step)
                short = after > value + 1e-4 * length[:, 0] * (slope * step).sum(1) + 1e-15 * value
                if not bool(short.any()):
                    break
                length = torch.where(short.unsqueeze(1), length / 2, length)
            y, value = y + length * step, after
        return torch.cat([y, found], 1)

    def newton(self, pair: Tensor, touch: float) -> Tensor:
        """A step on both equations from constants; its derivative in p and c is that of the solution."""
        y, m = pair[:, : self.q], pair[:, self.q :]
        z = m - self.c.detach() - y @ self.G.mT
        V, wide = Onto(self.rules, z), Onto(self.rules, z.unsqueeze(1))
        inverse = 1 / touch, 1 / (1 + touch), 1 / (1 + touch - V.share)  # of 1 + touch - V, and times V:
        product = 1 / touch, 0.0, V.share / (1 + touch - V.share)
        miss = m - V.times(z) + V.times(self.c - self.c.detach(), across=V.share)
        moved = V.times(miss, *inverse)
        hessian = wide.times(self.G.mT, *product[:2], product[2].unsqueeze(1)) @ self.G
        right = self.p + m @ self.G - y - moved @ self.G
        step = torch.linalg.solve(hessian + torch.eye(y.shape[1]).to(y), right)
        return torch.cat([y + step, m - moved - V.times(step @ self.G.mT, *product)], 1)


class Onto:
    """Π at z and its derivative: 1 along (1, w), 0 along (1, -w), ``share`` across, w the direction of a cone's tail.

    Where z is in the cone all is along, where -z is in it nothing is.
    """

    def __init__(self, rules: Rules, z: Tensor) -> None:
        self.rules, self.heads = rules, len(rules.numbers)
        head, length = z[..., : self.heads], rules.lengths(z)
        self.inside, self.polar = head >= length, head <= -length
        length = length.clamp_min(1e-300)
        self.w, self.share = z / joined([length, rules.spread(length)]), ((1 + head / length) / 2).clamp(0.0, 1.0)

    def times(self, v: Tensor, along: float = 1.0, opposite: float = 0.0, across: Tensor | float = 0.0) -> Tensor:
        """v with its three parts times these. Shape: (\\*, M) → (\\*, M)"""
        a = torch.where(self.polar, opposite, along)
        b = torch.where(self.inside, along, opposite)
        x = torch.where(self.inside | self.polar, a, across)
        head, length = v[..., : self.heads], self.rules.inner(self.w, v)
        first, second = a * (head + length) / 2, b * (head - length) / 2
        turned, kept = (self.rules.spread(share) for share in (first - second - x * length, x))
        return torch.cat([first + second, self.w[..., self.heads :] * turned + kept * v[..., self.heads :]], -1)
