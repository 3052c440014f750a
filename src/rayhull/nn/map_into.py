"""MapInto: coefficients → a point of the set, by a way for each kind of block, strict or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import torch
from torch import Tensor

from rayhull.exact.threads import one_blas_thread
from rayhull.maps.coefficients import nonnegative_named, weights_named
from rayhull.maps.graphs import DTYPES, in_autocast, is_away, is_plain, may_look
from rayhull.maps.leak import block_of_each
from rayhull.maps.shrink import LARGEST, finite, overflow_cut
from rayhull.nn import elsewhere, per_sample  # noqa: F401 (nearest points have their form from the first)
from rayhull.nn.blocks import Finishes, Part, Parts, event_order
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.recognise import Choice, LayerOptions, Options, choose, warn
from rayhull.nn.ways import Bounds, Nearest, Seen, value_of
from rayhull.projection.module import OfSet
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.cones import with_cones
from rayhull.sets.frame import base_of_each
from rayhull.sets.polyhedron import MAX_GENERATORS, need_set
from rayhull.sets.products import BlockGroup, units_of
from rayhull.sets.reading import event_last, last, refuse_axis
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class MapInto(Constants, OfSet):
    r"""Coefficients that something else predicts → a point of the set: the layer without a Linear of its own.

    .. math:: x = \mathrm{nearest}(x_0 + s\, c)

    exactly where the set has a structure for it, by a number of steps and a shrink where it has none; probabilities by
    softmax weights of their vertices.

    Args:
        P: the set.
        method: "auto" (``describe()`` says what it took and why), or one by name: "nearest", the nearest point;
            "steps", a fixed number of steps towards it, then a shrink; "shrink"; "vertices", convex weights of the
            vertices; "rays", the paper's weights of lines and rays.
        steps: how many steps; chosen by a trial if None.
        base: x0, a point strictly inside (event shape) that maps start from; a well-centred one by default.
        scale: the size of the data, for sets that are unbounded, or the data themselves (an array of targets).
        strict: zero violation: the floats that come out meet every inequality and bound in rational arithmetic.
        smooth: shrink smoothly, staying inside: gradients do not vanish on the boundary.
        varies: ranges of sides that come with the call, {"b_eq": (low, high), ...}: a base point for every value of
            them is worked out and proven here (:func:`rayhull.sets.base_rule.base_rule`).
        infeasible: for samples whose own set is empty: "raise", "least" (the point of least violation) or "nan".
        axis: the axis of coefficients and points (and of sides that have as many axes) that they stand on, where it is
            not the last: 1 for the channels of images.
        units: (mean, std) of the data, a number or one for each coordinate: coefficients are then standardised, the
            unconstrained point is mean + std c, and what is nearest to it is judged in these units, too (a distance
            along coordinate i counts as 1 / std_i). Points and sides are in the data's own units.
        nonnegative: the function on the weights of rays: "softplus", "abs", "relu", "square" or your own.
        simplex: the map onto the simplex of vertices' weights: "softmax", "sparsemax", "entmax", "abs", "softplus".
        max_generators: the budget of a conversion, as for ``rayhull.convert``.
        device, dtype: where and in what precision the geometry is made.

    Attributes:
        coefficients: how many numbers a sample needs.
        strict: a switch: train with ``strict = False``, deploy with ``strict = True``. The weights mean the same, and
            the state_dict of one loads into the other.
        shrinking: a switch for the shrink step. Off, only the rows that need no shrinking hold (see ``describe()``).
        keeps_inside: whether coefficients are coordinates, and points of the set stay where they are.

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

    order: Tensor
    units: Tensor
    base: Tensor
    block: Tensor
    finishes: Finishes | None

    @one_blas_thread()
    def __init__(
        self,
        P: Polyhedron,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        need_set(P, cones=True)
        factory = Factory(device, dtype)
        super().__init__(factory)
        given = _checked(options)
        self.polyhedron, self.varies, self._told, self.axis = P, given["varies"], False, given["axis"]
        refuse_axis(P, self.axis)
        scale = _scale_of(given["scale"], P)
        kept = {name: given[name] for name in ("method", "steps", "nonnegative", "simplex", "max_generators")}
        chosen = Options(**kept, scale=scale, varies=self.varies is not None, factory=factory)
        units = None if given["units"] is None else _units_of(P, given)
        weights = None if units is None else units[1] ** -2
        if units is None:
            self.parts = Parts(self._parts(P, chosen, given["base"]))
        else:
            self.parts = Parts([_whole(P, *units, "the nearest point in the given units", factory, weights)])
        self.coefficients = sum(part.coefficients for part in self.parts)
        self.keeps_inside = all(part.way.keeps_inside for part in self.parts)
        order = event_order([part.places.flat for part in self.parts])
        self.in_order = bool((order == np.arange(P.dim)).all())
        self.single = self.in_order and len(self.parts) == 1
        self.index("order", order)
        self.index("block", block_of_each(P).numpy())
        self.constant("units", _gathered("units", self.parts, P))
        self.constant("base", _gathered("base", self.parts, P))
        ranges = None if all(part.way.is_nearest for part in self.parts) else self.varies
        self.per_sample = per_sample.PerSample(P, ranges, given["infeasible"], scale, factory, weights)
        self.finishes = None
        self.shrinking, self.strict = True, given["strict"]
        for part in self.parts:
            part.way.smooth = given["smooth"]
        if is_away(self.device):
            self.prepare()

    def _parts(self, P: Polyhedron, options: Options, base: Any) -> list[Part]:
        """A way for each kind of block; one for all, where all take the nearest point."""
        kinds = P.mirrored_groups
        bases = [None] * len(kinds) if base is None else base_of_each(P, base, kinds)
        pairs = [(kind, replace(options, base=own)) for kind, own in zip(kinds, bases, strict=True)]
        choices = [self._choose(kind.polyhedron, own) for kind, own in pairs]
        each = [Part(P, kind, *choice, options.factory) for kind, choice in zip(kinds, choices, strict=True)]
        if len(kinds) + len(kinds[0].index) <= 2 or not all(part.way.is_nearest for part in each):
            return each
        why = "; ".join(dict.fromkeys(part.why for part in each))
        return [_whole(P, _gathered("base", each, P), _gathered("units", each, P), why, options.factory)]

    def _choose(self, block: Polyhedron, options: Options) -> Choice:
        return choose(block, options)

    # -- switches --------------------------------------------------------------------------------------------------

    @property
    def strict(self) -> bool:
        """Whether what comes out is inside in rational arithmetic."""
        return self.finishes is not None

    @strict.setter
    def strict(self, on: bool) -> None:
        if on == self.strict:
            return
        finishes = Finishes(self.polyhedron.mirrored_groups, self.factory) if on else None
        if finishes is not None:
            finishes.check(self.dtype)  # a refusal leaves everything as it was
        self.finishes = finishes

    @property
    def shrinking(self) -> bool:
        """The switch of the shrink step."""
        return self._shrinking

    @shrinking.setter
    def shrinking(self, on: bool) -> None:
        self._shrinking = on
        for part in self.parts:
            part.way.shrinking = on

    # -- points ----------------------------------------------------------------------------------------------------

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
        h: Tensor | None = None,
        centre: Tensor | None = None,
        origin: Sequence[Tensor] = (),
        leak: float = 0.0,
    ) -> Tensor:
        """A point of the set; what is given beside c replaces what was stated, one for all samples or one for each.

        Args:
            origin: what c was computed from, one row for each sample first. A strict map then cuts coefficients that
                overflowed, and gives NaN where the origin itself is not finite.
            leak: the share of the gradient that reaches the unconstrained point past the map
                (:mod:`rayhull.maps.leak`), where the map has one.

        Shape: b (\\*, m), b_eq (\\*, m_eq), lower, upper, base and centre (\\*, event shape), A (\\*, m, d),
            A_eq (\\*, m_eq, d), h (\\*, cones)
        """
        sides = NONE
        if not (b is b_eq is lower is upper is A is A_eq is base is h is centre is None):
            sides = Sides(b, b_eq, lower, upper, A, A_eq, base, h, centre)
        if self.axis != -1:
            c, moved = event_last(self.polyhedron, c, self.axis, **sides._asdict())
            sides = NONE if sides is NONE else Sides(**moved)
        if c.shape[-1] != self.coefficients:
            where = "the last axis" if self.axis == -1 else f"axis {self.axis}, moved to the end"
            raise ValueError(f"expected {self.coefficients} coefficients on {where}, got shape {tuple(c.shape)}.")
        sides = sides if sides is NONE else sides.checked(self.polyhedron)
        if in_autocast(c):
            with torch.autocast(c.device.type, enabled=False):  # halves are too coarse for geometry
                x = self._points(c, sides, origin, leak)
        else:
            x = self._points(c, sides, origin, leak)
        shape = self.polyhedron.shape
        x = x if len(shape) == 1 else x.reshape(*x.shape[:-1], *shape)
        return x if self.axis == -1 else x.movedim(-1, self.axis)

    def _points(self, c: Tensor, sides: Sides, origin: Sequence[Tensor], leak: float) -> Tensor:
        """Points in the dtype of c, flat."""
        dtype, finishes = c.dtype, self.finishes
        if finishes is not None:
            finishes.check(dtype)
            c = _cut(c, origin)
        c = c if dtype in DTYPES else c.float()
        leak = leak if leak and self.keeps_inside and c.requires_grad else 0.0
        if self.varies is not None and not self._told:
            self._tell_forgotten(sides)
        if sides is not NONE and sides.batch(tuple(c.shape[:-1])) == c.shape[:-1] and may_look(c):
            sides = self.per_sample.without_stated(sides)
        if sides is not NONE and sides.given:
            return per_sample.points(self, c, sides, leak, dtype)
        x = self.blocks(c, leak=leak)
        if finishes is None or not self.shrinking:
            return x if x.dtype == dtype else x.to(dtype)
        return value_of(finishes.forward(x, dtype), x)

    def _tell_forgotten(self, sides: Sides) -> None:
        """Say once that nothing of what was said to vary came with the call."""
        names = tuple(self.varies or ())
        if torch.compiler.is_compiling() or not all(getattr(sides, name) is None for name in names):
            return
        self._told = True
        warn(
            f"{', '.join(names)} vary with the sample, as was said when the layer was built, and this call gives none: "
            "the stated values are taken."
        )

    def blocks(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        """Points of all blocks, flat, inside up to rounding. Shape: (\\*, coefficients) → (\\*, d)"""
        parts: Any = self._modules["parts"]  # self.parts takes longer than a small layer can spare
        if self.single:
            x: Tensor = parts._modules["0"].forward(c, sides, leak)
            return x
        return self._in_order([part.forward(own, sides, leak) for part, own in parts.split(c)])

    def _in_order(self, points: Sequence[Tensor]) -> Tensor:
        """The parts' points as flat coordinates."""
        x = points[0] if len(points) == 1 else torch.cat(list(points), -1)
        return x if self.in_order else x.index_select(-1, self.order)

    def follows(self, sides: Sides, base: Tensor | None) -> bool:
        """Whether the blocks' own ways take these sides: steps need a base point that meets the equalities."""
        if sides.has_rows or (self.per_sample.rule is not None and base is None):
            return False
        if self.per_sample.infeasible != "raise" and any(isinstance(part.way, Nearest) for part in self.parts):
            return False  # it refuses empty sets
        return self.takes(sides.given, moved=base is not None)

    def takes(self, sides: Iterable[str], *, moved: bool = True) -> bool:
        """Whether the blocks' own ways take these sides, with a base point that meets the equalities or without."""
        names, own = set(sides) - {"base"}, {"b_eq"} if moved else set()
        return all(
            part.concerns(names) <= part.way.follows | (own if part.way.has_base else set()) for part in self.parts
        )

    # -- unconstrained points ----------------------------------------------------------------------------------------

    def unconstrained(self, c: Tensor) -> Tensor:
        """The point whose coefficients are c, with nothing imposed: inside the set it is what comes out.

        Undoes ``coefficients_of``. Shape: (\\*, coefficients) → (\\*, event shape)

        Examples:
            >>> import torch, rayhull as rh
            >>> into = rh.MapInto(rh.monotone(2))
            >>> c = into.coefficients_of(torch.tensor([3.0, 1.0]))
            >>> into.unconstrained(c).round(decimals=4), into(c).round(decimals=4)
            (tensor([3., 1.]), tensor([2., 2.]))
        """
        x = self.flat_unconstrained(last(c, self.axis)).to(c.dtype)
        x = x.reshape(*x.shape[:-1], *self.polyhedron.shape)
        return x if self.axis == -1 else x.movedim(-1, self.axis)

    def flat_unconstrained(self, c: Tensor) -> Tensor:
        """The same, flat. Shape: (\\*, coefficients) → (\\*, d)"""
        self.need_identity()
        return self._in_order([part.unconstrained(own) for part, own in self.parts.split(c)])

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Coefficients that give x, for an x in the set and a way that keeps points of the set where they are.

        Shape: (\\*, event shape) → (\\*, coefficients)
        """
        self.need_identity()
        flat = last(x, self.axis).flatten(x.ndim - len(self.polyhedron.shape))
        own = [flat.index_select(-1, part.places.index_) for part in self.parts]
        c = torch.cat([part.coefficients_of(v) for part, v in zip(self.parts, own, strict=True)], -1).to(x.dtype)
        return c if self.axis == -1 else c.movedim(-1, self.axis)

    def need_identity(self) -> None:
        """Refuse a map whose coefficients are no coordinates."""
        if not self.keeps_inside:
            raise ValueError(f"only ways that keep points of the set have an unconstrained point: {self.describe()}")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self.finishes is not None:  # a dtype that cannot resolve the set is refused before anything changes
            self.finishes.check(fn(torch.zeros((), dtype=self.dtype, device=self.device)).dtype)
        super()._apply(fn, recurse)
        if is_away(self.device):
            self.prepare()
        return self

    def prepare(self) -> None:
        """Make what other devices and exported graphs take in place of solvers; ``describe()`` then says what.

        ``.to(device)`` and :func:`rayhull.nn.export.to_onnx` call it; call it yourself before ``torch.export``.

        Examples:
            >>> import rayhull as rh
            >>> into = rh.MapInto(rh.convex(7))
            >>> into.prepare()
            >>> print(into.describe())                                                # doctest: +ELLIPSIS
            Polyhedron(...): 7 coefficients
              one block of 7: the nearest point by its structure: a curve, along its band
              off the CPU and in exported graphs: ... steps and a shrink, which leave ...% of the way to the ...
        """
        for part in self.parts:
            part.way.prepare()
        if self.varies is not None:
            self.per_sample.find_rule(self.varies)

    # -- words -----------------------------------------------------------------------------------------------------

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
        """Which way each kind of block takes and why, and what holds."""
        lines = [f"{self.polyhedron}: {self.coefficients} coefficients"]
        lines += [f"  {part.describe()}" for part in self.parts]
        away = dict.fromkeys(part.way.elsewhere for part in self.parts if part.way.elsewhere and part.way.is_nearest)
        lines += [f"  off the CPU and in exported graphs: {said}" for said in away]
        if self.varies is not None:
            rule = self.per_sample.rule
            how = "nearest points of their own sets" if rule is None else "base points by an affine rule"
            lines.append(f"  {', '.join(self.varies)} of the sample: {how}")
        if not self.shrinking:
            lines.append("  shrinking is off: only the rows met by rays and the equalities hold")
        elif self.strict:
            lines.append("  strict: every inequality and bound holds in rational arithmetic")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from rayhull.sets.plotting import as_html

        return as_html(self.describe(), self.polyhedron, self.plot)

    def extra_repr(self) -> str:
        ways = ", ".join(dict.fromkeys(type(part.way).__name__.lower() for part in self.parts))
        return f"{self.coefficients} coefficients → {self.polyhedron}, by {ways}{', strict' if self.strict else ''}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _whole(P: Polyhedron, base: Array, units: Array, why: str, factory: Factory, weights: Array | None = None) -> Part:
    """The nearest point of the whole set, for all kinds of blocks at once."""
    if len(P.inequalities) or len(P.equality_rows) or with_cones(P) is not None:
        way: Seen = Nearest(P, base, units, factory, weights)
    else:
        way = Bounds(P, base, units, factory)
    none = np.zeros((1, 0), np.int64)
    return Part(P, BlockGroup(P, np.arange(P.dim)[None], none, none, np.ones(1, np.int64)), way, why, factory)


def _units_of(P: Polyhedron, given: dict[str, Any]) -> tuple[Array, Array]:
    """Mean and std as floats (d,); what they do not go with is refused."""
    if given["method"] not in ("auto", "nearest") or given["steps"] is not None or given["base"] is not None:
        raise ValueError(
            "units= go with the nearest point, without steps= and base=: for other ways build the layer on "
            "P.in_units(mean, std) and take mean + std * z of what comes out."
        )
    mean, std = (value.detach().cpu() if isinstance(value, Tensor) else value for value in given["units"])
    centre, unit = units_of(P.shape, mean, std)
    return centre.astype(float), unit.astype(float)


def _gathered(name: str, parts: Iterable[Part], P: Polyhedron) -> Array:
    """The base point or the units of the ways for each flat coordinate; 0 and 1 where a way has none."""
    values = np.full(P.dim, 0.0 if name == "base" else 1.0)
    for part in parts:
        if name in part.way.exact:
            own = part.way.exact[name] * (part.places.exact["sign"] if name == "base" else 1.0)
            values[part.places.flat] = np.broadcast_to(own, (part.count, part.size)).ravel()
    return values


def _cut(c: Tensor, origin: Sequence[Tensor]) -> Tensor:
    """Coefficients that are finite, and so small that no product overflows; NaN where they come from what is not."""
    if is_plain(c) and float(torch.linalg.vector_norm(c.detach(), torch.inf)) <= LARGEST:
        return c
    return finite(overflow_cut(c, origin) if origin else c)


def _checked(options: LayerOptions) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "method": "auto",
        "steps": None,
        "base": None,
        "scale": 1.0,
        "strict": False,
        "smooth": False,
        "varies": None,
        "infeasible": "raise",
        "axis": -1,
        "units": None,
        "nonnegative": "softplus",
        "simplex": "softmax",
        "max_generators": MAX_GENERATORS,
    }
    unknown = [name for name in options if name not in defaults]
    if unknown:
        raise TypeError(f"a layer has no option {unknown[0]!r}: it takes {', '.join(defaults)}.")
    given = {**defaults, **options}
    nonnegative_named(given["nonnegative"])  # refuse what is none, used or not
    weights_named(given["simplex"])
    steps = given["steps"]
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
        raise ValueError(f"steps must be a number of steps, 0 or more, got {steps!r}.")
    return given


def _scale_of(scale: Any, P: Polyhedron) -> float:
    """The scale as a number; of data, the root mean square of their coordinates."""
    if isinstance(scale, int | float) and not isinstance(scale, bool):
        if not (scale > 0 and math.isfinite(scale)):
            raise ValueError(f"scale must be positive and finite, the size of the data, got {scale}.")
        return float(scale)
    data = np.asarray(scale.detach().cpu() if isinstance(scale, Tensor) else scale, np.float64)
    if data.ndim <= len(P.shape) or data.shape[data.ndim - len(P.shape) :] != P.shape:
        raise ValueError(
            f"scale must be a number, or data of shape (n, {', '.join(map(str, P.shape))}), got shape {data.shape}. "
            "For coordinates of very different units give units=(mean, std) of the data."
        )
    from rayhull.sets.interior import scale_from

    return scale_from(data)


def keeping_map(P: Polyhedron, **options: Any) -> MapInto:
    """A map into P that leaves points of the set where they are; ``options`` are those of :class:`rayhull.MapInto`."""
    into = MapInto(P, **options)
    if not into.keeps_inside and options.get("method", "auto") == "auto":
        into = MapInto(P, **{**options, "method": "nearest"})
    if not into.keeps_inside:
        raise ValueError(
            f"method={options['method']!r} moves points of the set too, so nothing of what is there would be kept: use "
            "'nearest', 'steps' or 'shrink'."
        )
    return into
