"""The nearest point of rows and cones: the interior-point method of :mod:`rayhull.sets.conic`, with derivatives.

Along the equalities z = z0 + N y. Every answer carries its KKT residual; what cannot be certified raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact.threads import one_blas_thread
from rayhull.projection.sides import Sides, flat_points, flat_sides
from rayhull.sets.conic import Conic, Solution
from rayhull.sets.conic_interior import Along

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet

CHUNK = 20_000_000  # numbers of all samples' matrices together
CERTIFIED = 1e-9  # the largest residual of an answer
LOST = 1e-4  # a residual beyond shows that a set is empty


class Info(NamedTuple):
    """How nearest points were found: the KKT residual of each (\\*), relative to the size of its numbers."""

    residual: Tensor


class ConicProjector:
    """Nearest points of a set with cones; what depends on the set alone is worked out once."""

    is_dense, solver, label = True, "auto", "interior points"

    def __init__(self, S: ConvexSet) -> None:
        self.polyhedron, self.along = S, Along(S)
        hidden = S.rows.matrix[np.flatnonzero(self.along.implicit)].toarray()
        self.onto = np.linalg.pinv(np.vstack([S.equality_rows.matrix.toarray(), hidden]))
        self.loose = np.flatnonzero(~self.along.implicit)

    def direct(self, x: Tensor, leak: Any = None) -> None:
        """No kernel finds these."""

    def info(self, done: Info, x: Tensor) -> Info:
        """Residuals of a call."""
        return done

    def __call__(self, x: Tensor, **given: Any) -> tuple[Tensor, Info]:
        batch, flat = flat_points(self.polyhedron, x)
        sides = flat_sides(self.polyhedron, given, batch, flat)
        if sides.has_rows:
            raise TypeError("rows of the sample (A, A_eq) and cones do not go together: state the rows in the set.")
        cpu = Sides(*(None if v is None else v.double().cpu() for v in sides))
        z, residual = self._nearest(flat.double().cpu(), cpu)
        return z.to(x).reshape(x.shape), Info(residual.reshape(batch))

    def _nearest(self, x: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        start, null = self._start(sides), torch.as_tensor(self.along.null)
        rows, constants = zip(*self._rows(start, sides), strict=True)
        c = [v.expand(len(x), -1, -1) for v in constants]
        y, residual = Nearest.apply((x - start) @ null, rows, *c)  # type: ignore[no-untyped-call]
        if bool((residual > CERTIFIED).any()):
            _refuse(residual, stated=not sides.given)
        return start + y @ null.mT, residual

    def _start(self, sides: Sides) -> Tensor:
        """A point that meets the equalities of each sample (1 or n, d)."""
        start, S = torch.as_tensor(self.along.start)[None], self.polyhedron
        if sides.b_eq is None:
            return start
        moved = (sides.b_eq - torch.as_tensor(S.equalities.rhs))[:, S.layout.equalities]
        return start + moved @ torch.as_tensor(self.onto[:, : moved.shape[1]]).mT

    def _rows(self, start: Tensor, sides: Sides) -> list[tuple[Any, Tensor]]:
        """G (K, 1 + k, q) and the constants (1 or n, K, 1 + k), of unit size."""
        S, layout, null = self.polyhedron, self.polyhedron.layout, self.along.null
        stated = (S.inequalities.rhs, S.upper_bounds, S.lower_bounds)
        given = (sides.b, sides.upper, sides.lower)
        picks = (layout.inequalities, layout.upper, layout.lower)
        each = zip(stated, given, picks, (1, 1, -1), strict=True)
        rhs = [sign * (torch.as_tensor(own)[None] if v is None else v)[:, pick] for own, v, pick, sign in each]
        n = max(len(v) for v in rhs)
        b = torch.cat([v.expand(n, -1) for v in rhs], 1)[:, self.loose]
        A = S.rows.matrix[self.loose].toarray()
        parts = [(-A[:, None], (b - start @ torch.as_tensor(A).mT)[..., None])]
        for group in S.batches:
            wide = np.zeros((*group.rows.shape[:2], S.dim))
            np.put_along_axis(wide, np.repeat(group.index[:, None], wide.shape[1], 1), group.rows, 2)
            parts.append((wide, group.at(start, sides.h, sides.centre)))
        found = []
        for rows, constants in parts:
            size = np.maximum(np.linalg.norm(rows @ null, axis=(1, 2)), 1e-300)
            found.append((rows @ null / size[:, None, None], constants / torch.as_tensor(size)[:, None]))
        return found


def _refuse(residual: Tensor, *, stated: bool) -> None:
    bad = (residual > CERTIFIED).nonzero()[:, 0].tolist()
    if not stated and bool((residual > LOST).any()):  # the stated set is not empty
        lost = (residual > LOST).nonzero()[:, 0].tolist()
        raise EmptySetError(
            f"the set of sample {lost[0]} is empty: no point keeps its rows and cones ({len(lost)} in all)."
        )
    raise UnverifiedError(
        f"the nearest point of sample {bad[0]} could not be certified (residual {float(residual[bad[0]]):.1e}, "
        f"{len(bad)} in all): its set has next to no interior, or the point is very far from it. Give the set more "
        "slack, state equalities, or bound the points first."
    )


class Nearest(torch.autograd.Function):
    """p (n, q), the rows and c (n, K, 1 + k) → nearest points y (n, q) and their residuals (n,)."""

    @staticmethod
    @one_blas_thread()
    def forward(ctx: Any, p: Tensor, rows: Any, *c: Tensor) -> tuple[Tensor, Tensor]:
        each = max(1, CHUNK // (sum(g.shape[0] * g.shape[1] for g in rows) + p.shape[1]) ** 2)
        numbers = [v.detach().numpy() for v in (p, *c)]
        chunks = [[v[i : i + each] for v in numbers] for i in range(0, len(p), each)]
        ctx.problems = [Conic(rows, own[1:], np.ones(p.shape[1]), own[0]) for own in chunks]
        ctx.found = [problem.polished(*_started(problem)) for problem in ctx.problems]
        y, residual = (
            torch.as_tensor(np.concatenate([getattr(f, name) for f in ctx.found])) for name in ("y", "residual")
        )
        ctx.mark_non_differentiable(residual)
        return y, residual

    @staticmethod
    @one_blas_thread()
    def backward(ctx: Any, g: Tensor, _: Any) -> tuple[Any, ...]:
        parts = zip(ctx.problems, ctx.found, torch.split(g, [len(f.y) for f in ctx.found]), strict=True)
        each = [_derivative(problem, f, own.numpy()) for problem, f, own in parts]
        v, *sides = (torch.as_tensor(np.concatenate(part)) for part in zip(*each, strict=True))
        return v, None, *sides


def _started(problem: Conic) -> tuple[Any, Any]:
    found = problem.solve(problem.r)
    return found.y, found.multipliers


def _derivative(problem: Conic, found: Solution, g: Any) -> list[Any]:
    """g - Gᵀ w, and -w for each kind of cone, with w = (I - Vᵀ) B⁻ᵀ G g."""
    V, B = problem.newton_matrix(found.s, found.multipliers)
    lifted = np.concatenate([v.reshape(len(g), -1) for v in problem.lift(g)], 1)
    w = np.linalg.solve(B.swapaxes(1, 2), lifted[..., None])
    flat = (w - V.swapaxes(1, 2) @ w)[..., 0]
    ends = np.cumsum([v[0].size for v in found.s])[:-1]
    parts = [part.reshape(v.shape) for part, v in zip(np.split(flat, ends, 1), found.s, strict=True)]
    return [g - problem.drop(parts), *(-part for part in parts)]
