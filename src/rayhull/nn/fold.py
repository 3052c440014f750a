"""The layer for inference: BatchNorm and lines folded into one Linear."""

from __future__ import annotations

import copy
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rayhull.nn.map_into import MapInto

if TYPE_CHECKING:
    from rayhull.nn.constrained import Constrained


class Folded(nn.Module):
    """What :func:`fold` returns: one Linear and the rest of the map. For inference: it holds no parameters.

    Shape: (\\*, in_features) → (\\*, event shape)
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor, rest: MapInto) -> None:
        super().__init__()
        self.rest = rest
        if rest.strict:  # a row of zeros: 0 for finite features, NaN for others, and NaN if a weight is not finite
            known = weight.isfinite().all() & bias.isfinite().all()
            mark = torch.where(known, 0.0, torch.nan).to(bias.dtype)
            weight, bias = torch.cat([weight, torch.zeros_like(weight[:1])]), torch.cat([bias, mark[None]])
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, features: Tensor, **sides: Tensor | None) -> Tensor:
        """Points of the set; the sides of the sample are those of :class:`rayhull.MapInto`."""
        c = nn.functional.linear(features, self.weight, self.bias)
        if self.rest.strict:
            c = c[..., :-1].nan_to_num(0.0) + c[..., -1:]
        out: Tensor = self.rest(c, **sides)
        return out

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[1]}, folded Linear of {self.weight.shape[0]}"


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
    weights, biases, start = [], [], 0
    for part in rest.blocks():
        stop = start + part.coefficients
        matrix, part.direction = part.direction.fold()
        M = torch.as_tensor(matrix, dtype=torch.float64, device=weight.device)
        weights.append((M @ weight[start:stop].reshape(part.count, -1, weight.shape[1])).flatten(0, 1))
        biases.append((bias[start:stop].reshape(part.count, -1) @ M.mT).flatten())
        start = stop
    dtype = layer.linear.weight.dtype
    folded = Folded(torch.cat(weights).to(dtype), torch.cat(biases).to(dtype), rest).eval()
    if compile:
        # code of its own: torch.compile counts the graphs of one code object, and refuses the ninth layer of a process
        run = MethodType(_copy(Folded.forward), folded)
        folded._compiled_call_impl = torch.compile(run, fullgraph=True)
    return folded


def _copy(function: Any) -> FunctionType:
    """The same function with a code object of its own."""
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__)


def _with_batch_norm(layer: Constrained) -> tuple[Tensor, Tensor]:
    """Weight and bias of the Linear in float64, with the BatchNorm's running statistics inside."""
    weight, bias = layer.linear.weight.double(), layer.linear.bias.double()
    norm = layer.batch_norm
    if norm is None or norm.running_mean is None or norm.running_var is None:
        return weight, bias
    slope = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    shift = norm.bias.double() - norm.running_mean.double() * slope
    return weight * slope, bias + weight @ shift
