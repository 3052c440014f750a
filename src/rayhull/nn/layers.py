"""The layers: features in, points of the set out; and coefficients in, where something else predicts them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.exact.threads import one_blas_thread
from rayhull.maps.coefficients import nonnegative_named, weights_named
from rayhull.maps.graphs import DTYPES, in_autocast, is_plain
from rayhull.maps.leak import LEAK, block_of_each, check_leak
from rayhull.maps.shrink import LARGEST, finite, overflow_cut
from rayhull.nn import per_sample
from rayhull.nn.blocks import Finishes, Part, Parts, event_order
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.frame import base_of_each
from rayhull.nn.recognise import Choice, LayerOptions, Options, choose, warn
from rayhull.nn.ways import Bounds, Nearest, value_of
from rayhull.projection.module import OfSet
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.polyhedron import need_set
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup

Model = TypeVar("Model", bound=nn.Module)
WATCHED, FAR_OFF = 100, 10.0  # training steps after which points are looked at; how far from one unit they may be


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
        nonnegative: the function on the weights of rays: "softplus", "abs", "relu", "square" or your own.
        simplex: the map onto the simplex of vertices' weights: "softmax", "sparsemax", "entmax", "abs", "softplus".
        max_generators: the budget of a conversion.
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
        need_set(P)
        factory = Factory(device, dtype)
        super().__init__(factory)
        given = _checked(options)
        self.polyhedron, self.varies = P, given["varies"]
        scale = _scale_of(given["scale"], P)
        kept = {name: given[name] for name in ("method", "steps", "nonnegative", "simplex", "max_generators")}
        chosen = Options(**kept, scale=scale, varies=self.varies is not None, factory=factory)
        self.parts = Parts(self._parts(P, chosen, given["base"]))
        self.coefficients = sum(part.coefficients for part in self.parts)
        self.keeps_inside = all(part.way.keeps_inside for part in self.parts)
        places = [part.places.flat for part in self.parts]
        order = event_order(places)
        self.in_order = bool((order == np.arange(P.dim)).all())
        self.index("order", order)
        self.index("block", block_of_each(P).numpy())
        self.constant("units", _units(self.parts, places, P.dim))
        self.per_sample = per_sample.PerSample(P, self.varies, given["infeasible"], scale, factory)
        self.finishes = None
        self.smooth, self.shrinking = given["smooth"], True
        self.strict = given["strict"]

    def _parts(self, P: Polyhedron, options: Options, base: Any) -> list[Part]:
        """A way for each kind of block; one for all, where all take the nearest point."""
        kinds = P.mirrored_groups
        bases = [None] * len(kinds) if base is None else base_of_each(P, base, kinds)
        pairs = [(kind, Options(**{**vars(options), "base": own})) for kind, own in zip(kinds, bases, strict=True)]
        choices = [self._choose(kind.polyhedron, own) for kind, own in pairs]
        if len(kinds) + len(kinds[0].index) > 2 and all(isinstance(choice.way, Nearest | Bounds) for choice in choices):
            return [_together(P, kinds, choices, options.factory)]
        whole = len(kinds) == 1 and kinds[0].index.shape[0] == 1 and kinds[0].polyhedron is P
        assert whole or all(kind.polyhedron is not P for kind in kinds)
        return [
            Part(P, kind, choice.way, choice.why, options.factory) for kind, choice in zip(kinds, choices, strict=True)
        ]

    def _choose(self, block: Polyhedron, options: Options) -> Choice:
        return choose(block, options)

    # -- switches --------------------------------------------------------------------------------------------------

    @property
    def strict(self) -> bool:
        """Whether what comes out is inside in rational arithmetic."""
        return self._modules.get("finishes") is not None

    @strict.setter
    def strict(self, on: bool) -> None:
        if on == self.strict:
            return
        finishes = Finishes(self.polyhedron, self.polyhedron.mirrored_groups, self.factory) if on else None
        if finishes is not None:
            finishes.check(self.dtype)  # a refusal leaves everything as it was
        self.finishes = finishes

    @property
    def shrinking(self) -> bool:
        """The switch of the shrink step."""
        return all(part.way.shrinking for part in self.parts)

    @shrinking.setter
    def shrinking(self, on: bool) -> None:
        for part in self.parts:
            part.way.shrinking = on

    @property
    def smooth(self) -> bool:
        return all(part.way.smooth for part in self.parts)

    @smooth.setter
    def smooth(self, on: bool) -> None:
        for part in self.parts:
            part.way.smooth = on

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
        origin: Sequence[Tensor] = (),
        leak: float = 0.0,
    ) -> Tensor:
        """A point of the set; what is given beside c replaces what was stated, one for all samples or one for each.

        Args:
            origin: what c was computed from, one row for each sample first. A strict map then cuts coefficients that
                overflowed, and gives NaN where the origin itself is not finite.
            leak: the share of the gradient that reaches the unconstrained point past the map
                (:mod:`rayhull.maps.leak`), where the map has one.

        Shape: b (\\*, m), b_eq (\\*, m_eq), lower, upper and base (\\*, event shape), A (\\*, m, d),
            A_eq (\\*, m_eq, d)
        """
        if c.shape[-1] != self.coefficients:
            raise ValueError(f"expected {self.coefficients} coefficients on the last axis, got shape {tuple(c.shape)}.")
        sides = NONE
        if not (b is b_eq is lower is upper is A is A_eq is base is None):
            sides = Sides(b, b_eq, lower, upper, A, A_eq, base).checked(self.polyhedron)
        if in_autocast(c):
            with torch.autocast(c.device.type, enabled=False):  # halves are too coarse for geometry
                x = self._points(c, sides, origin, leak)
        else:
            x = self._points(c, sides, origin, leak)
        shape = self.polyhedron.shape
        return x if len(shape) == 1 else x.reshape(*x.shape[:-1], *shape)

    def _points(self, c: Tensor, sides: Sides, origin: Sequence[Tensor], leak: float) -> Tensor:
        """Points in the dtype of c, flat."""
        dtype, finishes = c.dtype, self._modules.get("finishes")
        if finishes is not None:
            finishes.check(dtype)  # type: ignore[operator]
            c = _cut(c, origin)
        c = c if dtype in DTYPES else c.float()
        leak = leak if leak and self.keeps_inside and c.requires_grad else 0.0
        if sides.given:
            return per_sample.points(self, c, sides, leak, dtype)
        x = self.blocks(c, leak=leak)
        if finishes is None or not self.shrinking:
            return x if x.dtype == dtype else x.to(dtype)
        return value_of(finishes(x, dtype), x)

    def blocks(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        """Points of all blocks, flat, inside up to rounding. Shape: (\\*, coefficients) → (\\*, d)"""
        parts: Any = self._modules["parts"]
        if len(parts) == 1:
            x = parts[0](c, sides, leak)
        else:
            x = torch.cat([part(own, sides, leak) for part, own in parts.split(c)], -1)
        return x if self.in_order else x.index_select(-1, self.order)

    def follows(self, sides: Sides, base: Tensor | None) -> bool:
        """Whether the blocks' own ways take these sides: steps need a base point that meets the equalities."""
        if sides.has_rows or (self.varies is not None and base is None):
            return False
        if self.per_sample.infeasible != "raise" and any(isinstance(part.way, Nearest) for part in self.parts):
            return False  # it refuses empty sets
        names = set(sides.given) - {"base"} - ({"b_eq"} if base is not None else set())
        return all(names <= part.way.follows for part in self.parts)

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
        x = self.flat_unconstrained(c).to(c.dtype)
        return x.reshape(*x.shape[:-1], *self.polyhedron.shape)

    def flat_unconstrained(self, c: Tensor) -> Tensor:
        """The same, flat. Shape: (\\*, coefficients) → (\\*, d)"""
        self._need_identity()
        x = torch.cat([part.unconstrained(own) for part, own in self.parts.split(c)], -1)
        return x if self.in_order else x.index_select(-1, self.order)

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Coefficients that give x, for an x in the set and a way that keeps points of the set where they are.

        Shape: (\\*, event shape) → (\\*, coefficients)
        """
        self._need_identity()
        flat = x.flatten(x.ndim - len(self.polyhedron.shape))
        own = [flat.index_select(-1, part.places.index_) for part in self.parts]
        return torch.cat([part.coefficients_of(v) for part, v in zip(self.parts, own, strict=True)], -1).to(x.dtype)

    def _need_identity(self) -> None:
        if not self.keeps_inside:
            raise ValueError(f"only ways that keep points of the set have an unconstrained point: {self.describe()}")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if (
            self.finishes is not None
        ):  # a cast to a dtype that cannot resolve the set is refused before anything changes
            self.finishes.check(fn(torch.zeros((), dtype=self.dtype, device=self.device)).dtype)
        return super()._apply(fn, recurse)

    # -- words -----------------------------------------------------------------------------------------------------

    def plot(self, coordinates: Sequence[Any] | None = None, *, ax: Any = None, reach: float = 3.0) -> Any:
        """Draw the set and where coefficients land in it, to see where a map crowds points (the extra ``plot``).

        Args:
            coordinates: two or three of the set's coordinates, by name or number; a set in R^2 or R^3 needs none.
            ax: axes to draw on.
            reach: two coefficients are drawn as a grid up to ±reach, more as random points of this scale.
        """
        from rayhull.nn.extras import draw

        return draw(self, coordinates, ax, reach)

    def describe(self) -> str:
        """Which way each kind of block takes and why, and what holds."""
        lines = [f"{self.polyhedron}: {self.coefficients} coefficients"]
        lines += [f"  {part.describe()}" for part in self.parts]
        if self.varies is not None:
            rule = self.per_sample.rule
            how = "nearest points of their own sets" if rule is None else "base points by an affine rule"
            lines.append(f"  {', '.join(self.varies)} of the sample: {how}")
        if not self.shrinking:
            lines.append("  shrinking is off: only the rows met by rays and the equalities hold")
        elif self.strict:
            lines.append("  strict: every inequality and bound holds in rational arithmetic")
        return "\n".join(lines)

    def extra_repr(self) -> str:
        ways = ", ".join(dict.fromkeys(type(part.way).__name__.lower() for part in self.parts))
        return f"{self.coefficients} coefficients → {self.polyhedron}, by {ways}{', strict' if self.strict else ''}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _together(P: Polyhedron, kinds: Sequence[BlockGroup], choices: Sequence[Choice], factory: Factory) -> Part:
    """All kinds by one nearest point of the whole set."""
    base, units = np.zeros(P.dim), np.ones(P.dim)
    for kind, choice in zip(kinds, choices, strict=True):
        base[kind.index] = choice.way.exact["base"] * kind.sign[:, None]
        units[kind.index] = choice.way.exact["units"]
    each = dict.fromkeys(choice.why for choice in choices)
    way = Bounds if all(isinstance(choice.way, Bounds) for choice in choices) else Nearest
    return Part(P, _whole(P), way(P, base, units, factory), "; ".join(each), factory)


def _whole(P: Polyhedron) -> BlockGroup:
    from rayhull.sets.products import BlockGroup

    none = np.zeros((1, 0), np.int64)
    return BlockGroup(P, np.arange(P.dim)[None], none, none, np.ones(1, np.int64))


def _units(parts: Any, places: Sequence[Array], d: int) -> Array:
    """The unit of each flat coordinate, 1 where a way has none."""
    units = np.ones(d)
    for part, flat in zip(parts, places, strict=True):
        if "units" in part.way.exact:
            units[flat] = np.tile(part.way.exact["units"], part.count)
    return units


def _cut(c: Tensor, origin: Sequence[Tensor]) -> Tensor:
    """Coefficients that are finite, and so small that no product overflows; NaN where they come from what is not."""
    if is_plain(c) and c.numel() and float(c.detach().abs().amax()) <= LARGEST:
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
        "nonnegative": "softplus",
        "simplex": "softmax",
        "max_generators": 100_000,
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
            "For coordinates of very different units, state the rules on mean + std * z and let the layer predict z."
        )
    from rayhull.sets.interior import scale_from

    return scale_from(data)


class Constrained(nn.Module):
    r"""A Linear whose outputs lie in the set: hard, for every input, in training and in evaluation.

    Args:
        in_features: size of each input sample.
        P: the set.
        bias: whether the Linear has a bias.
        batch_norm: a BatchNorm of the features in front, as in the paper.
        leak: in training mode, the share of the gradient that reaches the unconstrained point past the map
            (:mod:`rayhull.maps.leak`). A row that binds lets no gradient through, and a sample beyond it may never come
            back; the leak leads it back. Points are the same with it. Default: 0.1 for ways that have an unconstrained
            point; 0: the derivative alone, as in evaluation.
        device, dtype: where and in what precision parameters and geometry are made.
        options: method, steps, base, scale, strict, smooth, varies, infeasible, nonnegative, simplex, max_generators
            as for :class:`rayhull.MapInto`.

    Attributes:
        strict, shrinking: switches, as for :class:`rayhull.MapInto`.
        leak: the share, which may be changed at any time.
        out_features: how many numbers a sample has.

    Shape: (\\*, in_features) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
        >>> head = rh.Constrained(256, P)
        >>> x = head(torch.randn(64, 256))
        >>> x.shape, bool(P.contains(x).all())
        (torch.Size([64, 28, 28]), True)
    """

    map: MapInto
    leak: float
    unconstrained_share = 0.0  # while training, the share of the unconstrained point: see rayhull.FreeStart

    def __init__(
        self,
        in_features: int,
        P: Polyhedron,
        *,
        bias: bool = True,
        batch_norm: bool = False,
        leak: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        _refuse_swapped(in_features, P)
        self._build(in_features, MapInto(P, device=device, dtype=dtype, **options), bias, batch_norm, leak)

    def _build(
        self, in_features: int, into: MapInto, bias: bool = True, batch_norm: bool = False, leak: float | None = None
    ) -> None:
        super().__init__()
        if in_features < 1:
            raise ValueError(f"in_features must be at least 1, got {in_features}.")
        self.in_features, self.map, self.leak = in_features, into, _leak_of(into, leak)
        self.batch_norm = nn.BatchNorm1d(in_features, device=into.device, dtype=into.dtype) if batch_norm else None
        self.linear = nn.Linear(in_features, into.coefficients, bias, device=into.device, dtype=into.dtype)
        self._steps_seen = 0
        self.reset_parameters()

    @classmethod
    def from_linear(cls, linear: nn.Linear, P: Polyhedron, **options: Unpack[LayerOptions]) -> Constrained:
        """A head that starts from a trained Linear and equals it wherever its output is feasible.

        Args:
            linear: its outputs are the coordinates of the set, flat and in C order.
            options: as for :class:`rayhull.MapInto`; "auto" takes the nearest point in place of vertices.

        Examples:
            >>> import torch, rayhull as rh
            >>> linear = torch.nn.Linear(8, 3)
            >>> head = rh.Constrained.from_linear(linear, rh.box(-10, 10, 3))
            >>> h = torch.randn(5, 8)
            >>> bool(torch.allclose(head(h), linear(h), atol=1e-5))
            True
        """
        if linear.out_features != P.dim:
            raise ValueError(
                f"the Linear has {linear.out_features} outputs but the set has {P.dim} coordinates: they must be the "
                "same."
            )
        like = linear.weight
        made = cls.__new__(cls)
        made._build(linear.in_features, keeping_map(P, device=like.device, dtype=like.dtype, **options))
        weight, bias = made._weights_for(linear.weight, linear.bias)
        made.linear.load_state_dict({"weight": weight, "bias": bias})
        return made

    def _weights_for(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        """Weight and bias of coefficients whose points are what a Linear says: they are affine in the point."""
        into, event = self.map, self.map.polyhedron.shape
        with torch.no_grad():
            rows = weight.mT.double().reshape(-1, *event)
            offset = torch.zeros(event, dtype=torch.float64, device=rows.device)
            offset = offset if bias is None else offset + bias.double().reshape(event)
            at_zero = into.coefficients_of(torch.zeros_like(offset))
            return (into.coefficients_of(rows) - at_zero).mT.to(weight), into.coefficients_of(offset).to(weight)

    def reset_parameters(self) -> None:
        """Coefficients of unit variance for features of unit variance: outputs start at about unit scale."""
        reach = math.sqrt(3 / self.in_features)
        nn.init.uniform_(self.linear.weight, -reach, reach)
        if self.linear.bias is not None:
            nn.init.zeros_(self.linear.bias)
        if self.batch_norm is not None:
            self.batch_norm.reset_parameters()

    @property
    def polyhedron(self) -> Polyhedron:
        return self.map.polyhedron

    @property
    def out_features(self) -> int:
        """How many numbers a sample has: the product of the event shape."""
        return self.polyhedron.dim

    @property
    def strict(self) -> bool:
        """The switch of the strict step: train without, deploy with it."""
        return self.map.strict

    @strict.setter
    def strict(self, on: bool) -> None:
        self.map.strict = on

    @property
    def shrinking(self) -> bool:
        """The switch of the shrink step."""
        return self.map.shrinking

    @shrinking.setter
    def shrinking(self, on: bool) -> None:
        self.map.shrinking = on

    def forward(
        self,
        features: Tensor,
        *,
        b: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | None = None,
        upper: Tensor | None = None,
        A: Tensor | None = None,
        A_eq: Tensor | None = None,
        base: Tensor | None = None,
    ) -> Tensor:
        """Points of the set; the sides may depend on the sample (see :class:`rayhull.MapInto`)."""
        into: Any = self._modules["map"]
        c = self._coefficients(features)
        origin = self._origin(features) if into.strict else ()  # finite features may overflow in the Linear
        sides = {"b": b, "b_eq": b_eq, "lower": lower, "upper": upper, "A": A, "A_eq": A_eq, "base": base}
        x: Tensor = into(c, **sides, origin=origin, leak=self.leak if self.training else 0.0)
        if not self.training:
            return x
        if self._steps_seen < WATCHED:
            self._watch(x)
        return torch.lerp(x, into.unconstrained(c), self.unconstrained_share) if self.unconstrained_share else x

    def _coefficients(self, features: Tensor) -> Tensor:
        if features.shape[-1] != self.in_features:
            raise ValueError(f"expected {self.in_features} features on the last axis, got {tuple(features.shape)}.")
        linear: Any = self._modules["linear"]  # self.linear takes 0.8 µs, a sixth of what it does for one sample
        coefficients: Tensor = linear(features if self.batch_norm is None else self._normalised(features))
        return coefficients

    def _watch(self, x: Tensor) -> None:
        """Tell the user, once, of points that training drives far from the set's own unit: it is not the targets'."""
        if torch.compiler.is_compiling() or not self.map.keeps_inside:
            return
        self._steps_seen += 1
        if self._steps_seen == WATCHED and x.numel():
            size = float(self.map.coefficients_of(x.detach()).double().square().mean().sqrt())
            if not 1 / FAR_OFF <= size <= FAR_OFF:
                warn(
                    f"after {WATCHED} training steps points are {size:.2g} units of the set away from its base point, "
                    "so that this layer learns slowly: the targets are of another size. Give scale=targets when the "
                    "layer is built, and base= near them."
                )

    def _origin(self, features: Tensor) -> tuple[Tensor, ...]:
        """What coefficients are computed from: a strict layer gives NaN where it is not finite."""
        linear: Any = self._modules["linear"]
        origin = tuple(v for v in (features, linear.weight, linear.bias) if v is not None)
        norm = self.batch_norm
        if norm is None:
            return origin
        return (*origin, norm.weight, norm.bias, *(s for s in (norm.running_mean, norm.running_var) if s is not None))

    def unconstrained(self, features: Tensor) -> Tensor:
        """The point before it is moved into the set, inside or not.

        For a training that begins without the set, and for a loss that keeps unconstrained points near it:
        ``loss + 0.1 * (layer.unconstrained(h) - layer(h).detach()).square().mean()``.
        """
        return self.map.unconstrained(self._coefficients(features))

    def _normalised(self, features: Tensor) -> Tensor:
        assert self.batch_norm is not None
        flat = features.reshape(-1, self.in_features)
        if self.training and flat.shape[0] == 1:
            raise ValueError(
                "batch_norm=True cannot train on a batch of one sample, whose variance is 0: give more samples, call "
                ".eval(), or use batch_norm=False."
            )
        return self.batch_norm(flat).reshape(features.shape)

    def fold(self, *, compile: bool = False) -> nn.Module:
        """The module for inference: BatchNorm and units folded into one Linear (:func:`rayhull.nn.export.fold`)."""
        from rayhull.nn.export import fold

        return fold(self, compile=compile)

    def plot(self, coordinates: Sequence[Any] | None = None, *, ax: Any = None, reach: float = 3.0) -> Any:
        """Draw the set, and where coefficients up to ±reach land in it: :meth:`rayhull.MapInto.plot`."""
        return self.map.plot(coordinates, ax=ax, reach=reach)

    def describe(self) -> str:
        """Which way each kind of block takes and why, what holds, and what leaks in training."""
        leak = f"\n  in training {self.leak:.3g} of the gradient leaks past the map" if self.leak else ""
        return self.map.describe() + leak

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


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


def _leak_of(into: MapInto, leak: float | None) -> float:
    """The share that leaks: the usual one where nothing is said and there is an unconstrained point."""
    if leak is None:
        return LEAK if into.keeps_inside else 0.0
    if leak and not into.keeps_inside:
        raise ValueError(
            f"only ways that keep points of the set have an unconstrained point to leak to, and this is {into!r}: use "
            "method='nearest', 'steps' or 'shrink', or leave leak out."
        )
    return check_leak(leak)


def _refuse_swapped(in_features: object, P: object) -> None:
    """Refuse arguments of a layer in the wrong order, or of the wrong kind."""
    from rayhull.sets.polyhedron import Polyhedron

    if isinstance(in_features, Polyhedron):
        raise TypeError(f"the number of features comes first, then the set: Constrained({P!r}, P).")
    if isinstance(in_features, bool) or not isinstance(in_features, int):
        raise TypeError(f"in_features must be an integer, got {in_features!r}.")
