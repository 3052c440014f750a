"""The layer elsewhere: ONNX files, and programs of array operations (:mod:`rayhull.nn.arrays`) for NumPy and JAX."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._decomp import get_decompositions

from rayhull.errors import RayhullError, optional
from rayhull.nn.arrays import OPERATIONS, Array, Input, Node, Program, evaluated
from rayhull.nn.map_into import MapInto
from rayhull.nn.strict import short
from rayhull.projection.formulas import formula_of
from rayhull.sets.cones import with_cones

DTYPES = (torch.float32, torch.float64, torch.float16)  # of ONNX Runtime
LEFT_OUT = ("dtype", "device", "layout", "pin_memory", "memory_format", "non_blocking")  # a node knows its dtype
aten = torch.ops.aten
SPLIT = [aten._softmax, aten._log_softmax, aten.gelu, aten.leaky_relu, aten.hardtanh, aten.native_layer_norm]
SPLIT += [aten._native_batch_norm_legit_no_training, aten._native_batch_norm_legit]  # into smaller ones
Apply = Callable[..., Any]


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
    if type(in_features) is not int:
        got = type(in_features).__name__
        raise TypeError(f"to_onnx takes the number of features second, to_onnx(model, 8, 'file.onnx'), got {got}.")
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


# -- programs of array operations --------------------------------------------------------------------------------------


def to_numpy(module: nn.Module, example: Tensor | None = None, *, sides: Sequence[str] = ()) -> Program:
    """A module in evaluation mode as a function that needs NumPy alone: ``program(features, **sides)``.

    Strict layers stay strict: NumPy has float64. ``program.save("layer.npz")`` writes it, and
    :func:`rayhull.nn.arrays.load` reads it where there is no torch.

    Args:
        module: a layer, what its ``fold()`` returns, or a model with layers in it.
        example: features (batch, ...), for a module that does not begin with a Linear or a layer.
        sides: names of the sides of the sample that the program takes, as for :func:`rayhull.nn.export.to_onnx`.

    Examples:
        >>> import numpy as np, torch, rayhull as rh
        >>> P = rh.monotone(4) & rh.box(0, 1)
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), rh.Constrained(16, P, strict=True))
        >>> x = rh.to_numpy(model)(np.random.randn(5, 8))
        >>> x.dtype, bool(P.contains_exactly(x).all())
        (dtype('float32'), True)
    """
    was = module.training
    try:
        with torch.no_grad():
            return _converted("NumPy", module.eval(), example, sides)[0]
    finally:
        module.train(was)


def to_jax(
    module: nn.Module, example: Tensor | None = None, *, sides: Sequence[str] = ()
) -> tuple[dict[str, Array], Apply]:
    """A module as (parameters, apply) for JAX: ``apply(parameters, features, **sides)``.

    For ``jit``, ``grad`` and ``vmap``; differentiable in parameters, features and sides. The mode of the module is
    kept: in training mode the gradient leaks past the map as in torch (:mod:`rayhull.maps.leak`), after
    ``module.eval()`` it is the derivative alone. Strict layers and layers in float64 need JAX's 64-bit mode.

    Args:
        module, example, sides: as for :func:`to_numpy`.

    Examples:
        >>> import rayhull as rh
        >>> parameters, apply = rh.to_jax(rh.Constrained(8, rh.monotone(5)))                # doctest: +SKIP
        >>> x = jax.jit(apply)(parameters, jax.numpy.ones((3, 8)))                          # doctest: +SKIP
    """
    jax = optional("jax", "jax", "jax", "A program for JAX")
    with torch.enable_grad():
        program, weights = _converted("JAX", module, example, sides)
    wide = any(getattr(part, "strict", False) for part in module.modules()) or torch.float64 in (
        weight.dtype for weight in module.parameters()
    )

    def kind(name: str) -> Any:
        if wide and not jax.config.jax_enable_x64:
            raise RayhullError(
                "strict layers and layers in float64 need JAX's 64-bit mode, which is off: "
                'jax.config.update("jax_enable_x64", True), or export a float32 layer with strict=False.'
            )
        return jax.dtypes.canonicalize_dtype(jax.numpy.dtype(name))

    def apply(parameters: Mapping[str, Array], features: Any, **given: Any) -> Array:
        own = {place: parameters[name] for place, name in weights.items()}
        return program.run(jax.numpy, kind, own, features, given)

    named = dict(module.named_parameters(remove_duplicate=False))
    made = {name: jax.numpy.array(_array(named[name]), kind(short(named[name].dtype))) for name in weights.values()}
    return made, apply


def _converted(
    target: str, module: nn.Module, example: Tensor | None, sides: Sequence[str]
) -> tuple[Program, dict[str, str]]:
    """The program, and the names of the parameters that it takes by their places in the graph: none for NumPy."""
    exported = _exported(module, _features(module, example), sides)
    signature, names = exported.graph_signature, iter((first_argument(module, sides), *sides))
    if changed := signature.buffers_to_mutate:
        raise RayhullError(
            f"training mode changes {next(iter(changed.values()))}, which a function cannot: call .eval() first."
        )
    fake = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    if target == "NumPy" and torch.bfloat16 in {value.dtype for value in fake.values() if isinstance(value, Tensor)}:
        raise RayhullError("NumPy has no bfloat16: export the layer in float32 (layer.float()).")
    inputs = [Input(at, next(names), list(fake[at].shape[1:]), short(fake[at].dtype)) for at in signature.user_inputs]
    weights = dict(signature.inputs_to_parameters) if target == "JAX" else {}
    known = exported.state_dict | exported.constants
    arrays = {
        own.arg.name: _array(known[own.target])
        for own in signature.input_specs
        if own.target is not None and own.arg.name not in weights
    }
    left = [node for node in exported.graph.nodes if _left_after_folding(target, node, arrays)]
    needed = {own.name for node in left for own in node.all_input_nodes}
    nodes = [_node(target, node) for node in left]
    kept = {name: array for name, array in arrays.items() if name in needed}
    return Program(inputs, nodes, list(signature.user_outputs), kept), weights


def _features(module: nn.Module, example: Tensor | None) -> Tensor:
    """Two samples: of the example, or zeros for what the module begins with."""
    if example is not None:
        return example[:1].repeat(2, *(1 for _ in example.shape[1:]))
    dtype, device = of_weights(module)
    for part in module.modules():
        size = getattr(part, "in_features", getattr(part, "coefficients", None))
        if size is not None:
            return torch.zeros(2, size, dtype=dtype, device=device)
        if part._parameters or not part._modules:
            break
    raise RayhullError("the module does not begin with a Linear or a layer: give example=, features (batch, ...).")


def _exported(module: nn.Module, features: Tensor, sides: Sequence[str]) -> torch.export.ExportedProgram:
    """The graph in the core operators of ATen; detach stays, which says where there is no derivative."""
    given, dynamic = example_call(module, features, sides)
    for value in (features, *given.values()):
        value.requires_grad_(torch.is_grad_enabled() and value.is_floating_point())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")  # torch's exporter uses it itself
        program = torch.export.export(module, (features,), given, dynamic_shapes=dynamic)
    table = {**torch.export.default_decompositions(), **get_decompositions(SPLIT)}
    return program.run_decompositions({op: how for op, how in table.items() if op is not aten.detach.default})


def _left_after_folding(target: str, node: torch.fx.Node, arrays: dict[str, Any]) -> bool:
    """Whether an operation is left to be run; what depends on constants alone is worked out, and joins them."""
    if node.op != "call_function" or not node.users:  # an assertion
        return False
    if not {own.name for own in node.all_input_nodes} <= arrays.keys():
        return True
    with np.errstate(all="ignore"):
        arrays[node.name] = evaluated(_node(target, node), arrays, np, _without_bfloat16)
    return False


def _node(target: str, node: torch.fx.Node) -> Node:
    operation: Any = node.target
    space, name = getattr(operation, "namespace", "operator"), getattr(operation, "_opname", operation.__name__)
    if space == "rayhull":
        raise RayhullError(
            f"the nearest point of this set is found by an iterative solver, which no program for {target} holds: "
            'export a layer with method="steps" (and varies= for sides of the sample).'
        )
    name = name if space == "aten" else f"{space}.{name}"
    if name not in OPERATIONS:
        raise RayhullError(
            f"programs for {target} have no {operation}: leave it out of the module, or add a function "
            f"(array module, *arguments) as rayhull.nn.arrays.OPERATIONS[{name!r}]."
        )
    kwargs = {key: _plain(value) for key, value in node.kwargs.items() if key not in LEFT_OUT}
    value = node.meta.get("val")
    return Node(node.name, name, _plain(node.args), kwargs, short(value.dtype) if isinstance(value, Tensor) else None)


def _plain(argument: Any) -> Any:
    """An argument as JSON has it."""
    if isinstance(argument, torch.fx.Node):
        return {"of": argument.name}
    if isinstance(argument, (list, tuple)):
        return [_plain(one) for one in argument]
    return argument if isinstance(argument, (bool, int, float, str)) else None


def _array(value: Tensor) -> Array:
    """A copy: torch may train on."""
    return value.detach().cpu().to(getattr(torch, _without_bfloat16(short(value.dtype)))).numpy().copy()


def _without_bfloat16(name: str) -> str:
    """The dtype of a constant, of which NumPy has no bfloat16."""
    return "float32" if name == "bfloat16" else name
