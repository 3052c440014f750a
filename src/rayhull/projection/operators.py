"""The nearest point and its derivative as operators of torch: opaque nodes in a graph, and what ``torch.func`` takes.

They carry the set as tensors and its options as strings, so that a program saved by ``torch.export`` runs in another
process; the first returns the multipliers, so that the derivative does not solve again. The derivative is linear: along
changes of x and of sides it is that of the nearest point, along a gradient its transpose. So ``torch.func`` has both of
any order, and ``vmap`` is one larger batch.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from rayhull.conversion.files import arrays, as_npz, content_of, stated_set
from rayhull.projection.project import Projector
from rayhull.projection.sides import Sides, flat_points, flat_sides
from rayhull.projection.solve import SIDES, Projected, pull, push
from rayhull.sets.reading import side_shapes

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

NAMES = ("b", "b_eq", "lower", "upper")
GIVEN = ", ".join(f"Tensor? {name}" for name in NAMES)
# what both operators are given after their own tensors; dim and axes are those of a point
CALL = f"{GIVEN}, Tensor stated, SymInt rows, SymInt dim, SymInt axes, str name, str solver, str infeasible"
LARGE = 100_000  # coordinates from which on a set takes longer to name than to project onto
MOST = 64  # projectors kept for programs that name them
_projectors: dict[str, Projector] = {}


def packed(projector: Projector) -> Tensor:
    """Set and metric as the bytes of an .npz: one tensor that ``torch.export`` saves and no cast of a module rounds."""
    content, weights = content_of(projector.polyhedron), projector.weights
    content = content if weights is None else {**content, "weights": weights}
    return torch.frombuffer(bytearray(as_npz(content, np.savez)), dtype=torch.uint8)


def register(projector: Projector) -> str:
    """A name by which the operator finds the projector in this process; elsewhere it makes it from the tensors."""
    P = projector.polyhedron
    weights = hashlib.sha256(b"" if projector.weights is None else projector.weights.tobytes()).hexdigest()
    mark = P.fingerprint if P.dim <= LARGE else uuid.uuid4().hex  # of a large set a name of its own
    name = "-".join([mark, projector.solver, projector.infeasible, weights])
    _keep(name, projector)
    return name


def _keep(name: str, projector: Projector) -> None:
    if len(_projectors) >= MOST:
        _projectors.pop(next(iter(_projectors)))
    _projectors[name] = projector


def _find(stated: Tensor, rows: int, dim: int, axes: int, name: str, solver: str, infeasible: str) -> Projector:
    if name not in _projectors:
        content = arrays(io.BytesIO(stated.cpu().numpy().tobytes()), name)
        P, weights = stated_set(content), content.get("weights")
        _keep(name, Projector(P, weights=weights, solver=solver, infeasible=infeasible))
    return _projectors[name]


# -- the operators -----------------------------------------------------------------------------------------------------


@torch.library.custom_op("rayhull::nearest", mutates_args=(), schema=f"(Tensor x, {CALL}) -> (Tensor, Tensor)")
def nearest(x: Tensor, *call: Any) -> tuple[Tensor, Tensor]:
    """Nearest points, and the multipliers of all unit rows. Shape: x (*, event shape) → the same, (n, rows)."""
    projector, rows = _find(*call[SIDES:]), call[SIDES + 1]
    with torch.no_grad():
        z, done = projector(x, **dict(zip(NAMES, call, strict=False)))
    n = len(done.z)
    parts = [v.reshape(n, -1) for v in done.multipliers if v.shape[1]]
    multipliers = torch.cat(parts, 1) if parts else x.new_zeros((n, rows), dtype=torch.float64)
    return z.clone(memory_format=torch.contiguous_format), multipliers


@nearest.register_fake
def _(x: Tensor, *call: Any) -> Any:
    rows, dim = call[SIDES + 1 : SIDES + 3]
    multipliers = x.new_empty((x.numel() // dim, rows), dtype=torch.float64)
    return torch.empty_like(x, memory_format=torch.contiguous_format), multipliers


@torch.library.custom_op(
    "rayhull::nearest_derivative",
    mutates_args=(),
    schema=f"(Tensor?[] along, Tensor multipliers, Tensor x, {CALL}) -> Tensor[]",
)
def nearest_derivative(along: Sequence[Any], multipliers: Tensor, x: Tensor, *call: Any) -> list[Tensor]:
    """Along changes of x, b, b_eq, lower and upper that of z; along a gradient alone those of x and the given sides."""
    projector, values = _find(*call[SIDES:]), call[:SIDES]
    P = projector.polyhedron
    with torch.no_grad():
        done, sides = _active(projector, multipliers, x, values)
        first = along[0].reshape(done.z.shape).contiguous()
        if len(along) > 1:
            changes = flat_sides(P, dict(zip(NAMES, along[1:], strict=True)), _batch(P, x), done.z)
            return [push(done, first, changes).reshape(x.shape)]
        own, *rest = pull(done, [None if v is None else v.shape[1] for v in sides[:SIDES]], first)
    given = (_of_side(P, *each, x) for each in zip(NAMES, rest, values, strict=True) if each[2] is not None)
    return [cast(Tensor, own).reshape(x.shape), *given]


@nearest_derivative.register_fake
def _(along: Sequence[Any], multipliers: Tensor, x: Tensor, *call: Any) -> list[Tensor]:
    sides = () if len(along) > 1 else (v for v in call[:SIDES] if v is not None)
    return [torch.empty_like(v, memory_format=torch.contiguous_format) for v in (x, *sides)]


def _batch(P: Polyhedron, x: Tensor) -> torch.Size:
    return x.shape[: x.ndim - len(P.shape)]


def _of_side(P: Polyhedron, name: str, grad: Any, side: Tensor, x: Tensor) -> Tensor:
    """The gradient (n, length) in the shape of its side, summed over the samples that share it."""
    return grad.reshape(*_batch(P, x), *side_shapes(P, {})[name]).sum_to_size(side.shape).to(side.dtype)


def _active(projector: Projector, multipliers: Tensor, x: Tensor, values: tuple[Any, ...]) -> tuple[Projected, Sides]:
    """What was found at the flat points, as the derivatives take it, and the flat sides."""
    batch, flat = flat_points(projector.polyhedron, x)
    sides = flat_sides(projector.polyhedron, dict(zip(NAMES, values, strict=True)), batch, flat)
    blocks = projector.plan(x.device)
    split = torch.split(multipliers, [block.count * block.form.matrix.count for block in blocks], 1)
    own = [v.reshape(len(flat) * block.count, block.form.matrix.count) for v, block in zip(split, blocks, strict=True)]
    lost = multipliers.isnan().any(1).nonzero()[:, 0]
    return Projected(flat, blocks, [block.problem(flat, sides) for block in blocks], own, infeasible=[lost]), sides


# -- torch.func --------------------------------------------------------------------------------------------------------


class Transformed(torch.autograd.Function):
    """:func:`nearest` in the form that ``torch.func`` takes: gradients, forward-mode derivatives, vmap."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return nearest(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        _keep_for_both(ctx, output[1], *inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> Any:
        own, *given = _derived(ctx, grad)
        return own, *_where(ctx, given), *(None,) * 7

    @staticmethod
    def jvp(ctx: Any, *changes: Any) -> Any:
        return _derived(ctx, *changes[: 1 + SIDES])[0], None


class Derived(torch.autograd.Function):
    """:func:`nearest_derivative`, of which ``count`` inputs are what it goes along: linear, its own derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, *inputs: Any) -> Any:
        return tuple(nearest_derivative(list(inputs[:count]), *inputs[count:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        count = inputs[0]
        ctx.along = [v is not None for v in inputs[1 : 1 + count]]
        _keep_for_both(ctx, *inputs[1 + count :])

    @staticmethod
    def backward(ctx: Any, first: Tensor, *rest: Any) -> Any:
        if len(ctx.along) == 1:
            return None, _derived(ctx, first, *_where(ctx, rest))[0], *(None,) * 13
        own, *given = _derived(ctx, first)
        moved = zip([own, *_where(ctx, given)], ctx.along, strict=True)
        return None, *(g if along else None for g, along in moved), *(None,) * 13

    @staticmethod
    def jvp(ctx: Any, _: None, *changes: Any) -> Any:
        return _derived(ctx, *changes[: len(ctx.along)])


def _keep_for_both(ctx: Any, *inputs: Any) -> None:
    """Multipliers, x, sides and set for both derivatives, and the options."""
    ctx.options = inputs[7:]
    for save in (ctx.save_for_backward, ctx.save_for_forward):
        save(*inputs[:7])


def _derived(ctx: Any, first: Tensor | None, *changes: Tensor | None) -> Any:
    first = torch.zeros_like(ctx.saved_tensors[1]) if first is None else first
    return Derived.apply(1 + len(changes), first, *changes, *ctx.saved_tensors, *ctx.options)  # type: ignore[no-untyped-call]


def _where(ctx: Any, values: Sequence[Tensor]) -> list[Tensor | None]:
    """The values at the places of the sides that are given, None elsewhere."""
    rest = iter(values)
    return [None if side is None else next(rest) for side in ctx.saved_tensors[2:6]]


nearest.register_autograd(Transformed.backward, setup_context=Transformed.setup_context)  # of compiled graphs


def _stacked(values: Sequence[Tensor | None], places: Sequence[int | None], calls: int) -> Any:
    """What each call of a vmap is given, along a new first axis."""
    return [
        v if v is None else v.expand(calls, *v.shape) if place is None else v.movedim(place, 0)
        for v, place in zip(values, places, strict=False)
    ]


def _aligned(sides: Sequence[Tensor | None], x: Tensor, event: int) -> list[Tensor | None]:
    """Sides (calls, \\*, own event shape), with axes of length 1 for the batch axes of the points that they lack."""
    out: list[Tensor | None] = []
    for side, own in zip(sides, (1, 1, event, event), strict=False):
        missing = 0 if side is None else x.ndim - event - (side.ndim - own)
        out.append(side if side is None else side.reshape(len(side), *(1,) * missing, *side.shape[1:]))
    return out


@nearest.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[1 + SIDES :]
    x, *sides = _stacked(inputs[: 1 + SIDES], in_dims, n)
    z, multipliers = nearest(x, *_aligned(sides, x, options[3]), *options)
    return (z, multipliers.reshape(n, len(multipliers) // n, multipliers.shape[1])), (0, 0)


@nearest_derivative.register_vmap
def _(info: Any, in_dims: Any, along: Sequence[Any], *inputs: Any) -> Any:
    n, options = info.batch_size, inputs[2 + SIDES :]
    first, *changes = _stacked(along, in_dims[0], n)
    multipliers, x, *sides = _stacked(inputs[: 2 + SIDES], in_dims[1:], n)
    moved, own = (_aligned(v, x, options[3]) for v in (changes, sides))
    found = nearest_derivative([first, *moved], multipliers.flatten(0, 1), x, *own, *options)
    shapes = [x.shape, *(side.shape for side in sides if side is not None)]
    return [g.reshape(shape) for g, shape in zip(found, shapes, strict=False)], [0] * len(found)
