"""``project``: what the user calls, with its checks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from rayhull.projection.derivative import Nearest
from rayhull.projection.plan import Given, plan
from rayhull.projection.problem import Found
from rayhull.projection.solve import Call, Info

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Projector:
    """All that depends on the set alone, worked out once: blocks, their ways, factorisations.

    Args:
        polyhedron: the set.
        solver: ``"auto"`` (by structure), ``"active set"``, ``"dual"``, or an external one: ``"osqp"`` (the paper's
            loop), ``"daqp"``, ``"piqp"``, ``"clarabel"``.
        weights: positive weights of the squared distances (event shape), or None for the Euclidean distance.
        infeasible: ``"raise"``, or ``"least"`` for the least violation where sample-wise right-hand sides contradict
            each other.
    """

    def __init__(
        self, polyhedron: Polyhedron, *, solver: str = "auto", weights: Any = None, infeasible: str = "raise"
    ) -> None:
        if infeasible not in ("raise", "least"):
            raise ValueError(f'infeasible must be "raise" or "least", got {infeasible!r}.')
        self.polyhedron, self.solver, self.infeasible = polyhedron, solver, infeasible
        self.parts = plan(polyhedron, _checked_weights(weights, polyhedron), solver)

    def __call__(self, x: Tensor, *, warm: list[Found] | None = None, **given: Any) -> tuple[Tensor, Call]:
        """Nearest points and the state of the call. Shape: x (*, event shape)."""
        batch, flat = self.flat(x)
        sides = [self.flat_side(name, given.get(name), batch, flat) for name in ("b", "b_eq", "lower", "upper")]
        if warm is not None and len(warm[0].residual) != len(flat) * self.parts[0].count:
            warm = None  # other samples than last time
        call = Call(self.parts, self.infeasible, warm)
        if not flat.shape[0]:
            return x.clone(), call
        if _has_derivatives(flat, *sides):
            z: Tensor = Nearest.apply(call, flat, *sides)  # type: ignore[no-untyped-call]
        else:
            z = call.run(flat, Given(*sides))
        return z.reshape(x.shape), call

    def flat(self, x: Tensor) -> tuple[tuple[int, ...], Tensor]:
        """The batch shape, and the points (n, D), after a check of shape, dtype and values."""
        return _flat_points(self.polyhedron, x)

    def flat_side(self, name: str, value: Any, batch: tuple[int, ...], like: Tensor) -> Tensor | None:
        """A right-hand side or bound as (1 or n, length), after a check of its shape and values."""
        return _flat_side(self.polyhedron, name, value, batch, like)


def project(
    polyhedron: Polyhedron,
    x: Any,
    *,
    weights: Any = None,
    b: Any = None,
    b_eq: Any = None,
    lower: Any = None,
    upper: Any = None,
    solver: str = "auto",
    infeasible: str = "raise",
    return_info: bool = False,
) -> Any:
    r"""The nearest point of the set.

    .. math:: \arg\min_z \sum_i w_i (z_i - x_i)^2 \text{ over } A z \le b,\; A_{eq} z = b_{eq},\; lower \le z \le upper

    Blocks are projected alone, by a closed form where their rows allow one. Every answer carries a KKT residual; a
    sample that cannot be certified raises. Differentiable in x and in the right-hand sides; at a kink, what is met but
    does not push counts as absent. For repeated calls :class:`rayhull.Projection` keeps what depends on the set alone.

    Args:
        polyhedron: the set.
        x: points, tensor or array.
        weights: positive weights (event shape), default 1.
        b, b_eq, lower, upper: right-hand sides and bounds that replace the set's own, one for each sample.
        solver: ``"auto"``, ``"active set"``, ``"dual"``, ``"osqp"``, ``"daqp"``, ``"piqp"``, ``"clarabel"``.
        infeasible: ``"raise"`` an error that names the samples, or give the ``"least"`` violation.
        return_info: also return residuals, steps and ways as :class:`rayhull.projection.Info`.

    Shape:
        x (\*, event shape) → (\*, event shape); b (\*, m), b_eq (\*, m_eq), lower and upper (\*, event shape).

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.monotone(4)
        >>> z = rh.project(P, torch.tensor([1.0, 3.0, 2.0, 4.0]))
        >>> z
        tensor([1.0000, 2.5000, 2.5000, 4.0000])
        >>> bool(P.contains(z))
        True
    """
    projector = Projector(polyhedron, solver=solver, weights=weights, infeasible=infeasible)
    is_tensor = isinstance(x, Tensor)
    points = x if is_tensor else torch.as_tensor(np.asarray(x, dtype=float))
    z, call = projector(points, b=b, b_eq=b_eq, lower=lower, upper=upper)
    result = z if is_tensor else z.numpy()
    if not return_info:
        return result
    info: Info = call.info(tuple(points.shape[: points.ndim - len(polyhedron.shape)]))
    return result, info


def _checked_weights(weights: Any, P: Polyhedron) -> np.ndarray[Any, Any] | None:
    if weights is None:
        return None
    values = np.asarray(weights.detach().cpu() if isinstance(weights, Tensor) else weights, dtype=float)
    if values.shape not in ((), P.shape, (P.dim,)):
        raise ValueError(f"weights must be a number or have shape {P.shape}, got shape {values.shape}.")
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("weights must be positive and finite: a coordinate without weight has no nearest value.")
    return np.broadcast_to(values.reshape(-1) if values.ndim else values, (P.dim,))


def _flat_points(P: Polyhedron, x: Tensor) -> tuple[tuple[int, ...], Tensor]:
    event = P.shape
    if x.ndim < len(event) or tuple(x.shape[x.ndim - len(event) :]) != event:
        raise ValueError(f"points must have shape (*, {', '.join(map(str, event))}), got {tuple(x.shape)}.")
    if not x.is_floating_point():
        raise TypeError(f"points must be floating-point numbers, got {x.dtype}: call x.float() first.")
    batch = tuple(x.shape[: x.ndim - len(event)])
    flat = x.reshape(math.prod(batch), P.dim)
    if _looks_infinite(flat):
        bad = (~flat.isfinite()).any(1).nonzero()[:, 0].tolist()
        if bad:
            raise ValueError(f"points must be finite, got NaN or infinity in sample {bad[0]} ({len(bad)} in all).")
    return batch, flat


def _flat_side(P: Polyhedron, name: str, value: Any, batch: tuple[int, ...], like: Tensor) -> Tensor | None:
    """A right-hand side or bound as (1 or n, length), after a check of its shape and values."""
    if value is None:
        return None
    length = {"b": len(P.inequalities), "b_eq": len(P.equalities)}.get(name, P.dim)
    event = (length,) if name in ("b", "b_eq") else P.shape
    side = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value, dtype=float))
    side = side.to(like.device)
    if side.ndim < len(event):
        side = side.expand(event)
    lead = tuple(side.shape[: side.ndim - len(event)])
    if tuple(side.shape[len(lead) :]) != event or not _broadcasts(lead, batch):
        raise ValueError(
            f"{name} must have shape {event} or {(*batch, *event)} for points of batch shape {batch}, "
            f"got {tuple(side.shape)}."
        )
    bad = torch.isnan if name in ("lower", "upper") else lambda v: ~v.isfinite()  # bounds may be infinite
    if _looks_infinite(side) and bool(bad(side).any()):
        raise ValueError(f"{name} must hold numbers, got NaN or infinity.")
    if all(size == 1 for size in lead):
        return side.reshape(1, length)
    return side.expand(*batch, *event).reshape(math.prod(batch), length)


def _has_derivatives(*values: Tensor | None) -> bool:
    """Whether autograd follows one of them, backwards or forwards."""
    tangent = (unpack_dual(v).tangent for v in values if v is not None)  # type: ignore[no-untyped-call]
    return any(v is not None and v.requires_grad for v in values) or any(t is not None for t in tangent)


def _looks_infinite(values: Tensor) -> bool:
    """One cheap pass over the values; a careful look is needed only if their sum is not finite."""
    return not math.isfinite(float(values.detach().sum()))


def _broadcasts(lead: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    return len(lead) <= len(batch) and all(a in (1, b) for a, b in zip(lead[::-1], batch[::-1], strict=False))
