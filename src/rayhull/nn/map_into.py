"""MapInto: coefficients → a point of the set, by a way for each kind of block, strict or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack

import numpy as np
import torch
from torch import Tensor

from rayhull.exact.threads import one_blas_thread
from rayhull.maps.graphs import DTYPES, in_autocast, is_away, is_plain, may_look
from rayhull.maps.leak import block_of_each
from rayhull.maps.shrink import LARGEST, finite, overflow_cut
from rayhull.nn import per_sample
from rayhull.nn.blocks import Finishes, Part, Parts, every_coordinate
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.options import LayerOptions, Options, refuse_unless_switch
from rayhull.nn.recognise import choose, nearest_way, warn
from rayhull.nn.ways import value_of
from rayhull.projection.module import OfSet
from rayhull.projection.sides import NONE, Sides, TakesSides
from rayhull.sets.cones import with_cones
from rayhull.sets.frame import base_of_each
from rayhull.sets.polyhedron import Polyhedron, need_set
from rayhull.sets.products import block_groups
from rayhull.sets.reading import last
from rayhull.sets.rows import Array

CLOUD = 2000  # random coefficients in a drawing


class MapInto(Constants, TakesSides, OfSet):
    r"""Coefficients that something else predicts → a point of the set: the layer without a Linear of its own.

    .. math:: x = \mathrm{nearest}(x_0 + s\, c)

    exactly where the set has a structure for it, by a number of steps and a shrink where it has none; probabilities by
    softmax weights of their vertices.

    Args:
        P: the set.
        method: "auto" (``describe()`` says what it took and why), or one by name: "nearest", the nearest point;
            "steps", a fixed number of steps towards it, then a shrink; "shrink"; "vertices", convex weights of the
            vertices; "rays", the paper's weights of lines and rays.
        steps: how many steps, with method "steps" or "auto" (which then takes them). Without it "auto" chooses the
            number by a trial, and "steps" takes 20.
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

    _finishes: Finishes | None

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
        chosen = Options.read(P, options, factory)
        self.polyhedron, self.varies, self._told, self.axis = P, chosen.varies, False, chosen.axis
        self.parts = self._parts(P, chosen)
        self.coefficients, self.keeps_inside = self.parts.coefficients, self.parts.keeps_inside
        self.index("_block", block_of_each(P).numpy())
        self.constant("units", self.parts.gathered("units"))
        self.constant("base", self.parts.gathered("base"))
        ranges = None if all(part.way.is_nearest for part in self.parts) else self.varies
        self._per_sample = per_sample.PerSample(P, chosen, ranges)
        self._finishes = None
        self.shrinking, self.strict = True, chosen.strict
        for part in self.parts:
            part.way.smooth = chosen.smooth
        if is_away(self.device):
            self.prepare()

    def _parts(self, P: Polyhedron, options: Options) -> Parts:
        """A way for each kind of block; one for all, where all take the nearest point."""
        if options.units is not None:
            return _whole(P, *options.units, "the nearest point in the given units", options)
        converted = options.method in ("vertices", "rays") and with_cones(P) is None
        kinds = block_groups(P, mirrored=True) if converted else P.mirrored_groups
        bases = [None] * len(kinds) if options.base is None else base_of_each(P, options.base, kinds)
        choices = [choose(kind.polyhedron, replace(options, base=own)) for kind, own in zip(kinds, bases, strict=True)]
        each = [Part(P, kind, *choice, options.factory) for kind, choice in zip(kinds, choices, strict=True)]
        parts = Parts(each, options.factory)
        if sum(len(kind.blocks) for kind in kinds) == 1 or not all(part.way.is_nearest for part in each):
            return parts
        why = "; ".join(dict.fromkeys(part.why for part in each))
        return _whole(P, parts.gathered("base"), parts.gathered("units"), why, options)

    # -- switches --------------------------------------------------------------------------------------------------

    @property
    def strict(self) -> bool:
        """Whether what comes out is inside in rational arithmetic."""
        return self._finishes is not None

    @strict.setter
    def strict(self, on: bool) -> None:
        refuse_unless_switch("strict", on)
        if on == self.strict:
            return
        finishes = Finishes(self.polyhedron.mirrored_groups, self.factory) if on else None
        if finishes is not None:
            finishes.check(self.dtype)  # a refusal leaves everything as it was
        self._finishes = finishes

    @property
    def shrinking(self) -> bool:
        """The switch of the shrink step."""
        return self._shrinking

    @shrinking.setter
    def shrinking(self, on: bool) -> None:
        refuse_unless_switch("shrinking", on)
        self._shrinking = on
        for part in self.parts:
            part.way.shrinking = on

    # -- points ----------------------------------------------------------------------------------------------------

    def _points(self, features: Tensor, sides: Sides, origin: Sequence[Tensor] = (), leak: float = 0.0) -> Tensor:
        """Points for coefficients.

        Args:
            origin: what coefficients were computed from, one row for each sample first. A strict map then cuts those
                that overflowed, and gives NaN where the origin itself is not finite.
            leak: the share of the gradient that reaches the unconstrained point past the map
                (:mod:`rayhull.maps.leak`), where the map has one.
        """
        c, dtype, finishes = features, features.dtype, self._finishes
        if torch._C._is_any_autocast_enabled() and in_autocast(c):
            with torch.autocast(c.device.type, enabled=False):  # halves are too coarse for geometry
                return self._points(c, sides, origin, leak)
        if sides is not NONE or self.varies is not None:
            c, sides = self._read(c, sides)
        if c.shape[-1] != self.coefficients:
            expected = f"{self.coefficients} coefficients, flat on axis {self.axis}"
            shape, own = tuple(c.movedim(-1, self.axis).shape), self.polyhedron.shape
            hint = f": c.flatten(-{len(own)}) of them" if len(own) > 1 and shape[-len(own) :] == own else ""
            raise ValueError(f"expected {expected}, got shape {shape}{hint}.")
        if finishes is not None:
            finishes.check(dtype)
            c = _cut(c, origin)
        if not dtype.is_floating_point:
            raise TypeError(f"coefficients must be floating-point numbers, got {dtype}: call .float() first.")
        c = c if dtype in DTYPES else c.float()
        leak = leak if leak and self.keeps_inside and c.requires_grad else 0.0
        if sides is not NONE:
            x = per_sample.points(self, c, sides, leak, dtype)
        else:
            parts: Any = self._modules["parts"]  # self.parts takes longer than a small layer can spare
            x = (parts._modules["0"] if parts.single else parts).forward(c, NONE, leak)
            x = x if finishes is None or not self.shrinking else value_of(finishes.forward(x, dtype), x)
            x = x if x.dtype == dtype else x.to(dtype)
        shape = self.polyhedron.shape
        return x if len(shape) == 1 else x.reshape(*x.shape[:-1], *shape)

    def _read(self, c: Tensor, sides: Sides) -> tuple[Tensor, Sides]:
        """Coefficients and sides, flat and without those that are as the set states them."""
        names = tuple(self.varies or ())
        if names and not (self._told or torch.compiler.is_compiling() or set(names) & set(sides.given)):
            self._told = True
            warn(
                f"{', '.join(names)} vary with the sample, as was said when the layer was built, and this call gives "
                "none: the stated values are taken."
            )
        sides = sides.checked(self.polyhedron, c)
        batch = sides.batch(tuple(c.shape[:-1]))
        if may_look(c):
            sides = self._per_sample.without_stated(sides, strict=self.strict)
            c = c if batch == c.shape[:-1] else c.expand(*batch, -1)  # what is left out may have had more samples
        return c, sides if sides.given else NONE

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
        self._need_identity()
        x = self.parts.unconstrained(last(c, self.axis)).to(c.dtype)
        x = x.reshape(*x.shape[:-1], *self.polyhedron.shape)
        return x if self.axis == -1 else x.movedim(-1, self.axis)

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Coefficients that give x, for an x in the set and a way that keeps points of the set where they are.

        Shape: (\\*, event shape) → (\\*, coefficients)
        """
        self._need_identity()
        flat = last(x, self.axis).flatten(x.ndim - len(self.polyhedron.shape))
        c = self.parts.coefficients_of(flat).to(x.dtype)
        return c if self.axis == -1 else c.movedim(-1, self.axis)

    def _need_identity(self) -> None:
        """Refuse a map whose coefficients are no coordinates."""
        if not self.keeps_inside:
            raise ValueError(f"only ways that keep points of the set have an unconstrained point: {self.describe()}")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self._finishes is not None:  # a dtype that cannot resolve the set is refused before anything changes
            self._finishes.check(fn(torch.zeros((), dtype=self.dtype, device=self.device)).dtype)
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
            self._per_sample.find_rule(self.varies)

    # -- words -----------------------------------------------------------------------------------------------------

    def plot(self, coordinates: Sequence[Any] | None = None, *, ax: Any = None, reach: float = 3.0) -> Any:
        """Draw the set and where coefficients land in it, to see where a map crowds points (the extra ``plot``).

        Args:
            coordinates: two or three of the set's coordinates, by name or number; a set in R^2 or R^3 needs none.
            ax: axes to draw on.
            reach: two coefficients are drawn as a grid up to ±reach, more as random points of this scale.
        """
        from rayhull.sets.plotting import GREEN, VERMILION, axes, picked

        P, k, pick = self.polyhedron, self.coefficients, picked(self.polyhedron, coordinates)
        ax = P.plot(coordinates, ax=axes(ax, len(pick)), vertices=False)
        c = reach * (_grid() if k == 2 else torch.randn(1, CLOUD, k, generator=torch.Generator().manual_seed(0)))
        with torch.no_grad():
            x = self._points(c.to(self.device, self.dtype), NONE).double().cpu().numpy()
        points = x.reshape(*c.shape[:-1], P.dim)[..., pick]
        if k != 2:
            ax.scatter(
                *points[0].T, s=3, color=GREEN, linewidth=0, label=f"{CLOUD} random coefficients, scale {reach:g}"
            )
            return ax
        for number, line in enumerate(points):
            ax.plot(*line.T, color=GREEN if number < len(points) // 2 else VERMILION, linewidth=0.7, alpha=0.9)
        return ax

    def describe(self) -> str:
        """Which way each kind of block takes and why, and what holds."""
        lines = [f"{self.polyhedron}: {self.coefficients} coefficients"]
        lines += [f"  {part.describe()}" for part in self.parts]
        lines += [f"  off the CPU and in exported graphs: {said}" for said in (self.parts.elsewhere,) if said]
        if self.varies is not None:
            rule = self._per_sample.rule
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


def _whole(P: Polyhedron, base: Array, units: Array, why: str, options: Options) -> Parts:
    """The nearest point of the whole set, for all kinds of blocks at once."""
    way = nearest_way(P, base, units, options.factory, options.weights)
    return Parts([Part(P, every_coordinate(np.arange(P.dim), P), way, why, options.factory)], options.factory)


def _grid(lines: int = 17, steps: int = 201) -> Tensor:
    """Lines of constant first, then of constant second coefficient, in ±1: (2 lines, steps, 2)."""
    along = torch.linspace(-1, 1, steps, dtype=torch.float64).expand(lines, steps)
    across = torch.linspace(-1, 1, lines, dtype=torch.float64)[:, None].expand(lines, steps)
    return torch.cat([torch.stack([across, along], -1), torch.stack([along, across], -1)])


def _cut(c: Tensor, origin: Sequence[Tensor]) -> Tensor:
    """Coefficients that are finite, and so small that no product overflows; NaN where they come from what is not."""
    if is_plain(c) and (not c.numel() or float(torch.linalg.vector_norm(c.detach(), torch.inf)) <= LARGEST):
        return c
    return finite(overflow_cut(c, origin) if origin else c)
