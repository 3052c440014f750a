"""The nearest point as a module, as the direction of a layer, and as a last step that only evaluation takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.leak import block_of_each, check_leak, damped, leaking
from rayhull.nn.constants import Factory, OfSet
from rayhull.nn.directions import Direction
from rayhull.nn.leaking import leaks_in_one_call, past
from rayhull.nn.nearest import nearest, packed, register
from rayhull.nn.tail import is_plain
from rayhull.nn.transforms import Transformed, in_transform
from rayhull.projection.project import Projector
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 2.0**36  # how far a point may be, in units of the base point, to have a nearest point of its own


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
        leak: in training mode, the share of the gradient that passes to x as if the layer were not there, less what
            would drive x further away from the set (:mod:`rayhull.maps.leak`). Coordinates that the projection ties
            together get one gradient for all of them, and a network may never learn to tell them apart; a leak of 0.1
            lets it. 0: the derivative alone.

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

    block: Tensor

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
        self.polyhedron = polyhedron
        self.leak = check_leak(leak)
        self.register_buffer("block", block_of_each(polyhedron) if leak else torch.empty(0).long(), persistent=False)
        self.projector = Projector(polyhedron, solver=solver, weights=weights, infeasible=infeasible)
        self.warm_start = warm_start
        self._last: list[Tensor] | None = None
        self._stated = packed(self.projector)  # for programs that are exported; no buffer, so that nothing changes it
        self._name = register(self.projector)
        blocks = () if self.projector.is_dense else self.projector.plan("cpu")
        self._rows = sum(block.count * block.form.matrix.count for block in blocks)

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
        share = self.leak if self.training else 0.0
        sides = {"b": b, "b_eq": b_eq, "lower": lower, "upper": upper, "A": A, "A_eq": A_eq}
        alone = leaks_in_one_call(x, share) and all(side is None for side in sides.values())
        u = x if alone else damped(x, share)
        if not return_info and not has_rows and (torch.compiler.is_compiling() or in_transform()):
            return self._leaking(self._as_operator(u, b, b_eq, lower, upper), x, share)
        z, done = self.projector(u, guess=self._last if self.warm_start else None, **sides)
        if self.warm_start:
            self._last = [solution.multipliers for solution in done.solutions]
        if share:
            z = past(z, x, share, self.polyhedron.shape, self.block) if alone else self._leaking(z, x, share)
        return (z, self.projector.info(done, x)) if return_info else z

    def _leaking(self, z: Tensor, x: Tensor, share: float) -> Tensor:
        """z, to which x adds nothing but a share of the gradient."""
        return leaking(z, x, share, self.polyhedron.shape, self.block)

    def _as_operator(self, x: Tensor, *sides: Any) -> Tensor:
        projector = self.projector
        operator: Any = nearest if torch.compiler.is_compiling() else Transformed.apply
        size = self._rows, self.polyhedron.dim, len(self.polyhedron.shape)
        z: Tensor = operator(x, *sides, self._stated, *size, self._name, projector.solver, projector.infeasible)[0]
        return z

    def extra_repr(self) -> str:
        blocks = () if self.projector.is_dense else self.projector.plan("cpu")
        solvers = ", ".join(dict.fromkeys(block.solver.name for block in blocks)) or "dual Newton"
        leak = f", leak={self.leak}" if self.leak else ""
        return f"{self.polyhedron}, solver={self.projector.solver!r} ({solvers}){leak}"


class NearestPoint(Direction):
    """The nearest point of the block to x0 + s c, in units of the set around the base point. NaN stays NaN.

    Args:
        base: x0 (n,).
        units: s (n,).
    """

    identity_inside = True
    follows = frozenset({"b", "b_eq", "lower", "upper"})
    base: Tensor
    units: Tensor

    def __init__(self, P: Polyhedron, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = P.dim
        self.nearest = Projection(P)
        self.reach = FAR * max(1.0, float(np.abs(base).max()))
        self.constant("base", base, persistent=True)
        self.constant("units", units, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        free, given = self.free(c), {name: getattr(sides, name) for name in sides.given}
        if is_plain(c) and bool((free.detach().abs() <= self.reach).all()):  # as it nearly always is
            near: Tensor = self.nearest(free, **given)
            return near
        known = c.isfinite().all(-1, keepdim=True)
        free = self.free(torch.where(known, c, torch.zeros_like(c)))
        x: Tensor = self.nearest(free if given else self._in_reach(free), **given)
        return torch.where(known, x, torch.full_like(x, torch.nan))

    def _in_reach(self, x: Tensor) -> Tensor:
        """x, or where it is FAR times as large as the base point the point at that distance on its way to 0.

        Seen from there the set is a point in float64: no solver could certify which one of it is nearest.
        """
        largest = x.abs().amax(-1, keepdim=True)
        return torch.where(largest > self.reach, x / largest * self.reach, x)

    def free(self, c: Tensor) -> Tensor:
        return torch.addcmul(self.base, c, self.units)

    def coefficients_of(self, y: Tensor) -> Tensor:
        return (y - self.base) / self.units


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
