"""All blocks of a call: solved, certified, solved again where they must be, and put together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.projection.certificate import unproven_empty
from rayhull.projection.plan import Plan
from rayhull.projection.problem import EMPTY, SOLVED, TOLERANCE, UNSOLVED, Problem, Solution, Solver
from rayhull.projection.sides import NONE, Sides
from rayhull.projection.solvers.least_distance import least_violation

if TYPE_CHECKING:
    from rayhull.projection.sample_rows import DenseProblem

LARGE = 1_000_000  # numbers


@dataclass(eq=False)
class Projected:
    """Nearest points (n, D) and the problems and solutions of the blocks, kept for derivatives and for ``Info``."""

    z: Tensor
    plan: Plan
    problems: list[Problem] = field(default_factory=list)
    solutions: list[Solution] = field(default_factory=list)
    fallback: list[Tensor] = field(default_factory=list)  # samples that a second solver answered
    infeasible: list[Tensor] = field(default_factory=list)  # samples that have no feasible point
    dense: DenseProblem | None = None  # where the rows were those of the sample


def solve(plan: Plan, x: Tensor, sides: Sides, infeasible: str, guess: list[Tensor] | None = None) -> Projected:
    """Nearest points of (n, D); ``guess``: multipliers of each block to start from."""
    points = x if x.dtype in (torch.float32, torch.float64) else x.double()  # the kernels read nothing shorter
    done, given = Projected(_empty_like(points), plan), None if sides is NONE else sides
    for k, block in enumerate(plan):
        problem = block.problem(points, given, done.z)
        solution = block.solver.solve(problem, None if guess is None else guess[k])
        if not solution.solved:
            answered(done, problem, solution, block.solver, block.fallbacks, block.count, infeasible)
        if solution.z is not None:
            assert problem.places is not None
            problem.places.write(solution.z, done.z)
            solution.z = None  # not needed any more
        done.problems.append(problem)
        done.solutions.append(solution)
    done.z = done.z.to(x.dtype)
    return done


def answered(
    done: Projected,
    problem: Problem,
    solution: Solution,
    first: Solver,
    fallbacks: tuple[Solver, ...],
    count: int,
    infeasible: str,
) -> None:
    """Fill in what the first solver left open, or raise with the names of the samples; ``count``: blocks in each."""
    solution.read_from(problem)
    solution.status[unproven_empty(problem, solution)] = UNSOLVED
    tried = [first.name]
    for solver in fallbacks:
        left = (solution.status == UNSOLVED).nonzero()[:, 0]
        if not len(left):
            break
        tried.append(solver.name)
        done.fallback.append(_try(solver, problem, solution, left) // count)
    lost = (solution.status == UNSOLVED).nonzero()[:, 0]
    if len(lost):
        worst = float(solution.residual[lost].max())
        raise UnverifiedError(
            f"No certified nearest point for {_names(lost // count)}: the KKT residual is {worst:.1e} after "
            f"{', '.join(tried)}. Are the numbers of very different sizes, or rows nearly parallel?"
        )
    empty = (solution.status == EMPTY).nonzero()[:, 0]
    if len(empty) and infeasible == "raise":
        raise EmptySetError(
            f"No point satisfies the right-hand sides and bounds of {_names(empty // count)}. "
            'Check b, b_eq, lower and upper, or ask for infeasible="least" to get the least violation.'
        )
    if len(empty):
        done.infeasible.append(empty // count)
        _least_violation(problem, solution, empty)


def _try(solver: Solver, problem: Problem, solution: Solution, left: Tensor) -> Tensor:
    """One more solver for the samples that are left; returns those that it answered."""
    some = problem.take(left)
    again = solver.solve(some)
    again.read_from(some)
    again.status[(again.status == SOLVED) & ~(again.residual <= TOLERANCE)] = UNSOLVED
    again.status[unproven_empty(some, again)] = UNSOLVED
    better = again.status != UNSOLVED
    solution.replace(left[better], again, better)
    return left[better]


def _least_violation(problem: Problem, solution: Solution, empty: Tensor) -> None:
    assert solution.z is not None
    solution.z[empty] = least_violation(problem.take(empty))
    solution.multipliers[empty] = torch.nan  # no multiplier exists, and no gradient flows
    solution.status[empty], solution.residual[empty] = SOLVED, torch.nan


@dataclass(frozen=True, eq=False)
class Info:
    """What was found out on the way. Shape: every tensor begins with the batch shape of x.

    The multipliers say what binds, and how much the squared distance would gain: at the nearest point
    w (z − x) + A^T multipliers + A_eq^T multipliers_eq + bound_multipliers = 0 (w = 1 without weights).

    Attributes:
        residual: the KKT residual of each sample, relative to the numbers involved; at most 1e-10 for our solvers.
        steps: iterations, the most over the blocks of a sample.
        solvers: how each kind of block was solved.
        fallback: samples that a second solver had to answer.
        infeasible: samples with no feasible point, answered by the least violation.
        multipliers: (\\*, m), of the rows A z <= b: positive where a row binds, 0 elsewhere.
        multipliers_eq: (\\*, m_eq), of the rows A_eq z = b_eq, of either sign.
        bound_multipliers: (\\*, event shape): positive where an upper bound binds, negative where a lower one does.
    """

    residual: Tensor
    steps: Tensor
    solvers: tuple[str, ...]
    fallback: Tensor
    infeasible: Tensor
    multipliers: Tensor
    multipliers_eq: Tensor
    bound_multipliers: Tensor

    @property
    def active(self) -> Tensor:
        """Which rows of A bind, (\\*, m)."""
        return self.multipliers > 0

    def reshaped(self, batch: tuple[int, ...], event: tuple[int, ...]) -> Info:
        """The same with the batch shape of x in place of one flat batch."""
        flat = {name: getattr(self, name).reshape(batch) for name in ("residual", "steps", "fallback", "infeasible")}
        rows = {name: getattr(self, name) for name in ("multipliers", "multipliers_eq")}
        rows = {name: v.reshape(*batch, v.shape[1]) for name, v in rows.items()}
        return replace(self, **flat, **rows, bound_multipliers=self.bound_multipliers.reshape(*batch, *event))


def info(done: Projected, batch: tuple[int, ...], event: tuple[int, ...], rows: tuple[int, int]) -> Info:
    """Gather what the blocks found; ``rows``: the numbers of stated inequalities and equalities."""
    n, like = math.prod(batch), done.z
    residual, steps = like.new_zeros(n, dtype=torch.float64), like.new_zeros(n, dtype=torch.int64)
    multipliers, multipliers_eq = (like.new_zeros((n, count), dtype=torch.float64) for count in rows)
    bounds = like.new_zeros((n, math.prod(event)), dtype=torch.float64)
    for block, problem, solution in zip(done.plan, done.problems, done.solutions, strict=True):
        own, lam = block.on(like.device), solution.multipliers
        residual = torch.maximum(residual, solution.residual.reshape(n, -1).amax(1))
        steps = torch.maximum(steps, solution.steps.reshape(n, -1).amax(1))
        for target, places, part in zip(
            (multipliers, multipliers_eq), (own.inequalities, own.equalities), block.stated_units(lam), strict=True
        ):
            target[:, places] = part
        own.places.write_gradient(problem.shifted(lam) - problem.clip(problem.shifted(lam)), bounds)
    return Info(
        residual=residual.reshape(batch),
        steps=steps.reshape(batch),
        solvers=tuple(block.solver.name for block in done.plan),
        fallback=mask(done.fallback, n, like).reshape(batch),
        infeasible=mask(done.infeasible, n, like).reshape(batch),
        multipliers=multipliers.reshape(*batch, rows[0]),
        multipliers_eq=multipliers_eq.reshape(*batch, rows[1]),
        bound_multipliers=bounds.reshape(*batch, *event),
    )


def _empty_like(x: Tensor) -> Tensor:
    """NumPy's memory for large results: it asks for huge pages, and fills 60 MB four times as fast as torch's."""
    if x.device.type != "cpu" or x.numel() < LARGE:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    return torch.from_numpy(np.empty(x.shape, np.float32 if x.dtype == torch.float32 else np.float64))


def mask(samples: list[Tensor], n: int, like: Tensor) -> Tensor:
    """True for the samples that are named."""
    mask = torch.zeros(n, dtype=torch.bool, device=like.device)
    for named in samples:
        mask[named] = True
    return mask


def _names(samples: Tensor, most: int = 8) -> str:
    numbers = torch.unique(samples).tolist()
    text = ", ".join(map(str, numbers[:most]))
    more = f" and {len(numbers) - most} others" if len(numbers) > most else ""
    return f"sample{'s' if len(numbers) > 1 else ''} {text}{more}"
