"""The layer for inference: one Linear in place of BatchNorm, Linear and units, then the rest of the map."""

from __future__ import annotations

import copy
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rayhull.nn.map_into import MapInto
from rayhull.projection.sides import Sides, TakesSides

if TYPE_CHECKING:
    from rayhull.nn.layers import Constrained


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
