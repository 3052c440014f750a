"""Programs of array operations: a module's graph, run by NumPy or by a module with NumPy's names, as jax.numpy.

:func:`rayhull.to_numpy` and :func:`rayhull.to_jax` write them. This file needs NumPy alone and nothing else of rayhull:
copied beside a saved program, it is all that inference takes.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT = 1  # of saved programs
Array = Any  # of NumPy, or of the module that stands for it
Operation = Callable[..., Any]  # (array module, *arguments) → an array, or several


class Input(NamedTuple):
    """What a program is given: its name in the graph and in the call, and the shape and dtype of one sample's."""

    place: str
    name: str
    shape: Sequence[int]
    dtype: str


class Node(NamedTuple):
    """One operation: arguments name other nodes as {"of": name}; ``dtype`` is None for what is no array."""

    name: str
    operation: str
    args: list[Any]
    kwargs: dict[str, Any]
    dtype: str | None


class Program:
    """A module as array operations: ``program(features, **sides)`` needs NumPy alone.

    Shape: features (\\*, shape of a sample), sides (\\*, their shapes) or one for all → (\\*, event shape)

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.monotone(5) & rh.box(-1, 1)
        >>> program = rh.to_numpy(rh.Constrained(8, P, strict=True))
        >>> bool(P.contains_exactly(program(np.random.randn(3, 8))).all())
        True
    """

    def __init__(
        self, inputs: Sequence[Input], nodes: Sequence[Node], outputs: Sequence[str], arrays: Mapping[str, Array]
    ) -> None:
        self.inputs, self.nodes, self.outputs, self.arrays = inputs, nodes, outputs, dict(arrays)

    def __call__(self, features: Any, **sides: Any) -> Array:
        with np.errstate(all="ignore"):
            return self.run(np, np.dtype, {}, features, sides)

    def run(self, xp: Any, kind: Callable[[str], Any], more: Mapping[str, Array], features: Any, sides: Any) -> Array:
        """What comes out, by the array module xp; kind: its dtype of a name; more: arrays beside the program's own."""
        lead, given = self._given(xp, kind, {self.inputs[0].name: features, **sides})
        values: dict[str, Any] = self.arrays | dict(more) | given
        for node in self.nodes:
            values[node.name] = evaluated(node, values, xp, kind)
        found = [values[name].reshape(*lead, *values[name].shape[1:]) for name in self.outputs]
        return found[0] if len(found) == 1 else tuple(found)

    def _given(self, xp: Any, kind: Any, call: dict[str, Any]) -> tuple[tuple[int, ...], dict[str, Array]]:
        """The batch dimensions of all inputs together, and each input with one of them."""
        names = [own.name for own in self.inputs]
        if set(names) != set(call):
            missing, wrong = ([n for n in a if n not in b] for a, b in ((names, call), (call, names)))
            what = f"{missing[0]} is missing" if missing else f"there is no {wrong[0]}"
            raise TypeError(f"this program takes {', '.join(names)}: {what}. Sides are named when it is made (sides=).")
        arrays = [_checked(xp, kind, own, call[own.name], own is self.inputs[0]) for own in self.inputs]
        shapes = [tuple(own.shape) for own in self.inputs]
        pairs = list(zip(arrays, shapes, strict=True))
        lead = np.broadcast_shapes(*(array.shape[: array.ndim - len(shape)] for array, shape in pairs))
        flat = (xp.broadcast_to(array, lead + shape).reshape(math.prod(lead), *shape) for array, shape in pairs)
        return lead, {own.place: array for own, array in zip(self.inputs, flat, strict=True)}

    def save(self, path: str | Path) -> Path:
        """Write a .npz file: the constants, and the graph as JSON. :func:`load` reads it, without torch."""
        graph = {"format": FORMAT, "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}
        text = np.frombuffer(json.dumps(graph).encode(), np.uint8)
        with Path(path).open("wb") as file:
            np.savez(file, graph=text, **{f"array {name}": value for name, value in self.arrays.items()})
        return Path(path)


def load(path: str | Path) -> Program:
    """A program that :meth:`Program.save` wrote. Nothing in the file is executed or unpickled.

    Examples:
        >>> import numpy as np, tempfile, rayhull as rh
        >>> from rayhull.nn.arrays import load
        >>> program, h = rh.to_numpy(rh.Constrained(8, rh.simplex(3))), np.ones((2, 8))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load(program.save(f"{folder}/layer.npz"))
        >>> bool((again(h) == program(h)).all())
        True
    """
    with np.load(path, allow_pickle=False) as file:
        if "graph" not in file:
            raise ValueError(f"{path} holds arrays, but no graph: give a file that Program.save wrote.")
        graph = json.loads(file["graph"].tobytes())
        if graph["format"] > FORMAT:
            raise ValueError(f"{path} has format {graph['format']}; this reads up to {FORMAT}: take a newer arrays.py.")
        arrays = {name.removeprefix("array "): file[name] for name in file if name != "graph"}
    nodes = [Node(*node) for node in graph["nodes"]]
    return Program([Input(*own) for own in graph["inputs"]], nodes, graph["outputs"], arrays)


def evaluated(node: Node, values: Mapping[str, Any], xp: Any, kind: Callable[[str], Any]) -> Any:
    """What a node gives, in the dtype that torch has there."""
    args, kwargs = _filled(node.args, values), _filled(node.kwargs, values)
    found = OPERATIONS[node.operation](xp, *args, **kwargs)
    return found if node.dtype is None else xp.asarray(found).astype(kind(node.dtype))


def _filled(argument: Any, values: Mapping[str, Any]) -> Any:
    """An argument with the values in it that it names."""
    if isinstance(argument, dict):
        return values[argument["of"]] if "of" in argument else {k: _filled(v, values) for k, v in argument.items()}
    return [_filled(one, values) for one in argument] if isinstance(argument, list) else argument


def _checked(xp: Any, kind: Any, own: Input, value: Any, features: bool) -> Array:
    array = xp.asarray(value)
    if array.shape[max(0, array.ndim - len(own.shape)) :] != tuple(own.shape):
        expected = ", ".join(("*", *map(str, own.shape)))
        raise ValueError(f"expected {own.name} of shape ({expected}), got {tuple(array.shape)}.")
    if not features and array.dtype != kind(own.dtype):  # what strict proves, it proves of the numbers that it is given
        raise TypeError(f"expected {own.name} in {own.dtype}, as the layer is, got {array.dtype}: cast it first.")
    return array.astype(kind(own.dtype))


# -- operations: (array module, *arguments of ATen's) ----------------------------------------------------------------


def _named(name: str) -> Operation:
    return lambda xp, *args: getattr(xp, name)(*args)


def _over(name: str) -> Operation:
    """A reduction over one axis, several, or all."""

    def reduced(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
        return getattr(xp, name)(x, axis=tuple(dim) or None if isinstance(dim, list) else dim, keepdims=keepdim)

    return reduced


def _still(xp: Any, x: Array) -> Array:
    """x without its derivative, where the array module has one."""
    return x if xp is np else importlib.import_module("jax").lax.stop_gradient(x)


def _at(places: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if one is None else one for one in places)


def _put(xp: Any, x: Array, places: Sequence[Any], values: Array, add: bool = False) -> Array:
    """x with values at places, or added there."""
    if xp is not np:
        return getattr(xp.asarray(x).at[_at(places)], "add" if add else "set")(values)
    out = x.copy()
    if add:
        np.add.at(out, _at(places), values)
    else:
        out[_at(places)] = values
    return out


def _scatter_add(xp: Any, x: Array, dim: int, index: Array, values: Array) -> Array:
    at: list[Any] = list(np.indices(index.shape, sparse=True))
    at[dim] = index
    return _put(xp, x, at, values[tuple(map(slice, index.shape))], True)


def _gather(xp: Any, x: Array, dim: int, index: Array) -> Array:
    near = [slice(n) for n in index.shape]
    near[dim] = slice(None)
    return xp.take_along_axis(x[tuple(near)], index, dim)


def _sort(xp: Any, x: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    order = xp.argsort(-x if descending else x, axis=dim, stable=True)
    return xp.take_along_axis(x, order, dim), order


def _slice(xp: Any, x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


def _expand(xp: Any, x: Array, sizes: Sequence[int]) -> Array:
    own = (1,) * (len(sizes) - x.ndim) + tuple(x.shape)
    return xp.broadcast_to(x, tuple(a if b == -1 else b for a, b in zip(own, sizes, strict=True)))


def _pad(xp: Any, x: Array, pads: Sequence[int], value: float = 0) -> Array:
    pairs = list(zip(pads[::2], pads[1::2], strict=True))[::-1]  # the last axis comes first
    return xp.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, constant_values=value)


def _clamp(xp: Any, x: Array, low: Any = None, high: Any = None) -> Array:
    x = x if low is None else xp.where(x < low, low, x)  # at a bound the derivative is 1, as torch's
    return x if high is None else xp.where(x > high, high, x)


def _minimum(xp: Any, x: Array, y: Array) -> Array:
    """NaN stays NaN. jax.numpy's looks for its value among x and y again, which XLA may have rounded otherwise by then:
    the derivative is lost."""
    return xp.where((x > y) | xp.isnan(y), y, x)


def _norm(xp: Any, x: Array, order: float = 2, dim: Any = None, keepdim: bool = False) -> Array:
    axes = None if dim is None else tuple(dim)
    if math.isinf(order):
        return (xp.max if order > 0 else xp.min)(xp.abs(x), axis=axes, keepdims=keepdim)
    if order == 0:
        return xp.sum(x != 0, axis=axes, keepdims=keepdim)
    total = xp.sum(x * x if order == 2 else xp.abs(x) ** order, axis=axes, keepdims=keepdim)
    kept = xp.where(total > 0, total, 1)
    return xp.where(total > 0, xp.sqrt(kept) if order == 2 else kept ** (1 / order), 0)  # of 0 the derivative is 0


def _var_mean(xp: Any, x: Array, dim: Sequence[int], correction: int = 1, keepdim: bool = False) -> tuple[Array, Array]:
    axes = tuple(dim)
    return xp.var(x, axes, ddof=correction, keepdims=keepdim), xp.mean(x, axes, keepdims=keepdim)


def _erf(xp: Any, x: Array) -> Array:
    return np.frompyfunc(math.erf, 1, 1)(x) if xp is np else importlib.import_module("jax.scipy.special").erf(x)


NAMES = """abs ceil cos exp expm1 floor isfinite isinf isnan log log1p logical_and logical_not logical_or
reciprocal sign sin sqrt tan tanh trunc where bitwise_and bitwise_or bitwise_xor arange full neg:negative
mul:multiply mm:matmul bmm:matmul eq:equal ne:not_equal lt:less le:less_equal gt:greater ge:greater_equal
bitwise_not:invert pow:power permute:transpose unsqueeze:expand_dims scalar_tensor:asarray"""
OPERATIONS: dict[str, Operation] = {
    **{pair.split(":")[0]: _named(pair.split(":")[-1]) for pair in NAMES.split()},
    **{name: _over(name) for name in ("sum", "prod", "mean", "any", "argmax", "amax", "amin")},
    **dict.fromkeys(("clone", "_to_copy"), lambda xp, x: x),
    **dict.fromkeys(("alias", "detach"), _still),
    **dict.fromkeys(("view", "_unsafe_view"), lambda xp, x, shape: x.reshape(shape)),
    "add": lambda xp, x, y, alpha=1: x + (y if alpha == 1 else alpha * y),
    "sub": lambda xp, x, y, alpha=1: x - (y if alpha == 1 else alpha * y),
    "div": lambda xp, x, y: x / y,
    "rsqrt": lambda xp, x: 1 / xp.sqrt(x),
    "addmm": lambda xp, c, a, b, beta=1, alpha=1: beta * c + alpha * (a @ b),
    "linalg_vector_norm": _norm,
    "var_mean": _var_mean,
    "cumsum": lambda xp, x, dim: xp.cumsum(x, axis=dim),
    "sort": _sort,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "index_select": lambda xp, x, dim, index: xp.take(x, index, axis=dim),
    "select": lambda xp, x, dim, index: xp.take(x, index, axis=dim),
    "index": lambda xp, x, places: x[_at(places)],
    "index_put": _put,
    "embedding": lambda xp, weight, index, *_: weight[index],
    "expand": _expand,
    "squeeze": lambda xp, x, dim: xp.squeeze(x, tuple(d for d in dim if x.shape[d] == 1)),
    "slice": _slice,
    "split_with_sizes": lambda xp, x, sizes, dim=0: xp.split(x, np.cumsum(sizes)[:-1].tolist(), dim),
    "cat": lambda xp, parts, dim=0: xp.concatenate(parts, axis=dim),
    "flip": lambda xp, x, dims: xp.flip(x, tuple(dims)),
    "repeat": lambda xp, x, times: xp.tile(x, times),
    "constant_pad_nd": _pad,
    "full_like": lambda xp, x, value: xp.full(x.shape, value),
    "clamp": _clamp,
    "minimum": _minimum,
    "maximum": lambda xp, x, y: -_minimum(xp, -x, -y),
    "relu": lambda xp, x: xp.where(x <= 0, 0, x),
    "sigmoid": lambda xp, x: xp.exp(xp.minimum(x, 0)) / (1 + xp.exp(-xp.abs(x))),
    "softplus": lambda xp, x, beta=1, _=20: xp.maximum(x, 0) + xp.log1p(xp.exp(-beta * xp.abs(x))) / beta,
    "elu": lambda xp, x, a=1, scale=1, b=1: scale * xp.where(x > 0, x, a * xp.expm1(b * xp.where(x > 0, 0, x))),
    "erf": _erf,
    "sym_size": lambda xp, x, dim: x.shape[dim],
    "operator.getitem": lambda xp, x, i: x[i],
    "operator.add": lambda xp, i, j: i + j,
    "operator.mul": lambda xp, i, j: i * j,
    "operator.floordiv": lambda xp, i, j: i // j,
}  # by the name of ATen's operator; a function of your own may join
