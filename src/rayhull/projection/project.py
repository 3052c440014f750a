"""``project``: what the user calls, with its checks."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.graphs import eagerly, is_plain
from rayhull.maps.leak import Leak
from rayhull.projection import sample_rows
from rayhull.projection.conic import ConicProjector
from rayhull.projection.plan import HOST, SOLVERS, Plan, plan
from rayhull.projection.sides import NONE, Sides, flat_points, flat_sides, has_derivatives, zero_rows_hold
from rayhull.projection.solve import SIDES, Differentiable, Info, Projected, found_by, info, solve
from rayhull.sets.cones import ConvexSet
from rayhull.sets.polyhedron import Polyhedron, need_set
from rayhull.sets.reading import GivenSides, by_name, event_last

INFEASIBLE = ("raise", "least", "nan")


class Projector:
    """A set, a solver and a metric, as for :func:`project`; what depends on them alone is worked out once and kept."""

    def __init__(
        self, polyhedron: Polyhedron, *, solver: str = "auto", weights: Any = None, infeasible: str = "raise"
    ) -> None:
        if infeasible not in INFEASIBLE:
            raise ValueError(f"infeasible must be one of {', '.join(INFEASIBLE)}, got {infeasible!r}.")
        self.polyhedron, self.solver, self.infeasible = polyhedron, solver, infeasible
        self.weights = _checked_weights(weights, polyhedron)
        self.is_dense = self.weights is not None and self.weights.ndim == 2  # a metric that ties all coordinates
        if solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, got {solver!r}.")

    @cached_property
    def has_zeros(self) -> bool:
        """Whether some rows mention no coordinate: they are part of no block."""
        return bool(self.polyhedron.inequalities.zeros or self.polyhedron.equalities.zeros)

    def plan(self, device: torch.device = HOST) -> Plan:
        """The blocks and their solvers on a device."""
        return plan(self.polyhedron, self.weights, self.solver, device)

    def __call__(self, x: Tensor, *, guess: list[Tensor] | None = None, **sides: Any) -> tuple[Tensor, Projected]:
        """Nearest points and how they were found; ``guess``: the multipliers of a call before, for a warm start."""
        refuse_hidden(x)
        batch, flat = flat_points(self.polyhedron, x)
        given = flat_sides(self.polyhedron, sides, batch, flat)
        followed = has_derivatives(flat, given)
        if not len(flat):
            return x.clone(), Projected(flat, ())
        if self.is_dense or (given is not NONE and given.has_rows):
            dense, done = sample_rows.nearest(self.polyhedron, flat, given, self.weights, self.infeasible)
            return dense.reshape(x.shape), done
        blocks = self.plan(x.device)
        if guess is not None and len(guess[0]) != len(flat) * blocks[0].count:
            guess = None  # other samples than last time
        with torch.no_grad():
            done = solve(blocks, flat.detach(), given, self.infeasible, guess)
        if given is not NONE and (held := zero_rows_hold(self.polyhedron, given)) is not None:
            done.note_empty((~held.expand(len(flat))).nonzero()[:, 0], self.infeasible)
        if self.infeasible == "nan" and done.infeasible:
            done.z[torch.cat(done.infeasible)] = torch.nan  # in all blocks
        if not followed:
            return done.z if flat is x else done.z.reshape(x.shape), done
        z: Tensor = Differentiable.apply(done, None, flat, *given[:SIDES])  # type: ignore[no-untyped-call]
        return z if flat is x else z.reshape(x.shape), done

    def direct(self, x: Tensor, leak: Leak | None = None, sides: Sides = NONE) -> Tensor | None:
        """The kernels' points; None in graphs, and where something is left open (points far away, not finite).

        Shape: (\\*, D), with sides (n, D) → the same
        """
        if not is_plain(x) or not x.numel():
            return None
        flat = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
        if sides is not NONE and (self.has_zeros or not (flat is x and sides.fits_kernels(len(x)))):
            return None
        points, given = flat.detach(), None if sides is NONE else sides.detached()
        done = Projected(torch.empty_like(points, memory_format=torch.contiguous_format), self.plan())
        for block in done.plan:
            problem = block.problem(points, given, done.z)
            solution = found_by(block.solver, problem)
            if not solution.solved:
                return None
            done.keep(problem, solution)
        z = done.z
        if has_derivatives(flat, sides):
            z = eagerly(Differentiable, done, leak, flat, *(() if sides is NONE else sides[:SIDES]))
        return z if flat is x else z.reshape(x.shape)

    def info(self, done: Projected, x: Tensor) -> Info:
        """Residuals, steps, solvers and multipliers of a call."""
        P = self.polyhedron
        batch = tuple(x.shape[: x.ndim - len(P.shape)])
        return info(done, (len(P.inequalities), len(P.equalities))).reshaped(batch, P.shape)


def refuse_hidden(x: Tensor) -> None:
    """A solver looks at its numbers, which graphs and torch.func hide."""
    if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(x):
        raise RayhullError(
            "rh.project, return_info and rows of the sample (A, A_eq) look at numbers, which torch.func (vmap, grad, "
            "jvp), torch.export and torch.compile(fullgraph=True) hide. Inside them take the module, rh.Projection(P), "
            "without these; outside, all samples at once."
        )


def project(
    polyhedron: Polyhedron,
    x: Any,
    *,
    weights: Any = None,
    axis: int = -1,
    solver: str = "auto",
    infeasible: str = "raise",
    return_info: bool = False,
    **sides: Unpack[GivenSides],
) -> Any:
    r"""The nearest point of the set.

    .. math:: \arg\min_z \sum_i w_i (z_i - x_i)^2 \text{ over } A z \le b,\; A_{eq} z = b_{eq},\; lower \le z \le upper

    Blocks are projected alone, by a closed form where their rows allow one. Every answer carries a KKT residual; a
    sample that cannot be certified raises. Differentiable in x and in the right-hand sides; at a kink, what is met
    without a multiplier counts as absent. What depends on the set alone is worked out at the first call and kept.

    Args:
        polyhedron: the set.
        x: points, tensor or array.
        weights: positive weights (event shape), default 1; or a positive definite matrix (d, d) W for the distance
            (z − x)^T W (z − x), such as the inverse of a covariance.
        b, b_eq, lower, upper: right-hand sides and bounds that replace the set's own, one for each sample.
        A, A_eq: rows that replace the set's own, one matrix for all samples or one for each; batched, dense.
        h, centre: of a set with cones: right-hand sides of the cones (\*, cones), a ball's radius; centres of balls and
            ellipsoids (\*, event shape).
        axis: the axis of x that the event stands on, and of the sides that have as many axes: 1 for the channels of
            images. What ``return_info`` adds has it last.
        solver: ``"auto"`` (closed forms by structure, else an exact active-set method), ``"active set"`` or ``"dual"``
            (batched torch operations).
        infeasible: ``"raise"`` an error that names the samples, or give the ``"least"`` violation, or ``"nan"``.
        return_info: also return residuals, multipliers, steps and solvers as :class:`rayhull.projection.Info`.

    Shape:
        x (\*, event shape) → (\*, event shape); b (\*, m), b_eq (\*, m_eq), lower and upper (\*, event shape),
        A (\*, m, d), A_eq (\*, m_eq, d).

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.monotone(4)
        >>> z = rh.project(P, torch.tensor([1.0, 3.0, 2.0, 4.0]))
        >>> z
        tensor([1.0000, 2.5000, 2.5000, 4.0000])
        >>> bool(P.contains(z))
        True
    """
    if isinstance(x, Polyhedron):
        raise TypeError("project takes the set first, then the points: rayhull.project(P, x).")
    projector = projector_of(polyhedron, solver=solver, weights=weights, infeasible=infeasible)
    is_tensor = isinstance(x, Tensor)
    points = x if is_tensor else torch.as_tensor(np.array(by_name(polyhedron, x), dtype=float))
    points, given = event_last(polyhedron, points, axis, **sides)
    z, done = projector(points, **given)
    z = z if axis == -1 else z.movedim(-1, axis)
    result = z if is_tensor else z.numpy()
    if not return_info:
        return result
    return result, projector.info(done, points)


def projector_of(S: Any, *, solver: str = "auto", weights: Any = None, infeasible: str = "raise") -> Any:
    """What finds nearest points of a set, with cones or without."""
    if not isinstance(S, ConvexSet):
        need_set(S)
        return Projector(S, solver=solver, weights=weights, infeasible=infeasible)
    if (solver, infeasible) != ("auto", "raise") or weights is not None:
        raise ValueError("a set with cones has one solver: leave out solver, weights and infeasible.")
    if "conic" not in S.kept:
        S.kept["conic"] = ConicProjector(S)
    return S.kept["conic"]


def _checked_weights(weights: Any, P: Polyhedron) -> np.ndarray[Any, Any] | None:
    if weights is None:
        return None
    if np.ndim(weights) == 2 and hasattr(weights, "loc") and P.coordinate_names is not None:  # a matrix with labels
        weights = weights.loc[list(P.coordinates), list(P.coordinates)]
    values = np.asarray(weights.detach().cpu() if isinstance(weights, Tensor) else by_name(P, weights), dtype=float)
    if values.shape == (P.dim, P.dim) != P.shape:
        return _checked_matrix(values)
    if values.shape not in ((), P.shape, (P.dim,)):
        raise ValueError(
            f"weights must be a number, have shape {P.shape} or be a matrix {(P.dim, P.dim)}, got shape {values.shape}."
        )
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("weights must be positive and finite: a coordinate without weight has no nearest value.")
    return np.broadcast_to(values.reshape(-1) if values.ndim else values, (P.dim,))


def _checked_matrix(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    symmetric = np.allclose(values, values.T, rtol=1e-12, atol=0)
    if not symmetric or not np.isfinite(values).all() or np.linalg.eigvalsh(values)[0] <= 0:
        raise ValueError("a matrix of weights must be symmetric and positive definite.")
    return values
