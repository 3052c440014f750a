"""The layer's tail, compiled: one operator of the core in place of the small tensor operations after the Linear.

It serves calls on the CPU, eager and in graphs that ``torch.compile`` makes, in float32 and float64, for small and
middling dense sets. The modules of a block are the definition: each says in ``tail_fields`` what the operator needs to
know of it, or None where it does not serve. Exported graphs, other devices and dtypes, ``torch.func``, forward-mode
derivatives and second derivatives take the tensor operations. source/layer/tail.hpp has the other half of the tables
below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from rayhull.core import operators
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.nn.blocks import BlockMap
    from rayhull.nn.map_into import MapInto

Fields = dict[str, Any]  # of a block: numbers, names of kinds, and arrays
PLAIN, DTYPES = (Tensor, torch.nn.Parameter), (torch.float32, torch.float64)
LARGEST = 2**19  # numbers of a program: beyond, a product over all samples at once is faster
LARGEST_LINEAR = 2**14  # weights: larger products are left to torch

KINDS = {
    "linear": ("none", "copy", "diagonal", "matrix", "without"),
    "conic": ("none", "own", "rows", "shift", "chain", "curve", "order", "pooled"),
    "function": ("relu", "abs", "square", "softplus", "share", "softmax"),
    "step": ("none", "clamp", "gram", "points"),
    "scale": ("none", "shrink", "strict shrink", "reach"),
    "finish": ("none", "interval", "pull"),
    "sides": ("none", "stays", "of sample"),
}
GAUGE = ("rows", "matrix", "offset", "upper", "lower", "upper_offset", "lower_offset")


def _gauge(name: str) -> tuple[str, ...]:
    return tuple(f"{name}_{field}" for field in GAUGE)


FIELDS = (
    *("count", "size", "coefficients", "start", "places", "signs", "base"),
    *("linear", "columns", "matrix", "rank", "single", "hull_rank", "hull"),
    *("conic", "rays_count", "function", "rays", "rows", "slacks", "point"),
    *("step", "steps", "step_rows", "equalities", "step_matrix", "back", "turn", "seen", "low", "high", "momenta"),
    *("length", "equal_rank", "equal", "clean_rank", "clean", "origin", "scale", "scale_numbers"),
    *(*_gauge("shrink"), "finish", "finish_numbers", "moving", "apex", "from", "along"),
    *(*_gauge("loose"), *_gauge("tight"), "path_index"),
    *("sides", "side_rows", "columns_index", "rhs", "at_base", "side_matrix", "side_sizes", "steep"),
    *("side_upper", "side_lower", "step_index", "step_units", "gauge_index", "gauge_slack"),
    *("still", "still_index", "points", "side_margins", "proof", "leak_index"),
)
INDICES = tuple(name for name in FIELDS if name.endswith("_index"))  # places in the layout
RANKS = {"hull": "hull_rank", "equal": "equal_rank", "clean": "clean_rank"}  # columns of a basis
NEEDS_NO_NUMBERS = {"scale_numbers": 0, "finish_numbers": 0}
COUNTS = frozenset(
    {"count", "size", "coefficients", "start", "columns", "rank", "rays_count", "steps", "step_rows", "equalities"}
    | {"single", "moving", "apex", "side_rows", "still", "points", *RANKS.values()}
    | {f"{gauge}_rows" for gauge in ("shrink", "loose", "tight")}
)


class Packed(NamedTuple):
    """The constants of a layer as the operator takes them."""

    layout: Tensor  # int64
    numbers: Tensor  # float64
    follows: bool = False  # whether sides of the sample are among its inputs


def pack(into: MapInto, dtype: torch.dtype) -> Packed | None:
    """The layer's constants for coefficients of a dtype, or None where the operator does not serve."""
    if not (operators.available() and into.shrinking and not into.smooth and into.blocks_are_independent):
        return None
    fields = [_block_fields(part, dtype) for part in into.parts]
    if any(own is None for own in fields):
        return None
    packed = Writer(into, [own for own in fields if own is not None], into.to_event_order.exact_order)
    return packed.program() if packed.length <= LARGEST else None


def _block_fields(part: BlockMap, dtype: torch.dtype) -> Fields | None:
    """The fields of a block's direction, step and closing together."""
    base = part.base_point.exact["point"]
    found = [part.direction.tail_fields(), part.closing.tail_fields(dtype)]
    found += [step.tail_fields(base) for step in part.approach]  # type: ignore[operator]
    if len(part.approach) > 1 or any(own is None for own in found):
        return None
    fields: Fields = {"count": part.count, "size": part.size, "coefficients": part.direction.coefficients}
    for own in found:
        fields |= own or {}
    if part.direction.on_hull and not part.approach:
        fields.pop("clean", None)
    fields["single"] = _may_be_single(fields, part)
    if not part.base_point.at_zero:
        fields["base"] = base
    if part.mirrored:
        fields["signs"] = part.exact["sign"]
    return fields | _side_fields(part)


def _may_be_single(fields: Fields, part: BlockMap) -> bool:
    """Whether a shrink closes whatever direction comes: float32 layers then follow the lines in single precision."""
    on_hull = "hull" in fields or "clean" in fields or not len(part.polyhedron.equality_rows)
    return on_hull and "shrink" in fields.get("scale", "") and not {"conic", "finish"} & set(fields)


def _side_fields(part: BlockMap) -> Fields:
    """How sides of the sample reach a block that keeps its base point; none where its direction follows them itself."""
    gauge = part.closing.gauge_of_sides()
    if part.direction.follows or gauge is None:
        return {}
    rows = part.polyhedron.rows.take(np.arange(len(part.polyhedron.layout.inequalities)))
    fields: Fields = {"sides": "stays", "side_rows": len(rows), "columns_index": part.sides.columns, "rhs": rows.rhs}
    fields |= {"at_base": rows.matrix @ part.base_point.exact["point"], "side_margins": np.zeros(4)}
    fields |= {"still_index": np.zeros(0, np.int64), "step_index": np.zeros(0, np.int64), "step_units": np.zeros(0)}
    fields |= gauge.side_fields()
    for step in part.approach:
        fields |= step.side_fields(len(rows))  # type: ignore[operator]
    return fields


class Writer:
    """Writes fields one after another: arrays among the numbers, their places and everything else in the layout."""

    def __init__(self, into: MapInto, blocks: Sequence[Fields], order: Array) -> None:
        self.order = order
        self.follows = all("sides" in fields for fields in blocks)
        self.arrays: list[Array] = []
        self.length = 0
        self.into = into
        self.indices: list[int] = []
        rows, start = [], 0
        for fields in blocks:
            rows.append(self._row(fields | {"start": start}))
            start += fields["count"] * fields["coefficients"]
        self.rows, self.coefficients = rows, start

    def _row(self, fields: Fields) -> list[int]:
        known = fields | {rank: fields[basis].shape[1] for basis, rank in RANKS.items() if basis in fields}
        unknown = set(known) - set(FIELDS)
        assert not unknown, f"no field of the operator: {unknown}"
        return [self._number(name, known) for name in FIELDS]

    def _number(self, name: str, fields: Mapping[str, Any]) -> int:
        if name in KINDS:
            return KINDS[name].index(fields.get(name, KINDS[name][0]))
        if name in COUNTS:
            return int(fields.get(name, 0))
        value = fields.get(name)
        if name in INDICES and value is not None:
            self.indices += np.ravel(value).tolist()
            return len(self.indices) - np.size(value)
        return NEEDS_NO_NUMBERS.get(name, -1) if value is None else self._placed(np.asarray(value, np.float64))

    def _placed(self, array: Array) -> int:
        self.arrays.append(array.ravel())
        self.length += array.size
        return self.length - array.size

    def program(self) -> Packed:
        P = self.into.polyhedron
        head = [len(self.rows), self.coefficients, P.dim, int(self.into.parts.strict), len(P.inequalities)]
        head += [len(P.shape), *P.shape]
        place, column = len(head) + len(self.rows) * len(FIELDS), FIELDS.index("places")
        indices = place + P.dim
        for row in self.rows:
            row[column] = place
            place += row[FIELDS.index("count")] * row[FIELDS.index("size")]
            for name in INDICES:
                row[FIELDS.index(name)] += indices if row[FIELDS.index(name)] >= 0 else 0
        layout = [*head, *(number for row in self.rows for number in row), *self.order.tolist(), *self.indices]
        numbers = np.concatenate([*self.arrays, np.zeros(1)])
        return Packed(torch.from_numpy(np.array(layout, np.int64)), torch.from_numpy(numbers), self.follows)


class Tail(torch.autograd.Function):
    """The operator with its own backward pass; second derivatives are those of the tensor operations."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, origin: Sequence[Tensor], packed: Packed, into: MapInto, leak: float) -> Tensor:
        ctx.save_for_backward(c)
        ctx.origin, ctx.packed, ctx.into, ctx.leak = origin, packed, into, leak
        return operators.layer_tail(c, origin, packed.layout, packed.numbers)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (c,) = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return _gradient(ctx, g, c), None, None, None, None
        x = ctx.into.in_tensor_operations(c, ctx.origin, leak=ctx.leak)  # create_graph=True
        (gradient,) = torch.autograd.grad(x, c, g, create_graph=True)
        return gradient, None, None, None, None


def _gradient(ctx: Any, g: Tensor, c: Tensor) -> Tensor:
    return operators.layer_tail_backward(g.to(c.dtype), c, ctx.origin, ctx.packed.layout, ctx.packed.numbers, ctx.leak)


def program(into: MapInto, dtype: torch.dtype) -> Packed | None:
    """What :func:`pack` gives, worked out once for every position of the layer's switches."""
    key = (dtype, into.shrinking, into.smooth)
    if key in into.programs:
        return into.programs[key]
    if into.parts.strict:
        into.parts.check(dtype)
    return into.programs.setdefault(key, pack(into, dtype))


def serving(into: MapInto, c: Tensor) -> Packed | None:
    """The program by which the operator takes this call, or None: it takes plain ones, by ways that it knows."""
    if torch.compiler.is_compiling():
        return in_graph(into, c)
    return program(into, c.dtype) if is_plain(c) else None


def in_graph(into: MapInto, c: Tensor) -> Packed | None:
    """The program that a graph of ``torch.compile`` calls the operator with; it was packed when the layer was built.

    Exported graphs hold the tensor operations, which run everywhere.
    """
    plain = c.is_cpu and c.dtype == into.dtype and into.shrinking and not into.smooth
    if not plain or torch.compiler.is_exporting() or torch.is_autocast_enabled("cpu"):
        return None
    return into.packed


def pack_for_graphs(into: MapInto) -> Packed | None:
    """The program of a layer as it stands, unless something looks inside while it is built."""
    if into.dtype not in DTYPES or torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return None
    return program(into, into.dtype)


def is_plain(c: Tensor) -> bool:
    """Whether a call is eager, on the CPU, with nothing that looks inside."""
    return not (
        torch.compiler.is_compiling()
        or not c.is_cpu
        or type(c) not in PLAIN
        or c.dtype not in DTYPES
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or torch.is_autocast_enabled("cpu")
    )


def run(into: MapInto, packed: Packed, c: Tensor, origin: Sequence[Tensor], leak: float) -> Tensor:
    """Points of the set by the operator; a share of the gradient leaks past it (:mod:`rayhull.maps.leak`)."""
    if origin and not into.strict:
        origin = ()
    if torch.compiler.is_compiling():
        return operators.layer_tail_in_graph(c, origin, packed.layout, packed.numbers, into.polyhedron.shape, leak)
    if c.requires_grad and torch.is_grad_enabled():
        x: Tensor = Tail.apply(c, origin, packed, into, leak)  # type: ignore[no-untyped-call]
        return x
    return operators.layer_tail(c, origin, packed.layout, packed.numbers)


def run_with_linear(into: MapInto, features: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """Points of the set by one operator for a Linear and the map after it; None where it is not the faster way.

    It has no derivative, and serves small Linears: for one sample the two calls take longer than the products.
    """
    if torch.is_grad_enabled() or bias is None or not is_plain(features) or weight.numel() > LARGEST_LINEAR:
        return None
    if type(weight) not in PLAIN or weight.dtype != features.dtype or features.size(-1) != weight.size(1):
        return None
    packed = program(into, features.dtype)
    return None if packed is None else operators.linear_tail(features, weight, bias, packed.layout, packed.numbers)
