"""One kind of block in standard form: unit rows G z <= c (the last ones =), bounds, and the metric made Euclidean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


@dataclass(frozen=True, eq=False)
class Problem:
    """min ½‖z − y‖² subject to G z <= c for the first ``m`` rows, = c for the others, lower <= z <= upper.

    Weights w are absorbed: z = √w x. Each row is scaled to unit length, so that a violation is a distance.
    """

    rows: sp.csr_array  # (M, d), unit length
    m: int  # inequalities come first
    rhs: Array  # (M,)
    lower: Array  # (d,)
    upper: Array  # (d,)
    norms: Array  # (M,): stated row = norms * unit row, in scaled coordinates
    root: Array | None  # (d,): √w, or None for the plain metric

    @staticmethod
    def of(P: Polyhedron, weights: Array | None = None) -> Problem:
        root = None if weights is None or (weights == 1).all() else np.sqrt(weights)
        parts = P.inequalities.without_zeros(), P.equalities.without_zeros()
        stated = sp.csr_array(sp.vstack([part.matrix for part in parts], format="csr"))
        if root is not None:
            stated = sp.csr_array(stated @ sp.diags_array(1 / root))
        norms = np.sqrt(np.asarray(stated.multiply(stated).sum(1)).ravel())
        unit = sp.csr_array(sp.diags_array(1 / norms) @ stated) if len(norms) else stated
        unit.sort_indices()
        scale = 1.0 if root is None else root
        rhs = np.concatenate([part.rhs for part in parts]) / norms
        return Problem(unit, len(parts[0]), rhs, P.lower_bounds * scale, P.upper_bounds * scale, norms, root)

    @property
    def d(self) -> int:
        return len(self.lower)

    @cached_property
    def bounded(self) -> bool:
        """Whether some coordinate has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @cached_property
    def dense(self) -> Array:
        """G (M, d)."""
        return np.ascontiguousarray(self.rows.toarray())

    @cached_property
    def lengths(self) -> Array:
        """‖row‖₁ (M,)."""
        return np.asarray(abs(self.rows).sum(1)).ravel()

    @cached_property
    def is_dense(self) -> bool:
        return bool(self.rows.nnz > 0.25 * self.rows.shape[0] * self.rows.shape[1])

    def in_order(self, order: Array) -> Problem:
        """The same with its rows in another order."""
        return replace(self, rows=sp.csr_array(self.rows[order]), rhs=self.rhs[order], norms=self.norms[order])


@dataclass(frozen=True, eq=False)
class Rhs:
    """Right-hand sides and bounds of one call in standard form, float64: one row for all samples, or one for each."""

    c: Tensor  # (1 or N, M)
    lower: Tensor  # (1 or N, d)
    upper: Tensor  # (1 or N, d)

    @staticmethod
    def of(problem: Problem, device: torch.device | str = "cpu") -> Rhs:
        parts = (problem.rhs, problem.lower, problem.upper)
        return Rhs(*(torch.as_tensor(v, dtype=torch.float64, device=device)[None] for v in parts))

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array]:
        """The same for the compiled kernels."""
        c, lower, upper = (np.ascontiguousarray(v.cpu().numpy()) for v in (self.c, self.lower, self.upper))
        return c, lower, upper

    @cached_property
    def unbounded(self) -> bool:
        """Whether there is no finite bound."""
        return bool(np.isinf(self.arrays[1]).all() and np.isinf(self.arrays[2]).all())

    def take(self, samples: Tensor) -> Rhs:
        return Rhs(*(v if len(v) == 1 else v[samples] for v in (self.c, self.lower, self.upper)))


@dataclass(eq=False)
class Found:
    """Nearest points of N blocks, with what is needed to judge, differentiate and warm-start them.

    ``active`` (N, M): rows that push (positive multiplier) and all equalities. ``state`` (N, d): -1 or +1 where a
    bound pushes, else 0. ``residual`` (N,): how far the optimality conditions are from holding, relative to the
    numbers involved. ``status`` (N,): see below.
    """

    z: Tensor
    active: Tensor
    state: Tensor
    residual: Tensor
    steps: Tensor
    status: Tensor

    @property
    def solved(self) -> bool:
        """Whether every block is."""
        return not bool(self.status.any())


SOLVED, UNSOLVED, EMPTY = 0, 1, 2
ROUNDING = 256 * 2.0**-52  # what a sum of a point and multiples of rows may be off, relative to the point
ACCEPT = 1e-10  # a residual up to this is an answer; most are near 1e-15


def rows_tensor(problem: Problem, like: Tensor) -> Any:
    """G as a tensor on the device of ``like``: (M, d) float64."""
    return torch.as_tensor(problem.dense, dtype=torch.float64, device=like.device)
