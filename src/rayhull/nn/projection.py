"""The nearest point as a module, eager or in a compiled graph, and as a last step that only evaluation takes.

In a graph the projection is one opaque operator, so that ``torch.compile(fullgraph=True)`` goes around it without a
break. The operator carries the set as tensors and its options as strings, so that a program saved by ``torch.export``
runs in another process; it returns the multipliers, so its backward does not solve again.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rayhull.nn.constants import OfSet
from rayhull.projection.project import Projector
from rayhull.projection.sides import flat_points, flat_sides
from rayhull.projection.solve import SIDES, Pattern, pull

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

NAMES = ("b", "b_eq", "lower", "upper")
MOST = 64  # projectors kept for programs that name them
_projectors: dict[str, Projector] = {}


# -- modules ---------------------------------------------------------------------------------------------------------


class Projection(OfSet):
    r"""The nearest point of a set, as a layer without parameters.

    .. math:: \arg\min_z \sum_i w_i (z_i - x_i)^2 \quad\text{over the set}

    Identity inside the set; differentiable in x and in the right-hand sides. Every answer carries a KKT residual, and
    a sample that cannot be certified raises. The set's rows are constants of the module: its state_dict holds the
    set's fingerprint, so that a checkpoint of another set is refused.

    Args:
        polyhedron: the set.
        solver: ``"auto"`` (closed forms by structure, else an exact active-set method), ``"active set"``, ``"dual"``
            (batched torch operations), or an external one: ``"osqp"``, ``"daqp"``, ``"piqp"``, ``"clarabel"``.
        weights: positive weights of the squared distances (event shape), or a positive definite matrix (d, d).
        infeasible: ``"raise"``, or ``"least"``: the least violation where sample-wise right-hand sides contradict
            each other.
        warm_start: start each call from the active rows of the call before; pays when the same samples come again.
        leak: in training mode, the share of the gradient that passes to x as if the layer were not there, beside the
            derivative. Coordinates that the projection ties together get one gradient for all of them, and a network
            may never learn to tell them apart; a leak of 0.1 lets it, where the loss pulls towards targets. It does
            harm where a loss has none (a price, a return): nothing holds x near the set then. 0: the derivative alone.

    Shape:
        x (\*, event shape) → (\*, event shape); b (\*, m), b_eq (\*, m_eq), lower and upper (\*, event shape),
        A (\*, m, d), A_eq (\*, m_eq, d).

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.simplex(3)
        >>> nearest = rh.Projection(P)
        >>> z = nearest(torch.tensor([[2.0, 0.0, 0.0], [0.5, 0.5, 0.3]]))
        >>> z
        tensor([[1.0000, 0.0000, 0.0000],
                [0.4000, 0.4000, 0.2000]])
        >>> bool(P.contains(z).all())
        True
    """

    def __init__(
        self,
        polyhedron: Polyhedron,
        *,
        solver: str = "auto",
        weights: Any = None,
        infeasible: str = "raise",
        warm_start: bool = False,
        leak: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0 <= leak <= 1:
            raise ValueError(f"leak is a share of the gradient, from 0 (the derivative alone) to 1, got {leak}.")
        self.polyhedron = polyhedron
        self.leak = leak
        self.projector = Projector(polyhedron, solver=solver, weights=weights, infeasible=infeasible)
        self.warm_start = warm_start
        self._last: list[Tensor] | None = None
        self._stated = packed(self.projector)  # for programs that are exported; no buffer, so that nothing changes it
        self._name = register(self.projector)
        self._size = [0, polyhedron.dim]
        if self.projector.is_dense:
            return
        rows = sum(block.count * block.form.matrix.count for block in self.projector.plan("cpu"))
        self._size = [rows, polyhedron.dim]

    def forward(
        self,
        x: Tensor,
        *,
        b: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
        A: Any = None,
        A_eq: Any = None,
        return_info: bool = False,
    ) -> Any:
        """Nearest points; with ``return_info`` also residuals, multipliers, steps and solvers."""
        has_rows = A is not None or A_eq is not None or self.projector.is_dense
        if torch.compiler.is_compiling() and not return_info and not has_rows:
            return self._leaking(self._as_operator(x, b, b_eq, lower, upper), x)
        sides = {"b": b, "b_eq": b_eq, "lower": lower, "upper": upper, "A": A, "A_eq": A_eq}
        z, done = self.projector(x, guess=self._last if self.warm_start else None, **sides)
        if self.warm_start:
            self._last = [solution.multipliers for solution in done.solutions]
        z = self._leaking(z, x)
        return (z, self.projector.info(done, x)) if return_info else z

    def _leaking(self, z: Tensor, x: Tensor) -> Tensor:
        """z, to which x adds nothing but a share of the gradient."""
        return z + self.leak * (x - x.detach()) if self.training and self.leak else z

    def _as_operator(self, x: Tensor, *sides: Any) -> Tensor:
        projector = self.projector
        z: Tensor = nearest(x, *sides, self._stated, self._size, self._name, projector.solver, projector.infeasible)[0]
        return z

    def extra_repr(self) -> str:
        blocks = () if self.projector.is_dense else self.projector.plan("cpu")
        solvers = ", ".join(dict.fromkeys(block.solver.name for block in blocks)) or "dual Newton"
        leak = f", leak={self.leak}" if self.leak else ""
        return f"{self.polyhedron}, solver={self.projector.solver!r} ({solvers}){leak}"


class ProjectedInEval(nn.Module):
    """A model whose outputs are projected in evaluation and left alone in training: the paper's baseline.

    With ``solver="osqp"`` it is exactly the paper's: eps 1e-6, polishing, warm start, one sample at a time.

    Args:
        model: any module with outputs of the set's event shape.
        polyhedron: the set.
        solver, weights, infeasible: as for :class:`rayhull.Projection`.

    Shape:
        whatever ``model`` takes → (\\*, event shape).

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.monotone(5)
        >>> model = rh.ProjectedInEval(torch.nn.Linear(3, 5), P)
        >>> x = torch.randn(8, 3)
        >>> torch.equal(model.train()(x), model.model(x))
        True
        >>> bool(P.contains(model.eval()(x)).all())
        True
    """

    def __init__(
        self,
        model: nn.Module,
        polyhedron: Polyhedron,
        *,
        solver: str = "auto",
        weights: Any = None,
        infeasible: str = "raise",
    ) -> None:
        super().__init__()
        self.model = model
        self.projection = Projection(polyhedron, solver=solver, weights=weights, infeasible=infeasible)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        out: Tensor = self.model(*args, **kwargs)
        return out if self.training else self.projection(out)


# -- the operator ----------------------------------------------------------------------------------------------------


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
    weights = hashlib.sha256(b"" if projector.weights is None else projector.weights.tobytes()).hexdigest()
    name = "-".join([projector.polyhedron.fingerprint, projector.solver, projector.infeasible, weights])
    _keep(name, projector)
    return name


def _words(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    return np.ascontiguousarray(values.astype(kind)).view(np.int64)


def _keep(name: str, projector: Projector) -> None:
    if len(_projectors) >= MOST:
        _projectors.pop(next(iter(_projectors)))
    _projectors[name] = projector


def _find(name: str, stated: Tensor, solver: str, infeasible: str) -> Projector:
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


@torch.library.custom_op("rayhull::nearest", mutates_args=())
def nearest(
    x: Tensor,
    b: Tensor | None,
    b_eq: Tensor | None,
    lower: Tensor | None,
    upper: Tensor | None,
    stated: Tensor,
    size: list[int],
    name: str,
    solver: str,
    infeasible: str,
) -> tuple[Tensor, Tensor]:
    """Nearest points, and the multipliers of all unit rows; ``size``: their number and that of coordinates.

    Shape: x (*, event shape) → the same, (n, rows).
    """
    projector = _find(name, stated, solver, infeasible)
    with torch.no_grad():
        z, done = projector(x, b=b, b_eq=b_eq, lower=lower, upper=upper)
    n = len(done.z)
    parts = [s.multipliers.reshape(n, -1) for s in done.solutions if s.multipliers.shape[1]]
    multipliers = torch.cat(parts, 1) if parts else x.new_zeros((n, size[0]), dtype=torch.float64)
    return z.clone(memory_format=torch.contiguous_format), multipliers


@nearest.register_fake
def _(x: Tensor, b: Any, b_eq: Any, lower: Any, upper: Any, stated: Tensor, size: list[int], *_: Any) -> Any:
    multipliers = x.new_empty((x.numel() // size[1], size[0]), dtype=torch.float64)
    return torch.empty_like(x, memory_format=torch.contiguous_format), multipliers


@torch.library.custom_op("rayhull::nearest_backward", mutates_args=())
def nearest_backward(
    grad: Tensor,
    multipliers: Tensor,
    x: Tensor,
    b: Tensor | None,
    b_eq: Tensor | None,
    lower: Tensor | None,
    upper: Tensor | None,
    stated: Tensor,
    name: str,
    solver: str,
    infeasible: str,
) -> list[Tensor]:
    """Gradients with respect to x, b, b_eq, lower and upper; empty for what was not given."""
    projector, values = _find(name, stated, solver, infeasible), (b, b_eq, lower, upper)
    with torch.no_grad():
        batch, flat = flat_points(projector.polyhedron, x)
        sides = flat_sides(projector.polyhedron, dict(zip(NAMES, values, strict=True)), batch, flat)
        blocks = projector.plan(x.device.type)
        sizes = [block.count * block.form.matrix.count for block in blocks]
        split = torch.split(multipliers, sizes, 1)
        own = [v.reshape(-1, block.form.matrix.count) if size else v.new_zeros((len(flat) * block.count, 0))
               for v, block, size in zip(split, blocks, sizes, strict=True)]  # fmt: skip
        pattern = Pattern(blocks, [block.problem(flat, sides) for block in blocks], own)
        shapes = [None if v is None else v.shape for v in sides[:SIDES]]
        wanted = [i for i, v in enumerate(values) if v is not None]
        pulled = pull(pattern, shapes, wanted, grad.reshape(flat.shape).contiguous())
    out = [x.new_empty(0) if pulled[0] is None else pulled[0].reshape(x.shape)]
    for value, side in zip(pulled[1:], values, strict=True):
        out.append(x.new_empty(0) if value is None or side is None else value.to(side.dtype).reshape(side.shape))
    return out


@nearest_backward.register_fake
def _(grad: Tensor, multipliers: Tensor, x: Tensor, *rest: Any) -> list[Tensor]:
    return [torch.empty_like(x), *(x.new_empty(0) if v is None else torch.empty_like(v) for v in rest[:SIDES])]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, *sides = inputs[:5]
    ctx.present = [v is not None for v in sides]
    ctx.options = inputs[7:]
    ctx.save_for_backward(output[1], inputs[5], x, *(v for v in sides if v is not None))


def _backward(ctx: Any, grad: Tensor, _: Any) -> Any:
    multipliers, stated, x, *saved = ctx.saved_tensors
    rest = iter(saved)
    sides = [next(rest) if present else None for present in ctx.present]
    grads = nearest_backward(grad, multipliers, x, *sides, stated, *ctx.options)
    own = (g if present else None for g, present in zip(grads[1:], ctx.present, strict=True))
    return grads[0], *own, None, None, None, None, None


nearest.register_autograd(_backward, setup_context=_save)
