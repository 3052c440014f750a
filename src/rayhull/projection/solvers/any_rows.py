"""Any rows: active-set methods in compiled code; the batched dual method in torch operations for other devices.

The dual of min ½‖z − y‖² is concave and smooth in the multipliers, with z = clip(y − G^T lam): accelerated gradient
steps with restarts for all samples at once give a first guess, Newton steps on the active rows an answer.

Points far from the set: the same nearest point is that of a point close by, where floats still tell rows apart. For
z = nearest(y) and any t > 0 also z = nearest(z + t (y − z)). A y at 1e8 rounds away what a set of size 1 is about;
z + t (y − z) at 1e3 does not. It tells which rows and bounds are active; the point on that face nearest to y itself
then follows from one small system, solved from a point that lies on the face.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.projection.problem import (
    EMPTY,
    FLOOR,
    SOLVED,
    TOLERANCE,
    Problem,
    Solution,
    Solver,
    certified,
    residual,
    with_long_multipliers,
)
from rayhull.projection.standard_form import StandardForm, regularised_solve

PIVOTS, EXACT_STEPS = 24, 20  # block pivoting gives up after 24 steps, the exact method after 20 (M + d)
TOGETHER = 500_000  # N M d from which the first guess is made for all samples at once, by matrix products
MANY = 80  # dense rows from which a factorisation costs more than twenty further gradient steps
ALONE = 16  # gradient steps for a sample on its own, where they cost more than together
SOME = 10  # rows from which gradient steps give a first guess
WARM, NEWTON, HALVINGS = 40, 60, 25
GOAL = 1e-14
SHARP, SHARPER = 2e-14, 2e-15  # residuals up to this are rounding; the second for points that are FAR
HELD = 32 * 2.0**-52  # of the largest multiplier: what a sum of rows times multipliers may be off
FAR = 1e5  # of y, in sizes of z: there the rounding of y shows in the rows that z meets
NEAREST, NEAR = 0.1, 1e3  # how far the point close by is, in sizes of z: from the end of a path, and elsewhere ...
FARTHER, FARTHEST = 8.0, 1e5  # ... more by round, and the most
ROUNDS, MORE = 6, 20  # in all: for points that are blurred while that gains, and for those that are not certified

Guess = tuple[Tensor | None, Tensor | None]  # active rows, active bounds
NO_GUESS: Guess = (None, None)


# -- active sets -----------------------------------------------------------------------------------------------------


class Compiled(Solver):
    """A kernel that counts the residuals that are more than rounding: such samples are solved again from close by."""

    pulled: operators.Rows | None = None  # the rows as the kernel of the derivative takes them, where it is to serve
    ends_near = False  # whether an answer that is not certified is near the right one all the same

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        solution, blurred = self.by_kernel(problem, guess)
        return (
            refined(problem, solution, lambda other: self.by_kernel(other)[0], self.ends_near) if blurred else solution
        )

    def by_kernel(self, problem: Problem, guess: Tensor | None = None) -> tuple[Solution, int]:
        """The solution, and how many residuals are more than rounding."""
        raise NotImplementedError

    def pull(self, problem: Problem, multipliers: Tensor, g: Tensor, out: Tensor) -> bool:
        if self.pulled is None:
            return False
        at, bounds = in_place(problem, out)[0], (problem.lower, problem.upper)
        operators.active_set_backward(g, at, self.pulled, problem.m, multipliers, bounds)
        return True


class ActiveSet(Compiled):
    """Which rows and bounds are active, guessed and corrected, one sample at a time: exact to rounding."""

    name = "active set"
    may_be_long = True

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        rows = form.matrix
        self.pulled = rows.compiled if rows.intervals is None else None
        self.gradient_steps = 40 if rows.count >= MANY and rows.is_dense else 20
        if rows.count < SOME or rows.intervals is not None:
            self.gradient_steps = 0  # a step of the active set is cheap, and gradients tell little

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled

    def by_kernel(self, problem: Problem, guess: Tensor | None = None) -> tuple[Solution, int]:
        matrix, start, steps = self.form.matrix, started(problem, guess), self.gradient_steps
        if guess is None and steps and problem.size * matrix.count * self.form.d >= TOGETHER:
            start = first_guess(problem, steps)
        steps = 0 if start is not NO_GUESS else min(steps, ALONE)
        step = 1 / matrix.largest_eigenvalue if steps else 0.0
        return in_core(problem, matrix.compiled, start, effort(matrix.count + self.form.d, steps, step, PIVOTS))


class InteriorPoint(Compiled):
    """Sparse rows and bounds, eight samples side by side: an interior point, then Newton steps on what is active."""

    name = "interior point"
    may_be_long = ends_near = True

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled and form.matrix.intervals is not None

    def by_kernel(self, problem: Problem, guess: Tensor | None = None) -> tuple[Solution, int]:
        matrix = self.form.matrix
        assert matrix.intervals is not None
        at, z = in_place(problem)
        found = operators.interior_point(at, matrix.sparsely, problem.m, problem.sides, guess, matrix.intervals)
        return Solution(z, *found[:5]), found[5]


class SampleActiveSet(Compiled):
    """The active-set methods for dense rows of each sample, (N, M, d), on the CPU."""

    name = "active set"
    may_be_long = True

    def by_kernel(self, problem: Problem, guess: Tensor | None = None) -> tuple[Solution, int]:
        own = effort(problem.matrix.count + problem.y.shape[1], ALONE, pivots=PIVOTS)
        return in_core(problem, problem.matrix.compiled, NO_GUESS, own)


def effort(size: int, gradient_steps: int = 0, step: float = 0.0, pivots: int = 0, **other: bool) -> operators.Effort:
    """How long the compiled methods try, for so many rows and coordinates together."""
    return operators.Effort(gradient_steps, step, pivots, EXACT_STEPS * size + 100, **other)


def started(problem: Problem, guess: Tensor | None) -> Guess:
    """What multipliers say is active."""
    return NO_GUESS if guess is None else (problem.active(guess), problem.at_bound(guess))


def in_core(problem: Problem, rows: operators.Rows, guess: Guess, effort: operators.Effort) -> tuple[Solution, int]:
    """The solution by the compiled methods, and how many residuals are more than rounding."""
    at, z = in_place(problem)
    found = operators.active_set(at, rows, problem.m, problem.sides, guess, effort)
    return Solution(z, *found[:5]), found[5]


def in_place(problem: Problem, out: Tensor | None = None) -> tuple[operators.InPlace, Tensor | None]:
    """Where a kernel reads and writes: the samples themselves, or the points, with the tensor that takes the answer."""
    places, out = problem.places, problem.out if out is None else out
    if places is not None and problem.x is not None and out is not None:
        return operators.InPlace(problem.x, places.index, places.scale, out), None
    z = torch.empty_like(problem.y, memory_format=torch.contiguous_format)
    return operators.InPlace(problem.y, torch.arange(z.shape[1], dtype=torch.int32)[None], None, z), z


def first_that_fits(kinds: Sequence[type[Solver]], form: StandardForm) -> Solver:
    """A solver for the form; the dual method, last in every list, fits all."""
    return next(kind for kind in kinds if kind.fits(form))(form)


# -- the dual method -------------------------------------------------------------------------------------------------


class DualNewton(Solver):
    """Accelerated gradient steps on the dual, then Newton steps on its active rows, all samples at once."""

    name = "dual Newton"
    may_be_long = True

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        return refined(problem, dual_solution(problem), dual_solution)


def dual_solution(problem: Problem) -> Solution:
    """The certified solution, not refined where the points are far away."""
    count = max(problem.matrix.count, 1)
    return certified(problem, *problem.in_chunks(_solve_chunk, count * max(count, problem.y.shape[1])))


def _onto_active_rows(problem: Problem, z: Tensor, lam: Tensor) -> Tensor:
    """z moved by what rounding left of its active rows: y − G^T lam is off by the size of y, not of z."""
    if not problem.matrix.count:
        return z
    active = problem.active(lam)
    for _ in range(2):
        free = (z > problem.lower) & (z < problem.upper)
        excess = torch.where(active, problem.matrix.times(z) - problem.c, 0.0)
        w = regularised_solve(problem.matrix.dense(lam), excess, active, free)
        z = problem.clip(z - torch.where(free, problem.matrix.transposed_times(w), 0.0))
    return z


def _solve_chunk(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    lam = _accelerate(problem, problem.y, WARM)
    z = problem.clip(problem.shifted(lam))
    steps = torch.full((len(z),), WARM, device=z.device)
    left, part = torch.arange(len(z), device=z.device), problem
    for _ in range(NEWTON):
        keep = (residual(part, z[left], lam[left]) > GOAL).nonzero()[:, 0]
        left, part = left[keep], part.take(keep)
        if not len(left):
            break
        better, moved = _improve(part, lam[left])
        lam[left], steps[left] = better, steps[left] + 1
        z[left] = part.clip(part.shifted(better))
        moved = moved.nonzero()[:, 0]
        left, part = left[moved], part.take(moved)
    settled = _onto_active_rows(problem, z, lam)
    better = residual(problem, settled, lam) <= residual(problem, z, lam)
    return torch.where(better[:, None], settled, z), lam, steps


def first_guess(problem: Problem, steps: int) -> tuple[Tensor, Tensor]:
    """Active rows and bounds after a few gradient steps in float32: only a start for the exact methods."""
    c, lower, upper = (v.float() for v in problem.sides)
    short = replace(problem.at(problem.y.float()), c=c, lower=lower, upper=upper)
    lam = _accelerate(short, short.y, steps)
    return short.active(lam), short.at_bound(lam)


def _accelerate(problem: Problem, y: Tensor, steps: int) -> Tensor:
    """FISTA on the dual with a restart for each sample whose momentum points uphill."""
    m, step = problem.m, problem.matrix.step(y)
    lam = y.new_zeros((len(y), problem.matrix.count))
    point, t = lam, y.new_ones((len(y), 1))
    for _ in range(steps):
        new = point + step * (problem.matrix.times(problem.clip(problem.shifted(point))) - problem.c)
        new[:, :m] = new[:, :m].clamp_min(0)
        move = new - lam
        uphill = ((point - new) * move).sum(1, keepdim=True) > 0
        t = torch.where(uphill, 1.0, t)
        t_next = (1 + torch.sqrt(1 + 4 * t * t)) / 2
        point = new + torch.where(uphill, 0.0, (t - 1) / t_next) * move
        lam, t = new, t_next
    return lam


def _improve(problem: Problem, lam: Tensor) -> tuple[Tensor, Tensor]:
    """One Newton step on the active rows, shortened until the dual does not fall; and which samples moved."""
    m = problem.m
    value, z, excess = _dual_value(problem, lam)
    free = (z > problem.lower) & (z < problem.upper)
    active = (lam > 0) | (excess > 0)
    active[:, m:] = True
    newton = regularised_solve(problem.matrix.dense(lam), torch.where(active, excess, 0.0), active, free)
    step = torch.where(active, newton, -lam)
    best, moved = lam.clone(), torch.zeros(len(z), dtype=torch.bool, device=z.device)
    before, length = residual(problem, z, lam), 1.0
    for _ in range(HALVINGS):
        new = lam + length * step
        new[:, :m] = new[:, :m].clamp_min(0)
        new_value, new_z, _ = _dual_value(problem, new)
        better = (new_value > value) | (residual(problem, new_z, new) < 0.5 * before)
        best = torch.where((better & ~moved)[:, None], new, best)
        moved = moved | better
        if bool(moved.all()):
            break
        length *= 0.5
    return best, moved


def _dual_value(problem: Problem, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    z = problem.clip(problem.shifted(lam))
    excess = problem.matrix.times(z) - problem.c
    return 0.5 * ((z - problem.y) ** 2).sum(1) + (lam * excess).sum(1), z, excess


# An interior point where rows are so sparse that a factor takes less than a fifth of a dense one's products
# (Matrix.intervals), an active set where they are not, the dual method where nothing is compiled and on other devices.
GENERIC: tuple[type[Solver], ...] = (InteriorPoint, ActiveSet, DualNewton)


# -- points far from the set -----------------------------------------------------------------------------------------


def refined(
    problem: Problem, solution: Solution, solve: Callable[[Problem], Solution], ends_near: bool = False
) -> Solution:
    """The solution with its blurred samples solved again from close by, where that is better.

    Where an answer that is not certified is near the right one (``ends_near``), very close by: few rows change there.
    """
    solution.read_from(problem)
    _take_long_multipliers(problem, solution)
    blurred = _blurred(problem, solution)
    if not len(blurred):
        return solution
    part = problem.take(blurred)
    assert solution.z is not None
    ends = (solution.residual[blurred] > TOLERANCE) & ends_near
    z = solution.z[blurred]
    if not bool(ends.all()):
        z[~ends] = _start(part.take((~ends).nonzero()[:, 0]), solve)
    near = torch.where(ends, NEAREST, NEAR).to(z)[:, None]
    for turn in range(MORE):
        before, (close, t) = solution.residual[blurred], _close_by(part, z, near)
        inner = solve(close)
        if inner.z is None:
            break
        _take_long_multipliers(close, inner)
        own = part.clip(inner.z), inner.multipliers / t  # at a degenerate vertex, whose face has many multipliers
        for found, multipliers in (_on_face(part, inner, close.at_bound(inner.multipliers)), own):
            _take_better(part, solution, blurred, found, multipliers, inner.steps)
        _take_long_multipliers(problem, solution)
        now, failed = solution.residual[blurred], inner.residual[:, None] > TOLERANCE
        gains = (now > SHARPER) & (now < before / 2) & (turn < ROUNDS - 1)
        ended = (failed & (t >= 1))[:, 0]  # at y itself: the same would be found again
        left = (gains | ((now > TOLERANCE) & ~ended)).nonzero()[:, 0]
        if not len(left):
            break
        z = torch.where(failed, z, inner.z)
        beyond = failed & (near > NEAR)  # too far for floats; less far still leads on from a z that has moved
        near = torch.where(failed | (turn >= ROUNDS - 1), (FARTHER * near).clamp_max(FARTHEST), near)
        near = torch.where(beyond, near / FARTHER**2, near)
        blurred, part, z, near = blurred[left], part.take(left), z[left], near[left]
    _move_onto(problem, solution, solve)
    return solution


def _move_onto(problem: Problem, solution: Solution, solve: Callable[[Problem], Solution]) -> None:
    """Move certified points that are beside the set by the rounding of y onto it."""
    blurred = _blurred(problem, solution)
    blurred = blurred[solution.residual[blurred] <= TOLERANCE]
    if len(blurred) and solution.z is not None:
        part = problem.take(blurred)
        inner = solve(part.at(solution.z[blurred]))
        if inner.z is not None:
            _take_better(part, solution, blurred, inner.z, solution.multipliers[blurred], inner.steps)


def _take_long_multipliers(problem: Problem, solution: Solution) -> None:
    """Certify points with multipliers so large that their rounding alone hides that these are the nearest ones."""
    assert solution.z is not None
    large = solution.multipliers.abs().amax(1) * HELD > TOLERANCE * solution.z.abs().amax(1)
    open_ = (~(solution.residual <= TOLERANCE) & large).nonzero()[:, 0]
    if len(open_):
        part, z = problem.take(open_), solution.z[open_]
        multipliers, error = with_long_multipliers(part, z, solution.multipliers[open_])
        _take(solution, open_, Solution(z, multipliers, error, solution.steps[open_], solution.status[open_]))


def _take_better(
    part: Problem, solution: Solution, samples: Tensor, z: Tensor, multipliers: Tensor, steps: Tensor
) -> None:
    """Take other points of these samples where their residual is smaller."""
    error = residual(part, z, multipliers)
    _take(solution, samples, Solution(z, multipliers, error, solution.steps[samples] + steps, solution.status[samples]))


def _take(solution: Solution, samples: Tensor, other: Solution) -> None:
    """Take over what has a smaller residual: a point that is certified is an answer, whatever its search ended with."""
    better = other.residual < solution.residual[samples]
    other.status = torch.where(other.residual <= TOLERANCE, SOLVED, other.status)
    solution.replace(samples[better], other, better)


def _blurred(problem: Problem, solution: Solution) -> Tensor:
    """Samples whose residual is more than rounding; a claim that the set is empty counts where it may be.

    Multipliers much larger than y leave a residual that no other point or multipliers would make less.
    """
    assert solution.z is not None
    far = problem.y.abs().amax(1) > FAR * solution.z.abs().amax(1)
    sharp = torch.where(far, SHARPER, SHARP)
    if problem.x is not None and problem.x.dtype == torch.float32:  # its points are rounded to less than that
        sharp = torch.full_like(solution.residual, TOLERANCE)
    blurred = ~(solution.residual <= sharp) & ((solution.status != EMPTY) | (not problem.may_be_empty))
    found = blurred.nonzero()[:, 0]
    rest = residual(problem.take(found), solution.z[found], solution.multipliers[found], held=HELD)
    return found[(rest > sharp[found]) | ~(solution.residual[found] <= TOLERANCE)]


def _start(problem: Problem, solve: Callable[[Problem], Solution]) -> Tensor:
    """The nearest point to y scaled down to a thousand times the numbers of the sides: a point on a face near by."""
    sides = [torch.where(v.isfinite(), v.abs(), 0.0) for v in problem.sides]
    size = torch.stack([v.amax(1).expand(len(problem.y)) if v.shape[1] else v.new_zeros(len(problem.y)) for v in sides])
    reach = problem.y.abs().amax(1)
    scale = torch.where(size.amax(0) > 0, NEAR * size.amax(0) / reach.clamp_min(FLOOR), 1.0).clamp_max(1.0)
    y = problem.y * scale[:, None]
    z = solve(problem.at(y)).z
    assert z is not None
    return torch.nan_to_num(z)


def _close_by(problem: Problem, z: Tensor, near: Tensor) -> tuple[Problem, Tensor]:
    """The problem of z + t (y − z), so many sizes of z away, and t. Shape: (N, 1)."""
    away = problem.y - z
    size = z.abs().amax(1, keepdim=True)
    size = torch.where(size > 0, size, problem.y.abs().amax(1, keepdim=True))
    t = (near * size / away.abs().amax(1, keepdim=True).clamp_min(FLOOR)).clamp_max(1.0)
    y = z + t * away
    return problem.at(y), t


def _on_face(problem: Problem, inner: Solution, at_bound: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest point of the face that ``inner`` is on, and its multipliers."""
    assert inner.z is not None
    start, free = problem.clip(inner.z), at_bound == 0
    active = problem.active(inner.multipliers)
    matrix, total = problem.matrix, torch.zeros_like(inner.multipliers)
    move = torch.where(free, problem.y - start, 0.0)
    if matrix.count:
        for _ in range(6):  # the first takes away all that leaves the face, the others its rounding
            q = torch.where(active, matrix.times(move), 0.0)
            w = matrix.solve_active(q, active, at_bound)
            move = move - torch.where(free, matrix.transposed_times(w), 0.0)
            total = total + w
        excess = torch.where(active, matrix.times(start) - problem.c, 0.0)
        w = matrix.solve_active(excess, active, at_bound)
        start = start - torch.where(free, matrix.transposed_times(w), 0.0)
    return problem.clip(start + move), total
