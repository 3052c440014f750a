"""Sets that follow the sample: rows, right-hand sides and bounds of its own, seen from a base point of its own."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.errors import EmptySetError, RayhullError
from rayhull.maps.sample_rows import (
    LARGE,
    approach_rows,
    interior_points,
    onto_independent_rows,
    onto_two_rows,
    proven,
    times,
)
from rayhull.maps.shrink import as_single, factor, gamma, roundoff, smooth_factor
from rayhull.nn.closing import How
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.projection import Projection
from rayhull.nn.sample_sets import Local, Rows, SampleSets
from rayhull.nn.transforms import in_vmap
from rayhull.projection.sides import Sides
from rayhull.sets.base_rule import BaseRule, NoBaseRuleError, base_rule

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STEPS = 40  # dual steps before the shrink: DC3's problem needs them, others stop moving long before
TINY = torch.finfo(torch.float32).tiny
MISSED = 1e-6  # a nearest point that violates its set by more, in units of the batch, shows that the set is empty
INFEASIBLE = ("raise", "least", "nan")
HIDDEN = (
    "the base points of these samples are searched for, and a search looks at numbers, which torch.compile, "
    "torch.export and vmap hide. State the ranges of b, b_eq, lower or upper when the layer is built, "
    "varies={'b': (low, high)}; give base points with the call, base=, which serve rows of the sample (A, A_eq) too, "
    "once before the graph is made and then in it; or call the layer outside, with all samples at once."
)


class Kind(NamedTuple):
    """What coefficients stand for, and what is wanted: points or directions, the nearest point itself, a proof."""

    points: bool
    nearest: bool
    strict: bool


class Nearest(Projection):
    """A projection within a layer, whose own checkpoint names the set already."""

    get_extra_state = nn.Module.get_extra_state
    set_extra_state = nn.Module.set_extra_state


class Following(Constants):
    """x = x0 + N · shrink(approach(Nᵀ c)) with the rows, right-hand sides and bounds of each sample.

    The base point x0 comes from the first of: the call (``base``), an affine rule that was proven when the layer was
    built, a batched phase 1. Its slack certifies each sample; one that has none goes to the nearest point, and is
    refused by its index if there is none. Rows that no movement along the equalities changes are left out of the
    gauge. One or two rows of the sample without bounds or equalities need no base point, they have the nearest point
    in closed form; nor do more that are independent: x = u - A⁺relu(A u - b).

    Args:
        P: the set as it was stated.
        rule: the base rule, if the ranges of what varies were stated.
        infeasible: "raise"; "least", the point of least violation; or "nan".
        steps: of the approach.
        scale: the size of the data, for phase 1 in unbounded sets.

    Shape: c (n, d), sides of n samples → (n, d)
    """

    K: Tensor
    k: Tensor

    def __init__(
        self, P: Polyhedron, rule: BaseRule | None, infeasible: str, steps: int, scale: float, factory: Factory
    ) -> None:
        super().__init__(factory)
        if infeasible not in INFEASIBLE:
            raise ValueError(f"infeasible must be one of {', '.join(INFEASIBLE)}, got {infeasible!r}.")
        self.steps, self.infeasible, self.rule_sides = steps, infeasible, None if rule is None else rule.sides
        self.nearest = Nearest(P, infeasible="raise" if infeasible == "raise" else "least")
        self.sets, self.scale = SampleSets(P, factory), scale
        if rule is not None:
            self.constant("K", rule.matrix)
            self.constant("k", rule.offset)

    def points(self, free: Tensor, sides: Sides, how: How, kind: Kind) -> Tensor:
        """Points for any batch dimensions of free points and sides. Shape: (\\*, event shape) → the same"""
        flat, own, batch = self._flat(free, sides)
        x: Tensor = self(flat, own, how, kind)
        return x.reshape(*batch, *self.nearest.polyhedron.shape)

    def free_points(self, free: Tensor, sides: Sides, kind: Kind) -> Tensor:
        """The points themselves, or where directions along the equalities lead from the base point of each sample.

        Shape: as :meth:`points`
        """
        flat, own, batch = self._flat(free, sides)
        if not kind.points and not self._needs_no_base(own):
            local = self.sets(own, flat.shape[0])
            flat = self.base(own, local) + local.of.out_of(local.of.into(flat))
        return flat.reshape(*batch, *self.nearest.polyhedron.shape)

    def _flat(self, free: Tensor, sides: Sides) -> tuple[Tensor, Sides, tuple[int, ...]]:
        """Free points (n, d) and the sides of each, and the batch dimensions of both together."""
        own = free.flatten(free.ndim - len(self.nearest.polyhedron.shape))
        batch = sides.batch(tuple(own.shape[:-1]))
        return own.expand(*batch, -1).reshape(-1, own.shape[-1]), sides.spread(batch, own.dtype), batch

    def forward(self, c: Tensor, sides: Sides, how: How, kind: Kind) -> Tensor:
        strict = kind.strict
        if kind.nearest and not strict:
            return self._nearest(c, sides)
        if self._needs_no_base(sides):
            return self._onto_rows(c, sides, how, strict)
        local = self.sets(sides, c.shape[0])
        x0 = self.base(sides, local)
        slack, size = local.slack(x0), local.sizes(x0) if strict or local.of.moving is not None else None
        certified = _certified(slack, local.of.moving, size)
        y = local.of.out_of(self._approached(local.of.into(c - x0 if kind.points else c), local.of, slack))
        closes = how.shrinking and slack.shape[-1] > 0
        scale = _scale(y, slack, size, local, how, strict) if closes else torch.ones_like(y[:, 0])
        return self._finished(x0 + scale.unsqueeze(-1) * y, x0, certified, local, sides, c, how, strict)

    def base(self, sides: Sides, local: Local) -> Tensor:
        """The base point of each sample (n, d)."""
        if sides.base is not None:
            return sides.base.expand(local.rhs.shape[0], -1)
        return self._by_rule(sides, local.rhs.shape[0]) if self._has_rule(sides) else self._phase_one(local)

    def base_of(self, sides: Sides, n: int, dtype: torch.dtype) -> Tensor:
        """The same for sides of n samples in any dtype, in this one."""
        if self._has_rule(sides):
            return self._by_rule(sides, n).to(dtype)
        return self._phase_one(self.sets(Sides(**{name: getattr(sides, name).to(dtype) for name in sides.given}), n))

    def _has_rule(self, sides: Sides) -> bool:
        return self.rule_sides is not None and not sides.has_rows

    def _by_rule(self, sides: Sides, n: int) -> Tensor:
        """K θ + k"""
        assert self.rule_sides is not None
        theta = [getattr(self.sets if getattr(sides, s) is None else sides, s).expand(n, -1) for s in self.rule_sides]
        stacked = theta[0] if len(theta) == 1 else torch.cat(theta, -1)
        return torch.addmm(self.k, stacked.to(self.k.dtype), self.K.mT)

    @cached_property
    def size(self) -> float:
        """The length that phase 1 looks for base points at: the middle slack of a bounded set, or the data's scale."""
        P = self.nearest.polyhedron
        if not len(P.rows) or not P.is_bounded:
            return self.scale
        lengths = np.sqrt(abs(P.rows.matrix).power(2).sum(axis=1))
        slack = (P.rows.rhs - P.rows.matrix @ P.centre.point) / lengths
        return max(self.scale, float(np.median(slack)))

    def _phase_one(self, local: Local) -> Tensor:
        """Interior points by Newton steps, along the equalities of each sample."""
        hidden = torch.compiler.is_compiling() or in_vmap(local.rhs) or in_vmap(local.rows)
        if hidden:  # first, so that torch.compile breaks its graph before this call
            raise RayhullError(HIDDEN)
        if not local.rhs.shape[-1]:
            return local.origin
        of, rhs = local.of, local.slack(local.origin)
        rhs = of.moved(rhs / of.norms(), LARGE)
        inside = interior_points(of.units().double(), rhs.double(), scale=self.size).point
        return local.origin + of.out_of(inside.to(rhs.dtype))

    def _approached(self, w: Tensor, of: Rows, slack: Tensor) -> Tensor:
        """Dual steps in units of each row; rows that do not move have no part in it."""
        if not self.steps:
            return w
        return approach_rows(w, of.units(), of.moved(slack / of.norms(), 1.0), self.steps, of.step)

    # -- a few rows need no base point -------------------------------------------------------------------------------

    def _needs_no_base(self, sides: Sides) -> bool:
        """Whether rows of the sample are all there is, and at most two or d of them."""
        if sides.A is None or sides.base is not None or self.sets.bounded or self.sets.equalities:
            return False
        others = sides.lower is not None or sides.upper is not None or sides.A_eq is not None
        return not others and sides.A.shape[-2] <= max(2, sides.A.shape[-1])

    def _onto_rows(self, c: Tensor, sides: Sides, how: How, strict: bool) -> Tensor:
        """The point on the rows, and once more from there, where solving is off by little; with a margin if strict."""
        local = self.sets(sides, c.shape[0])
        onto = onto_two_rows if local.rhs.shape[-1] <= 2 else onto_independent_rows
        x, certified = onto(c, local.rows, local.rhs)
        rhs = local.rhs
        if strict:
            margin, largest = as_single(4 * (roundoff(how.dtype) + gamma(c.shape[-1]))), x.abs().amax(-1, keepdim=True)
            rhs = rhs - margin * local.sizes(largest.expand_as(x))
        x, _ = onto(x, local.rows, rhs)
        return self._finished(x, x, certified, local, sides, c, how, strict)

    # -- what could not be certified -------------------------------------------------------------------------------

    def _finished(
        self, x: Tensor, x0: Tensor, certified: Tensor, local: Local, sides: Sides, c: Tensor, how: How, strict: bool
    ) -> Tensor:
        """The points in their dtype, proven under strict."""
        out = x.to(how.dtype)
        if strict:
            out, safe = (self._within(v.to(how.dtype), sides) for v in (x, x0))
            ours, base = (proven(v, local.rows, local.rhs) for v in (out, safe))
            stays = ours | c.isnan().any(-1)  # NaN stays NaN
            out, certified = torch.where(stays.unsqueeze(-1), out, safe), certified & (ours | base)
        return self.settled(out, certified, sides, c, strict)

    def settled(self, out: Tensor, certified: Tensor, sides: Sides, c: Tensor, strict: bool) -> Tensor:
        """The points; those that were not certified go to the nearest point of c, are refused, or come out as NaN."""
        hidden = torch.compiler.is_compiling() or in_vmap(certified)
        if not hidden and bool(certified.all()):
            return out
        lost = ~certified & c.isfinite().all(-1)
        if hidden or self.infeasible == "nan" or not bool(lost.any()):
            return torch.where(certified.unsqueeze(-1), out, torch.full_like(out, torch.nan))
        return self._rescued(out, lost, sides, c, strict)

    def _within(self, x: Tensor, sides: Sides) -> Tensor:
        """x clamped to the outermost numbers of its dtype inside the bounds: coordinates that the equalities fix."""
        low = self.sets.lower if sides.lower is None else sides.lower
        high = self.sets.upper if sides.upper is None else sides.upper
        return torch.minimum(torch.maximum(x, -_below(-low, x.dtype)), _below(high, x.dtype))

    def _rescued(self, x: Tensor, lost: Tensor, sides: Sides, c: Tensor, strict: bool) -> Tensor:
        """x with the nearest point in place of the lost samples; refused by their numbers where there is none."""
        which = lost.nonzero().squeeze(-1)
        _refuse_nan(sides)
        names = _listed(which)
        if strict and self.infeasible == "raise":
            raise RayhullError(
                f"strict=True cannot certify samples {names}: their sets are empty, or too thin for {x.dtype}. Give "
                'base points inside them (base=), or use infeasible="nan" or strict=False.'
            )
        some = Sides(**{name: getattr(sides, name)[which] for name in sides.given})
        try:
            near = self._nearest(c[which], some)
        except EmptySetError as error:  # it counts the lost samples, not those of the batch
            text = re.sub(r"sample (\d+)", lambda found: f"sample {int(which[int(found[1])])}", str(error))
            raise EmptySetError(f"among samples {names}: {text}", error.rows) from None
        return x.index_copy(0, which, near.to(x.dtype))

    def _nearest(self, c: Tensor, sides: Sides) -> Tensor:
        """The nearest points to c (n, d)."""
        shape, given = self.nearest.polyhedron.shape, {n: getattr(sides, n) for n in sides.given if n != "base"}
        given |= {name: given[name].reshape(-1, *shape) for name in ("lower", "upper") if name in given}
        near: Tensor = self.nearest(c.reshape(-1, *shape), **given)
        if self.infeasible == "nan":
            missed = self.nearest.polyhedron.violation(near.detach(), **given) > MISSED * (1 + near.abs().max())
            near = near.masked_fill(missed.reshape(-1, *[1] * len(shape)), torch.nan)
        return near.flatten(1)


def _certified(slack: Tensor, moving: Tensor | None, size: Tensor | None) -> Tensor:
    """Which samples their base point certifies: slack in rows that move, the others not broken. Shape: (n,)"""
    if moving is None or size is None:
        return (slack > 0).all(-1)
    unbroken = slack >= -64 * torch.finfo(slack.dtype).eps * size
    return ((slack > 0) | (~moving & unbroken)).all(-1)  # ONNX Runtime has no Where of booleans


def _scale(y: Tensor, slack: Tensor, size: Tensor | None, local: Local, how: How, strict: bool) -> Tensor:
    """The factor of the shrink; under strict with the margins of docs/strict.md, row by row."""
    values = times(local.rows, y)
    if strict:
        assert size is not None
        steep, u, g = local.rows.detach().abs().sum(-1), roundoff(how.dtype), gamma(y.shape[-1])
        values = values + as_single(g + u) * steep * y.detach().abs().amax(-1, keepdim=True)
        slack = slack - as_single(u + 2 * g) * size - as_single(max(TINY, u * torch.finfo(how.dtype).tiny)) * steep
    inside = slack > 0
    share = torch.where(inside, values / torch.where(inside, slack, 1.0), torch.inf)  # no slack: stay at x0
    gauge = local.of.moved(share, 0.0).amax(-1)
    return smooth_factor(gauge) if how.smooth else factor(gauge)


def _below(bound: Tensor, dtype: torch.dtype) -> Tensor:
    """A number of the dtype that is not above the bound, at most three below the largest one. ONNX has no nextafter."""
    if dtype == torch.float64:
        return bound
    info = torch.finfo(dtype)
    near = bound.to(dtype).clamp(info.min, info.max)
    return torch.where(near.double() > bound, near - (near.abs() * info.eps + info.tiny * info.eps), near)


def _listed(samples: Tensor) -> str:
    """Their numbers, the first eight."""
    more = f" and {len(samples) - 8} others" if len(samples) > 8 else ""
    return ", ".join(str(int(i)) for i in samples[:8]) + more


def _refuse_nan(sides: Sides) -> None:
    """A side that holds NaN is told apart from a set that is empty."""
    for name in sides.given:
        bad = getattr(sides, name).isnan().flatten(1).any(1).nonzero().squeeze(-1)
        if len(bad):
            raise ValueError(f"{name} must hold numbers, got NaN in samples {_listed(bad)}.")


def base_rule_or_none(P: Polyhedron, varies: Mapping[str, tuple[Any, Any]]) -> BaseRule | None:
    """The affine base rule for the ranges, or None where there is none: then each call takes a phase 1, and says so."""
    try:
        return base_rule(P, varies)
    except NoBaseRuleError as error:
        warnings.warn(f"{error} Each call looks for base points of its own (phase 1).", stacklevel=2)
        return None
