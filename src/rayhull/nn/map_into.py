"""MapInto: coefficients → a point of the set, block by block, identical blocks in one product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import EmptySetError
from rayhull.maps.coefficients import NonNegative, Weights
from rayhull.maps.leak import block_of_each, damped, leaking
from rayhull.maps.shrink import finite, overflow_cut
from rayhull.nn import sample_tail, tail
from rayhull.nn.base_point import base_of_each
from rayhull.nn.blocks import BlockMap, Blocks, ToEventOrder
from rayhull.nn.choice import choose
from rayhull.nn.closing import How, NoSlackError
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice, Options
from rayhull.nn.following import STEPS
from rayhull.nn.leaking import leaks_in_one_call, past
from rayhull.nn.varying import Ranges, Varying
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class MapInto(Varying):
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

    side_widths: dict[str, int]  # of a flat side of the sample
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
        varies: Ranges | None = None,
        infeasible: str = "raise",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        _need_set(P)
        factory = Factory(device, dtype)
        super().__init__(factory)
        self.smooth, self.shrinking = smooth, True
        steps = approach if approach is not None else 0 if method == "shrink" else STEPS
        self.vary(P, varies, infeasible, steps, scale)
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
        if self._why:
            self.judge()

    def _choose(self, block: Polyhedron, options: Options) -> Choice:
        chosen = choose(block, options)
        return replace(chosen, reason=self._why) if self._why else chosen

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
            return past(run(c), self.free_point(c, sides), leak, self.polyhedron.shape, self.block)
        stated = Sides(**{name: getattr(sides, name).detach() for name in sides.given})
        return leaking(run(damped(c, leak)), self.free_point(c, stated), leak, self.polyhedron.shape, self.block)

    def _mapped(self, c: Tensor, origin: Sequence[Tensor], sides: Sides) -> Tensor:
        how = How(c.dtype, self.shrinking, self.smooth)
        if self.strict:
            self.parts.check(c.dtype)
            c = finite(overflow_cut(c, origin) if origin else c)
        if sides.given and not self.keeps_base(sides.given):
            return self.followed(c, sides, how)
        try:
            points = self._points(c, sides, how)
        except (NoSlackError, EmptySetError) as error:
            if isinstance(error, EmptySetError) and self.infeasible == "raise":
                raise
            return self.followed(c, sides, how)
        return self.to_event_order(points[0] if len(points) == 1 else torch.cat(points, -1))

    def _points(self, c: Tensor, sides: Sides, how: How) -> list[Tensor]:
        """The points of each kind of block, (\\*, count · size)."""
        return [part(own, sides, how) for part, own in self.parts.split(c)]

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
            lines.append(f"  {self.describe_sides(self.varies)}")
        if not self.shrinking and any(part.closing.shrinks for part in self.parts):
            lines.append("  shrinking is off: only the rows met by rays and the equalities hold")
        elif self.strict:
            lines.append("  strict: every inequality and bound holds in rational arithmetic")
        return "\n".join(lines)

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
