r"""A base point that follows the sample: x0(θ) = K θ + k, strictly inside for every θ of a stated range.

θ holds the right-hand sides and bounds that vary, each between a low and a high value. Row i of the set then reads
a_i·x <= β_i + B_i θ, and the least slack of the rule over the whole range is worked out in closed form:

.. math:: σ_i = β_i - a_i·k + (B_i - a_i K)\,\bar θ - |B_i - a_i K|\, h

with the middle :math:`\barθ` and the half width h of the range. The rule of least norm, K = E⁺ for equalities E x = θ,
is tried first. Where it leaves no fair share of the slack, damped least squares trade the size of K against what the
rows lose of their slack, in closed form; the smallest fair one is taken. Where none of them is fair, a linear program
finds the largest margin that a rule can keep, and half of it is kept (Tabas and Zhang 2022 use such rules for safe
policies).

A row that no movement along the equalities changes holds or does not, whatever the point: it must not be broken, and
has no margin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.errors import EmptySetError, RayhullError
from rayhull.exact.progress import patiently
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.interior import base_point
from rayhull.sets.linear_programs import solve
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

SIDES = ("b", "b_eq", "lower", "upper")
FAIR = 0.1  # the share of its slack in the middle that a row keeps at worst, for a rule in closed form to be taken
ENTRIES = 200_000  # of the linear program: beyond it only the rule of least norm is tried
MOST_BYTES = 4 * 10**9  # of the dense matrices of a rule
SECONDS = 60.0  # of the linear program
CHANGE = 1e-4  # of the margin that the mean change of a row costs
OUT_OF_TIME = 1  # SciPy's status
DEPENDENT = 1e-9
DAMPINGS = np.logspace(1, -11, 25)  # of the least squares, in units of the largest squared singular value


class NoBaseRuleError(RayhullError):
    """No affine rule is strictly inside for every value of the range; ``rows`` names those that stand in the way."""

    def __init__(self, message: str, rows: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.rows = rows


@dataclass(frozen=True, eq=False)
class BaseRule:
    """x0(θ) = K θ + k with its proof.

    Attributes:
        sides: the names of the sides that θ stacks, in this order, each flat and whole.
        matrix: K (d, p).
        offset: k (d,).
        low, high: the range (p,) of θ.
        slack: a lower bound (m,) of the slack of each of ``P.rows`` over the range, rounding counted.
    """

    sides: tuple[str, ...]
    matrix: Array
    offset: Array
    low: Array
    high: Array
    slack: Array

    def __call__(self, theta: Array) -> Array:
        """Base points of many θ. Shape: (\\*, p) → (\\*, d)"""
        return np.asarray(theta) @ self.matrix.T + self.offset


@one_blas_thread()
def base_rule(P: Polyhedron, varies: Mapping[str, tuple[Any, Any]], scale: float = 1.0) -> BaseRule:
    """A base point x0(θ) = K θ + k that is inside for every value of the sides that vary within ranges.

    Args:
        P: the set; sides that do not vary are as stated.
        varies: for "b", "b_eq", "lower" or "upper" a pair (low, high), each a number or of the side's shape.
        scale: the size of the data, for unbounded sets.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.sum_to(1, 3) & rh.box(0, 1)                        # shares of a demand between 0.5 and 2
        >>> rule = P.base_rule({"b_eq": (0.5, 2.0)})
        >>> x = rule(np.array([[0.5], [1.0], [2.0]]))
        >>> x.sum(1), bool((x > 0).all() and (x < 1).all()), bool((rule.slack > 0).all())
        (array([0.5, 1. , 2. ]), True, True)
    """
    family = Family(P, varies, scale)
    tried = (family.rule(moved, family.point) for moved in in_closed_form(family))
    rule = next(filter(family.is_fair, tried), None) or family.by_linear_program()
    family.refuse_if_outside(rule)
    return rule


class Family:
    """The sets of all θ: a_i·x <= β_i + B_i θ and E x = ε + D θ, seen from the middle of the range.

    A rule is given by the movement M (d, p) for one half width of each θ, and the point x in the middle.
    """

    def __init__(self, P: Polyhedron, varies: Mapping[str, tuple[Any, Any]], scale: float) -> None:
        ranges = read_ranges(P, varies)
        self.P, self.sides = P, tuple(ranges)
        for name in self.sides:
            _refuse_unstated(P, name)
        self.low, self.high = (np.concatenate([np.zeros(0), *(r[k] for r in ranges.values())]) for k in (0, 1))
        self.middle, self.half = (self.low + self.high) / 2, (self.high - self.low) / 2
        _refuse_large(P, len(self.low))
        self.B, self.D = _dependence(P, self.sides)  # (m, p), (m_eq, p)
        self.beta = np.where(self.B.any(1), 0.0, P.rows.rhs)  # what is stated, where θ does not say it anew
        self.point = base_point(_middle(P, self.sides, self.middle), scale)  # (d,) well-centred in the middle set
        self.slack: Array = self.beta + self.B @ self.middle - P.rows.matrix @ self.point  # (m,) there
        E = P.equality_rows.matrix.toarray()
        self.null = scipy.linalg.null_space(E, rcond=DEPENDENT) if len(E) else np.eye(P.dim)  # (d, k), orthonormal
        self.across: Array = P.rows.matrix @ self.null  # (m, k) the rows along the equalities
        self.moving = np.linalg.norm(self.across, axis=1) > DEPENDENT * P.rows.unit[2]  # (m,) whether they change there
        # the smallest movement that keeps the equalities (d, p), and how the slack then changes (m, p)
        self.moved = np.linalg.pinv(E) @ (self.D * self.half) if len(E) else np.zeros((P.dim, len(self.low)))
        self.change = self.B * self.half - P.rows.matrix @ self.moved

    def is_fair(self, rule: BaseRule) -> bool:
        """Whether every row that moves keeps a fair share of its slack in the middle."""
        return bool((rule.slack[self.moving] > FAIR * self.slack[self.moving]).all())

    def rule(self, moved: Array, point: Array) -> BaseRule:
        """The rule of a movement and a middle point, with its slack over the whole range."""
        K = np.divide(moved, self.half, out=np.zeros_like(moved), where=self.half > 0)
        k = point - K @ self.middle
        return BaseRule(self.sides, K, k, self.low, self.high, self._proven(K, k))

    def _proven(self, K: Array, k: Array) -> Array:
        """The least slack over the range, less what rounding of this very sum can amount to."""
        A, reach = self.P.rows.matrix, np.abs(self.middle) + self.half
        change = self.B - A @ K
        slack = self.beta - A @ k + change @ self.middle - np.abs(change) @ self.half
        sizes = np.abs(self.beta) + abs(A) @ np.abs(k) + (np.abs(self.B) + abs(A) @ np.abs(K)) @ reach
        terms = self.P.dim + len(self.low) + 8
        return np.asarray(slack - 2 * terms * np.finfo(float).eps * sizes)

    def by_linear_program(self) -> BaseRule:
        """Of the rules between that of least norm and that of the largest margin, the first with half of this margin.

        Slack is concave in the rule, so that no row has less than its mean over the two.
        """
        least = self.rule(self.moved, self.point)
        moved, shift, margin = largest_margin(self)
        most = self.rule(self.moved + moved, self.point + shift)
        wanted = margin / 2 * np.linalg.norm(self.across, axis=1)
        short = self.moving & (least.slack < wanted) & (least.slack < most.slack)
        share = min(1.0, ((wanted - least.slack)[short] / (most.slack - least.slack)[short]).max(initial=0.0))
        return self.rule(self.moved + share * moved, self.point + share * shift)

    def refuse_if_outside(self, rule: BaseRule) -> None:
        """Rows that move need slack; the others must hold up to the rounding of the equalities."""
        sizes = np.abs(self.P.rows.rhs) + abs(self.P.rows.matrix) @ np.abs(self.point) + 1
        broken = np.where(self.moving, rule.slack <= 0, rule.slack < -DEPENDENT * sizes)
        if broken.any():
            names = tuple(self.P.rows.names.take(np.flatnonzero(broken)))
            raise NoBaseRuleError(f"The range leaves no slack for {', '.join(names[:4])}. Narrow the range.", names)


def _refuse_large(P: Polyhedron, p: int) -> None:
    """Before memory is taken: how the rows and the point depend on θ is dense, and so is the null space."""
    size = 8 * (len(P.rows) + len(P.equality_rows) + P.dim) * (p + P.dim)
    if size > MOST_BYTES:
        raise NoBaseRuleError(
            f"A base rule for {p} sides of {P.dim} coordinates takes about {size / 1e9:.1f} GB: let fewer things vary, "
            "or give base points with the call (base=)."
        )


def _length(P: Polyhedron, name: str) -> int:
    return {"b": len(P.inequalities), "b_eq": len(P.equalities)}.get(name, P.dim)


def read_ranges(P: Polyhedron, varies: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[Array, Array]]:
    """Low and high of each side that varies, flat; refuses what is no range of one."""
    unknown = [name for name in varies if name not in SIDES]
    if unknown:
        raise ValueError(
            f"varies takes ranges for {', '.join(SIDES)}, got {unknown[0]!r}: rows that vary (A, A_eq) have no rule, "
            "give them with the call."
        )
    for name in varies:
        if not _length(P, name):
            raise ValueError(f"the set states no {name}, which varies= names: state its rows first.")
    return {name: _range(P, name, varies[name]) for name in SIDES if name in varies}


def _range(P: Polyhedron, name: str, pair: tuple[Any, Any]) -> tuple[Array, Array]:
    shape = (_length(P, name),) if name in ("b", "b_eq") else P.shape
    try:
        low, high = (np.broadcast_to(np.asarray(v, float), shape).ravel() for v in pair)
    except (TypeError, ValueError):
        got = f"shapes {[np.shape(v) for v in pair]}" if isinstance(pair, (tuple, list)) else repr(pair)
        raise ValueError(
            f"varies[{name!r}] must be a pair (low, high) of two numbers or arrays of shape {shape}, got {got}."
        ) from None
    if not (low <= high).all() or not (np.isfinite(low) & np.isfinite(high)).all():
        raise ValueError(f"varies[{name!r}] must be finite with low <= high.")
    return low, high


def _refuse_unstated(P: Polyhedron, name: str) -> None:
    stated = {"lower": P.lower_bounds, "upper": P.upper_bounds}.get(name)
    if not _length(P, name) or (stated is not None and not np.isfinite(stated).all()):
        raise ValueError(f"the set states no {name} for every coordinate, so that it cannot vary: state it first.")


def _dependence(P: Polyhedron, sides: tuple[str, ...]) -> tuple[Array, Array]:
    """B (m, p) and D (m_eq, p): how the right-hand sides of ``P.rows`` and ``P.equality_rows`` depend on θ."""
    layout = P.layout
    places = {  # where an entry of θ is the right-hand side, and with which sign
        "b": (np.arange(len(layout.inequalities)), layout.inequalities, 1),
        "upper": (layout.upper_rows, layout.upper, 1),
        "lower": (layout.lower_rows, layout.lower, -1),
    }
    ends = np.cumsum([0, *(_length(P, name) for name in sides)])
    B, D = np.zeros((len(P.rows), ends[-1])), np.zeros((len(P.equality_rows), ends[-1]))
    for name, start in zip(sides, ends, strict=False):
        if name == "b_eq":
            D[np.arange(len(layout.equalities)), start + layout.equalities] = 1
        else:
            rows, entries, sign = places[name]
            B[rows, start + entries] = sign
    return B, D


def _middle(P: Polyhedron, sides: tuple[str, ...], theta: Array) -> Polyhedron:
    """The set for one θ."""
    ends = np.cumsum([_length(P, name) for name in sides])
    try:
        return P.with_sides(**dict(zip(sides, np.split(theta, ends), strict=False)))
    except EmptySetError as error:
        named = " and ".join(f"varies[{name!r}]" for name in sides)
        raise EmptySetError(
            f"The middle (low + high) / 2 of {named} has no feasible point: {' and '.join(error.rows)} contradict each "
            "other there. Every value of a range must leave points; sides that move together need a smaller one.",
            error.rows,
        ) from None


# -- candidates: in closed form, smallest first; with the largest margin, by a linear program --------------------------


def in_closed_form(family: Family) -> Iterator[Array]:
    """The movement of least norm, then others that change the rows less and less, at the price of their size.

    M = M0 + N Z for the Z with the least Σ_i |(B_i - a_i M) / σ_i|² + damping |Z|², σ the slack in the middle.
    """
    yield family.moved
    slack = family.slack[family.moving, None]
    if not len(slack) or not (slack > 0).all():
        return
    change = family.change[family.moving] / slack
    U, s, V = np.linalg.svd(family.across[family.moving] / slack, full_matrices=False)
    for damping in DAMPINGS * s[0] ** 2:
        Z = V.T @ ((s / (s**2 + damping))[:, None] * (U.T @ change))
        yield family.moved + family.null @ Z


def largest_margin(family: Family) -> tuple[Array, Array, float]:
    """Movements Δ (d, p) and a shift s (d,) along the equalities with the largest margin, at most the middle's own."""
    P, rows, varying = family.P, np.flatnonzero(family.moving), np.flatnonzero(family.half)
    if (family.null.shape[1] + len(P.rows)) * len(varying) > ENTRIES:
        raise NoBaseRuleError(
            f"The rule of least norm leaves the set, and a linear program for {len(varying)} sides and {len(P.rows)} "
            f"rows is too large: let fewer things vary, or give base points with the call (base=)."
        )
    program = _program(family, rows, varying)
    result = patiently(
        lambda: solve(*program),
        f"a base point that follows the sides (linear program of {program[1].shape[0]} rows, at most {SECONDS:g} s)",
    )
    if result.status == OUT_OF_TIME:
        raise NoBaseRuleError(
            f"No rule was found within {SECONDS:g} s: let fewer things vary, or give base points with the call (base=)."
        )
    if result.status != 0 or not result.x[-1] > 0:
        held = result.ineqlin.marginals[-len(rows) :] < -1e-9 if result.status == 0 else []
        names = tuple(P.rows.names.take(rows[held]))
        raise NoBaseRuleError(
            "No affine rule is inside for every value of the range: "
            f"{', '.join(names[:4])}{' and others' if len(names) > 4 else ''} stand in the way. Narrow the range.",
            names,
        )
    along = family.null @ family.null.T  # the solver meets the equalities up to its tolerance alone
    moved, size = np.zeros_like(family.moved), P.dim * len(varying)
    moved[:, varying] = along @ result.x[:size].reshape(P.dim, -1)
    return moved, along @ result.x[-P.dim - 1 : -1], float(result.x[-1])


def _program(family: Family, rows: Array, varying: Array) -> tuple[Any, ...]:
    """The linear program for x0 = point + s + (M0 + Δ) δ, |δ| <= 1.

    Variables in this order: Δ (d p), S (m p) with S >= |B h - A M0 - A Δ|, s (d), and the margin τ in units of each
    row's length. A basis of the null space would need fewer variables, and tie all of them together: 160 s in place of
    3 for a flow of 120 edges.
    """
    A, E = family.P.rows.matrix[rows], family.P.equality_rows.matrix
    (m, d), p = A.shape, len(varying)
    change, slack = family.change[np.ix_(rows, varying)].ravel(), family.slack[rows]
    lengths = np.linalg.norm(family.across[rows], axis=1)
    turn, one = sp.kron(A, sp.eye_array(p)), sp.eye_array(m * p)
    sums = [None, sp.kron(sp.eye_array(m), np.ones((1, p))), A, lengths[:, None]]
    margins = sp.block_array([[-turn, -one, None, None], [turn, -one, None, None], sums], format="csr")
    equal = sp.block_diag([sp.kron(E, sp.eye_array(p)), sp.csr_array((0, m * p)), E, sp.csr_array((0, 1))])
    # of many such rules one that hardly changes the rows: a seventh of the size in a flow of 120 edges, in less time
    cost = np.repeat([0.0, CHANGE / max(1, m * p), 0.0, -1.0], [d * p, m * p, d, 1])
    bounds = [(None, None)] * (len(cost) - 1) + [(None, float((slack / lengths).min(initial=1.0)))]
    limits = np.concatenate([-change, change, slack])
    return cost, margins, limits, sp.csr_array(equal), np.zeros(equal.shape[0]), bounds, SECONDS
