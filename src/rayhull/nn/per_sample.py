"""Sets of the sample: sides and rows that come with the call, on every layer.

Steps and the shrink need a point strictly inside the set of each sample: the stated base point, one that is given with
the call, or one that follows an affine rule, proven when the layer was built (``varies=``). Where none is known, or it
has no slack, the sample goes to the nearest point of its own set: from the unconstrained point where the layer has one,
else from the layer's point of the stated set, which stays where it is if the sample's set holds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable, which would load its compiler: a second

from rayhull.errors import EmptySetError, RayhullError
from rayhull.maps.closed_forms import onto_two_rows
from rayhull.maps.graphs import broadcast, hides_numbers, is_away, is_differentiated
from rayhull.maps.leak import Leak, damped, leaking
from rayhull.maps.shrink import LARGE
from rayhull.maps.steps import Plane, mapped
from rayhull.nn.conic import ConicPull
from rayhull.nn.constants import Constants
from rayhull.nn.options import Options, Ranges
from rayhull.nn.recognise import warn
from rayhull.nn.sample_finish import finished, refuse_nan
from rayhull.nn.ways import FAR_OF_CONES, WIDER, in_reach, value_of
from rayhull.projection.conic import with_bounds
from rayhull.projection.formulas import formula_of
from rayhull.projection.module import NearestPoint
from rayhull.projection.sides import Sides, agreeing, zero_rows_hold
from rayhull.projection.solve import sample_names
from rayhull.sets.base_rule import BaseRule, NoBaseRuleError, base_rule
from rayhull.sets.cones import with_cones
from rayhull.sets.frame import is_large
from rayhull.sets.rows import DEPENDENT, Array
from rayhull.sets.systems import independent_sparse_rows

if TYPE_CHECKING:
    from rayhull.nn.blocks import Parts
    from rayhull.nn.map_into import MapInto
    from rayhull.sets.polyhedron import Polyhedron

ENTRIES = 100_000  # of A, which graphs need as a constant
OFF = 64  # roundings of the layer's dtype, by which a base point may miss an equality


class PerSample(Constants):
    """What a layer needs for sides of the sample: its rule, its rows, and the nearest point of the whole set.

    Args:
        P: the set as it was stated.
        options: those of the layer.
        varies: ranges of sides, for which a base rule is worked out and proven here.
    """

    def __init__(self, P: Polyhedron, options: Options, varies: Ranges | None) -> None:
        super().__init__(options.factory)
        self.polyhedron, self.infeasible, self.scale = P, options.infeasible, options.scale
        self.in_units = options.units is not None  # around the mean of the data, which need not be inside
        self.rule: BaseRule | None = None
        self.sought = False
        self.nearest = NearestPoint(P, weights=options.weights, infeasible=options.infeasible, later=True)
        self.conic: ConicPull | None = None
        if (S := with_cones(P)) is not None:
            self.constant("centre", S.stated_centre)
            self.constant("along", S.along.null @ S.along.null.T)  # a centre moves a base point along the equalities
            if not S.centre.implicit.any():
                wide = with_bounds(S)
                wide.centre, wide.interior_direction = S.centre, None  # a call with sides has its own base points
                self.conic = ConicPull(wide, options.factory)
        if varies is not None:
            self.find_rule(varies)
        unit, _, lengths = P.equalities.unit
        self.constant("lengths", np.where(lengths > 0, lengths, 1.0), wide=True)  # of equalities
        self._large, alone = is_large(P), len(P.equalities) == len(P.equality_rows)
        self._moves = alone and not self.in_units and (self._large or P.dim * len(P.equalities) <= ENTRIES)
        if not self._large and P.dim * len(P.equalities) <= ENTRIES:
            # what moves a point onto equalities, and what sides of those that depend on each other leave
            self.constant("onto", np.linalg.pinv(unit.toarray(), rcond=DEPENDENT) / self.exact["lengths"])
            if P.equalities.cancelling.shape[1]:
                self.constant("cancelling", P.equalities.cancelling, wide=True)
        sums = _sums(P)
        self.has_sums = bool((sums < len(P.equalities)).any())
        self.index("sum_of", sums)
        stated = {"b": P.inequalities.rhs, "b_eq": P.equalities.rhs, "lower": P.lower_bounds, "upper": P.upper_bounds}
        if P.dim * len(P.inequalities) <= ENTRIES:
            stated["A"] = P.inequalities.matrix.toarray()
        for name, values in stated.items():
            self.constant(name, values, wide=True)

    def find_rule(self, varies: Ranges) -> None:
        """Take base points by an affine rule, where the ranges have one."""
        if self.sought:
            return
        self.sought = True
        try:
            self.rule = base_rule(self.polyhedron, varies, self.scale)
        except NoBaseRuleError as error:
            warn(f"{error} Samples go to the nearest points of their own sets.")
            return
        self.constant("K", self.rule.matrix)
        self.constant("k", self.rule.offset)

    def serves(self, parts: Parts, sides: Iterable[str]) -> bool:
        """Whether the blocks' own ways take these sides, steps from a base point that meets the equalities."""
        names = {*sides}
        moves = self._moves or self.rule is not None or "base" in names
        if names & {"A", "A_eq"} or ("b_eq" in names and not moves):
            return False
        if self.infeasible != "raise" and any(part.way.is_nearest for part in parts):
            return False  # it refuses empty sets
        return parts.takes(names)

    def base_of(self, sides: Sides, stated: Tensor) -> Tensor | None:
        """The base point of each sample, None where it is the stated one. Shape: (\\*, d)

        It is the call's own; K θ + k where there is a rule; else the stated one, moved onto the sample's equalities.
        """
        if sides.base is not None or sides.has_rows:
            return sides.base
        if sides.centre is not None:
            stated = stated + ((sides.centre - self.centre).to(self.along.dtype) @ self.along).to(stated.dtype)
        if self.rule is None:
            if sides.b_eq is None:
                return None if sides.centre is None else stated
            return stated + self._onto(sides.b_eq).to(stated.dtype) if self._moves else None
        theta = [getattr(self if getattr(sides, name) is None else sides, name) for name in self.rule.sides]
        lead = broadcast(*(t.shape[:-1] for t in theta))
        stacked = torch.cat([t.to(self.K.dtype).expand(*lead, -1) for t in theta], -1)
        return stacked @ self.K.mT + self.k

    def _onto(self, b_eq: Tensor) -> Tensor:
        """The least movement from the stated equalities onto those of the sample. Shape: (\\*, m_eq) → (\\*, d)"""
        more = b_eq - self.b_eq
        if not self._large:
            return more.to(self.onto.dtype) @ self.onto.mT
        kept, norms, plane = self._plane
        return plane.moved(more[..., kept] / norms.to(more))

    @cached_property
    def _plane(self) -> tuple[Tensor, Tensor, Plane]:
        """Independent equalities by their numbers, their lengths, and the plane of those rows at length 1."""
        unit, _, norms = self.polyhedron.equalities.unit
        kept = independent_sparse_rows(unit)
        return torch.from_numpy(kept), torch.from_numpy(norms[kept]), Plane(unit[kept])

    def agreeing(self, sides: Sides) -> Tensor | None:
        """Whose equalities have a point: those that depend on each other may disagree; None: all. Shape: (\\*)"""
        if sides.b_eq is None:
            return None
        many = len(self.polyhedron.equalities)
        if not (len(self._plane[0]) < many if self._large else "cancelling" in self.exact):
            return None
        return agreeing(sides.b_eq, self.lengths, self._met if self._large else self.cancelling, sides.b_eq.dtype)[1]

    def _met(self, unit: Tensor) -> Tensor:
        """What points that meet the independent equalities of a large set give in all of them."""
        (kept, _, plane), rows = self._plane, self.polyhedron.equalities.unit[0]
        return mapped(plane.moved(unit[..., kept]), rows.__matmul__, rows.T.__matmul__)

    def on_equalities(self, sides: Sides, stated: Tensor) -> Tensor | None:
        """Which base points that came with the call meet the equalities; None: all. Shape: (\\*)"""
        if sides.base is None or self.in_units or not ("onto" in self.exact or self._large):
            return None
        due = stated if sides.b_eq is None else stated + self._onto(sides.b_eq)
        away, unit = (sides.base - due).double(), self.polyhedron.equalities.unit[0]
        if self._large:
            off, steep = mapped(away, unit.__matmul__, unit.T.__matmul__), unit.shape[1] ** 0.5
        else:
            off, steep = away @ self.onto.double(), self.onto.abs().sum(0)
        size = steep * (sides.base.abs() + due.abs()).amax(-1, keepdim=True)
        return (off.abs() <= OFF * torch.finfo(self.dtype).eps * size).all(-1)

    def without_stated(self, sides: Sides, *, strict: bool) -> Sides:
        """The same, what is as the set states it left out: the layer's own map serves then.

        Stated numbers rounded to the layer's own dtype count as stated; those of another dtype, and inequalities of a
        strict layer, where they are no tighter.
        """
        rows: dict[str, Any] = {"A": self.polyhedron.inequalities.matrix, "A_eq": self.polyhedron.equalities.matrix}
        stated = rows | {name: getattr(self, name) for name in ("b", "b_eq", "lower", "upper")}
        for name in sides.given:
            given, own = getattr(sides, name), stated.get(name)
            if own is None or is_differentiated(given) or given.shape[-own.ndim :] != own.shape:
                continue
            own = own if isinstance(own, Tensor) else torch.as_tensor(own.toarray(), device=given.device)
            same = given == own.to(given.dtype)
            if given.dtype != self.dtype or (strict and name not in ("b_eq", "A_eq")):
                wide, sign = given.double(), {"b": 1, "upper": 1, "lower": -1}.get(name)
                same &= wide == own if sign is None else sign * wide >= sign * own
            if bool(same.all()):
                sides = sides._replace(**{name: None})
        return sides

    def in_shares(self, x: Tensor, sides: Sides) -> Tensor:
        """Points of the stated set, each sum of coordinates as large as the sample's: shares of what it has."""
        if sides.b_eq is None or sides.A_eq is not None or not self.has_sums:
            return x
        ratio = sides.b_eq / self.b_eq
        whole = torch.cat([ratio, torch.ones_like(ratio[..., :1])], -1)  # the last one, for coordinates in no sum
        return x * whole.to(x.dtype)[..., self.sum_of]

    def is_unseen(self, certified: Tensor) -> bool:
        """Whether samples without a certificate come out as NaN: in graphs, and where a rule spares a device a wait."""
        return hides_numbers(certified) or (self.rule is not None and is_away(certified.device))

    # -- the nearest point of the sample's set -----------------------------------------------------------------------

    def points(self, u: Tensor, sides: Sides) -> Tensor:
        """The nearest points of the samples' own sets. Shape: (\\*, d) → (\\*, d)"""
        hidden = sides.has_rows and hides_numbers(u)
        flat, batch, own = self.spread(u, sides)
        known = flat.isfinite().all(-1)
        x = torch.where(known.unsqueeze(-1), flat, torch.zeros_like(flat)).reshape(-1, *self.polyhedron.shape)
        given = own.without_base(self.polyhedron.shape)
        may_have = is_away(u.device) and not sides.has_rows
        formula = formula_of(self.nearest.projector, own.given, u.device) if may_have else None
        if hidden and self.is_closed(own.given, 0 if own.A is None else own.A.shape[-2]):
            near, met = self._onto_rows(x.flatten(1), own)
            known = known & met
        elif formula is not None:
            near = formula(x, given)  # NaN where a set is empty
        else:
            near = _outside_graphs(self.nearest, x, given) if hidden else self.nearest(x, **given)
        near = near.flatten(1)
        return torch.where(known.unsqueeze(-1), near, torch.full_like(near, torch.nan)).reshape(*batch, u.shape[-1])

    def spread(
        self, u: Tensor, sides: Sides, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, tuple[int, ...], Sides]:
        """Points (n, d), the batch dimensions of points and sides together, and the sides of each sample."""
        batch = sides.batch(tuple(u.shape[:-1]))
        return u.expand(*batch, -1).reshape(-1, u.shape[-1]), batch, sides.spread(batch, dtype or u.dtype)

    def is_closed(self, sides: Iterable[str], rows: int) -> bool:
        """Whether one or two rows of the sample are all there is: their nearest point has a formula, for graphs."""
        P = self.polyhedron
        alone = not len(P.equality_rows) and len(P.rows) == len(P.layout.inequalities)
        return alone and self.nearest.projector.weights is None and {*sides} <= {"A", "b"} and 0 < rows <= 2

    def _onto_rows(self, x: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        assert sides.A is not None
        b = self.b.expand(x.shape[0], -1) if sides.b is None else sides.b
        near, met = onto_two_rows(x, sides.A, b)
        return onto_two_rows(near, sides.A, b)[0], met  # what solving left


@_disable_dynamo  # torch.compile breaks its graph there
def _outside_graphs(nearest: NearestPoint, x: Tensor, sides: dict[str, Tensor]) -> Tensor:
    if torch.compiler.is_compiling() or hides_numbers(x):
        raise RayhullError(
            "torch.compile, torch.export and vmap cannot take the nearest point of sets whose rows (A, A_eq) come with "
            "the sample: call the layer outside."
        )
    found: Tensor = nearest(x, **sides)
    return found


def points(into: MapInto, c: Tensor, sides: Sides, leak: float, dtype: torch.dtype) -> Tensor:
    """Points of the samples' own sets in a dtype, flat; strict where the layer is. Shape: (\\*, k) → (\\*, d)"""
    own, batch = into._per_sample, sides.batch(tuple(c.shape[:-1]))
    if sides.b is not None:
        sides = sides._replace(b=sides.b.clamp_max(min(LARGE, torch.finfo(sides.b.dtype).max)))
    base = own.base_of(sides, into.base)
    if not own.serves(into.parts, sides.given):
        base, x = sides.base, _nearest(into, c, sides, leak)
    else:
        moved = sides._replace(base=None if base is None else base.expand(*batch, -1).to(c.dtype))
        asked = [into.parts.certified(moved), own.agreeing(sides), zero_rows_hold(own.polyhedron, sides)]
        if into.strict or asked[0] is not None:  # nearest points alone start from nowhere
            asked.append(own.on_equalities(sides, into.base))
        judged = [each for each in asked if each is not None]
        certified = reduce(torch.logical_and, judged).expand(batch) if judged else None
        known = certified is None or own.is_unseen(certified) or bool(certified.all())
        run = _from_base if known else _apart
        x = run(into, c.expand(*batch, -1), moved, certified, leak)
        stated = None if certified is None or own.in_units else into.base
        base = (stated if base is None else base) if known else None
    x = x.to(dtype)
    return value_of(finished(own, x, base, sides), x) if into.strict else x


def _nearest(into: MapInto, c: Tensor, sides: Sides, leak: float) -> Tensor:
    """The nearest points of the samples' own sets; without an unconstrained point, to points of the stated one."""
    own = into._per_sample
    u = into.parts.unconstrained(c) if into.keeps_inside else own.in_shares(into.parts(c), sides)
    if own.nearest.has_cones:
        u = in_reach(u, WIDER * FAR_OF_CONES * torch.maximum(into.units, into.base.abs()).amax())
    past = Leak(leak, into.units, into._block)
    found = own.nearest.projector.direct(u, past if leak else None, sides)
    return leaking(own.points(damped(u, leak), sides), u, past) if found is None else found


def _from_base(into: MapInto, c: Tensor, sides: Sides, certified: Tensor | None, leak: float) -> Tensor:
    """Points from known base points; NaN for samples that a graph finds to have none."""
    x = into.parts(c, sides, leak)
    if certified is None or not into._per_sample.is_unseen(certified):
        return x
    return torch.where(certified.unsqueeze(-1), x, torch.full_like(x, torch.nan))


def _apart(into: MapInto, c: Tensor, sides: Sides, certified: Tensor | None, leak: float) -> Tensor:
    """Samples whose base point has slack from there, the others by their nearest points."""
    assert certified is not None
    batch, c = tuple(certified.shape), c.reshape(-1, c.shape[-1])
    refuse_nan(spread := sides.spread(batch, c.dtype))
    fine, lost = (which.nonzero().squeeze(-1) for which in (certified.reshape(-1), ~certified.reshape(-1)))
    given = [Sides(**{name: getattr(spread, name)[which] for name in spread.given}) for which in (fine, lost)]
    try:
        near = _nearest(into, c[lost], given[1], leak)
    except EmptySetError as error:  # it counts the lost samples, not those of the batch
        text = re.sub(r"sample (\d+)", lambda found: f"sample {int(lost[int(found[1])])}", str(error))
        raise EmptySetError(f"among {sample_names(lost)}: {text}", error.rows) from None
    out = near.new_zeros(len(c), near.shape[-1]).index_copy(0, lost, near)
    if len(fine):
        out = out.index_copy(0, fine, into.parts(c[fine], given[0], leak).to(out.dtype))
    return out.reshape(*batch, -1)


def _sums(P: Polyhedron) -> Array:
    """For each coordinate the number of a stated equality that sums it with others, unweighted; else one too large."""
    E, none = P.equalities, len(P.equalities)
    found = np.full(P.dim, none)
    for k in range(none):
        row = slice(E.matrix.indptr[k], E.matrix.indptr[k + 1])
        if E.rhs[k] and len(set(E.matrix.data[row].tolist())) == 1:
            found[E.matrix.indices[row]] = k
    return found
