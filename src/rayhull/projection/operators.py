"""The nearest point and its two derivatives as operators of torch: opaque nodes in a compiled or exported graph.

They carry the set as tensors and its options as strings, so that a program saved by ``torch.export`` runs in another
process; the first returns the multipliers, so that the derivatives do not solve again.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.projection.project import Projector
from rayhull.projection.sides import flat_points, flat_sides
from rayhull.projection.solve import SIDES, Pattern, pull, push
from rayhull.sets.reading import side_shapes

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

NAMES = ("b", "b_eq", "lower", "upper")
GIVEN, CHANGES = (", ".join(f"Tensor? {prefix}{name}" for name in NAMES) for prefix in ("", "d"))
# what each operator is given after its own tensors; dim and axes are those of a point
CALL = f"{GIVEN}, Tensor stated, SymInt rows, SymInt dim, SymInt axes, str name, str solver, str infeasible"
LARGE = 100_000  # coordinates from which on a set takes longer to name than to project onto
MOST = 64  # projectors kept for programs that name them
_projectors: dict[str, Projector] = {}


def packed(projector: Projector) -> Tensor:
    """The numbers of set and metric in one tensor of int64 words, each array after its length.

    Words, because no cast of a module rounds them; one tensor, because ``torch.export`` cannot save empty ones.
    """
    P = projector.polyhedron
    arrays = [np.array(P.shape)]
    for rows in (P.inequalities, P.equalities):
        arrays += [rows.matrix.indptr, rows.matrix.indices, rows.matrix.data, rows.rhs]
    arrays += [P.lower_bounds, P.upper_bounds, np.zeros(0) if projector.weights is None else projector.weights]
    return torch.from_numpy(np.concatenate([part for a in arrays for part in ([len(a)], _words(np.asarray(a)))]))


def _unpacked(stated: Tensor) -> list[np.ndarray[Any, Any]]:
    words, arrays = stated.cpu().numpy(), []
    while len(words):
        length = int(words[0])
        arrays.append(words[1 : 1 + length])
        words = words[1 + length :]
    return arrays


def register(projector: Projector) -> str:
    """A name by which the operator finds the projector in this process; elsewhere it makes it from the tensors."""
    P = projector.polyhedron
    weights = hashlib.sha256(b"" if projector.weights is None else projector.weights.tobytes()).hexdigest()
    mark = P.fingerprint if P.dim <= LARGE else uuid.uuid4().hex  # of a large set a name of its own
    name = "-".join([mark, projector.solver, projector.infeasible, weights])
    _keep(name, projector)
    return name


def _words(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    return np.ascontiguousarray(values.astype(kind)).view(np.int64)


def _keep(name: str, projector: Projector) -> None:
    if len(_projectors) >= MOST:
        _projectors.pop(next(iter(_projectors)))
    _projectors[name] = projector


def _find(stated: Tensor, rows: int, dim: int, axes: int, name: str, solver: str, infeasible: str) -> Projector:
    if name not in _projectors:
        shape, *words, weights = _unpacked(stated)
        P = _polyhedron(tuple(int(v) for v in shape), words)
        metric = weights.view(np.float64) if len(weights) else None
        _keep(name, Projector(P, weights=metric, solver=solver, infeasible=infeasible))
    return _projectors[name]


def _polyhedron(shape: tuple[int, ...], words: list[np.ndarray[Any, Any]]) -> Polyhedron:
    from rayhull.sets.polyhedron import Polyhedron

    rows: list[Any] = []
    for indptr, indices, data, rhs in (words[:4], words[4:8]):
        size = len(indptr) - 1, math.prod(shape)
        matrix = sp.csr_array((data.view(np.float64), indices, indptr), shape=size)
        rows += [matrix, rhs.view(np.float64)] if len(rhs) else [None, None]
    lower, upper = (v.view(np.float64).reshape(shape) for v in words[8:])
    A, b, A_eq, b_eq = rows
    return Polyhedron(A, b, A_eq, b_eq, lower, upper, shape)


@torch.library.custom_op("rayhull::nearest", mutates_args=(), schema=f"(Tensor x, {CALL}) -> (Tensor, Tensor)")
def nearest(x: Tensor, *call: Any) -> tuple[Tensor, Tensor]:
    """Nearest points, and the multipliers of all unit rows. Shape: x (*, event shape) → the same, (n, rows)."""
    projector, rows = _find(*call[SIDES:]), call[SIDES + 1]
    with torch.no_grad():
        z, done = projector(x, **dict(zip(NAMES, call, strict=False)))
    n = len(done.z)
    parts = [s.multipliers.reshape(n, -1) for s in done.solutions if s.multipliers.shape[1]]
    multipliers = torch.cat(parts, 1) if parts else x.new_zeros((n, rows), dtype=torch.float64)
    return z.clone(memory_format=torch.contiguous_format), multipliers


@nearest.register_fake
def _(x: Tensor, *call: Any) -> Any:
    rows, dim = call[SIDES + 1 : SIDES + 3]
    multipliers = x.new_empty((x.numel() // dim, rows), dtype=torch.float64)
    return torch.empty_like(x, memory_format=torch.contiguous_format), multipliers


@torch.library.custom_op(
    "rayhull::nearest_backward",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor multipliers, Tensor x, {CALL}) -> Tensor[]",
)
def nearest_backward(grad: Tensor, multipliers: Tensor, x: Tensor, *call: Any) -> list[Tensor]:
    """Gradients with respect to x, b, b_eq, lower and upper; empty for what was not given."""
    projector, values = _find(*call[SIDES:]), call[:SIDES]
    with torch.no_grad():
        pattern, flat, sides = _active(projector, multipliers, x, values)
        shapes = [None if v is None else v.shape for v in sides[:SIDES]]
        wanted = [i for i, v in enumerate(values) if v is not None]
        pulled = pull(pattern, shapes, wanted, grad.reshape(flat.shape).contiguous())
    P = projector.polyhedron
    own = [_of_side(P, n, g, side, x) for n, g, side in zip(NAMES, pulled[1:], values, strict=True)]
    return [grad.new_empty(0) if g is None else g for g in (cast(Tensor, pulled[0]).reshape(x.shape), *own)]


def _of_side(P: Polyhedron, name: str, grad: Tensor | None, side: Tensor | None, x: Tensor) -> Tensor | None:
    """The gradient (1 or n, length) in the shape of its side, summed over the samples that share it."""
    if grad is None or side is None:
        return None
    batch = x.shape[: x.ndim - len(P.shape)]
    lead = batch if len(grad) == batch.numel() else (1,) * len(batch)
    return grad.to(side.dtype).reshape(*lead, *side_shapes(P, {})[name]).sum_to_size(side.shape)


@nearest_backward.register_fake
def _(grad: Tensor, multipliers: Tensor, x: Tensor, *rest: Any) -> list[Tensor]:
    return [torch.empty_like(x), *(x.new_empty(0) if v is None else torch.empty_like(v) for v in rest[:SIDES])]


@torch.library.custom_op(
    "rayhull::nearest_forward",
    mutates_args=(),
    schema=f"(Tensor dx, {CHANGES}, Tensor multipliers, Tensor x, {CALL}) -> Tensor",
)
def nearest_forward(dx: Tensor, *inputs: Any) -> Tensor:
    """The derivative along changes of x and of the sides that are given."""
    changes, (multipliers, x), call = inputs[:SIDES], inputs[SIDES : SIDES + 2], inputs[SIDES + 2 :]
    projector = _find(*call[SIDES:])
    with torch.no_grad():
        pattern, flat, _ = _active(projector, multipliers, x, call[:SIDES])
        batch = x.shape[: x.ndim - len(projector.polyhedron.shape)]
        along = flat_sides(projector.polyhedron, dict(zip(NAMES, changes, strict=True)), batch, flat)
        return push(pattern, dx.reshape(flat.shape).contiguous(), along).reshape(x.shape)


@nearest_forward.register_fake
def _(dx: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(dx, memory_format=torch.contiguous_format)


def _active(projector: Projector, multipliers: Tensor, x: Tensor, values: tuple[Any, ...]) -> Any:
    """What is active at the nearest points, as the derivatives take it; the flat points and sides."""
    batch, flat = flat_points(projector.polyhedron, x)
    sides = flat_sides(projector.polyhedron, dict(zip(NAMES, values, strict=True)), batch, flat)
    blocks = projector.plan(x.device.type)
    sizes = [block.count * block.form.matrix.count for block in blocks]
    split = torch.split(multipliers, sizes, 1)
    own = [v.reshape(-1, block.form.matrix.count) if size else v.new_zeros((len(flat) * block.count, 0))
           for v, block, size in zip(split, blocks, sizes, strict=True)]  # fmt: skip
    return Pattern(blocks, [block.problem(flat, sides) for block in blocks], own), flat, sides
