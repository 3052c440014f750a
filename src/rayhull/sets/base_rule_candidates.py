"""Candidates for a base rule: in closed form, smallest first; the smallest with a margin, by linear programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.base_rule import Family

DAMPINGS = np.logspace(1, -11, 25)  # of the least squares, in units of the largest squared singular value


def in_closed_form(family: Family) -> Iterator[tuple[Array, Array]]:
    """The movement of least norm, then others that change the rows less and less, at the price of their size.

    M = M0 + N Z for the Z with the least Σ_i |(B_i - a_i M) / σ_i|² + damping |Z|², σ the slack in the middle.
    """
    moved, point = family.least_norm
    yield moved, point
    slack = family.slack_in_the_middle(point)[family.moving, None]
    if not len(slack) or not (slack > 0).all():
        return
    change = (family.B * family.half - family.P.rows.matrix @ moved)[family.moving] / slack
    U, s, V = np.linalg.svd(family.across[family.moving] / slack, full_matrices=False)
    for damping in DAMPINGS * s[0] ** 2:
        Z = V.T @ ((s / (s**2 + damping))[:, None] * (U.T @ change))
        yield moved + family.null @ Z, point


class RuleProgram:
    """Linear programs over movements Z and shifts w in the null space: x0 = point + N w + (M0 + N Z) δ, |δ| <= 1.

    Variables in this order: Z (k p), S (m p) with S >= |B h - A M0 - A N Z|, w (k), the margin τ in units of each row's
    length. The smallest rule also bounds |Z| and |w| by variables of their own, whose sum it minimises.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        moved, point = family.least_norm
        self.rows = np.flatnonzero(family.moving)
        across = family.across[self.rows]  # (m, k)
        self.varying = np.flatnonzero(family.half)
        self.m, self.k, self.p = len(self.rows), family.null.shape[1], len(self.varying)
        change = (family.B * family.half - family.P.rows.matrix @ moved)[np.ix_(self.rows, self.varying)]  # (m, p)
        lengths = np.linalg.norm(across, axis=1)
        turn = sp.kron(sp.csr_array(across), sp.eye_array(self.p), format="csr")  # (m p, k p)
        one = sp.eye_array(self.m * self.p, format="csr")
        sums = sp.kron(sp.eye_array(self.m), np.ones((1, self.p)), format="csr")  # (m, m p)
        margins = [None, sums, across, lengths[:, None]]
        self.A = sp.block_array([[-turn, -one, None, None], [turn, -one, None, None], margins], format="csr")
        slack = family.slack_in_the_middle(point)[self.rows]
        self.b = np.concatenate([-change.ravel(), change.ravel(), slack])
        self.cap = float((slack / lengths).min(initial=1.0))  # the middle point's own margin

    def largest_margin(self) -> tuple[float, Array]:
        """The margin (at most that of the middle point), and the rows whose multipliers hold it down."""
        free = self.k * self.p
        cost = np.zeros(self.A.shape[1])
        cost[-1] = -1
        bounds = [(None, None)] * free + [(0, None)] * (self.m * self.p) + [(None, None)] * self.k + [(None, self.cap)]
        result = linprog(cost, A_ub=self.A, b_ub=self.b, bounds=bounds, method="highs-ipm")
        if result.status != 0:
            return 0.0, np.arange(0)
        blocking = self.rows[result.ineqlin.marginals[-self.m :] < -1e-9]
        return float(result.x[-1]), blocking

    def smallest(self, margin: float) -> tuple[Array, Array]:
        """The rule with that margin whose movements and shift have the least sum of sizes."""
        free, width = self.k * self.p, self.A.shape[1]
        sizes = free + self.k
        of_size = sp.eye_array(sizes, format="csr")
        skip = sp.csr_array((free, self.m * self.p)), sp.csr_array((self.k, self.m * self.p))
        movement = [sp.eye_array(free), skip[0], sp.csr_array((free, self.k)), sp.csr_array((free, 1))]
        shift = [sp.csr_array((self.k, free)), skip[1], sp.eye_array(self.k), sp.csr_array((self.k, 1))]
        pick = sp.block_array([movement, shift], format="csr")  # (sizes, width)
        A = sp.block_array([[self.A, None], [pick, -of_size], [-pick, -of_size]], format="csr")
        b = np.concatenate([self.b, np.zeros(2 * sizes)])
        cost = np.concatenate([np.zeros(width), np.ones(sizes)])
        bounds = [(None, None)] * free + [(0, None)] * (self.m * self.p) + [(None, None)] * self.k
        result = linprog(
            cost, A_ub=A, b_ub=b, bounds=[*bounds, (margin, None), *[(0, None)] * sizes], method="highs-ipm"
        )
        Z = result.x[:free].reshape(self.k, self.p)
        w = result.x[free + self.m * self.p : width - 1]
        moved, point = self.family.least_norm
        moved[:, self.varying] += self.family.null @ Z
        return moved, point + self.family.null @ w
