"""The set of each sample: its rows, right-hand sides and equalities, and its directions along the equalities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.maps.sample_rows import step_of, times
from rayhull.nn.constants import Constants, Factory
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

LARGE = 1e30  # slack of a bound that is not stated
STILL = 1e-9  # a row whose part along the equalities is a smaller share of it does not move


class Rows(NamedTuple):
    """Rows a, and what they are along the equalities: for all samples, or one more dimension (n, ...) in front."""

    rows: Tensor  # (M, d)
    null: Tensor  # N (d, k), orthonormal
    moving: Tensor  # (M,) whether N changes the row at all
    norms: Tensor  # (M,) |Nᵀa|, 1 for rows that do not move
    unit: Tensor  # (M, k) Nᵀa / |Nᵀa|, 0 for rows that do not move
    step: Tensor | None = None  # of the approach, where it is known beforehand

    @staticmethod
    def of(rows: Tensor, null: Tensor) -> Rows:
        along = rows @ null
        lengths = along.norm(dim=-1)
        moving = lengths > STILL * rows.norm(dim=-1)
        norms = torch.where(moving, lengths, torch.ones_like(lengths))
        unit = torch.where(moving.unsqueeze(-1), along / norms.unsqueeze(-1), torch.zeros_like(along))
        return Rows(rows, null, moving, norms, unit)


class Local(NamedTuple):
    """The set of each sample: a·x <= c for every row and bound, x = x0 + N w."""

    of: Rows
    rhs: Tensor  # (n, M), infinite where a bound is not stated
    origin: Tensor  # (n, d) a point that meets the equalities

    @property
    def rows(self) -> Tensor:
        return self.of.rows

    def slack(self, x: Tensor) -> Tensor:
        """c - a·x, large where a bound is not stated (infinity times a derivative of 0 is NaN). Shape: (n, M)"""
        return (self.rhs - times(self.rows, x)).clamp_max(LARGE)

    def sizes(self, x: Tensor) -> Tensor:
        """|a|·|x| + |c|, what rounding is relative to; no derivative. Shape: (n, d) → (n, M)"""
        rows, rhs = self.rows.detach(), self.rhs.detach()
        return times(rows.abs(), x.detach().abs()) + rhs.abs().nan_to_num(posinf=0.0)


class SampleSets(Constants):
    """What a set states, and the sets that samples make of it. What does not vary is worked out when built.

    Shape: sides of n samples → :class:`Local`
    """

    A: Tensor
    b: Tensor
    b_eq: Tensor
    lower: Tensor
    upper: Tensor
    fixed: Tensor
    null: Tensor
    pinv: Tensor
    rows: Tensor
    norms: Tensor
    unit: Tensor
    step: Tensor
    moves: Tensor
    bounds: Tensor
    stated_equalities: Tensor

    def __init__(self, P: Polyhedron, factory: Factory) -> None:
        super().__init__(factory)
        equal = P.equality_rows.matrix.toarray()
        null = scipy.linalg.null_space(equal) if len(equal) else np.eye(P.dim)
        self.constant("A", P.inequalities.matrix.toarray())
        self.constant("b", P.inequalities.rhs)
        self.constant("b_eq", P.equalities.rhs)
        self.constant("fixed", P.equality_rows.rhs[len(P.layout.equalities) :])
        self.index("stated_equalities", np.asarray(P.layout.equalities))
        self.constant("null", null)
        self.constant("pinv", np.linalg.pinv(equal) if len(equal) else np.zeros((P.dim, 0)))
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)
        self.equalities = len(equal)
        finite = np.isfinite(np.concatenate([P.upper_bounds, P.lower_bounds]))
        self.bounded = bool(finite.any())
        self._take_rows(P, np.flatnonzero(finite), null)

    def _take_rows(self, P: Polyhedron, bounds: np.ndarray, null: np.ndarray) -> None:
        """The stated rows and bounds, with what they are along the equalities."""
        signs = np.where(bounds < P.dim, 1.0, -1.0)
        unit_rows = np.zeros((len(bounds), P.dim))
        unit_rows[np.arange(len(bounds)), bounds % P.dim] = signs
        stated = np.concatenate([P.inequalities.matrix.toarray(), unit_rows])
        made = Rows.of(torch.as_tensor(stated), torch.as_tensor(null))
        self.index("bounds", bounds)
        self.index("moves", made.moving.numpy())
        for name in ("rows", "norms", "unit"):
            self.constant(name, getattr(made, name).numpy())
        self.constant("step", step_of(made.unit).numpy())

    def forward(self, sides: Sides, n: int) -> Local:
        null, origin = self._hull(sides, n)
        b = (self.b if sides.b is None else sides.b).expand(n, -1)
        if sides.A is None and sides.A_eq is None and sides.lower is None and sides.upper is None:
            ends = torch.cat([self.upper, -self.lower])[self.bounds]
            rows = Rows(self.rows, self.null, self.moves, self.norms, self.unit, self.step)
            return Local(rows, torch.cat([b, ends.expand(n, -1)], -1), origin)
        rows_of_sample, rhs = self._with_bounds(self.A if sides.A is None else sides.A, b, sides)
        return Local(Rows.of(rows_of_sample, null), rhs, origin)

    def _with_bounds(self, A: Tensor, b: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """Rows and right-hand sides with every bound below them; infinite ends where none is stated."""
        if not self.bounded and sides.lower is None and sides.upper is None:
            return A, b
        eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(*A.shape[:-2], -1, -1)
        low = (self.lower if sides.lower is None else sides.lower).expand(len(b), -1)
        high = (self.upper if sides.upper is None else sides.upper).expand(len(b), -1)
        return torch.cat([A, eye, -eye], -2), torch.cat([b, high, -low], -1)

    def _hull(self, sides: Sides, n: int) -> tuple[Tensor, Tensor]:
        """N and the equalities' solution of least norm."""
        b_eq = (self.b_eq if sides.b_eq is None else sides.b_eq).expand(n, -1)
        if sides.A_eq is None:
            e = torch.cat([b_eq.index_select(-1, self.stated_equalities), self.fixed.expand(n, -1)], -1)
            return self.null, e @ self.pinv.mT
        E = sides.A_eq
        m, (q, r) = E.shape[-2], torch.linalg.qr(E.detach().mT, mode="complete")  # (n, d, d), (n, d, m)
        y = torch.linalg.solve_triangular(r[..., :m, :].mT, b_eq.unsqueeze(-1), upper=False)
        null, origin = q[..., m:], (q[..., :m] @ y).squeeze(-1)
        return _differentiable(E, b_eq, null, origin) if E.requires_grad else (null, origin)


def _differentiable(E: Tensor, e: Tensor, null: Tensor, origin: Tensor) -> tuple[Tensor, Tensor]:
    """The same values with their derivatives in E: torch has none of a complete QR decomposition.

    N moves by -E⁺ dE N, which keeps it orthonormal to first order: first derivatives are right, second ones are not.
    """
    factor, _ = torch.linalg.cholesky_ex(E @ E.mT)
    moved = null - E.mT @ torch.cholesky_solve(E @ null, factor)
    least = (E.mT @ torch.cholesky_solve(e.unsqueeze(-1), factor)).squeeze(-1)
    return moved + (null - moved).detach(), least + (origin - least).detach()
