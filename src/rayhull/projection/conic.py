r"""The nearest point of rows and cones, many samples at once, in float64 on the CPU.

Along the equalities z = z0 + N y, and s = c + G y lies in a product K of cones, a row being one of one entry:

.. math:: \min_y \tfrac12 |y - p|^2 \text{ with } s \in K: \qquad y = p + G^T λ, \quad λ = Π(λ - s)

Multipliers λ ← Π(λ - σ s), at the minimiser in y of ½ |y - p|² + |Π(λ - σ s)|² / 2σ, come near: the augmented
Lagrangian, by Newton steps with a line search. After each σ a few Newton steps on the two equations give the last
digits, whether they go down or not: the best of all is kept, and a last one carries the derivative. Every answer has
its KKT residual; what cannot be certified raises.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.projection.sides import NONE, Sides, agreeing, flat_points, flat_sides
from rayhull.sets.cones import ConvexSet
from rayhull.sets.conic_interior import OPEN, Along, Rules, joined
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.rows import DEPENDENT

CHUNK = 20_000_000  # numbers of all samples' matrices together
LEAST = 1e-100  # of the length of all numbers, for squares that stay finite
CERTIFIED = 1e-9  # the largest residual of an answer
LOST = 1e-4  # a residual beyond shows that a set is empty
GROWTH, LARGEST, ROUNDS = 3.0, 3.0**25, 40  # of σ, from one round to the next, and at most so many
NEAR, INNER, HALVINGS = 1e-11, 30, 20  # that residual; at most so many Newton steps for each σ, and halvings of one
POLISH, LAST = 9, 3e-15  # points of Newton steps on both equations, and the residual at which they end
TOUCH, SOFTEST = 1e-10, 1e-4  # what keeps dependent rules apart in them, more in far points' units, and at most
REFINED = 5  # steps that carry the derivative: each takes what touch and rounding left of it to that power
DAMPED = 0.1  # of the slope beside the curvature, which far points have next to none of
NEARER, SMALLEST = 0.1, 1e-10  # shares of the unit of y that make a new one, and of all numbers' length that may
TRUSTED = 1e-5  # a residual up to which the next σ starts from the best of these steps, not from its own last point


class Info(NamedTuple):
    """How nearest points were found: the KKT residual of each (\\*), relative to the size of its numbers."""

    residual: Tensor


class ConicProjector:
    """Nearest points of a set with cones; what depends on the set alone is worked out once."""

    is_dense, solver, label = True, "auto", "augmented Lagrangian"

    def __init__(self, S: ConvexSet) -> None:
        self.polyhedron = S

    def direct(self, *_: Any) -> None:
        """No kernel finds these."""

    def info(self, done: Info, x: Tensor) -> Info:
        """Residuals of a call."""
        return done

    def __call__(self, x: Tensor, **given: Any) -> tuple[Tensor, Info]:
        batch, flat = flat_points(self.polyhedron, x)
        sides = flat_sides(self.polyhedron, given, batch, flat)
        if sides.has_rows:
            raise TypeError("rows of the sample (A, A_eq) and cones do not go together: state the rows in the set.")
        wide = Sides(*(None if v is None else v.double().cpu() for v in sides))
        S = self.polyhedron if sides.lower is sides.upper else with_bounds(self.polyhedron)  # if both are None
        along = S.along if sides is NONE else S.loose
        start, null = torch.as_tensor(along.start)[None], torch.as_tensor(along.null)
        if sides.b_eq is not None:
            start = start + _onto_equalities(S, sides.b_eq)
        heads = right_hand_sides(S, wide, torch.as_tensor(S.heads))
        c = along.stated.like(start).at(start, heads, wide.centre) * torch.as_tensor(along.unit)
        p = (flat.double().cpu() - start) @ null
        p, c = (Once.apply(v.expand(len(flat), -1)) for v in (p, c))  # type: ignore[no-untyped-call]
        some = max(1, CHUNK // (along.matrix.size + 1))
        found = [_solved(along, *own) for own in zip(p.split(some), c.split(some), strict=True)]
        y, residual = (torch.cat(part) for part in zip(*found, strict=True))
        _refuse(residual, stated=not sides.given)
        return (start + y @ null.mT).to(x).reshape(x.shape), Info(residual.reshape(batch))


def _solved(along: Along, p: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest points and their residuals. Far points and large multipliers leave their rounding errors in s: the
    nearest point of what was found has next to no multipliers, and meets the rules to the last digits.
    """
    y, residual = Problem(along, p, c).solve()
    inside = Problem(along, y.detach(), c.detach()).touched_up()
    return y + (inside - y).detach(), residual


def with_bounds(S: ConvexSet) -> ConvexSet:
    """The set with two rows for the bounds of each coordinate, OPEN where it states none: a call may state others.

    Those of a coordinate of one value are called implicit equalities, so that ``rules`` leave them out.
    """
    if "with bounds" not in S.kept:
        fixed, ends = S.bound_order == 0, np.clip([S.upper_bounds, -S.lower_bounds], -OPEN, OPEN)
        high, low = np.where(fixed, OPEN, ends).reshape(2, *S.shape)
        P = Polyhedron.from_rows(S.inequalities, S.equalities, -low, high, S.shape, check=False)
        S.kept["with bounds"] = made = ConvexSet(P, S.cones, check=False)
        made.polyhedron, stated = S.polyhedron, len(S.layout.inequalities)
        made.heads = np.append(S.heads[: len(S.cones) + stated], ends)
        made.implicit = np.append(np.zeros(stated, bool), [fixed, fixed])
    kept: ConvexSet = S.kept["with bounds"]
    return kept


def right_hand_sides(S: ConvexSet, sides: Sides, stated: Tensor) -> Tensor | None:
    """``S.heads`` for each sample, ``stated`` where it gives none; None where all are stated. Shape: (\\*, rules)"""
    layout, given = S.layout, (sides.h, sides.b, sides.upper, sides.lower)
    if all(v is None for v in given):
        return None
    picks = np.arange(len(S.cones)), layout.inequalities, layout.upper, layout.lower
    parts = torch.split(stated, [len(pick) for pick in picks])
    each = zip(given, parts, picks, (1, 1, 1, -1), strict=True)
    return joined([own if v is None else sign * v[..., pick].clamp(-OPEN, OPEN) for v, own, pick, sign in each])


def _onto_equalities(S: ConvexSet, b_eq: Tensor) -> Tensor:
    """The least movement from the stated equalities onto those of each sample, refused where they have no point."""
    rows, own = S.equality_rows, b_eq[:, S.layout.equalities].double().cpu()
    unit, stated, lengths = rows.unit
    own = joined([own, torch.as_tensor(rows.rhs[own.shape[1] :])])  # fixed coordinates stay
    own, agreed = agreeing(own, torch.as_tensor(lengths), torch.as_tensor(rows.cancelling), b_eq.dtype)
    _refuse(torch.where(agreed, 0.0, torch.inf), stated=False)
    return (own - torch.as_tensor(stated)) @ torch.as_tensor(np.linalg.pinv(unit.toarray(), rcond=DEPENDENT)).mT


def _refuse(residual: Tensor, *, stated: bool) -> None:
    """Raise where a residual is too large; the stated set is not empty."""
    lost, bad = ((residual > most).nonzero()[:, 0].tolist() for most in (LOST, CERTIFIED))
    if lost and not stated:
        raise EmptySetError(
            f"the set of sample {lost[0]} is empty: no point keeps its rows and cones ({len(lost)} in all).",
            samples=lost,
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
    """w/2 |y|² - p·y over s = c + G y in K: p (n, q) over the length ``far`` of all numbers of a sample, y and c (n, M)
    over their own, which shrinks with the set as it is found, w = size / far.

    A pair is y and its multipliers λ, side by side.
    """

    def __init__(self, along: Along, p: Tensor, c: Tensor) -> None:
        self.rules, self.q, self.stated, self.lost = along.like(p), p.shape[1], c, along.rounding
        self.G: Any = self.rules.matrix
        self.least = torch.cat([p, c], 1).detach().norm(dim=1, keepdim=True).clamp_min(1e-200) * LEAST
        self.far = torch.maximum(self._length(c, p), self.least)
        self.p = p / self.far
        self.take(self.far)

    def take(self, size: Tensor) -> None:
        """Measure y and s by a length (n, 1)."""
        self.size, self.weight, self.rounding = size, size / self.far, self.lost / size
        self.c = (self.stated / size).clamp(-OPEN, OPEN)

    def _constants(self, s: Tensor, y: Tensor) -> Tensor:
        """The length of s without the slack that no step of the length of y uses up (n, 1)."""
        s, own = s.detach(), y.detach().norm(dim=1, keepdim=True)
        heads, length = s[:, : len(self.rules.numbers)], self.rules.lengths(s)
        near = own + (heads - length).abs().amin(1, keepdim=True)
        cut = torch.cat([torch.minimum(heads, length + near), s[:, heads.shape[1] :]], 1)
        return cut.norm(dim=1, keepdim=True)

    def _length(self, s: Tensor, y: Tensor) -> Tensor:
        return torch.hypot(self._constants(s, y), y.detach().norm(dim=1, keepdim=True))

    def onto(self, z: Tensor) -> Tensor:
        return Onto(self.rules, z).times(z)

    def residual(self, pair: Tensor) -> Tensor:
        """The largest of |w y - p - Gᵀλ|, |λ - Π(λ - s)| and |Π(-s)|, s over its own size (n,)."""
        y, m = pair[:, : self.q], pair[:, self.q :]
        s, own = self.c + y @ self.G.mT, self._length(self.c, y)
        known = self._constants(self.c, y) > self.rounding  # own is 0 at an apex
        size = torch.where(known, torch.minimum(own + 1e-6, 1e3 * own), own + 1e-6)
        each = self.weight * y - self.p - m @ self.G, m - self.onto(m - s / size), self.onto(-s) / size
        return torch.stack([v.norm(dim=1) for v in each]).amax(0).nan_to_num(1e300)

    def solve(self) -> tuple[Tensor, Tensor]:
        """Nearest points (n, q), and their residuals (n,)."""
        with torch.no_grad():
            best, residual = self._pairs()
        self.take(self.size)  # with derivatives
        if self.p.requires_grad or self.c.requires_grad:
            last, around = best, (best[:, self.q :] - self.c - best[:, : self.q] @ self.G.mT).detach()
            for _ in range(REFINED):
                last = self.newton(last, around)
            best = best + last - last.detach()
        return best[:, : self.q] * self.size, residual

    def _pairs(self) -> tuple[Tensor, Tensor]:
        """Pairs and their residuals."""
        pair = best = torch.cat([self.p, 0 * self.c], 1)
        residual, penalty = self.residual(best), torch.full_like(self.far, GROWTH)
        for _ in range(ROUNDS):
            if bool((residual < NEAR).all()):
                break
            pair = self._minimised(pair, penalty)
            best, residual = self._polished(pair, best, residual)
            pair = torch.where((residual < TRUSTED).unsqueeze(1), best, pair)
            own = self._length(self.c, pair[:, : self.q]).clamp_min(SMALLEST / self.weight)
            penalty = (GROWTH * penalty).clamp_max(LARGEST)
            if bool((far := (own[:, 0] < NEARER) & (residual > NEAR)).any()):
                share = torch.where(far.unsqueeze(1), own, 1.0)
                self.take(share * self.size)
                penalty = torch.where(far.unsqueeze(1), GROWTH, penalty)
                pair, best = (torch.cat([v[:, : self.q] / share, v[:, self.q :]], 1) for v in (pair, best))
                residual = self.residual(best)
        return best, residual

    @torch.no_grad()
    def touched_up(self) -> Tensor:
        """Nearest points of points that are in the set but for rounding (n, q): the apex of a cone at 0 is 0."""
        pair = torch.cat([self.p, 0 * self.c], 1)
        best, residual = self._polished(pair, pair, self.residual(pair))
        zero = self.residual(torch.cat([0 * self.p, best[:, self.q :]], 1))
        known = (residual == 0) | (zero > residual.clamp_min(LAST))
        return torch.where(known.unsqueeze(1), best[:, : self.q] * self.size, 0.0)

    def _polished(self, new: Tensor, best: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The best of a pair, of Newton steps from there and of what was best before."""
        for k in range(POLISH):
            new = self.newton(new) if k else new
            after = self.residual(new)
            best = torch.where((after < residual).unsqueeze(1), new, best)
            residual = torch.minimum(residual, after)
            if bool((residual < LAST).all()):
                break
        return best, residual

    def _minimised(self, pair: Tensor, penalty: Tensor) -> Tensor:
        """The minimiser of the augmented Lagrangian, and its multipliers."""
        y, m = pair[:, : self.q], pair[:, self.q :]

        def at(y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            z = m - penalty * (self.c + y @ self.G.mT)
            found = self.onto(z)
            return ((self.weight * y - 2 * self.p) * y).sum(1) / 2 + found.square().sum(1) / penalty[:, 0] / 2, found, z

        (value, found, z), each = at(y), penalty.unsqueeze(1)
        for _ in range(INNER):
            slope, V = self.weight * y - self.p - found @ self.G, Onto(self.rules, z.unsqueeze(1))
            if bool((slope.norm(dim=1) < NEAR / 10).all()):
                break
            ridge = self.weight + DAMPED * slope.norm(dim=1, keepdim=True)
            step, length = self._solved(-slope, ridge, V, each, 0.0, each * V.share), torch.ones_like(y[:, :1])
            for _ in range(HALVINGS):
                after, found, z = at(y + length * step)
                short = after > value + 1e-4 * length[:, 0] * (slope * step).sum(1) + 1e-15 * value.abs()
                if not bool(short.any()):
                    break
                length = torch.where(short.unsqueeze(1), length / 2, length)
            y, value = y + length * step, after
        return torch.cat([y, found], 1)

    def newton(self, pair: Tensor, around: Tensor | None = None) -> Tensor:
        """A step on both equations, Π linear around λ - s; its derivative comes nearer to the solution's at each."""
        y, m = pair[:, : self.q], pair[:, self.q :]
        touch, z = (TOUCH / self.weight).clamp_max(SOFTEST), m - self.c - y @ self.G.mT
        still = z.detach() if around is None else around
        V, wide = Onto(self.rules, still), Onto(self.rules, still.unsqueeze(1))
        inverse = 1 / touch, 1 / (1 + touch), 1 / (1 + touch - V.share)  # of 1 + touch - V, and times V:
        product = 1 / touch, 0.0, V.share / (1 + touch - V.share)
        miss = m - V.times(still) - V.times(z - still, across=V.share)
        moved = V.times(miss, *inverse)
        right = self.p + m @ self.G - self.weight * y - moved @ self.G
        step = self._solved(right, self.weight, wide, product[0].unsqueeze(1), 0.0, product[2].unsqueeze(1))
        return torch.cat([y + step, m - moved - V.times(step @ self.G.mT, *product)], 1)

    def _solved(self, right: Tensor, ridge: Tensor, V: Onto, *parts: Any) -> Tensor:
        """(Gᵀ V G + ridge)⁻¹ right, for the three parts of V."""
        hessian = V.times(self.G.mT, *parts) @ self.G
        return torch.linalg.solve(hessian + ridge.unsqueeze(2) * torch.eye(self.q).to(right), right)


class Onto:
    """Π at z and its derivative: 1 along (1, w), 0 along (1, -w), ``share`` across, w the direction of a cone's tail.

    Where z is in the cone all is along, where -z is in it nothing is.
    """

    def __init__(self, rules: Rules, z: Tensor) -> None:
        self.rules, self.heads = rules, len(rules.numbers)
        head, length = z[..., : self.heads], rules.lengths(z)
        self.polar = head <= -length  # 0 is: what is met without a multiplier counts as absent
        self.inside = (head >= length) & ~self.polar
        length = length.clamp_min(1e-300)
        self.w, self.share = z / joined([length, rules.spread(length)]), ((1 + head / length) / 2).clamp(0.0, 1.0)

    def times(self, v: Tensor, along: Any = 1.0, opposite: Any = 0.0, across: Any = 0.0) -> Tensor:
        """v with its three parts times these. Shape: (\\*, M) → (\\*, M)"""
        a = torch.where(self.polar, opposite, along)
        b = torch.where(self.inside, along, opposite)
        x = torch.where(self.inside | self.polar, a, across)
        head, length = v[..., : self.heads], self.rules.inner(self.w, v)
        first, second = a * (head + length) / 2, b * (head - length) / 2
        turned, kept = (self.rules.spread(share) for share in (first - second - x * length, x))
        return torch.cat([first + second, self.w[..., self.heads :] * turned + kept * v[..., self.heads :]], -1)
