"""All blocks of a call: solved, certified, solved again where they must be, put together, and differentiated.

The projection is linear between its kinks, so one small system of the active rows gives all derivatives. With D the
coordinates at no bound and W the active rows, the Jacobian is D − D G_W^T (G_W D G_W^T)⁺ G_W D. It is symmetric in y,
and constant nearby: backward is the same linear map, and the second derivative is 0. At a kink (a row or bound that is
met without a multiplier) the row or bound counts as absent, as in torch.clamp.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact.progress import patiently
from rayhull.maps.leak import Leak
from rayhull.projection.plan import Block, Plan
from rayhull.projection.problem import SOLVED, TOLERANCE, UNSOLVED, Problem, Solution, Solver, unproven_empty
from rayhull.projection.sides import NONE, Sides
from rayhull.projection.solvers.one_by_one import least_violation

LARGE = 1_000_000  # numbers
LONG = 1_000_000  # numbers in the rows of all samples, or of ten alike, from which a search gets a thread of its own
Gradients = tuple[Tensor | None, ...]
SIDES = 4  # b, b_eq, lower, upper; rows of the sample have a derivative of their own


# -- all blocks of a call --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Projected:
    """Nearest points (n, D) and the problems and solutions of the blocks, kept for derivatives and for ``Info``."""

    z: Tensor
    plan: Plan
    problems: list[Problem] = field(default_factory=list)
    multipliers: list[Tensor] = field(default_factory=list)
    solutions: list[Solution] = field(default_factory=list)
    fallback: list[Tensor] = field(default_factory=list)  # samples that a second solver answered
    infeasible: list[Tensor] = field(default_factory=list)  # samples that have no feasible point

    def keep(self, problem: Problem, solution: Solution) -> None:
        """Note the solution of a kind of block, and bring its points to their places."""
        if solution.z is not None and problem.places is not None:
            problem.places.write(solution.z, self.z)
            solution.z = None  # not needed any more
        self.problems.append(problem)
        self.multipliers.append(solution.multipliers)
        self.solutions.append(solution)

    def note_empty(self, samples: Tensor, infeasible: str) -> None:
        """Samples without a feasible point: refused by their names, or kept in mind."""
        if len(samples) and infeasible == "raise":
            raise EmptySetError(
                f"No point satisfies the right-hand sides and bounds of {sample_names(samples)}. "
                "P.with_sides(b_eq=b_eq[i]) names the rules of sample i that contradict each other; "
                'infeasible="least" gives the point of least violation.',
                samples=torch.unique(samples).tolist(),
            )
        if len(samples):
            self.infeasible.append(samples)

    def active(self, grad: Any = None, out: Any = None) -> Iterator[Any]:
        """(block, problem, active, at_bound, constant) of each kind of block whose gradient no kernel writes to out."""
        problem: Any
        for block, problem, multipliers in zip(self.plan, self.problems, self.multipliers, strict=True):
            has_kernel = out is not None and not self.infeasible and grad.is_cpu and grad.dtype == problem.x.dtype
            if has_kernel and block.solver.pull(problem, multipliers, grad, out):
                continue
            constant = multipliers.isnan().any(1, keepdim=True) if self.infeasible else None
            yield block, problem, problem.active(multipliers), problem.at_bound(multipliers), constant


def solve(plan: Plan, x: Tensor, sides: Sides, infeasible: str, guess: list[Tensor] | None = None) -> Projected:
    """Nearest points of (n, D); ``guess``: multipliers of each block to start from."""
    points = x if x.dtype in (torch.float32, torch.float64) else x.double()  # the kernels read nothing shorter
    done, given = Projected(_empty_like(points), plan), None if sides is NONE else sides
    for k, block in enumerate(plan):
        problem = block.problem(points, given, done.z)
        solution = found_by(block.solver, problem, None if guess is None else guess[k])
        if not solution.solved:
            _answer(done, problem, solution, block, infeasible)
        done.keep(problem, solution)
    if points is not x:
        done.z = done.z.to(x.dtype)
    return done


def found_by(solver: Solver, problem: Problem, guess: Tensor | None = None) -> Solution:
    """What the solver finds; a search that may be long says so after two seconds, and hears Ctrl-C."""
    if not (solver.may_be_long and _is_large(problem)):
        return solver.solve(problem, guess)
    inference = torch.is_inference_mode_enabled()

    def run() -> Solution:
        with torch.inference_mode(inference), torch.no_grad():  # a thread of its own has modes of its own
            return solver.solve(problem, guess)

    what = f"nearest points ({solver.name}) of {problem.size} samples with {problem.matrix.count} rows"
    return patiently(run, f"{what}; rows that follow from others are best left out, Ctrl-C stops")


def _is_large(problem: Problem) -> bool:
    size = problem.matrix.count * problem.lower.shape[-1]
    return max(problem.size, 10) * size >= LONG and problem.lower.device.type == "cpu"


def _answer(done: Projected, problem: Problem, solution: Solution, block: Block, infeasible: str) -> None:
    """Fill in what the first solver left open, or raise with the names of the samples."""
    solution.read_from(problem)
    solution.status[unproven_empty(problem, solution)] = UNSOLVED
    tried, count = [block.solver.name], block.count
    for solver in block.fallbacks:
        left = (solution.status == UNSOLVED).nonzero()[:, 0]
        if not len(left):
            break
        tried.append(solver.name)
        done.fallback.append(_try(solver, problem, solution, left) // count)
    if infeasible == "raise" and len(lost := unproven_empty(problem, solution, UNSOLVED)):
        worst = float(solution.residual[lost].max())
        raise UnverifiedError(
            f"No certified nearest point for {sample_names(lost // count)}: the KKT residual is {worst:.1e} after "
            f"{', '.join(tried)}. Are the numbers of very different sizes, or rows nearly parallel?"
        )
    empty = (solution.status != SOLVED).nonzero()[:, 0]
    done.note_empty(empty // count, infeasible)
    if len(empty):
        _answer_empty(problem, solution, empty, infeasible)


def _try(solver: Solver, problem: Problem, solution: Solution, left: Tensor) -> Tensor:
    """One more solver for the samples that are left; returns those that it answered."""
    some = problem.take(left)
    again = found_by(solver, some)
    again.read_from(some)
    again.status[(again.status == SOLVED) & ~(again.residual <= TOLERANCE)] = UNSOLVED
    again.status[unproven_empty(some, again)] = UNSOLVED
    better = again.status != UNSOLVED
    solution.replace(left[better], again, better)
    return left[better]


def _answer_empty(problem: Problem, solution: Solution, empty: Tensor, infeasible: str) -> None:
    assert solution.z is not None
    solution.z[empty] = torch.nan if infeasible == "nan" else least_violation(problem.take(empty))
    solution.multipliers[empty] = torch.nan  # no multiplier exists, and no gradient flows
    solution.status[empty], solution.residual[empty] = SOLVED, torch.nan


# -- what was found out on the way -----------------------------------------------------------------------------------


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
        infeasible: samples without a certified feasible point, answered by the least violation or NaN.
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
        tensors = {name: v for name, v in vars(self).items() if isinstance(v, Tensor)}
        found: dict[str, Any] = {name: v.reshape(batch + v.shape[1:]) for name, v in tensors.items()}
        return replace(self, **found | {"bound_multipliers": self.bound_multipliers.reshape(batch + event)})


def info(done: Projected, rows: tuple[int, int]) -> Info:
    """Gather what the blocks found, in one flat batch; ``rows``: the numbers of stated inequalities and equalities."""
    n, like = len(done.z), done.z
    residual, steps = like.new_zeros(n, dtype=torch.float64), like.new_zeros(n, dtype=torch.int64)
    multipliers = [like.new_zeros((n, count), dtype=torch.float64) for count in (*rows, like.shape[1])]
    for block, problem, solution in zip(done.plan, done.problems, done.solutions, strict=True):
        residual = torch.maximum(residual, solution.residual.reshape(n, -1).amax(1))
        steps = torch.maximum(steps, solution.steps.reshape(n, -1).amax(1))
        block.write_multipliers(problem, solution.multipliers, *multipliers)
    solvers = tuple(block.solver.name for block in done.plan)
    samples = (_mask(named, n, like) for named in (done.fallback, done.infeasible))
    return Info(residual, steps, solvers, *samples, *multipliers)


def _empty_like(x: Tensor) -> Tensor:
    """NumPy's memory for large results: it asks for huge pages, and fills 60 MB four times as fast as torch's."""
    if x.device.type != "cpu" or x.numel() < LARGE:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    return torch.from_numpy(np.empty(x.shape, np.float32 if x.dtype == torch.float32 else np.float64))


def _mask(samples: list[Tensor], n: int, like: Tensor) -> Tensor:
    """True for the samples that are named."""
    mask = torch.zeros(n, dtype=torch.bool, device=like.device)
    for named in samples:
        mask[named] = True
    return mask


def sample_names(samples: Tensor, most: int = 8) -> str:
    """Their numbers in words."""
    numbers = torch.unique(samples).tolist()
    text = ", ".join(map(str, numbers[:most]))
    more = f" and {len(numbers) - most} others" if len(numbers) > most else ""
    return f"sample{'s' if len(numbers) > 1 else ''} {text}{more}"


# -- derivatives -----------------------------------------------------------------------------------------------------


class Differentiable(torch.autograd.Function):
    """(x, b, b_eq, lower, upper) → nearest points (n, D), which are found already."""

    @staticmethod
    def forward(ctx: Any, done: Projected, leak: Leak | None, x: Tensor, *sides: Tensor | None) -> Tensor:
        away = None if leak is None else x - done.z
        ctx.save_for_backward(x, away, *(v for v in sides if v is not None))  # autograd sees if they change in place
        ctx.done, ctx.leak = done, leak
        ctx.like = [None if v is None else (v.shape, v.dtype) for v in sides]
        return done.z.detach()  # what is returned is held by its node, and so may not be held by what the node keeps

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        _, away, *_ = ctx.saved_tensors
        needed = zip(ctx.like, ctx.needs_input_grad[3:], strict=True)
        lengths = [like[0][1] if like is not None and needs else None for like, needs in needed]
        apply: Any = Pull.apply if torch.is_grad_enabled() else pull  # a graph is made only if one is asked for
        own, *rest = apply(ctx.done, lengths, grads[0])
        own = own if ctx.leak is None else ctx.leak.gradient(grads[0], away, own)
        sides = (v if v is None else v.sum_to_size(like[0]).to(like[1]) for v, like in zip(rest, ctx.like, strict=True))
        return None, None, own, *sides


class Pull(torch.autograd.Function):
    """The transposed derivative; its own derivative is the derivative."""

    @staticmethod
    def forward(ctx: Any, done: Projected, lengths: Sequence[int | None], grad: Tensor) -> Gradients:
        ctx.done = done
        return pull(done, lengths, grad)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, push(ctx.done, grads[0], Sides(*grads[1:]))


def pull(done: Projected, lengths: Sequence[int | None], grad: Tensor) -> Gradients:
    """Gradients with respect to x and to b, b_eq, lower, upper, of each sample; without a length it is not wanted.

    Shape: grad (n, D) → (n, D), (n, length) each.
    """
    out = torch.empty_like(grad, memory_format=torch.contiguous_format)
    sides = [None if v is None else grad.new_zeros((len(grad), v), dtype=torch.float64) for v in lengths]
    wanted = any(v is not None for v in sides)
    grad = grad if grad.is_contiguous() else grad.contiguous()
    for block, problem, active, at_bound, constant in done.active(grad, None if wanted else out):
        places, held = block.places, at_bound != 0
        g = places.read_gradient(grad)
        g = g if constant is None else g.masked_fill(constant, 0.0)
        w = _multipliers(problem, g.masked_fill(held, 0.0), active, at_bound)
        r = g - problem.matrix.transposed_times(w) if problem.matrix.count else g
        places.write_gradient(r.masked_fill(held, 0.0), out)
        if wanted:
            _pull_sides(sides, block, r, w, at_bound)
    return (out, *sides)


def _pull_sides(full: list[Tensor | None], block: Block, r: Tensor, w: Tensor, at_bound: Tensor) -> None:
    """What the wanted ones of b, b_eq, lower, upper get of one kind of block."""
    side_of = block.places.pick(at_bound, -at_bound)  # of the sample's bounds, not of a mirror image's
    for side, rows, part in zip(full[:2], (block.inequalities, block.equalities), block.stated_units(w), strict=True):
        if side is not None:
            side[:, rows] = part
    for bound, sign in ((full[2], -1), (full[3], 1)):
        if bound is not None:
            block.places.write_gradient(torch.where(side_of == sign, r, 0.0), bound)


def push(done: Projected, dx: Tensor, sides: Sides) -> Tensor:
    """The derivative along dx and along changes of b, b_eq, lower, upper. Shape: (n, D) → (n, D)."""
    out, n = torch.empty_like(dx), len(dx)
    for block, problem, active, at_bound, constant in done.active():
        places = block.places
        z = torch.where(at_bound == 0, places.read(dx), 0.0)
        side_of = places.pick(at_bound, -at_bound)
        for bound, sign in ((sides.lower, -1), (sides.upper, 1)):
            if bound is not None:
                z = torch.where(side_of == sign, places.read(bound.expand(n, -1)), z)
        still = z.new_zeros((1, problem.matrix.count))
        w = _multipliers(problem, z, active, at_bound, block.right_hand_sides(sides, n, still))
        moved = z - torch.where(at_bound == 0, problem.matrix.transposed_times(w), 0.0)
        places.write(moved if constant is None else moved.masked_fill(constant, 0.0), out)
    return out


def _multipliers(problem: Problem, z: Tensor, active: Tensor, at_bound: Tensor, c: Tensor | None = None) -> Tensor:
    """w with G_W D G_W^T w = G_W z − c over the active rows, 0 elsewhere."""
    if not problem.matrix.count:
        return z.new_zeros((len(z), 0))
    q = problem.matrix.times(z) if c is None else problem.matrix.times(z) - c
    q = q.masked_fill(active.logical_not(), 0.0)
    return problem.matrix.solve_active(q, active, at_bound)
