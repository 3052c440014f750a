"""The layer for inference elsewhere: BatchNorm and units folded into one Linear, and ONNX files."""

from __future__ import annotations

import copy
import inspect
import re
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.errors import RayhullError, optional
from rayhull.nn.map_into import MapInto
from rayhull.nn.strict import short
from rayhull.projection.formulas import formula_of
from rayhull.projection.sides import Sides, TakesSides
from rayhull.sets.cones import with_cones

if TYPE_CHECKING:
    from rayhull.nn.layers import Constrained

DTYPES = (torch.float32, torch.float64, torch.float16)


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


def to_onnx(
    module: nn.Module,
    in_features: int,
    path: str | Path,
    *,
    sides: Sequence[str] = (),
    opset_version: int | None = None,
) -> Path:
    """Write an ONNX file with a dynamic batch: input "features" (batch, in_features), output "x".

    What comes out of the file is inside as the module promises, strictly where the module is strict: the exporter's
    optimiser is left out, because it takes numbers near 1 for 1 and so removes the margins of the proof; and the
    numbers of the proof are tensors, because it passes Python's floats through float32.

    Args:
        module: a :class:`rayhull.Constrained`, what its ``fold()`` returns, or a model that ends in one. It is left in
            evaluation mode.
        in_features: size of an input sample.
        path: where to write.
        sides: names of sides of the sample that become inputs of the file, (batch, ...) each: "b", "b_eq", "lower" and
            "upper"; "A" and "b" where one or two rows are all there is. Steps start from the base point of the sample:
            by the affine rule of a layer that was built with ``varies=``, else the stated one, moved onto the sample's
            equalities. Where that is not strictly inside, the sample comes out as NaN.
        opset_version: of ONNX; by default that of the installed torch.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.nn.export import to_onnx
        >>> to_onnx(rh.Constrained(8, rh.monotone(5)).fold(), 8, "layer.onnx")             # doctest: +SKIP
        PosixPath('layer.onnx')
    """
    optional("onnxscript", "onnxscript", "onnx", "Writing an ONNX file")
    dtype, device = of_weights(module)
    features = torch.zeros(2, in_features, dtype=dtype, device=device)
    given, dynamic = example_call(module, features, sides)
    _refuse_what_onnx_lacks(module, sides)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*shares the same shape constraints")  # one batch for all
            warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")  # torch's exporter uses it itself
            program = torch.onnx.export(
                module.eval(),
                (features,),
                kwargs=given,
                input_names=["features", *given],
                output_names=["x"],
                dynamic_shapes=dynamic if given else tuple(dynamic.values()),
                dynamo=True,
                verbose=False,
                optimize=False,
                opset_version=opset_version,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        missing = re.search(r"No ONNX function found for .*?op='([\w.]+)'", str(error))
        what = f"ONNX has no operator for {missing[1]}" if missing else "torch's exporter failed"
        why = str(error.__cause__ or error).splitlines()[0]
        raise RayhullError(
            f"{what}: {why} Does the model take {in_features} features (in_features), and no argument but those in "
            'sides=? Else export a layer with method="steps".'
        ) from error
    assert program is not None
    program.save(str(path))
    return Path(path)


def example_call(
    module: nn.Module, features: Tensor, sides: Sequence[str]
) -> tuple[dict[str, Tensor], dict[str, dict[int, Any]]]:
    """Sides for the two samples of features as the set states them, and the batch dimension of every argument.

    What graphs take in place of solvers is made.
    """
    maps = [part for part in module.modules() if isinstance(part, MapInto)]
    if sides and len(maps) != 1:
        raise RayhullError(f"sides need a module with one layer, got one with {len(maps)}: export each head alone.")
    stated = _stated(maps[0].polyhedron) if sides else {}
    unknown = sorted(set(sides) - set(stated))
    if unknown:
        raise ValueError(
            f"sides of an ONNX file are {', '.join(stated)}, got {unknown[0]!r}: call forward's arguments so."
        )
    for into in maps:
        into.prepare()
    own = {name: torch.as_tensor(stated[name]).to(features) for name in sides}
    given, batch = {name: side.expand(2, *side.shape).clone() for name, side in own.items()}, torch.export.Dim("batch")
    return given, {name: {0: batch} for name in (first_argument(module, sides), *sides)}


def _stated(P: Any) -> dict[str, Any]:
    """The sides that the set states, by name."""
    rows = {"A": P.inequalities.matrix.toarray(), "b": P.inequalities.rhs, "b_eq": P.equalities.rhs}
    bounds = {"lower": P.lower_bounds.reshape(P.shape), "upper": P.upper_bounds.reshape(P.shape)}
    if (S := with_cones(P)) is None:
        return rows | bounds
    return rows | bounds | {"h": np.array([cone.h for cone in S.cones]), "centre": S.stated_centre.reshape(S.shape)}


def first_argument(module: nn.Module, sides: Iterable[str]) -> str:
    """The name that a model gives its features; its other arguments are called as the sides."""
    given = inspect.signature(module.forward).parameters.values()
    names = [one.name for one in given if one.kind is not one.VAR_KEYWORD]
    missing = [side for side in sides if side not in names]
    if missing:
        raise RayhullError(
            f"forward takes {', '.join(names)}, and no {missing[0]!r}: name the argument that is passed on to the "
            f"layer's {missing[0]} so."
        )
    return names[0]


def _refuse_what_onnx_lacks(module: nn.Module, sides: Sequence[str]) -> None:
    for into in (part for part in module.modules() if isinstance(part, MapInto)):
        if not _holds(into, sides):
            raise RayhullError(
                f"{', '.join(sides)} of the sample need nearest points that only a solver finds here, which an ONNX "
                'file does not hold: build the layer with method="steps" and varies=, the ranges of what comes with a '
                "call, or project what comes out of the file with rayhull.project."
                if sides
                else f"the map into {into.polyhedron} has a sparse factor, which no ONNX file holds: export the "
                "network up to the layer's Linear, and put what comes out of that file through the layer's map "
                "(head.map)."
            )
    if not all(bool(w.isfinite().all()) for w in module.parameters()):
        raise RayhullError("some weights are not finite, and no graph can say so: mend the training first.")
    dtype, _ = of_weights(module)
    if dtype not in DTYPES:
        raise RayhullError(
            f"ONNX Runtime has no {short(dtype)} kernels for this graph: export the layer in float32 (layer.float())."
        )


def _holds(into: MapInto, sides: Sequence[str]) -> bool:
    """Whether a graph takes these sides: by the ways themselves, or by a formula for the set of the sample."""
    own, P = into._per_sample, into.polyhedron
    if "A" in sides:
        return own.is_closed(sides, len(P.inequalities))
    moves_cones = with_cones(P) is not None and own.rule is None and "b_eq" in sides
    if not sides or (own.serves(into.parts, sides) and not moves_cones):
        return into.parts.fits_graphs(sides)
    return with_cones(P) is None and formula_of(own.nearest.projector, sides) is not None


def of_weights(module: nn.Module) -> tuple[torch.dtype, torch.device]:
    """The dtype and device of the first weight that is not part of the geometry."""
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if name.endswith("weight") and value.is_floating_point():
            return value.dtype, value.device
    return torch.get_default_dtype(), torch.device("cpu")
