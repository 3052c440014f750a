"""Layers: a Linear whose outputs lie in a set, and the layer of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.errors import RayhullError
from rayhull.maps.leak import LEAK, check_leak
from rayhull.nn.blocks import Part, Parts
from rayhull.nn.map_into import MapInto
from rayhull.nn.options import LayerOptions, Options
from rayhull.nn.recognise import Choice, warn
from rayhull.nn.ways import Rays
from rayhull.projection.sides import NONE, Sides, TakesSides
from rayhull.sets.frame import at_apex, cone_at, unit_rays, unit_rows
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import last

WATCHED, FAR_OFF = 100, 10.0  # training steps after which points are looked at; how far from one unit they may be


class Constrained(TakesSides):
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
        options: method, steps, base, scale, strict, smooth, varies, infeasible, axis, units, nonnegative, simplex,
            max_generators as for :class:`rayhull.MapInto`; ``axis`` is that of the features, too.

    Attributes:
        strict: a switch, as for :class:`rayhull.MapInto`.
        shrinking: the same.
        leak: the share, which may be changed at any time.
        out_features: how many numbers a sample has.

    Shape: (\*, in_features) → (\*, event shape)

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
    unconstrained_share = 0.0  # while training, the share of the unconstrained point: see rayhull.nn.adapting.FreeStart

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
        self.axis, into.axis = into.axis, -1
        self.batch_norm = nn.BatchNorm1d(in_features, device=into.device, dtype=into.dtype) if batch_norm else None
        self.linear = nn.Linear(in_features, into.coefficients, bias, device=into.device, dtype=into.dtype)
        self._steps_seen = 0 if into.keeps_inside else WATCHED
        self.reset_parameters()

    @classmethod
    def from_linear(cls, linear: Any, P: Polyhedron, **options: Unpack[LayerOptions]) -> Constrained:
        """A head that starts from a trained Linear and equals it wherever its output is feasible.

        Args:
            linear: its outputs are the coordinates of the set, flat and in C order. A 1 x 1 convolution is one, too,
                for a set of one axis: its channels lie in the set at every pixel.
            P: the set.
            options: as for :class:`rayhull.MapInto`; "auto" takes the nearest point in place of vertices.

        Examples:
            >>> import torch, rayhull as rh
            >>> linear = torch.nn.Linear(8, 3)
            >>> head = rh.Constrained.from_linear(linear, rh.box(-10, 10, 3))
            >>> h = torch.randn(5, 8)
            >>> bool(torch.allclose(head(h), linear(h), atol=1e-5))
            True
        """
        if not is_linear(linear):
            raise TypeError(f"from_linear takes an nn.Linear first, then the set, got {type(linear).__name__} first.")
        like = linear.weight.flatten(1)
        if len(like) != P.dim:
            raise ValueError(
                f"the Linear has {len(like)} outputs but the set has {P.dim} coordinates: they must be the same."
            )
        own: dict[str, Any] = {**options} if linear.weight.ndim == 2 else {**options, "axis": -3}
        made = cls.__new__(cls)
        made._build(like.shape[1], keeping_map(P, device=like.device, dtype=like.dtype, **own))
        weight, bias = made._weights_for(like, linear.bias)
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

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """A checkpoint of the Linear that :func:`rayhull.constrain` replaced loads, too: the points stay the same."""
        weight, bias = prefix + "weight", prefix + "bias"
        if weight in state_dict and prefix + "linear.weight" not in state_dict and self.map.keeps_inside:
            own = self._weights_for(state_dict.pop(weight).flatten(1), state_dict.pop(bias, None))
            geometry = {k: v for k, v in self.state_dict(prefix=prefix).items() if k.startswith(prefix + "map.")}
            state_dict |= geometry | dict(zip((prefix + "linear.weight", prefix + "linear.bias"), own, strict=True))
        super()._load_from_state_dict(state_dict, prefix, *args)

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
        """The set."""
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

    def _points(self, features: Tensor, sides: Sides) -> Tensor:
        into: Any = self._modules["map"]
        c, leak = self._coefficients(features), self.leak if self.training else 0.0
        origin = () if into._finishes is None else self._origin(features)  # finite features may overflow in the Linear
        x: Tensor = into._points(c, sides, origin, leak)
        if not self.training:
            return x
        if self._steps_seen < WATCHED and not torch.compiler.is_compiling():
            vars(self)["_steps_seen"] += 1  # past what a module does for parameters, which takes 3 µs
            if self._steps_seen == WATCHED and x.numel():
                self._watch(x.detach())
        return torch.lerp(x, into.unconstrained(c), self.unconstrained_share) if self.unconstrained_share else x

    def _coefficients(self, features: Tensor) -> Tensor:
        if not features.ndim or features.shape[-1] != self.in_features:
            got = tuple(last(features, self.axis).shape)
            raise ValueError(f"expected {self.in_features} features on axis {self.axis}, got {got}.")
        linear: Any = self._modules["linear"]  # self.linear takes 0.8 µs, a sixth of what it does for one sample
        coefficients: Tensor = linear(features if self.batch_norm is None else self._normalised(features))
        return coefficients

    def _watch(self, x: Tensor) -> None:
        """Tell the user, once, of points that training drives far from the set's own unit: it is not the targets'."""
        size = float(self.map.coefficients_of(x).double().square().mean().sqrt())
        if not 1 / FAR_OFF <= size <= FAR_OFF:
            warn(
                f"after {WATCHED} training steps points are {size:.2g} units of the set away from its base point, so "
                "that this layer learns slowly: the targets are of another size. Give scale=targets when the layer is "
                "built, and base= near them."
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
        """The point of the ``features`` before it is moved into the set, inside or not.

        For a training that begins without the set, and for a loss that keeps unconstrained points near it:
        ``loss + 0.1 * (layer.unconstrained(h) - layer(h).detach()).square().mean()``.
        """
        return self.map.unconstrained(self._coefficients(last(features, self.axis))).movedim(-1, self.axis)

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
        """The module for inference: BatchNorm and units folded into one Linear (:func:`rayhull.nn.folded.fold`).

        With ``compile=True`` what follows the Linear goes through ``torch.compile``.
        """
        from rayhull.nn.folded import fold

        return fold(self, compile=compile)

    def plot(self, coordinates: Sequence[Any] | None = None, *, ax: Any = None, reach: float = 3.0) -> Any:
        """Draw the set, and where coefficients up to ±reach land in it.

        ``coordinates`` and ``ax`` are as for :meth:`rayhull.MapInto.plot`.
        """
        return self.map.plot(coordinates, ax=ax, reach=reach)

    def describe(self) -> str:
        """Which way each kind of block takes and why, what holds, and what leaks in training."""
        leak = f"\n  in training {self.leak:.3g} of the gradient leaks past the map" if self.leak else ""
        return self.map.describe() + leak

    def _repr_html_(self) -> str:
        return self.map._repr_html_()

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


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
    if isinstance(in_features, Polyhedron):
        raise TypeError(f"the number of features comes first, then the set: Constrained({P!r}, P).")
    if isinstance(in_features, bool) or not isinstance(in_features, int):
        raise TypeError(f"in_features must be an integer, got {in_features!r}.")


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


def is_linear(module: nn.Module) -> bool:
    """Whether it is a Linear, or a convolution that is one at every pixel."""
    if not isinstance(module, nn.Conv2d):
        return isinstance(module, nn.Linear)
    one = (1, 1), (1, 1), 1
    return (module.kernel_size, module.stride, module.groups) == one and module.padding in ((0, 0), "same", "valid")


# -- the paper's layer, exactly, for reproduction ---------------------------------------------------------------------


class PaperParts(Parts):
    """One scaling for all blocks."""

    def forward(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        directions, scales = [], []
        for part, own in self.split(c):
            way: Any = part.way
            y = way.direction(own.reshape(*own.shape[:-1], part.count, -1))
            scales.append(way.scale(y))
            directions.append((y * part.sign).flatten(-2))
        x = self.flat(directions)
        factors = [scale for scale in scales if scale is not None]
        return x * torch.cat(factors, -1).amin(-1, keepdim=True) if factors else x


class PaperMap(MapInto):
    """x = R |β| / max(1, gauge): lines as two opposite rays."""

    def __init__(self, P: Polyhedron, *, orthogonal: bool = True, **factory: Any) -> None:
        self.orthogonal = orthogonal  # first: the parts, made in the base class, ask for it
        super().__init__(P, **factory)

    def _parts(self, P: Polyhedron, options: Options) -> Parts:
        chosen = [(kind, self._rays(kind.polyhedron, options)) for kind in P.mirrored_groups]
        parts = PaperParts([Part(P, kind, *rays, options.factory) for kind, rays in chosen], options.factory)
        parts.single = False  # one block is scaled by its parts, too
        return parts

    def _rays(self, block: Polyhedron, options: Options) -> Choice:
        frame = at_apex(block)
        if frame is None:
            raise RayhullError(f"the paper's layer takes a cone, or a cone and a box around 0, not {self.polyhedron}.")
        found, span = cone_at(block, frame, options.max_generators)
        lines, rays = unit_rows(found.lines), unit_rays(found.rays, span) if self.orthogonal else unit_rows(found.rays)
        doubled = np.concatenate([lines, -lines, rays])
        way = Rays(block, frame, doubled, lines[:0], torch.abs, options.factory, by_basis=True)
        return Choice(way, f"weights of {len(lines)} lines, twice, and {len(rays)} rays, as in the paper")


class PaperLayer(Constrained):
    """The layer of *Homogeneous Linear Inequality Constraints for Neural Network Activations* (2020), section 3.

    ``x = R |β|`` with β = Linear(BatchNorm(features)), rays at unit length and every line doubled into two opposite
    rays; a box around 0 is met by one division by ``max(1, |x|_inf)``, which ``layer.shrinking`` switches. Weights
    start uniform in ±1/d, biases at 0.

    Args:
        in_features: size of each input sample.
        P: a cone, or a cone and a box around 0.
        orthogonal: a ray plus any line is the same ray: take the one orthogonal to the lines, or the one that the
            conversion gives, as the authors' code does (for a half-space one coordinate vector).
        device, dtype: where and in what precision parameters and geometry are made.

    Shape: (\\*, in_features) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
        >>> layer = rh.paper_layer(784, P)
        >>> layer.linear.out_features                    # 768 lines, twice, and 16 rays
        1552
        >>> bool(P.contains(layer(torch.randn(64, 784))).all())
        True
    """

    def __init__(
        self,
        in_features: int,
        P: Polyhedron,
        *,
        orthogonal: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._build(in_features, PaperMap(P, orthogonal=orthogonal, device=device, dtype=dtype), batch_norm=True)

    def reset_parameters(self) -> None:
        reach = 1 / self.polyhedron.dim
        nn.init.uniform_(self.linear.weight, -reach, reach)
        nn.init.zeros_(self.linear.bias)


paper_layer = PaperLayer  # called like a function that makes the layer
