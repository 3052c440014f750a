"""The set of each sample: its rows, right-hand sides and equalities, and its directions along the equalities."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.maps.sample_rows import LARGE, combined, finite_size, step_of, times
from rayhull.nn.constants import Constants, Factory
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STILL = 1e-9  # a row whose part along the equalities is a smaller share of it does not move


class Rows(NamedTuple):
    """Rows a, and what they are along the equalities: for all samples, or one more dimension (n, ...) in front."""

    rows: Tensor  # (M, d)
    null: Tensor | None  # N (d, k), orthonormal; None without equalities: the identity
    along: Tensor  # (M, k) Nᵀa
    lengths: Tensor  # (M,) |Nᵀa|
    moving: Tensor | None  # (M,) whether N changes the row at all; None: every row moves
    unit: Tensor | None = None  # (M, k) Nᵀa / |Nᵀa|, where it is known beforehand, and
    step: Tensor | None = None  # the step of the approach

    @staticmethod
    def of(rows: Tensor, null: Tensor | None) -> Rows:
        along = rows if null is None else rows @ null
        lengths = along.norm(dim=-1)
        return Rows(
            rows, null, along, lengths, lengths > STILL * rows.norm(dim=-1) if null is not None else lengths > 0
        )

    def norms(self) -> Tensor:
        """The lengths, 1 for rows that do not move. Shape: (M,)"""
        return self.lengths if self.moving is None else torch.where(self.moving, self.lengths, 1.0)

    def units(self) -> Tensor:
        """Rows of unit length, 0 for those that do not move. Shape: (M, k)"""
        if self.unit is not None:
            return self.unit
        unit = self.along / self.norms().unsqueeze(-1)
        return unit if self.moving is None else torch.where(self.moving.unsqueeze(-1), unit, 0.0)

    def moved(self, value: Tensor, still: float) -> Tensor:
        """The value of each row, and ``still`` for rows that do not move. Shape: (n, M)"""
        return value if self.moving is None else torch.where(self.moving, value, still)

    def into(self, x: Tensor) -> Tensor:
        """Nᵀx. Shape: (n, d) → (n, k)"""
        return x if self.null is None else combined(self.null, x)

    def out_of(self, w: Tensor) -> Tensor:
        """N w. Shape: (n, k) → (n, d)"""
        return w if self.null is None else times(self.null, w)


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
        return times(rows.abs(), x.detach().abs()) + finite_size(rhs)


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
    along: Tensor
    lengths: Tensor
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
        assert made.moving is not None
        self.all_move = bool(made.moving.all())
        self.index("bounds", bounds)
        self.index("moves", made.moving.numpy())
        for name, value in {"rows": made.rows, "along": made.along, "lengths": made.lengths}.items():
            self.constant(name, value.numpy())
        self.constant("unit", made.units().numpy())
        self.constant("step", step_of(made.units()).numpy())

    def forward(self, sides: Sides, n: int) -> Local:
        null, origin = self._hull(sides, n)
        b = (self.b if sides.b is None else sides.b).expand(n, -1)
        if sides.A is None and sides.A_eq is None and sides.lower is None and sides.upper is None:
            return Local(self._stated(null), self._with_stated_bounds(b), origin)
        rows_of_sample, rhs = self._with_bounds(self.A if sides.A is None else sides.A, b, sides)
        return Local(Rows.of(rows_of_sample, null), rhs, origin)

    def _stated(self, null: Tensor | None) -> Rows:
        moving = None if self.all_move else self.moves
        return Rows(self.rows, null, self.along, self.lengths, moving, self.unit, self.step)

    def _with_stated_bounds(self, b: Tensor) -> Tensor:
        if not self.bounded:
            return b
        ends = torch.cat([self.upper, -self.lower])[self.bounds]
        return torch.cat([b, ends.expand(b.shape[0], -1)], -1)

    def _with_bounds(self, A: Tensor, b: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """Rows and right-hand sides with every bound below them; infinite ends where none is stated."""
        if not self.bounded and sides.lower is None and sides.upper is None:
            return A, b
        eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(*A.shape[:-2], -1, -1)
        low = (self.lower if sides.lower is None else sides.lower).expand(b.shape[0], -1)
        high = (self.upper if sides.upper is None else sides.upper).expand(b.shape[0], -1)
        return torch.cat([A, eye, -eye], -2), torch.cat([b, high, -low], -1)

    def _hull(self, sides: Sides, n: int) -> tuple[Tensor | None, Tensor]:
        """N and the equalities' solution of least norm."""
        if not self.equalities and sides.A_eq is None:
            return None, self.lower.new_zeros(n, len(self.lower))
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
    """The same values with their derivatives in E, of any order: torch has none of a complete QR decomposition.

    (I - E⁺E) N spans the null space of every E nearby, and its Cholesky factor makes it orthonormal. Which basis it is
    does not matter: points depend on N Nᵀ alone.
    """
    factor, _ = torch.linalg.cholesky_ex(E @ E.mT)
    moved = null - E.mT @ torch.cholesky_solve(E @ null, factor)
    length, _ = torch.linalg.cholesky_ex(moved.mT @ moved)
    moved = torch.linalg.solve_triangular(length, moved.mT, upper=False).mT
    least = (E.mT @ torch.cholesky_solve(e.unsqueeze(-1), factor)).squeeze(-1)
    return moved + (null - moved).detach(), least + (origin - least).detach()
