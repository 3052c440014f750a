"""What a way into a block is made of: a direction from the base point, and steps that bring it nearer to the set.

A direction stays inside the cone of the rows that have no slack at the base point. One that ends in the set by itself
(convex weights of vertices, the nearest point) has the base point 0: then it is the point. Steps move it towards the
set before the shrink closes the rest. Each kind has one interface, so that a new way in is one class and one line in
``choice.METHODS``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.approach import LONGER, MOST, approach, clamped, momenta, step_size
from rayhull.maps.coefficients import NonNegative, Weights, nonnegative_named, without, without_carefully
from rayhull.nn.base_point import View, near_one, within
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


# -- what was asked, and what was chosen -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What the user chose, the same for every block but the base point."""

    method: str = "auto"
    nonnegative: str | NonNegative | None = None
    weights: str | Weights = "softmax"
    max_generators: int | None = 100_000
    approach: int | None = None
    scale: float = 1.0
    base: Array | None = None  # (n,), of the block
    factory: Factory = field(default_factory=Factory)

    def function(self, default: str) -> NonNegative:
        return nonnegative_named(default if self.nonnegative is None else self.nonnegative)


@dataclass(frozen=True, eq=False)
class Choice:
    """A block's way in: the direction's module, the base point with the rows that have slack, and why."""

    method: str
    reason: str
    direction: Direction
    view: View | None  # None: the direction is the point itself
    approach: tuple[Step, ...] = ()


Way = Callable[["Polyhedron", Options], Choice]


# -- directions ------------------------------------------------------------------------------------------------------


class Direction(Constants):
    """Base of the modules below. Shape: coefficients (\\*, count, k) → directions (\\*, count, n)

    Attributes:
        coefficients: how many numbers one block takes.
        identity_inside: whether coefficients are coordinates seen from the base point, kept as they are inside the set.
        inside_exactly: whether what comes out is in a cone, in rational arithmetic and rounded to any float type.
        on_hull: whether strict directions meet the equalities up to rounding of the direction itself.
        follows: which sides of the sample ``forward`` takes into account; rows with slack are the closing's business.
    """

    coefficients: int
    identity_inside = False
    inside_exactly = False
    on_hull = False
    follows: frozenset[str] = frozenset()

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        raise NotImplementedError

    def fold(self) -> tuple[Array, Direction]:
        """A matrix M (k', k) for the Linear in front, and the module that takes M c in place of c."""
        return np.eye(self.coefficients), self

    def tail_fields(self) -> Fields | None:
        """What the compiled tail needs to know (:mod:`rayhull.nn.tail`), None where it does not serve."""
        return None

    def free(self, c: Tensor) -> Tensor:
        """The direction that c stands for with nothing imposed, where ``identity_inside``."""
        return c

    def coefficients_of(self, y: Tensor) -> Tensor:
        """Undoes ``free``."""
        return y

    def without(self, u: Tensor, basis: Tensor) -> Tensor:
        """u less its part in the span of the basis; under strict never a direction of rounding errors."""
        return without_carefully(u, basis) if self.wide else without(u, basis)

    def _like(self, other: Direction) -> Direction:
        other.widen(self.wide)
        return other


class Free(Direction):
    """Every direction of the affine hull: u less its part in the equalities' row space."""

    identity_inside = True
    on_hull = True
    equal: Tensor

    def __init__(self, equal: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(equal)
        self.has_equalities = equal.shape[1] > 0
        self.constant("equal", equal)

    def forward(self, u: Tensor, sides: Sides) -> Tensor:
        return self.without(u, self.equal) if self.has_equalities else u

    def tail_fields(self) -> Fields:
        hull = {"hull": self.exact["equal"]} if self.has_equalities else {}
        return {"linear": "copy", "columns": self.coefficients} | hull

    def fold(self) -> tuple[Array, Direction]:
        equal = self.exact["equal"]
        plain = Free(equal[:, :0], self.factory)
        plain.on_hull = not self.has_equalities  # the Linear rounds what it multiplies
        return np.eye(len(equal)) - equal @ equal.T, self._like(plain)


def undone(y: Tensor, matrix: Array) -> Tensor:
    """c with M c = y, for a symmetric M (n, n), or a diagonal one (n,)."""
    if matrix.ndim == 1:
        return y / y.new_tensor(matrix)
    return y @ y.new_tensor(np.linalg.pinv(matrix, rcond=1e-14, hermitian=True))


class Round(Direction):
    """y = M c less its part in the equalities' row space, M = H^(-1/2) at the base point (:mod:`maps.coordinates`).

    Args:
        matrix: M (n, n), or the diagonal (n,) of a diagonal one.
        equal: orthonormal basis (n, k) of the equalities' row space.
    """

    identity_inside = True
    matrix: Tensor

    def __init__(self, matrix: Array, equal: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(matrix)
        self.diagonal = matrix.ndim == 1
        self.onto_hull = Free(equal, factory)
        self.constant("matrix", matrix, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        out: Tensor = self.onto_hull(self.free(c), sides)
        return out

    def free(self, c: Tensor) -> Tensor:
        return c * self.matrix if self.diagonal else c @ self.matrix

    def coefficients_of(self, y: Tensor) -> Tensor:
        return undone(y, self.exact["matrix"])

    def tail_fields(self) -> Fields:
        kind = "diagonal" if self.diagonal else "matrix"
        return self.onto_hull.tail_fields() | {"linear": kind, "matrix": self.exact["matrix"]}

    def fold(self) -> tuple[Array, Direction]:
        matrix = self.exact["matrix"]
        return np.diag(matrix) if self.diagonal else matrix, self.onto_hull


# -- steps -----------------------------------------------------------------------------------------------------------


class Step(Constants):
    """Base: a direction from the base point → a direction that is nearer to the set. The shrink comes after it.

    Attributes:
        follows: which sides of the sample ``forward`` takes into account.

    Shape: y (\\*, count, n), base (n,) or (\\*, count, n) → (\\*, count, n)
    """

    follows: frozenset[str] = frozenset()

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        raise NotImplementedError

    def tail_fields(self, base: Array) -> Fields | None:
        """What the compiled tail needs to know (:mod:`rayhull.nn.tail`), None where it does not serve."""
        return None

    def side_fields(self, rows: int) -> Fields:
        """Which of a block's stated rows each row of the steps is, for sides of the sample in the compiled tail."""
        return {}


class Clamp(Step):
    """Bounds coordinate by coordinate, so that the shrink is left with the rows: one broken bound moves no other."""

    follows = frozenset({"b", "lower", "upper"})
    lower: Tensor
    upper: Tensor

    def __init__(self, P: Polyhedron, factory: Factory) -> None:
        super().__init__(factory)
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)

    def bounds(self, base: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds seen from the base point."""
        low = self.lower if sides.lower is None else sides.lower
        high = self.upper if sides.upper is None else sides.upper
        return low - base, high - base

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        return clamped(y, *self.bounds(base, sides))

    def tail_fields(self, base: Array) -> Fields:
        return {"step": "clamp", "low": self.exact["lower"] - base, "high": self.exact["upper"] - base}


class DualSteps(Step):
    """k accelerated dual steps towards the nearest point (:mod:`maps.approach`), seen from the base point.

    With bounds, they are clamped in every step and equalities have multipliers; without, directions stay in the
    equalities' null space. ``metric`` M takes the nearest point in round coordinates, with bounds among the rows.

    Args:
        steps: k.
        metric: M (n, n) of the round coordinates, or None for the Euclidean nearest point.
    """

    follows = frozenset({"b", "lower", "upper"})
    rows: Tensor
    back: Tensor
    norms: Tensor
    as_stated: Tensor
    rhs: Tensor
    seen: Tensor
    equal: Tensor
    numbers: Tensor

    def __init__(self, P: Polyhedron, view: View, steps: int, factory: Factory, metric: Array | None = None) -> None:
        super().__init__(factory)
        self.steps, self.is_round = steps, metric is not None
        is_row = view.loose < int((P.inequalities.sizes > 0).sum())
        bounded = metric is None and not bool(is_row.all())
        self.clamp = Clamp(P, factory) if bounded else None
        numbers = view.loose[is_row] if bounded else view.loose
        if metric is not None and not is_row.all():
            self.follows = frozenset()
        self.equalities = view.equal.shape[1] if bounded else 0
        self.index("numbers", numbers)
        self.constant("equal", view.equal)
        self._take(P.rows.matrix[numbers].toarray(), P.rows.rhs[numbers], view, metric)

    def _take(self, stated: Array, rhs: Array, view: View, metric: Array | None) -> None:
        """Rows of unit length in the metric; equalities come last and are met at the base point."""
        rows = np.vstack([stated, view.equal.T]) if self.equalities else within(stated, view.equal)
        scale = near_one(rows)[:, None]  # rows of any size: their squares must not overflow or vanish
        rows = rows * scale
        unit = rows if metric is None else rows @ metric
        norms = np.linalg.norm(unit, axis=1, keepdims=True)
        self.step = step_size(unit / norms) * (LONGER if self.clamp is not None else 1.0)
        self.constant("rows", rows / norms)
        self.constant("back", rows / norms if metric is None else unit / norms @ metric)
        norms = (norms / scale)[: len(rhs), 0]
        self.constant("norms", norms)
        self.constant("as_stated", stated / norms[:, None])
        self.constant("rhs", rhs / norms)
        self.constant("seen", np.concatenate([(rhs - stated @ view.base) / norms, np.zeros(self.equalities)]))

    def with_steps(self, steps: int) -> DualSteps:
        """The same rows, another number of steps."""
        other = copy.copy(self)
        other.steps = steps
        return other

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        low, high = self._bounds(base, sides)
        y = approach(
            y,
            self.rows,
            self._rhs(base, sides),
            steps=self.steps,
            step=self.step,
            lower=low,
            upper=high,
            equalities=self.equalities,
            back=self.back if low is None else None,
        )
        return without(y, self.equal) if self.equalities else y

    def tail_fields(self, base: Array) -> Fields:
        fields = {} if self.clamp is None else self.clamp.tail_fields(base)
        fields |= {"equal": self.exact["equal"]} if self.equalities else {}
        rows, back = self.exact["rows"], self.exact["back"]
        if not self.steps or not len(rows):
            return fields
        fields |= {"step": "gram" if self.clamp is None else "points", "steps": self.steps, "step_rows": len(rows)}
        fields |= {"step_matrix": rows, "back": back if self.clamp is None else rows, "seen": self.exact["seen"]}
        most = 1.0 if self.clamp is None else MOST
        fields |= {"equalities": self.equalities, "length": self.step, "momenta": np.array(momenta(self.steps, most))}
        return fields | ({"turn": np.eye(len(rows)) - self.step * (back @ rows.T)} if self.clamp is None else {})

    def side_fields(self, rows: int) -> Fields:
        if not self.steps or not len(self.exact["rows"]):
            return {}
        numbers, equalities = self._index["numbers"], np.full(self.equalities, -1)
        stated = np.where(numbers < rows, numbers, -1)
        units = np.concatenate([1 / self.exact["norms"], np.zeros(self.equalities)])
        return {"step_index": np.concatenate([stated, equalities]), "step_units": units}

    def _bounds(self, base: Tensor, sides: Sides) -> tuple[Tensor | None, Tensor | None]:
        return (None, None) if self.clamp is None else self.clamp.bounds(base, sides)

    def _rhs(self, base: Tensor, sides: Sides) -> Tensor:
        """Right-hand sides seen from the base point, those of the sample where it brings them."""
        if sides.b is None and base.ndim == 1:
            return self.seen
        rhs = self.rhs if sides.b is None else sides.b[..., self.numbers] / self.norms
        seen = rhs - base @ self.as_stated.mT
        return torch.nn.functional.pad(seen, (0, self.equalities)) if self.equalities else seen
