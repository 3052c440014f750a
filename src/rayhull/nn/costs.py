"""What a way into a block costs: microseconds of one core for a sample, estimated from sizes alone.

Nothing is timed and nothing asks what the machine has, so that the same set gives the same figures, and ``auto`` the
same way, everywhere. The constants are those of the compiled code at batches of 64, forwards; a training step takes
three to four times as long on every way. They rank ways: a machine may well be twice as fast or as slow.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rayhull.nn.closed_forms import Pooled
from rayhull.nn.directions import DualSteps
from rayhull.nn.orders import is_curve
from rayhull.nn.tail import LARGEST
from rayhull.projection.solvers.any_rows import is_banded

if TYPE_CHECKING:
    from rayhull.nn.blocks import BlockMap
    from rayhull.sets.polyhedron import Polyhedron

TOGETHER, ALONE = 15_000, 1_000  # multiply-adds in a microsecond: for many samples at once, and for one on its own
OPERATION = 0.08  # a tensor operation, shared by the 64 samples
OPERATIONS = 10  # of a step that the compiled tail does not serve
ALONG = 8  # multiply-adds in the time of one entry of an order's rows: passes in both directions, a few operations each
POOLING = 60  # the same for a chain that is pooled, sample by sample
NEAREST, GUESSES, PIVOTS = 3.0, 20, 4  # of a nearest point: its call, gradient steps of the first guess, changes of it
IN_LANES, ALONG_BAND = 1.5, 60  # of one whose rows are banded: its call, and entries of them in a microsecond
GUESS, COMPILED = 15 * OPERATION, 10_000  # a gradient step as tensor operations, or multiply-adds of a compiled one


def shrink(P: Polyhedron) -> float:
    """One product with the rows, and the bounds."""
    return (P.rows.matrix.nnz + P.dim) / TOGETHER


def dual_steps(P: Polyhedron, steps: int, *, round_metric: bool = False) -> float:
    """k steps and the shrink: two products with the rows, or one with their products where nothing is clamped.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.nn.costs import dual_steps, nearest_point
        >>> P = rh.Polyhedron([[1.0] * 50, [1.0, -1.0] * 25], 1, lower=0, upper=1)
        >>> dual_steps(P, 5) < dual_steps(P, 10) < nearest_point(P) < dual_steps(P, 10, round_metric=True)
        True
    """
    bounds = len(P.rows) - len(P.inequalities)
    rows = len(P.rows) if round_metric or not bounds else len(P.inequalities) + len(P.equality_rows)
    products = rows**2 if round_metric or not bounds else 2 * rows * P.dim
    alone = 0.0 if 2 * products + P.dim**2 < LARGEST else OPERATIONS * OPERATION
    return shrink(P) + steps * (products / TOGETHER + alone)


def nearest_point(P: Polyhedron) -> float:
    """A first guess of what is active by gradient steps, unless the rows are banded, and a few changes of it.

    Curves go along their rows, eight samples side by side.
    """
    if is_curve(P):
        return IN_LANES + P.inequalities.matrix.nnz / ALONG_BAND
    rows = len(P.inequalities) + len(P.equality_rows)
    entries = P.inequalities.matrix.nnz + P.equality_rows.matrix.nnz
    products = 2 * rows * P.dim
    guess = 0.0 if is_banded(P.inequalities.matrix) else min(GUESS + products / TOGETHER, products / COMPILED)
    return NEAREST + GUESSES * guess + PIVOTS * entries / ALONE


def formula(P: Polyhedron, coefficients: int, method: str, along: int = ALONG) -> float:
    """A product with vertices or rays; orders go along their rows, shifts sort the coordinates."""
    if method in ("rays", "vertices"):
        return coefficients * P.dim / TOGETHER
    if method == "order":
        return along * P.inequalities.matrix.nnz / TOGETHER
    return 8 * P.dim * math.log2(P.dim + 1) / TOGETHER


def estimate(part: BlockMap) -> float:
    """A kind of block at all of its places."""
    P, method = part.polyhedron, part.method
    if method == "projection":
        return part.count * nearest_point(P)
    if method == "approach":
        step = part.approach[0]
        assert isinstance(step, DualSteps)
        return part.count * dual_steps(P, step.steps, round_metric=step.is_round)
    if method in ("shrink", "free"):
        return part.count * shrink(P)
    along = POOLING if isinstance(part.direction, Pooled) else ALONG
    return part.count * formula(P, part.direction.coefficients, method, along)
