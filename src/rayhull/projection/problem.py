"""What a solver is given and what it returns: ``Problem`` and ``Solution``, for N blocks of one kind at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from rayhull.projection.matrix import LinearMap


@dataclass(frozen=True, eq=False)
class InPlace:
    """Where the blocks stand among all coordinates, for a solver that reads and writes there without copies."""

    x: Tensor  # (n, D) points as they came
    index: Tensor  # (count, d) the coordinates of each block
    out: Tensor  # (n, D) nearest points


@dataclass(frozen=True, eq=False)
class Problem:
    """min ½‖z − y‖² subject to G z <= c for the first ``m`` rows, = c for the others, lower <= z <= upper.

    All numbers are float64 on the device of the points; c and the bounds have one row for all samples, or one for each.
    """

    points: Callable[[], Tensor]  # y (N, d); made when asked for
    matrix: LinearMap  # G: (M, d), or (N, M, d)
    m: int
    c: Tensor  # (1 or N, M)
    lower: Tensor  # (1 or N, d)
    upper: Tensor  # (1 or N, d)
    may_be_empty: bool = False  # sides or rows came with the call, so they may contradict each other
    in_place: InPlace | None = None

    @property
    def sides(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.c, self.lower, self.upper

    @cached_property
    def y(self) -> Tensor:
        return self.points()

    def shifted(self, multipliers: Tensor) -> Tensor:
        """v = y − G^T multipliers; the nearest point is v clipped to the bounds. Shape: (N, d)."""
        return self.y - self.matrix.transposed_times(multipliers) if self.matrix.count else self.y

    def active(self, multipliers: Tensor) -> Tensor:
        """Rows that carry a multiplier, and every equality: what is only touched is not active. Shape: (N, M)."""
        active = multipliers > 0
        active[:, self.m :] = True
        return active

    def at_bound(self, multipliers: Tensor) -> Tensor:
        """+1 where the upper bound carries a multiplier, -1 where the lower one does, else 0. Shape: (N, d) int8."""
        v = self.shifted(multipliers)
        return (v > self.upper).to(torch.int8) - (v < self.lower).to(torch.int8)

    def clip(self, v: Tensor) -> Tensor:
        return torch.clamp(v, self.lower, self.upper)

    def take(self, samples: Tensor) -> Problem:
        """The problem of some of the samples."""
        y = self.y[samples]
        c, lower, upper = (v if len(v) == 1 else v[samples] for v in (self.c, self.lower, self.upper))
        matrix = self.matrix.take(samples)
        return replace(self, points=lambda: y, matrix=matrix, c=c, lower=lower, upper=upper, in_place=None)

    def without_bounds(self) -> Problem:
        lower, upper = (torch.full_like(v, sign * torch.inf) for v, sign in ((self.lower, -1), (self.upper, 1)))
        return replace(self, lower=lower, upper=upper)


@dataclass(eq=False)
class Solution:
    """Nearest points of N blocks; what is active follows from the multipliers (``Problem.active``, ``at_bound``).

    ``z`` is None where the solver wrote the points to their places itself. ``residual`` is the KKT residual, see
    :func:`rayhull.projection.certificate.residual`.
    """

    z: Tensor | None  # (N, d)
    multipliers: Tensor  # (N, M)
    residual: Tensor  # (N,)
    steps: Tensor  # (N,)
    status: Tensor  # (N,): SOLVED, UNSOLVED or EMPTY

    @property
    def solved(self) -> bool:
        """Whether every block is."""
        return not bool(self.status.any())

    def replace(self, where: Tensor, other: Solution, which: Tensor) -> None:
        """Take over the samples ``which`` of another solution."""
        for name in ("z", "multipliers", "residual", "steps", "status"):
            getattr(self, name)[where] = getattr(other, name)[which]
