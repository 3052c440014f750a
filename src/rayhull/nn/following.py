"""Sets that follow the sample: rows, right-hand sides and bounds of its own, seen from a base point of its own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.errors import EmptySetError, RayhullError
from rayhull.maps.phase_one import interior_points
from rayhull.maps.sample_rows import approach_rows, combined, onto_independent_rows, proven, times
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.maps.strict import gamma, roundoff
from rayhull.nn.closing import How
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.projection import Projection
from rayhull.nn.sides import Sides
from rayhull.sets.base_rule import BaseRule, NoBaseRuleError, base_rule

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STEPS = 40  # dual steps before the shrink: DC3's problem needs them, others stop moving long before
STILL = 1e-9  # a row whose part along the equalities is a smaller share of it does not move
INFEASIBLE = ("raise", "least", "nan")


class Kind(NamedTuple):
    """What coefficients stand for, and what is wanted: points or directions, the nearest point itself, a proof."""

    points: bool
    nearest: bool
    strict: bool


class Local(NamedTuple):
    """The set of each sample: a·x <= c for every row and bound, x = x0 + N w."""

    rows: Tensor  # (M, d) or (n, M, d)
    rhs: Tensor  # (n, M), infinite where a bound is not stated
    null: Tensor  # N (d, k) or (n, d, k), orthonormal
    origin: Tensor  # (n, d) a point that meets the equalities


class Following(Constants):
    """x = x0 + N · shrink(approach(Nᵀ c)) with the rows, right-hand sides and bounds of each sample.

    The base point x0 comes from the first of: the call (``base``), an affine rule that was proven when the layer was
    built, a batched phase 1. Its slack certifies each sample; one that has none goes to the nearest point, and is
    refused by its index if there is none. Rows that no movement along the equalities changes are left out of the
    gauge. Independent rows without bounds or equalities need no base point: x = u - A⁺relu(A u - b).

    Args:
        P: the set as it was stated.
        rule: the base rule, if the ranges of what varies were stated.
        infeasible: "raise"; "least", the point of least violation; or "nan".
        steps: of the approach; as many as most sets need if None.

    Shape: c (n, d), sides of n samples → (n, d)
    """

    A: Tensor
    b: Tensor
    A_eq: Tensor
    b_eq: Tensor
    lower: Tensor
    upper: Tensor
    fixed: Tensor
    null: Tensor
    pinv: Tensor
    stated_equalities: Tensor
    K: Tensor
    k: Tensor

    def __init__(
        self, P: Polyhedron, rule: BaseRule | None, infeasible: str, steps: int | None, factory: Factory
    ) -> None:
        super().__init__(factory)
        if infeasible not in INFEASIBLE:
            raise ValueError(f"infeasible must be one of {', '.join(INFEASIBLE)}, got {infeasible!r}.")
        self.steps = STEPS if steps is None else steps
        self.infeasible, self.rule_sides = infeasible, None if rule is None else rule.sides
        self.nearest = Projection(P, infeasible="least" if infeasible == "least" else "raise")
        rows, equal = P.inequalities, P.equality_rows.matrix.toarray()
        self.constant("A", rows.matrix.toarray())
        self.constant("b", rows.rhs)
        self.constant("b_eq", P.equalities.rhs)
        self.constant("A_eq", P.equalities.matrix.toarray())
        self.constant("fixed", P.equality_rows.rhs[len(P.layout.equalities) :])
        self.index("stated_equalities", np.asarray(P.layout.equalities))
        self.constant("null", scipy.linalg.null_space(equal) if len(equal) else np.eye(P.dim))
        self.constant("pinv", np.linalg.pinv(equal) if len(equal) else np.zeros((P.dim, 0)))
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)
        self.bounded = bool(np.isfinite(P.lower_bounds).any() or np.isfinite(P.upper_bounds).any())
        if rule is not None:
            self.constant("K", rule.matrix)
            self.constant("k", rule.offset)

    # -- the set of each sample ------------------------------------------------------------------------------------

    def local(self, sides: Sides, n: int) -> Local:
        """Rows and right-hand sides of each sample, equalities solved for."""
        A, b = (self.A if sides.A is None else sides.A), (self.b if sides.b is None else sides.b)
        rows, rhs = [A], [b.expand(n, -1)]
        if self.bounded or sides.lower is not None or sides.upper is not None:
            eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(*A.shape[:-2], -1, -1)
            low, high = (self.lower if sides.lower is None else sides.lower), sides.upper
            high = self.upper if high is None else high
            rows, rhs = [*rows, eye, -eye], [*rhs, high.expand(n, -1), -low.expand(n, -1)]
        null, origin = self._hull(sides, n)
        return Local(torch.cat(rows, -2), torch.cat(rhs, -1), null, origin)

    def _hull(self, sides: Sides, n: int) -> tuple[Tensor, Tensor]:
        """N and the equalities' solution of least norm."""
        b_eq = (self.b_eq if sides.b_eq is None else sides.b_eq).expand(n, -1)
        if sides.A_eq is None:
            e = torch.cat([b_eq.index_select(-1, self.stated_equalities), self.fixed.expand(n, -1)], -1)
            return self.null, e @ self.pinv.mT
        m, (q, r) = sides.A_eq.shape[-2], torch.linalg.qr(sides.A_eq.mT, mode="complete")  # (n, d, d), (n, d, m)
        y = torch.linalg.solve_triangular(r[..., :m, :].mT, b_eq.unsqueeze(-1), upper=False)
        return q[..., m:], (q[..., :m] @ y).squeeze(-1)

    def base(self, sides: Sides, local: Local, along: Tensor, moving: Tensor) -> Tensor:
        """The base point of each sample (n, d)."""
        if sides.base is not None:
            return sides.base.expand(len(local.rhs), -1)
        if self.rule_sides is not None and sides.A is None and sides.A_eq is None:
            theta = [getattr(self if getattr(sides, s) is None else sides, s) for s in self.rule_sides]
            return torch.cat([t.expand(len(local.rhs), -1) for t in theta], -1) @ self.K.mT + self.k
        return self._phase_one(local, along, moving)

    def _phase_one(self, local: Local, along: Tensor, moving: Tensor) -> Tensor:
        rhs = local.rhs - times(local.rows, local.origin)
        rhs = torch.where(moving & rhs.isfinite(), rhs, torch.full_like(rhs, torch.inf))
        inside = interior_points(along.double(), rhs.double()).point.to(rhs.dtype)
        return local.origin + _along(local.null, inside)

    # -- into it ---------------------------------------------------------------------------------------------------

    def forward(self, c: Tensor, sides: Sides, how: How, kind: Kind) -> Tensor:
        strict = kind.strict
        if kind.nearest and not strict:
            return self._nearest(c, sides)
        if self._independent(sides):
            assert sides.A is not None
            local = Local(sides.A, (self.b if sides.b is None else sides.b).expand(len(c), -1), self.null, c)
            x, certified = self._onto_rows(c, local, how, strict)
            return self._finished(x, x, certified, local, sides, c, how, strict)
        local = self.local(sides, len(c))
        along = local.rows @ local.null  # (M, k) or (n, M, k)
        moving = along.norm(dim=-1) > STILL * local.rows.norm(dim=-1)
        x0 = self.base(sides, local, along, moving)
        slack, size = local.rhs - times(local.rows, x0), _sizes(local, x0)
        certified = _certified(slack, moving, size)
        free = c - x0 if kind.points else c
        y = _along(local.null, _approached(_across(local.null, free), along, slack, moving, self.steps))
        scale = _scale(y, slack, size, moving, local, how, strict) if how.shrinking else torch.ones_like(slack[:, 0])
        return self._finished(x0 + scale.unsqueeze(-1) * y, x0, certified, local, sides, c, how, strict)

    def _independent(self, sides: Sides) -> bool:
        """Whether u - A⁺relu(A u - b) serves: rows of the sample, at most d, and nothing else."""
        if sides.A is None or sides.base is not None or self.bounded or self.pinv.shape[1]:
            return False
        others = sides.lower is not None or sides.upper is not None or sides.A_eq is not None
        return not others and sides.A.shape[-2] <= sides.A.shape[-1]

    def _onto_rows(self, c: Tensor, local: Local, how: How, strict: bool) -> tuple[Tensor, Tensor]:
        """The point on independent rows, and under strict once more with a margin: solving is off by little then."""
        x, independent = onto_independent_rows(c, local.rows, local.rhs)
        if strict:
            margin = (
                4 * (roundoff(how.dtype) + gamma(c.shape[-1])) * _sizes(local, x.abs().amax(-1, keepdim=True) + x * 0)
            )
            x, _ = onto_independent_rows(x, local.rows, local.rhs - margin)
        return x, independent

    # -- what could not be certified -------------------------------------------------------------------------------

    def _finished(
        self, x: Tensor, x0: Tensor, certified: Tensor, local: Local, sides: Sides, c: Tensor, how: How, strict: bool
    ) -> Tensor:
        """The points in their dtype; samples that were not certified go to the nearest point, or are refused."""
        out = x.to(how.dtype)
        if strict:
            out, safe = (self._within(v.to(how.dtype), sides) for v in (x, x0))
            out = torch.where(proven(out, local.rows, local.rhs).unsqueeze(-1), out, safe)
            certified = certified & proven(out, local.rows, local.rhs)
        lost = ~certified & c.isfinite().all(-1)
        if torch.compiler.is_compiling() or self.infeasible == "nan" or not bool(lost.any()):
            return torch.where(certified.unsqueeze(-1), out, torch.full_like(out, torch.nan))
        return self._rescued(out, lost, sides, c, strict)

    def _within(self, x: Tensor, sides: Sides) -> Tensor:
        """x clamped to the outermost numbers of its dtype inside the bounds: coordinates that the equalities fix."""
        low = self.lower if sides.lower is None else sides.lower
        high = self.upper if sides.upper is None else sides.upper
        return torch.minimum(torch.maximum(x, -_below(-low, x.dtype)), _below(high, x.dtype))

    def _rescued(self, x: Tensor, lost: Tensor, sides: Sides, c: Tensor, strict: bool) -> Tensor:
        """x with the nearest point in place of the lost samples; refused by their numbers where there is none."""
        which = lost.nonzero().squeeze(-1)
        names = ", ".join(str(int(i)) for i in which[:8]) + (f" and {len(which) - 8} others" if len(which) > 8 else "")
        if strict and self.infeasible == "raise":
            raise RayhullError(
                f"strict=True cannot certify samples {names}: their sets are empty, or too thin for {x.dtype}. Give "
                'base points inside them (base=), or use infeasible="nan" or strict=False.'
            )
        some = Sides(**{name: getattr(sides, name)[which] for name in sides.given})
        try:
            near = self._nearest(c[which], some)
        except EmptySetError as error:
            raise EmptySetError(f"among samples {names}: {error}", error.rows) from None
        return x.index_copy(0, which, near.to(x.dtype))

    def _nearest(self, c: Tensor, sides: Sides) -> Tensor:
        """The nearest points to c (n, d)."""
        shape, given = self.nearest.polyhedron.shape, {n: getattr(sides, n) for n in sides.given if n != "base"}
        given |= {name: given[name].reshape(-1, *shape) for name in ("lower", "upper") if name in given}
        near: Tensor = self.nearest(c.reshape(-1, *shape), **given)
        return near.flatten(1)


def _along(null: Tensor, w: Tensor) -> Tensor:
    """N w. Shape: (d, k) or (n, d, k), (n, k) → (n, d)"""
    return times(null, w)


def _across(null: Tensor, x: Tensor) -> Tensor:
    """Nᵀ x."""
    return combined(null, x)


def _sizes(local: Local, x: Tensor) -> Tensor:
    """|a|·|x| + |c|, what rounding is relative to. Shape: (n, M)"""
    return times(local.rows.abs(), x.abs()) + torch.where(local.rhs.isfinite(), local.rhs.abs(), 0.0)


def _certified(slack: Tensor, moving: Tensor, size: Tensor) -> Tensor:
    """Which samples their base point certifies: slack in rows that move, the others not broken. Shape: (n,)"""
    unbroken = slack >= -64 * torch.finfo(slack.dtype).eps * size
    return torch.where(moving, slack > 0, unbroken).all(-1)


def _approached(w: Tensor, along: Tensor, slack: Tensor, moving: Tensor, steps: int) -> Tensor:
    """Dual steps in units of each row; rows that do not move have no part in it."""
    norms = torch.where(moving, along.norm(dim=-1), torch.ones_like(along[..., 0]))
    unit = torch.where(moving.unsqueeze(-1), along / norms.unsqueeze(-1), torch.zeros_like(along))
    return approach_rows(w, unit, torch.where(moving, slack / norms, torch.ones_like(slack)), steps)


def _scale(y: Tensor, slack: Tensor, size: Tensor, moving: Tensor, local: Local, how: How, strict: bool) -> Tensor:
    """The factor of the shrink; under strict with the margins of docs/strict.md, row by row."""
    values = times(local.rows, y)
    if strict:
        steep, u, g = local.rows.abs().sum(-1), roundoff(how.dtype), gamma(y.shape[-1])
        values = values + (g + u) * steep * y.abs().amax(-1, keepdim=True)
        slack = slack - (u + 2 * g) * size - u * torch.finfo(how.dtype).tiny * steep
    closed = torch.where(slack > 0, torch.zeros_like(slack), torch.full_like(slack, torch.inf))
    share = torch.where(slack > 0, values / torch.where(slack > 0, slack, torch.ones_like(slack)), closed)
    gauge = torch.where(moving, share, torch.zeros_like(share)).amax(-1)
    return smooth_factor(gauge) if how.smooth else factor(gauge)


def _below(bound: Tensor, dtype: torch.dtype) -> Tensor:
    """The largest number of the dtype that is not above the bound."""
    near = bound.to(dtype)
    return torch.where(near.double() > bound, torch.nextafter(near, torch.full_like(near, -torch.inf)), near)


def base_rule_or_none(P: Polyhedron, varies: Mapping[str, tuple[Any, Any]]) -> BaseRule | None:
    """The affine base rule for the ranges, or None where there is none: then each call takes a phase 1, and says so."""
    try:
        return base_rule(P, varies)
    except NoBaseRuleError as error:
        warnings.warn(f"{error} Each call looks for base points of its own (phase 1).", stacklevel=2)
        return None
