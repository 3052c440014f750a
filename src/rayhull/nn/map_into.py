"""MapInto: coefficients → a point of the set, block by block, identical blocks in one product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import EmptySetError, RayhullError
from rayhull.maps.coefficients import NonNegative, Weights
from rayhull.maps.leak import block_of_each, damped, leaking
from rayhull.maps.shrink import finite, overflow_cut
from rayhull.nn import sample_tail, tail
from rayhull.nn.base_point import base_of_each, coordinates_at, seen_from_inside
from rayhull.nn.blocks import BlockMap, Blocks, Blockwise, ToEventOrder
from rayhull.nn.choice import choose, is_large, warn_if_poor
from rayhull.nn.closing import How, NoSlackError
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice, Options
from rayhull.nn.following import HIDDEN, STEPS, Following, Kind, base_rule_or_none
from rayhull.nn.leaking import leaks_in_one_call, past
from rayhull.nn.trial import WIDE, Figures, Trial
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.base_rule import BaseRule
    from rayhull.sets.polyhedron import Polyhedron


class MapInto(Blockwise):
    r"""Coefficients that something else predicts → a point of the set: the layer without a Linear of its own.

    .. math:: x = x_0 + \mathrm{shrink}(L \gamma + R f(\beta))

    Args:
        P: the set.
        method: "auto", the cheapest way in that learns about as well as the nearest point (``describe()`` says which
            and why), or one by name: "rays", "vertices", "order", "shift", "shrink", "approach", "projection".
        nonnegative: the function on the coefficients of rays: "abs", "relu", "softplus", "square" or your own.
            Default: relu where one u in R^n gives lines and rays, softplus where rays have coefficients of their own.
        weights: the map onto the simplex under "vertices": "softmax", "sparsemax", "entmax", "abs", "softplus".
        smooth: shrink smoothly, staying inside: gradients do not vanish on the boundary.
        strict: zero violation: the floats that come out meet every inequality and bound in rational arithmetic.
        max_generators: the budget of a conversion.
        approach: the number of dual steps towards the nearest point before the shrink; chosen by the set if None.
        base: a point strictly inside (event shape) that maps start from; a well-centred one by default.
        scale: the size of the data, for sets that are unbounded: ``rayhull.scale_from(targets)`` works it out.
        varies: ranges of sides that come with the call, {"b_eq": (low, high), ...}: a base point for every value of
            them is worked out and proven here (:func:`rayhull.sets.base_rule.base_rule`), phase 1 is spared.
        infeasible: for samples whose own set is empty: "raise", "least" (the point of least violation) or "nan".
        device, dtype: where and in what precision the geometry is made.

    Attributes:
        coefficients: how many numbers a sample needs.
        shrinking: a switch for the shrink step. Off, only the rows that need no shrinking hold (see ``describe()``).
        strict: a switch, too: train with ``strict = False``, deploy with ``strict = True``. The weights mean the same,
            and the state_dict of one loads into the other.

    Shape: (\\*, coefficients) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.monotone(5) & rh.box(-1, 1)
        >>> into = rh.MapInto(P)
        >>> x = into(torch.randn(8, into.coefficients))
        >>> bool(P.contains(x).all())
        True
        >>> into.strict = True
        >>> bool(P.contains_exactly(into(torch.randn(8, into.coefficients))).all())
        True
    """

    coefficients: int
    side_widths: dict[str, int]  # of a flat side of the sample
    following: Following | None
    packed: tail.Packed | None
    block: Tensor  # of each coordinate
    blocks_are_independent = True  # a factor of its own for each block, as the compiled tail has it

    def __init__(
        self,
        P: Polyhedron,
        *,
        method: str = "auto",
        nonnegative: str | NonNegative | None = None,
        weights: str | Weights = "softmax",
        smooth: bool = False,
        strict: bool = False,
        max_generators: int | None = 100_000,
        approach: int | None = None,
        base: Any = None,
        scale: float = 1.0,
        varies: Mapping[str, tuple[Any, Any]] | None = None,
        infeasible: str = "raise",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        _need_set(P)
        factory = Factory(device, dtype)
        super().__init__(factory)
        self.polyhedron, self.smooth, self.shrinking = P, smooth, True
        self.varies, self.infeasible = varies, infeasible
        no_more = not len(P.equality_rows) and not np.isfinite([P.lower_bounds, P.upper_bounds]).any()
        self.has_two_rows = no_more and len(P.inequalities) <= 2  # and nothing else: a graph may take them as inputs
        self.steps_of_sample = approach if approach is not None else 0 if method == "shrink" else STEPS
        self.rule = None if varies is None else base_rule_or_none(P, varies)
        self.following, self._scale = None, scale
        self._why = "its sides come with the sample" if varies is not None and method == "auto" else ""
        method = "shrink" if self._why else method
        chosen = Options(method, nonnegative, weights, max_generators, approach, scale, None, factory)
        kinds = P.mirrored_groups
        bases = [None] * len(kinds) if base is None else base_of_each(P, base, kinds)
        order = np.concatenate([kind.index.ravel() for kind in kinds])
        self.parts = Blocks(
            [
                BlockMap(P, kind, self._choose(kind.polyhedron, replace(chosen, base=own)), factory)
                for kind, own in zip(kinds, bases, strict=True)
            ]
        )
        self.to_event_order = ToEventOrder(order, P.shape, factory)
        self.index("block", block_of_each(P).numpy())
        self.side_widths = {"b": len(P.inequalities), "b_eq": len(P.equalities)} | dict.fromkeys(
            ("lower", "upper", "base"), P.dim
        )
        self.renew()
        if strict:
            self.strict = True
        if varies is not None or self.needs_no_solver(("A", "b")):
            self.follow()  # now, so that a program that is compiled or exported finds it
        self.figures = None if self.rule is None or not self._why or is_large(P) else self._judged(self.rule)

    def _choose(self, block: Polyhedron, options: Options) -> Choice:
        chosen = choose(block, options)
        return replace(chosen, reason=self._why) if self._why else chosen

    @torch.no_grad()
    def _judged(self, rule: BaseRule) -> Figures:
        """How the steps of the sample do over the ranges of what varies; a warning where they do badly."""
        P, steps, how, kind = self.polyhedron, self.steps_of_sample, How(torch.float64), Kind(True, False, False)
        diagonal = coordinates_at(P, seen_from_inside(P, scale=self._scale), self._scale, diagonal=True)
        trial = Trial.of_samples(P, rule, diagonal)
        wide = Following(P, rule, self.infeasible, steps, self._scale, WIDE)
        figures = trial.judge(lambda x: wide(x, trial.sides, how, kind))
        warn_if_poor(figures, f"a shrink after {steps} dual steps", f"Give more of them (approach={2 * steps or 10})")
        return figures

    @property
    def strict(self) -> bool:
        """Whether what comes out is inside in rational arithmetic."""
        parts = self._modules["parts"]  # self.parts takes 0.8 µs, and every call asks
        return bool(parts.strict)  # type: ignore[union-attr]

    @strict.setter
    def strict(self, on: bool) -> None:
        if on != self.parts.strict:
            self.parts.close(on)
            self.widen(on)
            self.renew()

    def renew(self) -> None:
        """After a change of the blocks: what is worked out from them is worked out anew."""
        self.coefficients = self.parts.coefficients
        self.keeps_inside = self.identity_inside  # every call with a leak asks
        self.programs: dict[tuple[Any, ...], tail.Packed | None] = {}
        self.plans: dict[tuple[Any, ...], sample_tail.Plan | None] = {}
        self.packed = tail.pack_for_graphs(self)

    def forward(
        self,
        c: Tensor,
        *,
        b: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | None = None,
        upper: Tensor | None = None,
        A: Tensor | None = None,
        A_eq: Tensor | None = None,
        base: Tensor | None = None,
        origin: Sequence[Tensor] = (),
        leak: float = 0.0,
    ) -> Tensor:
        """A point of the set; what is given beside c replaces what was stated, one for all samples or one for each.

        Args:
            origin: what c was computed from, one row for each sample first. A strict map then cuts coefficients that
                overflowed, and gives NaN where the origin itself is not finite.
            leak: the share of the gradient that reaches the free point past the map (:mod:`rayhull.maps.leak`), where
                the map has one (:meth:`has_free_point`).

        Shape: b (\\*, m), b_eq (\\*, m_eq), lower, upper and base (\\*, event shape), A (\\*, m, d),
            A_eq (\\*, m_eq, d)
        """
        if c.shape[-1] != self.coefficients:
            raise ValueError(f"expected {self.coefficients} coefficients on the last axis, got shape {tuple(c.shape)}.")
        if b is b_eq is lower is upper is A is A_eq is base is None:
            leak = leak if leak and c.requires_grad and self.keeps_inside else 0.0
            packed = tail.serving(self, c)
            if packed is None:
                return self.in_tensor_operations(c, origin, leak=leak)
            return tail.run(self, packed, c, origin, leak)
        sides = Sides(b, b_eq, lower, upper, A, A_eq, base)
        leak = leak if leak and c.requires_grad and self.has_free_point(sides.given) else 0.0
        x = sample_tail.points(self, c, sides, origin, leak)
        if x is not None:
            return x
        sides = sides.checked(self.polyhedron)
        sides.batch(tuple(c.shape[:-1]))  # refuses sides of another batch
        return self.in_tensor_operations(c, origin, sides, leak)

    def in_tensor_operations(
        self, c: Tensor, origin: Sequence[Tensor] = (), sides: Sides | None = None, leak: float = 0.0
    ) -> Tensor:
        """The map as torch sees it: what defines it, runs everywhere, and is differentiated any number of times."""
        own = sides or Sides()
        return self.with_leak(lambda damped: self._mapped(damped, origin, own), c, own, leak)

    def with_leak(self, run: Callable[[Tensor], Tensor], c: Tensor, sides: Sides, leak: float) -> Tensor:
        """The points that ``run`` makes of c, with a leak past it; sides are flat, and have their whole gradient."""
        if not leak:
            return run(c)
        if not sides.given and leaks_in_one_call(c, leak):
            return past(run(c), self._free_point(c, sides), leak, self.polyhedron.shape, self.block)
        stated = Sides(**{name: getattr(sides, name).detach() for name in sides.given})
        return leaking(run(damped(c, leak)), self._free_point(c, stated), leak, self.polyhedron.shape, self.block)

    def _mapped(self, c: Tensor, origin: Sequence[Tensor], sides: Sides) -> Tensor:
        how = How(c.dtype, self.shrinking, self.smooth)
        if self.strict:
            self.parts.check(c.dtype)
            c = finite(overflow_cut(c, origin) if origin else c)
        if sides.given and not self.keeps_base(sides.given):
            return self._followed(c, sides, how)
        try:
            points = self._points(c, sides, how)
        except (NoSlackError, EmptySetError) as error:
            if isinstance(error, EmptySetError) and self.infeasible == "raise":
                raise
            return self._followed(c, sides, how)
        return self.to_event_order(points[0] if len(points) == 1 else torch.cat(points, -1))

    def _points(self, c: Tensor, sides: Sides, how: How) -> list[Tensor]:
        """The points of each kind of block, (\\*, count · size)."""
        return [part(own, sides, how) for part, own in self.parts.split(c)]

    def keeps_base(self, sides: Sequence[str]) -> bool:
        """Whether the blocks follow these sides from the base point of the set as it was stated."""
        return not self.strict and self.varies is None and self.parts.follow(sides)

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

    def needs_no_solver(self, sides: Sequence[str]) -> bool:
        """Whether a graph can take these sides: the base point stays, or follows an affine rule, or none is needed."""
        has_rows = bool({"A", "A_eq"} & set(sides))
        two_rows = self.has_two_rows and "A" in sides and set(sides) <= {"A", "b"}
        return self.keeps_base(sides) or two_rows or (self.rule is not None and not has_rows)

    def _followed(self, c: Tensor, sides: Sides, how: How) -> Tensor:
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
        return self._free_point(c, own.checked(self.polyhedron) if own.given else own)

    def _free_point(self, c: Tensor, sides: Sides) -> Tensor:
        wide = finite(c) if self.strict else c
        if not sides.given or self.keeps_base(sides.given):
            return super().point_of(wide).to(c.dtype)
        self._need_identity()
        return self.follow().free_points(self.to_event_order(self.parts.free(wide)), sides, self._kind).to(c.dtype)

    def has_free_point(self, sides: Sequence[str]) -> bool:
        """Whether ``point_of`` has an answer for these sides without a phase 1 of its own."""
        return self.keeps_inside and (not sides or self.parts.are_points or self.needs_no_solver(sides))

    @property
    def _kind(self) -> Kind:
        return Kind(self.parts.are_points, self.parts.are_nearest, self.strict)

    def meaning_of(self, c: Tensor, origin: Sequence[Tensor] = ()) -> Tensor:
        """What c stands for with nothing imposed, flat, in the order of the event. Shape: (n, k) → (n, d)"""
        if self.strict:
            c = finite(overflow_cut(c, origin) if origin else c)
        x: Tensor = self.to_event_order(self.parts.free(c))
        return x.flatten(1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self.strict:  # a cast to a dtype that cannot resolve the set is refused before anything changes
            self.parts.check(fn(torch.zeros((), dtype=self.dtype, device=self.device)).dtype)
        before = self.dtype
        super()._apply(fn, recurse)
        if self.dtype != before:
            self.packed = tail.pack_for_graphs(self)
        return self

    def plot(self, coordinates: Sequence[Any] | None = None, *, ax: Any = None, reach: float = 3.0) -> Any:
        """Draw the set and where coefficients land in it, to see where a map crowds points (the extra ``plot``).

        Args:
            coordinates: two or three of the set's coordinates, by name or number; a set in R^2 or R^3 needs none.
            ax: axes to draw on.
            reach: two coefficients are drawn as a grid up to ±reach, more as random points of this scale.
        """
        from rayhull.nn.drawing import draw

        return draw(self, coordinates, ax, reach)

    def describe(self) -> str:
        """Which way in each kind of block takes and why, and what holds."""
        lines = [f"{self.polyhedron}: {self.coefficients} coefficients"]
        lines += [f"  {part.describe()}" for part in self.parts]
        if self.varies is not None:
            where = "a phase 1 for each call" if self.rule is None else f"an affine rule (slack >= {self._least():.2g})"
            names = ", ".join(self.varies)
            steps = f"{self.steps_of_sample} dual steps, then " if self.steps_of_sample else ""
            figures = "" if self.figures is None else f"; error over the nearest point's, way left: {self.figures}"
            lines.append(f"  {names} of the sample: {steps}a shrink, from base points by {where}{figures}")
        if not self.shrinking and any(part.closing.shrinks for part in self.parts):
            lines.append("  shrinking is off: only the rows met by rays and the equalities hold")
        elif self.strict:
            lines.append("  strict: every inequality and bound holds in rational arithmetic")
        return "\n".join(lines)

    def _least(self) -> float:
        """The least slack that the base rule keeps over its whole range, rows that never move left out."""
        slack = np.zeros(0) if self.rule is None else self.rule.slack
        return float(slack[slack > 0].min(initial=np.inf))

    def extra_repr(self) -> str:
        methods = ", ".join(dict.fromkeys(part.method for part in self.parts))
        return f"{self.coefficients} coefficients → {self.polyhedron}, by {methods}{', strict' if self.strict else ''}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _need_set(P: object) -> None:
    """Refuse what is not a set, with what to write instead."""
    from rayhull.sets.polyhedron import Polyhedron

    if isinstance(P, Polyhedron):
        return
    if isinstance(P, tuple | list) and len(P) == 2:
        raise TypeError("expected a set, got two things: give rayhull.Polyhedron(A, b) for A x <= b.")
    hint = "rayhull.Polyhedron(A) for A x <= 0, rayhull.Polyhedron(A, b) for A x <= b"
    raise TypeError(f"expected a set, got {type(P).__name__}: give {hint}.")
