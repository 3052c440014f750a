"""The layer for inference: BatchNorm, lines and rows folded into one Linear; ONNX files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rayhull.errors import MissingExtraError
from rayhull.nn import columns
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
        if rest.strict:  # a row of zeros: 0 for finite features, NaN for others
            weight, bias = (
                torch.cat([weight, weight.new_zeros(1, weight.shape[1])]),
                torch.cat([bias, bias.new_zeros(1)]),
            )
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.as_columns = columns.fits(rest)

    def forward(self, features: Tensor) -> Tensor:
        if self.as_columns:
            return self._from_columns(features)
        c = nn.functional.linear(features, self.weight, self.bias)
        if self.rest.strict:
            c = c[..., :-1].nan_to_num(0.0) + c[..., -1:]
        return self.rest(c)

    def _from_columns(self, features: Tensor) -> Tensor:
        c = torch.addmm(self.bias.unsqueeze(-1), self.weight, features.reshape(-1, self.weight.shape[1]).mT)
        if self.rest.strict:
            c = c[:-1].nan_to_num(0.0) + c[-1:]
        return columns.points(self.rest, c).reshape(*features.shape[:-1], *self.rest.polyhedron.shape)

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
    rest.coefficients = sum(part.coefficients for part in rest.blocks())
    dtype = layer.linear.weight.dtype
    folded = Folded(torch.cat(weights).to(dtype), torch.cat(biases).to(dtype), rest).eval()
    if compile:
        folded.compile(fullgraph=True)
    return folded


def _with_batch_norm(layer: Constrained) -> tuple[Tensor, Tensor]:
    """Weight and bias of the Linear in float64, with the BatchNorm's running statistics inside."""
    weight, bias = layer.linear.weight.double(), layer.linear.bias.double()
    norm = layer.batch_norm
    if norm is None or norm.running_mean is None or norm.running_var is None:
        return weight, bias
    slope = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
    shift = norm.bias.double() - norm.running_mean.double() * slope
    return weight * slope, bias + weight @ shift


def to_onnx(module: nn.Module, in_features: int, path: str | Path, **options: Any) -> Path:
    """Write an ONNX file with a dynamic batch: input "features" (batch, in_features), output "x".

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.nn.fold import to_onnx
        >>> to_onnx(rh.Constrained(8, rh.monotone(5)).fold(), 8, "layer.onnx")             # doctest: +SKIP
        PosixPath('layer.onnx')
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingExtraError("onnxscript", "onnx", "Writing an ONNX file") from None
    weight = next(iter(module.state_dict().values()))
    example = torch.zeros(2, in_features, dtype=_input_dtype(module), device=weight.device)
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        module.eval(),
        (example,),
        input_names=["features"],
        output_names=["x"],
        dynamic_shapes=({0: batch},),
        dynamo=True,
        verbose=False,
        **options,
    )
    assert program is not None
    program.save(str(path))
    return Path(path)


def _input_dtype(module: nn.Module) -> torch.dtype:
    """The dtype of the first weight that is not part of the geometry."""
    for name, value in module.state_dict().items():
        if name.endswith("weight") and value.is_floating_point():
            return value.dtype
    return torch.get_default_dtype()
