"""The order of the rows: with those that share coordinates close together, factors are narrow and steps cheap."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from rayhull.projection.problem import Problem
from rayhull.sets.rows import Array


def narrow_order(problem: Problem) -> Array:
    """Inequalities in Cuthill and McKee's order if that is narrower than the order they are in; then the equalities."""
    m, stated = problem.m, np.arange(len(problem.rhs))
    if problem.is_dense or m < 2:
        return stated
    pattern = abs(problem.rows[:m])
    close = reverse_cuthill_mckee(sp.csr_matrix(pattern @ pattern.T), symmetric_mode=True)
    order = np.concatenate([close, stated[m:]])
    return order if width(problem.rows[order]) < 0.8 * width(problem.rows) else stated


def width(rows: sp.csr_array) -> float:
    """How far back, on average, a row shares a coordinate with one before it."""
    pattern = abs(rows)
    shared = sp.coo_array(pattern @ pattern.T)
    first = np.arange(rows.shape[0])
    np.minimum.at(first, shared.row, shared.col)
    return float((np.arange(rows.shape[0]) - first).mean()) if rows.shape[0] else 0.0
