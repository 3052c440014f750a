"""Rows of the sample, or a metric that is a full matrix: dense rows (N, M, d), batched torch operations, any device.

The active rows are found without derivatives. With them fixed the nearest point is a formula in all numbers of the
problem, y − G_W^T (G_W D G_W^T)⁻¹ (G_W y − c), and autograd differentiates it as often as asked: to the rows too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable, which would load its compiler: a second

from rayhull.core import operators
from rayhull.projection.plan import Block
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.sides import Sides
from rayhull.projection.solve import Projected, solve
from rayhull.projection.solvers.any_rows import DualNewton, SampleActiveSet
from rayhull.projection.solvers.one_by_one import LeastDistance
from rayhull.projection.standard_form import SampleMatrix, regularised_solve
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Coordinates:
    """Coordinates in which the metric is Euclidean: z' = √w z, or z' = L^T z for a matrix of weights L L^T."""

    def __init__(self, weights: Array | None, like: Tensor) -> None:
        w = None if weights is None else torch.tensor(weights, dtype=torch.float64, device=like.device)
        self.root = None if w is None or w.ndim == 2 else w.sqrt()
        self.factor = torch.linalg.cholesky(w) if w is not None and w.ndim == 2 else None

    def to_standard(self, v: Tensor) -> Tensor:
        if self.factor is not None:
            return v @ self.factor
        return v if self.root is None else v * self.root

    def to_plain(self, v: Tensor) -> Tensor:
        if self.factor is not None:
            return torch.linalg.solve_triangular(self.factor.mT, v.mT, upper=True).mT
        return v if self.root is None else v / self.root

    def rows(self, A: Tensor) -> Tensor:
        """Rows a with a·z = a'·z'. Shape: (*, M, d) → (*, M, d)."""
        if self.factor is not None:
            return torch.linalg.solve_triangular(self.factor, A.mT, upper=False).mT
        return A if self.root is None else A / self.root


def of_each_sample(P: Polyhedron, sides: Sides, x: Tensor) -> Iterator[Tensor]:
    """b, b_eq, lower, upper, A and A_eq in float64: the call's numbers where it brings them, else the set's."""
    matrices = P.inequalities.matrix.toarray(), P.equalities.matrix.toarray()
    stated = (P.inequalities.rhs, P.equalities.rhs, P.lower_bounds, P.upper_bounds, *matrices)
    for given, own in zip(sides, stated, strict=False):
        value = torch.as_tensor(own, device=x.device)[None] if given is None else given
        yield value.to(torch.float64).expand(len(x), *value.shape[1:])


class SampleBlock(Block):
    """All coordinates of a call as one block: unit rows in the metric's coordinates, differentiable.

    A full matrix of weights turns bounds into rows, after those of A.
    """

    count = 1

    def __init__(self, P: Polyhedron, sides: Sides, x: Tensor, weights: Array | None) -> None:
        b, b_eq, lower, upper, A, A_eq = of_each_sample(P, sides, x)
        self.coordinates, self.m, self.bounded = Coordinates(weights, x), A.shape[1], None
        if self.coordinates.factor is None:
            lower, upper = self.coordinates.to_standard(lower), self.coordinates.to_standard(upper)
        else:
            self.bounded = high, low = _bounded(upper, "upper"), _bounded(lower, "lower")
            eye = torch.eye(x.shape[1], dtype=A.dtype, device=x.device).expand(len(x), -1, -1)
            A = torch.cat([A, eye[:, high], -eye[:, low]], 1)
            b = torch.cat([b, upper[:, high], -lower[:, low]], 1)
            lower, upper = torch.full_like(lower, -torch.inf), torch.full_like(upper, torch.inf)
        G, c = self.coordinates.rows(torch.cat([A, A_eq], 1)), torch.cat([b, b_eq], 1)
        self.norms = _norms(G.detach())
        rows, y = SampleMatrix(G / self.norms[..., None]), self.coordinates.to_standard(x.to(torch.float64))
        self.followed = Problem(rows, A.shape[1], c / self.norms, lower, upper, y, may_be_empty=True)
        on_host = x.device.type == "cpu" and operators.available()
        solvers = (*((SampleActiveSet(),) if on_host else ()), DualNewton(), LeastDistance())
        self.solver, self.fallbacks = solvers[0], solvers[1:]

    @property
    def numbers(self) -> tuple[Tensor, ...]:
        """All that autograd may follow."""
        return self.followed.y, self.followed.matrix.dense(self.followed.y), *self.followed.sides

    def problem(self, x: Tensor, sides: Sides | None = None, out: Tensor | None = None) -> Problem:
        y, rows, c, lower, upper = (v.detach() for v in self.numbers)
        return replace(self.followed, matrix=SampleMatrix(rows), c=c, lower=lower, upper=upper, points=y)

    def points(self, problem: Problem, solution: Solution) -> Tensor:
        """The certified points, with the derivative of the formula on their faces. Shape: (n, D)."""
        assert solution.z is not None
        if not any(v.requires_grad for v in self.numbers):
            return self.coordinates.to_plain(solution.z)
        constant = solution.multipliers.isnan().any(1) | (problem.lower > problem.upper).any(1)  # no feasible point
        face = _on_face(self.followed, problem.active(solution.multipliers), problem.at_bound(solution.multipliers))
        return self.coordinates.to_plain(solution.z + torch.where(constant[:, None], 0.0, face - face.detach()))

    def write_multipliers(self, problem: Problem, w: Tensor, rows: Tensor, rows_eq: Tensor, bounds: Tensor) -> None:
        """As of constant rows; bounds that were rows are bounds again."""
        stated = w / self.norms
        rows[:], rows_eq[:] = stated[:, : self.m], stated[:, problem.m :]
        if self.bounded is None:
            v = problem.shifted(w)
            bounds += self.coordinates.to_standard(v - problem.clip(v))
        else:
            high, low = self.bounded
            split = problem.m - int(low.sum())
            bounds[:, high] += stated[:, self.m : split]
            bounds[:, low] -= stated[:, split : problem.m]


def _bounded(bound: Tensor, name: str) -> Tensor:
    finite = bound.isfinite()
    if not torch.equal(finite.all(0), finite.any(0)):
        raise ValueError(f"with a matrix of weights {name} must be finite for all samples or for none.")
    return finite.all(0)


def _norms(G: Tensor) -> Tensor:
    """Lengths of the rows, 1 for rows of zeros, safe from overflow. Shape: (n, M)."""
    largest = G.abs().amax(-1) if G.shape[-1] else G.new_ones(G.shape[:-1])
    largest = torch.where(largest > 0, largest, 1.0)
    lengths = torch.linalg.vector_norm(G / largest[..., None], dim=-1)
    return torch.where(lengths > 0, lengths, 1.0) * largest


@_disable_dynamo  # iterations that end by themselves; a program that is exported cannot hold them
def nearest(P: Polyhedron, x: Tensor, sides: Sides, weights: Array | None, infeasible: str) -> tuple[Tensor, Projected]:
    """Nearest points (n, D), and how they were found."""
    block = SampleBlock(P, sides, x, weights)
    with torch.no_grad():
        done = solve((block,), x.detach(), sides, infeasible)
    return block.points(done.problems[0], done.solutions[0]).to(x.dtype), done


def _on_face(problem: Problem, active: Tensor, at_bound: Tensor) -> Tensor:
    """The nearest point with these rows and bounds met with equality. Shape: (n, d)."""
    start = torch.where(at_bound > 0, problem.upper, torch.where(at_bound < 0, problem.lower, problem.y))
    rows, free = problem.matrix, at_bound == 0
    w = regularised_solve(rows.dense(start), rows.times(start) - problem.c, active, free)
    return start - torch.where(free, rows.transposed_times(w), 0.0)
