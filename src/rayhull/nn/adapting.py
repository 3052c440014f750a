"""Models before and after their training: a head or a weight of one that is there already, a training that starts
without the set, and one Linear for inference in place of BatchNorm, Linear and units.
"""

from __future__ import annotations

import copy
from types import FunctionType, MethodType
from typing import Any, TypeVar, Unpack

import torch
from torch import Tensor, nn

from rayhull.nn.layers import Constrained, is_linear, keeping_map
from rayhull.nn.map_into import MapInto
from rayhull.nn.options import LayerOptions
from rayhull.projection.sides import Sides, TakesSides
from rayhull.sets.polyhedron import Polyhedron

Model = TypeVar("Model", bound=nn.Module)


def constrain(model: Model, name: str, P: Polyhedron, **options: Unpack[LayerOptions]) -> Model:
    """Replace a Linear of a model, by its name, with a head whose outputs lie in the set; returns the model.

    The head starts with the Linear's weights and equals it wherever its output is feasible.

    Args:
        model: changed in place.
        name: of a Linear or a 1 x 1 convolution, as in ``model.named_modules()``: ``"head"`` or ``"decoder.2"``.
        P: the set; its coordinates are the Linear's outputs.
        options: as for :class:`rayhull.MapInto`.

    Examples:
        >>> import torch, rayhull as rh
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5))
        >>> P = rh.monotone(5)
        >>> x = rh.constrain(model, "2", P)(torch.randn(8, 4))
        >>> bool(P.contains(x).all())
        True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"constrain takes the model first, constrain(model, name, P), got {type(model).__name__}.")
    found = {n: module for n, module in model.named_modules() if n and is_linear(module)}
    if name not in found:
        done = f"{name}.linear" in found and isinstance(model.get_submodule(name), Constrained)
        hint = " It is constrained already." if done else ""
        raise ValueError(f"the model has no Linear called {name!r}: it has {', '.join(found) or 'none'}.{hint}")
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, Constrained.from_linear(found[name], P, **options))
    return model


class Parametrization(nn.Module):
    """A weight that stays in the set, whatever the optimiser does to the tensor behind it.

    The tensor behind has the weight's own shape, and a weight inside the set is kept as it is: "auto" takes the
    nearest point in place of vertices.

    Args:
        P: a set of the weight's shape.
        device, dtype, options: as for :class:`rayhull.MapInto`.

    Shape: (event shape) → (event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> from torch.nn.utils import parametrize
        >>> P = rh.nonnegative((3, 5)) & rh.box(0, 2)    # a layer that is monotone in every feature
        >>> lin = parametrize.register_parametrization(torch.nn.Linear(5, 3), "weight", rh.Parametrization(P))
        >>> bool(P.contains(lin.weight))
        True
    """

    def __init__(
        self,
        P: Polyhedron,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__()
        self.map = keeping_map(P, device=device, dtype=dtype, **options)

    def forward(self, coefficients: Tensor) -> Tensor:
        return self.map(coefficients.flatten())

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Coefficients of a weight: exact for one inside the set; one outside is first mapped into it."""
        if tuple(weight.shape) != self.map.polyhedron.shape:
            raise ValueError(
                f"the set has shape {self.map.polyhedron.shape}, the weight {tuple(weight.shape)}: both must be the "
                "same. For a rule on every row or column of a weight, rayhull.along repeats a set."
            )
        return self.map.coefficients_of(weight).reshape(weight.shape)


class FreeStart:
    r"""Training begins without the set and ends inside it; evaluation is inside at any time.

    While ``layer.training``, what comes out is :math:`(1 - s)\, x + s\, u`, the point x of the set and u as it was
    before it was moved there, and s falls from ``start`` to 0 along a line in ``steps`` steps. It is for ways that keep
    points of the set (``layer.map.keeps_inside``); the others have no such point.

    Args:
        layer: the layer.
        steps: how many calls of ``step()`` until the set is closed.
        start: the first share of the unconstrained point.

    Examples:
        >>> import torch, rayhull as rh
        >>> layer = rh.Constrained(4, rh.monotone(5), method="nearest")
        >>> schedule = rh.nn.adapting.FreeStart(layer, steps=2)
        >>> h = 10 * torch.randn(64, 4)
        >>> bool(layer.polyhedron.contains(layer(h)).all()), bool(layer.polyhedron.contains(layer.eval()(h)).all())
        (False, True)
        >>> for _ in range(2):
        ...     schedule.step()
        >>> bool(layer.polyhedron.contains(layer.train()(h)).all())
        True
    """

    def __init__(self, layer: Constrained, steps: int, start: float = 1.0) -> None:
        if steps < 1 or not 0 < start <= 1:
            raise ValueError(f"steps must be at least 1 and start in (0, 1], got {steps} and {start}.")
        layer.map._need_identity()
        self.layer, self.steps, self.start, self.done = layer, steps, start, 0
        layer.unconstrained_share = start

    def step(self) -> None:
        """After each step of the optimiser."""
        self.done += 1
        self.layer.unconstrained_share = self.start * max(0.0, 1 - self.done / self.steps)


class Folded(TakesSides):
    """What :func:`fold` returns: one Linear and the rest of the map. For inference: it holds no parameters.

    Shape: (\\*, in_features) → (\\*, event shape)
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, rest: MapInto) -> None:
        super().__init__()
        self.rest, self.in_features = rest, weight.shape[1]
        if rest.strict:  # a row of zeros: 0 for finite features, NaN for others, and NaN if a weight is not finite
            known = weight.isfinite().all() & bias.isfinite().all()
            mark = torch.where(known, 0.0, torch.nan).to(bias.dtype)
            weight, bias = torch.cat([weight, torch.zeros_like(weight[:1])]), torch.cat([bias, mark[None]])
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def _points(self, features: Tensor, sides: Sides) -> Tensor:
        c = nn.functional.linear(features, self.weight, self.bias)
        origin: tuple[Tensor, ...] = ()
        if self.rest.strict and not torch.compiler.is_compiling():
            c, origin = c[..., :-1], (features, self.weight, self.bias)
        elif self.rest.strict:
            c = torch.where(c.isnan(), 0.0, c)[..., :-1] + c[..., -1:]  # what is infinite is cut by the map
        return self.rest._points(c, sides, origin)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, folded Linear of {self.weight.shape[0]}"


@torch.no_grad()
def fold(layer: Constrained, *, compile: bool = False) -> nn.Module:
    """The same function as ``layer.eval()``, with fewer steps.

    Args:
        layer: what was trained.
        compile: fuse what comes after the Linear with ``torch.compile`` (needs a C++ compiler).

    Examples:
        >>> import torch, rayhull as rh
        >>> layer = rh.Constrained(8, rh.monotone(5) & rh.box(-1, 1), batch_norm=True).eval()
        >>> h = torch.randn(3, 8)
        >>> torch.allclose(layer(h), layer.fold()(h), atol=1e-6)
        True
    """
    weight, bias = _with_batch_norm(layer)
    rest = copy.deepcopy(layer.map)
    rest.prepare()
    start = 0
    for part in rest.parts:
        own, way = slice(start, start + part.coefficients), part.way
        if {"units", "base"} <= way.exact.keys() and way.keeps_inside:
            units, base = (torch.as_tensor(way.exact[name], device=weight.device) for name in ("units", "base"))
            weight[own] *= units.tile(part.count)[:, None]
            bias[own] = bias[own] * units.tile(part.count) + base.tile(part.count)
            way.start = _as_it_is  # type: ignore[method-assign]
        start += part.coefficients
    dtype = layer.linear.weight.dtype
    folded = Folded(weight.to(dtype), bias.to(dtype), rest).eval()
    folded.polyhedron, folded.axis = layer.polyhedron, layer.axis
    if compile:
        # code of its own: torch.compile counts the graphs of one code object, and refuses the ninth layer of a process
        run = MethodType(_copy(Folded.forward), folded)
        folded._compiled_call_impl = torch.compile(run, fullgraph=True)
    return folded


def _as_it_is(c: Tensor) -> Tensor:
    """The start of a way whose base point and units are in the Linear."""
    return c


def _copy(function: Any) -> FunctionType:
    """The same function with a code object of its own."""
    made = FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _with_batch_norm(layer: Constrained) -> tuple[Tensor, Tensor]:
    """Weight and bias of the Linear in float64, with the BatchNorm's running statistics inside."""
    weight = layer.linear.weight.double().clone()
    bias = weight.new_zeros(len(weight)) if layer.linear.bias is None else layer.linear.bias.double().clone()
    norm = layer.batch_norm
    if norm is None or norm.running_mean is None or norm.running_var is None:
        return weight, bias
    slope = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    shift = norm.bias.double() - norm.running_mean.double() * slope
    return weight * slope, bias + weight @ shift
