"""Constrained: features in, points of the set out; and a Linear of a model replaced by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from rayhull.maps.coefficients import NonNegative, Weights
from rayhull.maps.leak import LEAK, check_leak
from rayhull.nn import tail
from rayhull.nn.keeping import keeping_map, refuse_other_size, weights_for
from rayhull.nn.map_into import MapInto

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

Model = TypeVar("Model", bound=nn.Module)


class Constrained(nn.Module):
    r"""A Linear whose outputs lie in the set: hard, for every input, in training and in evaluation.

    Args:
        in_features: size of each input sample.
        P: the set.
        batch_norm: a BatchNorm of the features in front, as in the paper.
        method, nonnegative, weights, smooth, strict, max_generators, approach, base, scale, varies, infeasible: as for
            :class:`rayhull.MapInto`.
        leak: in training mode, the share of the gradient that reaches the free point past the map, less what would
            drive it further outside (:mod:`rayhull.maps.leak`). A row that binds lets no gradient through, and a sample
            beyond it may never come back; the leak leads it back. Points are the same with it. Default: 0.1 for ways in
            that are the identity inside, the only ones with a free point; 0: the derivative alone, as in evaluation.
        device, dtype: where and in what precision parameters and geometry are made.

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
    free_share = 0.0  # while training, the share of the free point: see rayhull.FreeStart

    def __init__(
        self,
        in_features: int,
        P: Polyhedron,
        *,
        batch_norm: bool = False,
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
        leak: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        _refuse_swapped(in_features, P)
        into = MapInto(
            P,
            method=method,
            nonnegative=nonnegative,
            weights=weights,
            smooth=smooth,
            strict=strict,
            max_generators=max_generators,
            approach=approach,
            base=base,
            scale=scale,
            varies=varies,
            infeasible=infeasible,
            device=device,
            dtype=dtype,
        )
        self._build(in_features, into, batch_norm, leak)

    def _build(self, in_features: int, into: MapInto, batch_norm: bool, leak: float | None = None) -> None:
        super().__init__()
        if in_features < 1:
            raise ValueError(f"in_features must be at least 1, got {in_features}.")
        self.in_features, self.map, self.leak = in_features, into, _leak_of(into, leak)
        self.batch_norm = nn.BatchNorm1d(in_features, device=into.device, dtype=into.dtype) if batch_norm else None
        self.linear = nn.Linear(in_features, into.coefficients, device=into.device, dtype=into.dtype)
        self.reset_parameters()

    @classmethod
    def from_linear(
        cls, linear: nn.Linear, P: Polyhedron, *, method: str = "auto", strict: bool = False
    ) -> Constrained:
        """A head that starts from a trained Linear and says what it said wherever that lies in the set.

        Args:
            linear: its outputs are the coordinates of the set, flat and in C order.
            method: "auto" takes the first way in that leaves points of the set where they are.

        Examples:
            >>> import torch, rayhull as rh
            >>> linear = torch.nn.Linear(8, 3)
            >>> head = rh.Constrained.from_linear(linear, rh.box(-10, 10, 3))
            >>> h = torch.randn(5, 8)
            >>> bool(torch.allclose(head(h), linear(h), atol=1e-5))
            True
        """
        refuse_other_size(linear, P)
        like = linear.weight
        into = keeping_map(P, method, strict=strict, device=like.device, dtype=like.dtype)
        made = cls.__new__(cls)
        made._build(linear.in_features, into, batch_norm=False)
        weight, bias = weights_for(into, linear)
        made.linear.load_state_dict({"weight": weight, "bias": bias})
        return made

    def reset_parameters(self) -> None:
        """Coefficients of unit variance for features of unit variance: outputs start at about unit scale."""
        reach = math.sqrt(3 / self.in_features)
        nn.init.uniform_(self.linear.weight, -reach, reach)
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
        plain = b is b_eq is lower is upper is A is A_eq is base is None
        if plain and (found := self._in_one_call(features, into)) is not None:
            return found
        given = {"b": b, "b_eq": b_eq, "lower": lower, "upper": upper, "A": A, "A_eq": A_eq, "base": base}
        sides = {} if plain else {name: side for name, side in given.items() if side is not None}
        coefficients = self._coefficients(features)
        origin = self._origin(features) if into.strict else ()  # finite features may overflow in the Linear
        x: Tensor = into(coefficients, **sides, origin=origin, leak=self.leak if self.training else 0.0)
        if self.training and self.free_share:  # see rayhull.FreeStart
            return torch.lerp(x, into.point_of(coefficients, **sides), self.free_share)
        return x

    def _in_one_call(self, features: Tensor, into: MapInto) -> Tensor | None:
        """Linear and map by one operator, for inference; None where something else is asked for, or looks inside."""
        linear: Any = self._modules["linear"]
        if self.batch_norm is not None or self.free_share or type(linear) is not nn.Linear:
            return None
        if is_watched(linear) or is_watched(into):
            return None
        weights: Any = linear._parameters  # linear.weight takes 0.8 µs
        return tail.run_with_linear(into, features, weights["weight"], weights["bias"])

    def _coefficients(self, features: Tensor) -> Tensor:
        if features.shape[-1] != self.in_features:
            raise ValueError(f"expected {self.in_features} features on the last axis, got {tuple(features.shape)}.")
        linear: Any = self._modules["linear"]  # self.linear takes 0.8 µs, a sixth of what it does for one sample
        coefficients: Tensor = linear(features if self.batch_norm is None else self._normalised(features))
        return coefficients

    def _origin(self, features: Tensor) -> tuple[Tensor, ...]:
        """What coefficients are computed from: a strict layer gives NaN where it is not finite."""
        linear: Any = self._modules["linear"]
        origin, norm = (features, linear.weight, linear.bias), self.batch_norm
        if norm is None:
            return origin
        return (*origin, norm.weight, norm.bias, *(s for s in (norm.running_mean, norm.running_var) if s is not None))

    def free(self, features: Tensor, **sides: Tensor) -> Tensor:
        """The point before it is moved into the set, inside or not; sides of the sample as in ``forward``.

        For a training that begins without the set, and for one that keeps free points near it: once the free points of
        all samples lie beyond a row, no gradient leads back from it. A little of the squared distance in the loss does:
        ``loss + 0.1 * (layer.free(h) - layer(h).detach()).square().mean()``.

        Ways in that are the identity inside have one; see :meth:`rayhull.MapInto.point_of`.
        """
        return self.map.point_of(self._coefficients(features), **sides)

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
        """The module for inference: BatchNorm and the lines folded into one Linear (:func:`rayhull.nn.export.fold`)."""
        from rayhull.nn.export import fold

        return fold(self, compile=compile)

    def plot(self, coordinates: Sequence[Any] | None = None, *, ax: Any = None, reach: float = 3.0) -> Any:
        """Draw the set, and where coefficients up to ±reach land in it: :meth:`rayhull.MapInto.plot`."""
        return self.map.plot(coordinates, ax=ax, reach=reach)

    def describe(self) -> str:
        """Which way in each kind of block takes and why, what holds, and what leaks in training."""
        leak = f"\n  in training {self.leak:.3g} of the gradient leaks past the map" if self.leak else ""
        return self.map.describe() + leak

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


def is_watched(module: nn.Module) -> bool:
    """Whether a hook or a forward of its own wants to see the module's call."""
    own = module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__
    return bool(own or hooks._global_forward_hooks or hooks._global_forward_pre_hooks)


def _leak_of(into: MapInto, leak: float | None) -> float:
    """The share that leaks: the usual one where nothing is said and there is a free point."""
    if leak is None:
        return LEAK if into.identity_inside else 0.0
    if leak and not into.identity_inside:
        raise ValueError(
            f"only ways in that are the identity inside have a free point to leak to, and this is {into!r}: use "
            "method='projection', 'approach' or 'shrink', or leave leak out."
        )
    return check_leak(leak)


def _refuse_swapped(in_features: object, P: object) -> None:
    """Refuse arguments of a layer in the wrong order, or of the wrong kind."""
    from rayhull.sets.polyhedron import Polyhedron

    if isinstance(in_features, Polyhedron):
        raise TypeError(f"the number of features comes first, then the set: Constrained({P!r}, P).")
    if isinstance(in_features, bool) or not isinstance(in_features, int):
        raise TypeError(f"in_features must be an integer, got {in_features!r}.")


def constrain(model: Model, name: str, P: Polyhedron, *, method: str = "auto", strict: bool = False) -> Model:
    """Replace a Linear of a model, by its name, with a head whose outputs lie in the set; returns the model.

    The head starts with the Linear's weights and says what it said wherever that lies in the set.

    Args:
        model: changed in place.
        name: the submodule's name, as in ``model.named_modules()``: ``"head"`` or ``"decoder.2"``.
        P: the set; its coordinates are the Linear's outputs.
        method, strict: as for :class:`rayhull.Constrained`.

    Examples:
        >>> import torch, rayhull as rh
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
        >>> P = rh.monotone(5)
        >>> x = rh.constrain(model, "2", P)(torch.randn(8, 4))
        >>> bool(P.contains(x).all())
        True
    """
    names = [n for n, module in model.named_modules() if isinstance(module, nn.Linear)]
    if name not in names:
        raise ValueError(f"the model has no Linear called {name!r}: it has {', '.join(names) or 'none'}.")
    parent, _, child = name.rpartition(".")
    linear = model.get_submodule(name)
    assert isinstance(linear, nn.Linear)
    head = Constrained.from_linear(linear, P, method=method, strict=strict)
    setattr(model.get_submodule(parent), child, head)
    return model
