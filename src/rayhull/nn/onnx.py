"""ONNX files of a layer or of a folded one."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

from rayhull.errors import MissingExtraError, RayhullError
from rayhull.nn.directions import NearestPoint
from rayhull.nn.projection import Projection

DTYPES = (torch.float32, torch.float64, torch.float16)


def to_onnx(module: nn.Module, in_features: int, path: str | Path, *, opset_version: int | None = None) -> Path:
    """Write an ONNX file with a dynamic batch: input "features" (batch, in_features), output "x".

    What comes out of the file is inside as the module promises, strictly where the module is strict: the exporter's
    optimiser is left out, because it takes numbers near 1 for 1 and so removes the margins of the proof; and the
    numbers of the proof are tensors, because it passes Python's floats through float32.

    Args:
        module: a :class:`rayhull.Constrained`, what its ``fold()`` returns, or a model that ends in one.
        in_features: size of an input sample.
        path: where to write.
        opset_version: of ONNX; by default that of the installed torch.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.nn.onnx import to_onnx
        >>> to_onnx(rh.Constrained(8, rh.monotone(5)).fold(), 8, "layer.onnx")             # doctest: +SKIP
        PosixPath('layer.onnx')
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingExtraError("onnxscript", "onnx", "Writing an ONNX file") from None
    _refuse_what_onnx_lacks(module)
    dtype, device = _of_weights(module)
    try:
        program = torch.onnx.export(
            module.eval(),
            (torch.zeros(2, in_features, dtype=dtype, device=device),),
            input_names=["features"],
            output_names=["x"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
            optimize=False,
            opset_version=opset_version,
        )
    except torch.onnx.errors.OnnxExporterError as error:
        missing = re.search(r"No ONNX function found for .*?op='([\w.]+)'", str(error))
        what = f"ONNX has no operator for {missing[1]}" if missing else "torch's exporter failed"
        raise RayhullError(f'{what}: export a layer with method="shrink", "rays" or "vertices".') from error
    assert program is not None
    program.save(str(path))
    return Path(path)


def _refuse_what_onnx_lacks(module: nn.Module) -> None:
    if any(isinstance(part, Projection | NearestPoint) for part in module.modules()):
        raise RayhullError(
            "the nearest point is an iterative solver, which an ONNX graph cannot hold: export a layer with "
            'method="shrink", "rays" or "vertices", or project what comes out of the file with rayhull.project.'
        )
    if not all(bool(w.isfinite().all()) for w in module.parameters()):
        raise RayhullError("some weights are not finite, and no graph can say so: mend the training first.")
    dtype, _ = _of_weights(module)
    if dtype not in DTYPES:
        short = str(dtype).removeprefix("torch.")
        raise RayhullError(
            f"ONNX Runtime has no {short} kernels for this graph: export the layer in float32 (layer.float())."
        )


def _of_weights(module: nn.Module) -> tuple[torch.dtype, torch.device]:
    """The dtype and device of the first weight that is not part of the geometry."""
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if name.endswith("weight") and value.is_floating_point():
            return value.dtype, value.device
    return torch.get_default_dtype(), torch.device("cpu")
