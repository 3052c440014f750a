"""What a solver is given and what it returns: ``Problem`` and ``Solution``; and ``Solver``, the one interface of all.

The certificate checks any answer: the KKT residual, and the proof that there is no point at all. A problem is that of
N = n · count blocks of one kind at once: ``count`` blocks in each of n samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.projection.standard_form import Matrix, StandardForm
from rayhull.sets.linear_programs import deepest

if TYPE_CHECKING:
    from rayhull.projection.plan import Places

SOLVED, UNSOLVED, EMPTY = 0, 1, 2  # status of a sample
TOLERANCE = 1e-10  # a residual up to this is an answer; most are near 1e-15
ROUNDING = 256 * 2.0**-52  # what a sum of a point and multiples of rows may be off, relative to the point
LONG_STEPS = 4  # Newton steps towards multipliers in longer floats
CHUNK = 50_000_000  # numbers that the samples of one batch take together
FLOOR = 1e-280  # instead of 0 in a denominator; times ROUNDING it is still a normal number


# -- what is given and what comes out --------------------------------------------------------------------------------


@dataclass(eq=False)
class Problem:
    """min ½‖z − y‖² subject to G z <= c for the first ``m`` rows, = c for the others, lower <= z <= upper.

    All numbers are float64 on the device of the points; c and the bounds have one row for all samples, or one for each.
    """

    matrix: Matrix  # G: (M, d), or (N, M, d)
    m: int
    c: Tensor  # (1 or N, M)
    lower: Tensor  # (1 or N, d)
    upper: Tensor  # (1 or N, d)
    points: Tensor | None = None  # y (N, d), or None: in their places in x
    places: Places | None = None
    x: Tensor | None = None  # (n, D) samples as they came
    out: Tensor | None = None  # (n, D) where a solver may write its points itself
    may_be_empty: bool = False  # sides or rows came with the call, so they may contradict each other

    @property
    def sides(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.c, self.lower, self.upper

    @property
    def size(self) -> int:
        """N, the number of blocks."""
        return len(self.y) if self.x is None or self.places is None else len(self.x) * self.places.count

    @cached_property
    def y(self) -> Tensor:
        if self.points is not None:
            return self.points
        assert self.places is not None
        assert self.x is not None
        return self.places.read(self.x)

    def shifted(self, multipliers: Tensor) -> Tensor:
        """v = y − G^T multipliers; the nearest point is v clipped to the bounds. Shape: (N, d)."""
        return self.y - self.matrix.transposed_times(multipliers) if self.matrix.count else self.y

    def active(self, multipliers: Tensor) -> Tensor:
        """Rows that carry a multiplier, and every equality: what is only touched is not active. Shape: (N, M)."""
        active = multipliers > 0
        if self.m < active.shape[1]:
            active[:, self.m :].fill_(True)
        return active

    def at_bound(self, multipliers: Tensor) -> Tensor:
        """+1 where the upper bound carries a multiplier, -1 where the lower one does, else 0. Shape: (N, d) int8."""
        v = self.shifted(multipliers)
        return (v > self.upper).to(torch.int8) - (v < self.lower).to(torch.int8)

    def clip(self, v: Tensor) -> Tensor:
        return torch.clamp(v, self.lower, self.upper)

    def at(self, y: Tensor) -> Problem:
        """The problem of other points (N, d)."""
        return replace(self, points=y, places=None, x=None, out=None)

    @property
    def brings_bounds(self) -> bool:
        """Whether the call brought bounds, of a set that has none."""
        return self.may_be_empty and bool(self.lower.isfinite().any() | self.upper.isfinite().any())

    def take(self, samples: Tensor) -> Problem:
        """The problem of some of the samples."""
        c, lower, upper = (v if len(v) == 1 else v[samples] for v in self.sides)
        some = self.at(self.y[samples])
        return replace(some, matrix=self.matrix.take(samples), c=c, lower=lower, upper=upper)

    def in_chunks(self, solve: Callable[[Problem], tuple[Tensor, ...]], size: int) -> Iterator[Any]:
        """What a function of a problem finds, samples in chunks that fit in memory: each takes so many numbers."""
        chunks = torch.split(torch.arange(len(self.y), device=self.y.device), max(1, CHUNK // size))
        parts = [solve(self.take(chunk) if len(chunks) > 1 else self) for chunk in chunks]
        return map(torch.cat, zip(*parts, strict=True))


@dataclass(eq=False)
class Solution:
    """Nearest points of N blocks; what is active follows from the multipliers (``Problem.active``, ``at_bound``).

    ``z`` is None where the solver wrote the points to their places itself. ``residual`` is the KKT residual, see
    :func:`rayhull.projection.problem.residual`.
    """

    z: Tensor | None  # (N, d)
    multipliers: Tensor  # (N, M)
    residual: Tensor  # (N,)
    steps: Tensor  # (N,)
    status: Tensor  # (N,): SOLVED, UNSOLVED or EMPTY
    open: int | None = None  # how many are not SOLVED, where the solver counted

    @property
    def solved(self) -> bool:
        """Whether every block is."""
        return not bool(self.status.any()) if self.open is None else self.open == 0

    def read_from(self, problem: Problem) -> None:
        """Have ``z`` at hand where the solver wrote the points to their places."""
        if self.z is None:
            assert problem.places is not None
            assert problem.out is not None
            self.z = problem.places.read(problem.out)

    def replace(self, where: Tensor, other: Solution, which: Tensor) -> None:
        """Take over the samples ``which`` of another solution."""
        for name in ("z", "multipliers", "residual", "steps", "status"):
            getattr(self, name)[where] = getattr(other, name)[which]
        self.open = None


class Solver:
    """Nearest points for one kind of block. A new solver is a class with these two methods and a line in ``plan``."""

    name: ClassVar[str] = ""
    structure: ClassVar[str | None] = None  # what makes the nearest point of its blocks cheap
    may_be_long: ClassVar[bool] = False  # seconds for a sample with many rows

    def __init__(self, form: StandardForm | None = None) -> None:
        if form is not None:  # a method for any rows needs no more than its problem
            self.form = form

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        """Whether this solver serves blocks of this form; asked once, when the plan is made."""
        return True

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        """Nearest points, each with its residual; ``guess``: multipliers to start from, (N, M)."""
        raise NotImplementedError

    def pull(self, problem: Problem, multipliers: Tensor, g: Tensor, out: Tensor) -> bool:
        """Write the gradient by x for the gradient g by z to ``out`` (n, D); False where there is no kernel for it."""
        return False


# -- the certificate -------------------------------------------------------------------------------------------------


def residual(problem: Problem, z: Tensor, multipliers: Tensor, held: float = 0.0, aim: Tensor | None = None) -> Tensor:
    """How far z with these multipliers is from the optimality conditions: the largest of four relative errors.

    Rows and bounds hold; rows with a multiplier are met; multipliers of inequalities are >= 0;
    z = clip(y − G^T multipliers), up to rounding; ``held``: a share of the largest multiplier that counts as such, too;
    ``aim``: clip(y − G^T multipliers) where it is known to more digits.
    Shape: (N,).
    """
    m, y = problem.m, problem.y
    size = z.abs().amax(1, keepdim=True)
    reach = y.abs().amax(1, keepdim=True) + size + FLOOR
    aim = problem.clip(problem.shifted(multipliers)) if aim is None else aim
    rounding = ROUNDING * reach  # of y - G^T lam; what is off beyond it counts against the size of z, not of y
    if held and multipliers.shape[1]:
        rounding = rounding + held * multipliers.abs().amax(1, keepdim=True)
    worst = (((z - aim).abs() - rounding).clamp_min(0) / (size + rounding)).amax(1)
    if multipliers.shape[1]:
        excess = problem.matrix.times(z) - problem.c
        met = (multipliers > 0) | (torch.arange(multipliers.shape[1], device=z.device) >= m)
        terms = torch.maximum(size, problem.c.abs()).clamp_min(FLOOR)
        worst = torch.maximum(worst, (torch.where(met, excess.abs(), excess.clamp_min(0)) / terms).amax(1))
    if m:
        worst = torch.maximum(worst, (-multipliers[:, :m] / reach).amax(1))
    return torch.where(worst.isnan(), torch.inf, worst)  # NaN is no certificate


def with_long_multipliers(problem: Problem, z: Tensor, multipliers: Tensor) -> tuple[Tensor, Tensor]:
    """Multipliers that are right to more digits than float64 has, rounded to float64, and the residual of z with them.

    Multipliers of 1e9 have steps of 1e-7, so no sum of them shows that a point of size 1 is the nearest. Their longer
    forms differ by the solution of G_W D G_W^T w = G_W D (v − z), as Newton steps find it. Shape: (N, M), (N,).
    """
    long = np.longdouble
    y, lower, upper, total = (v.cpu().numpy().astype(long) for v in (problem.y, *problem.sides[1:], multipliers))
    active, free = problem.active(multipliers), (z > problem.lower) & (z < problem.upper)
    for step in range(LONG_STEPS + 1):
        v = y - problem.matrix.long_transposed_times(total)
        aim = torch.from_numpy(np.clip(v, lower, upper).astype(float)).to(z)
        if step < LONG_STEPS:
            q = problem.matrix.times(
                torch.where(free, torch.from_numpy((v - z.cpu().numpy()).astype(float)).to(z), 0.0)
            )
            w = problem.matrix.solve_active(torch.where(active, q, 0.0), active, (~free).to(torch.int8))
            total = total + w.cpu().numpy()
    rounded = torch.from_numpy(total.astype(float)).to(z)
    return rounded, residual(problem, z, rounded, aim=aim)


def certified(problem: Problem, z: Tensor, multipliers: Tensor, steps: Tensor | int = 1) -> Solution:
    """The solution with its residual and status."""
    error = residual(problem, z, multipliers)
    if bool((error > TOLERANCE).any()):
        z, error = _at_apex(problem, z, multipliers, error)
    counted = steps if isinstance(steps, Tensor) else torch.full((len(z),), steps, device=z.device)
    solution = Solution(z, multipliers, error, counted, torch.where(error <= TOLERANCE, SOLVED, UNSOLVED))
    mark_crossed(problem, solution)
    return solution


def mark_crossed(problem: Problem, solution: Solution) -> None:
    """EMPTY for the samples whose lower bound is above their upper bound."""
    if problem.may_be_empty:
        solution.status[(problem.lower > problem.upper).any(1).expand(len(solution.status))] = EMPTY


def _at_apex(problem: Problem, z: Tensor, multipliers: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """0 in place of an uncertified point that is next to nothing against y, where 0 is certified."""
    small = (error > TOLERANCE) & (z.abs().amax(1) <= 1e-12 * problem.y.abs().amax(1))
    apex = problem.clip(torch.zeros_like(z))
    better = residual(problem, apex, multipliers)
    snap = small & (better < error)
    return torch.where(snap[:, None], apex, z), torch.where(snap, better, error)


def unproven_empty(problem: Problem, solution: Solution, status: int = EMPTY) -> Tensor:
    """Samples with this status whose sets may have points: a set itself always has, the rest a linear program decides.

    The program runs on the host; only samples that a solver found empty, or could not solve, come here.
    """
    claimed = (solution.status == status).nonzero()[:, 0]
    if not problem.may_be_empty:
        return claimed
    doubtful = [not is_empty(problem, int(n)) for n in claimed]
    return claimed[torch.tensor(doubtful, dtype=torch.bool, device=claimed.device)]


def is_empty(problem: Problem, sample: int) -> bool:
    """Whether the least possible violation of the sample's unit rows is more than rounding."""
    c, lower, upper = (v[sample if len(v) > 1 else 0].cpu().numpy() for v in problem.sides)
    if (lower > upper).any():
        return True
    G, eye = problem.matrix.by_entries(sample), sp.eye_array(len(lower), format="csr")
    rows, rhs = sp.vstack([G, -G[problem.m :], eye, -eye]), np.concatenate([c, -c[problem.m :], upper, -lower])
    some = rhs < np.inf
    found = deepest(sp.csr_array(rows)[some], rhs[some], sp.csr_array((0, len(lower))), np.zeros(0))
    return found is not None and found.depth < -1e-9 * (1e-3 + float(np.abs(found.point).max()))
