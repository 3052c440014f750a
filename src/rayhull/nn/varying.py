"""Sides that come with the call: which base point serves them, and who follows them where the set's own does not.

The blocks of a map follow b and the bounds of a sample from the base point of the set as it was stated, wherever that
point has slack for them. :class:`rayhull.nn.following.Following` takes the rest: it finds a base point for each sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.shrink import finite
from rayhull.nn.base_point import coordinates_at, seen_from_inside
from rayhull.nn.blocks import Blockwise
from rayhull.nn.choice import is_large, warn_if_poor
from rayhull.nn.closing import How
from rayhull.nn.following import HIDDEN, Following, Kind, base_rule_or_none
from rayhull.nn.trial import WIDE, Figures, Trial
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.base_rule import BaseRule
    from rayhull.sets.polyhedron import Polyhedron

Ranges = Mapping[str, tuple[Any, Any]]  # of the sides that come with the call


class Varying(Blockwise):
    """A map of blocks into a set whose sides may be those of the sample.

    Attributes:
        varies: the ranges that were stated, {"b_eq": (low, high), ...}, or None.
        rule: the affine base rule that serves them, or None where there is none.
        following: what follows the sample; None until it is needed.
        figures: how well the sides of the sample are followed over their ranges, where that was worked out.
    """

    coefficients: int
    strict: bool
    keeps_inside: bool
    following: Following | None
    figures: Figures | None

    def vary(self, P: Polyhedron, varies: Ranges | None, infeasible: str, steps: int, scale: float) -> None:
        """State what may vary.

        Args:
            P: the set as it was stated.
            varies: ranges of sides that come with the call; a base rule for them is worked out and proven here.
            infeasible: for samples whose own set is empty: "raise", "least" or "nan".
            steps: dual steps before the shrink.
            scale: the size of the data, for sets that are unbounded.
        """
        no_more = not len(P.equality_rows) and not np.isfinite([P.lower_bounds, P.upper_bounds]).any()
        self.has_two_rows = no_more and len(P.inequalities) <= 2  # and nothing else: a graph may take them as inputs
        self.polyhedron, self.varies, self.infeasible = P, varies, infeasible
        self.steps_of_sample, self._scale = steps, scale
        self.rule = None if varies is None else base_rule_or_none(P, varies)
        self.following = self.figures = None

    # -- who follows what ----------------------------------------------------------------------------------------

    def keeps_base(self, sides: Sequence[str]) -> bool:
        """Whether the blocks follow these sides from the base point of the set as it was stated."""
        return not self.strict and self.varies is None and self.parts.follow(sides)

    def needs_no_solver(self, sides: Sequence[str]) -> bool:
        """Whether a graph can take these sides: the base point stays, or follows an affine rule, or none is needed."""
        has_rows = bool({"A", "A_eq"} & set(sides))
        two_rows = self.has_two_rows and "A" in sides and set(sides) <= {"A", "b"}
        return self.keeps_base(sides) or two_rows or (self.rule is not None and not has_rows)

    def has_free_point(self, sides: Sequence[str]) -> bool:
        """Whether ``point_of`` has an answer for these sides without a phase 1 of its own."""
        return self.keeps_inside and (not sides or self.parts.are_points or self.needs_no_solver(sides))

    def follow(self) -> Following:
        """What follows the sides of a sample; made once."""
        if self.following is None:
            if torch.compiler.is_compiling():  # a graph cannot make it
                raise RayhullError(HIDDEN)
            self.following = Following(
                self.polyhedron, self.rule, self.infeasible, self.steps_of_sample, self._scale, self.factory
            )
            self.following.widen(self.strict)
        return self.following

    @property
    def _kind(self) -> Kind:
        return Kind(self.parts.are_points, self.parts.are_nearest, self.strict)

    # -- points --------------------------------------------------------------------------------------------------

    def followed(self, c: Tensor, sides: Sides, how: How) -> Tensor:
        """Points of sets that follow the sample, block by block no longer."""
        if self.coefficients != self.polyhedron.dim:
            raise ValueError(
                f"{', '.join(sides.given)} of the sample need a way in with one coefficient for each coordinate, and "
                f"this is {self.extra_repr()}: use method='shrink' or 'projection'."
            )
        return self.follow().points(self.to_event_order(self.parts.free(c)), sides, how, self._kind)

    def point_of(self, c: Tensor, **sides: Tensor | None) -> Tensor:
        """The point whose coefficients are c, with nothing imposed; seen from the sample's own base point where the
        sides, given as to ``forward``, ask for one: :meth:`Blockwise.point_of`."""
        own = Sides(**sides)
        return self.free_point(c, own.checked(self.polyhedron) if own.given else own)

    def free_point(self, c: Tensor, sides: Sides) -> Tensor:
        """The same for sides that were checked."""
        wide = finite(c) if self.strict else c
        if not sides.given or self.keeps_base(sides.given):
            return super().point_of(wide).to(c.dtype)
        self._need_identity()
        return self.follow().free_points(self.to_event_order(self.parts.free(wide)), sides, self._kind).to(c.dtype)

    # -- how well ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def judge(self) -> None:
        """How the steps of the sample do over the ranges of what varies; a warning where they do badly."""
        if self.rule is None or is_large(self.polyhedron):
            return
        P, steps, how, kind = self.polyhedron, self.steps_of_sample, How(torch.float64), Kind(True, False, False)
        diagonal = coordinates_at(P, seen_from_inside(P, scale=self._scale), self._scale, diagonal=True)
        trial = Trial.of_samples(P, self.rule, diagonal)
        wide = Following(P, self.rule, self.infeasible, steps, self._scale, WIDE)
        self.figures = trial.judge(lambda x: wide(x, trial.sides, how, kind))
        advice = f"Give more of them (approach={2 * steps or 10})"
        warn_if_poor(self.figures, f"a shrink after {steps} dual steps", advice)

    def describe_sides(self, varies: Ranges) -> str:
        """How the sides that vary are followed, and how well."""
        where = "a phase 1 for each call" if self.rule is None else f"an affine rule (slack >= {_least(self.rule):.2g})"
        steps = f"{self.steps_of_sample} dual steps, then " if self.steps_of_sample else ""
        figures = "" if self.figures is None else f"; error over the nearest point's, way left: {self.figures}"
        return f"{', '.join(varies)} of the sample: {steps}a shrink, from base points by {where}{figures}"


def _least(rule: BaseRule) -> float:
    """The least slack that a base rule keeps over its whole range, rows that never move left out."""
    return float(rule.slack[rule.slack > 0].min(initial=np.inf))
