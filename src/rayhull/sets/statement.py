"""What a set states: rows, bounds and names as they were given, and the order in which all rows are kept."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from rayhull.exact.numbers import Array, alike
from rayhull.sets.interior import independent_equalities
from rayhull.sets.rows import Names, Rows, indexed

CLEAR = 1e-6  # between bounds, relative to their size


@dataclass(frozen=True, eq=False)
class RowLayout:
    """Which row stands where: the one place that knows.

    ``P.rows`` are the rows ``inequalities`` of A (those that are not all zeros), then the upper bounds of the
    coordinates ``upper``, then the lower bounds of the coordinates ``lower``. ``P.equality_rows`` are the rows
    ``equalities`` of A_eq, then the values of the coordinates ``fixed``, whose bounds leave one value.
    """

    dim: int
    inequalities: Array
    upper: Array
    lower: Array
    equalities: Array
    fixed: Array

    @property
    def upper_rows(self) -> Array:
        """The numbers of the upper bounds among ``P.rows``."""
        return len(self.inequalities) + np.arange(len(self.upper))

    @property
    def lower_rows(self) -> Array:
        """The numbers of the lower bounds among ``P.rows``."""
        return len(self.inequalities) + len(self.upper) + np.arange(len(self.lower))

    def is_stated(self, rows: Array) -> Array:
        """Which of the numbered ``P.rows`` are rows of A, not bounds."""
        return rows < len(self.inequalities)

    def bounds_of(self, coordinates: Array) -> tuple[Array, Array, Array]:
        """The numbers of upper and lower bounds in ``P.rows``, of values in ``P.equality_rows``; -1 where none is."""
        values = len(self.equalities) + np.arange(len(self.fixed))
        sides = (self.upper, self.upper_rows), (self.lower, self.lower_rows), (self.fixed, values)
        places = np.full((3, self.dim), -1)
        for place, (members, numbers) in zip(places, sides, strict=True):
            place[members] = numbers
        upper, lower, fixed = places[:, coordinates]
        return upper, lower, fixed


class Statement:
    """Rows and bounds as they were stated, and in the forms that the other rooms use: what a Polyhedron is made of.

    Attributes:
        shape: the event shape.
        dim: d, the number of coordinates.
        inequalities, equalities: the rows of A and of A_eq.
        lower, upper: bounds in the event shape, None where no coordinate has one.
        coordinate_names: what the coordinates are called, where they have names.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        inequalities: Rows | None,
        equalities: Rows | None,
        lower: Array | None,
        upper: Array | None,
        coordinate_names: CoordinateNames | None,
    ) -> None:
        self.shape, self.dim, self.coordinate_names = shape, math.prod(shape), coordinate_names
        self.inequalities = Rows.empty(self.dim) if inequalities is None else inequalities
        self.equalities = Rows.empty(self.dim) if equalities is None else equalities
        self.lower, self.upper = lower, upper

    @property
    def A(self) -> Any:
        """The inequality rows (m, d) as they were stated: an array, or sparse in CSR form."""
        return self.inequalities.stated

    @property
    def b(self) -> Array:
        """The right-hand sides (m,) of A as they were stated."""
        return self.inequalities.offsets

    @property
    def A_eq(self) -> Any:
        """The equality rows as they were stated."""
        return self.equalities.stated

    @property
    def b_eq(self) -> Array:
        """The right-hand sides of A_eq as they were stated."""
        return self.equalities.offsets

    @cached_property
    def lower_bounds(self) -> Array:
        """Lower bounds (d,) as floats, -inf where there is none."""
        return np.full(self.dim, -math.inf) if self.lower is None else self.lower.astype(float).ravel()

    @cached_property
    def upper_bounds(self) -> Array:
        """Upper bounds (d,) as floats, inf where there is none."""
        return np.full(self.dim, math.inf) if self.upper is None else self.upper.astype(float).ravel()

    @cached_property
    def bound_order(self) -> Array:
        """The sign of lower - upper for each coordinate, decided on the numbers as they were stated."""
        if self.lower is None or self.upper is None:
            return np.full(self.dim, -1)
        low, high = alike([self.lower.ravel(), self.upper.ravel()])
        return np.asarray(low > high, np.int64) - np.asarray(low < high, np.int64)

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates (d,), flat and in C order."""
        if self.coordinate_names is not None:
            return self.coordinate_names.names
        return tuple(indexed("x", i, self.shape) for i in range(self.dim))

    # -- all rows, bounds included, in one order ---------------------------------------------------------------

    @cached_property
    def layout(self) -> RowLayout:
        """Where each stated row and each bound stands in ``rows`` and ``equality_rows``."""
        order = self.bound_order
        return RowLayout(
            self.dim,
            inequalities=np.flatnonzero(self.inequalities.sizes),
            equalities=np.flatnonzero(self.equalities.sizes),
            upper=np.flatnonzero((order < 0) & (self.upper_bounds < math.inf)),
            lower=np.flatnonzero((order < 0) & (self.lower_bounds > -math.inf)),
            fixed=np.flatnonzero(order == 0),
        )

    @cached_property
    def rows(self) -> Rows:
        """Every inequality as a row: A without its zero rows, then the finite upper and the finite lower bounds.

        A coordinate with lower = upper is an equality and stands in ``equality_rows`` instead.
        """
        up = self._bound_rows(self.upper, self.layout.upper, +1, "upper bound")
        low = self._bound_rows(self.lower, self.layout.lower, -1, "lower bound")
        return Rows.stack([self.inequalities.without_zeros(), up, low])

    @cached_property
    def equality_rows(self) -> Rows:
        """Every equality as a row: A_eq, then the coordinates whose bounds leave one value."""
        fixed = self._bound_rows(self.lower, self.layout.fixed, +1, "value")
        return Rows.stack([self.equalities.without_zeros(), fixed])

    def bound_name(self, side: str, flat: int) -> str:
        """The name of a ``side`` ("upper bound", "lower bound", "value") of the coordinate with number ``flat``."""
        if self.coordinate_names is None:
            return f"{side} of {indexed('x', flat, self.shape)}"
        return self.coordinate_names.bound(side, flat)

    def _bound_rows(self, stated: Array | None, index: Array, sign: int, side: str) -> Rows:
        if stated is None or not len(index):
            return Rows.empty(self.dim)
        name = partial(self.bound_name, side)
        data, places = np.full(len(index), sign, np.int64), np.arange(len(index) + 1)
        return Rows(data, index, places, self.dim, sign * stated.ravel()[index], Names.by(name, index))

    @cached_property
    def independent_equalities(self) -> Rows:
        """As many rows as the rank with the solutions of ``equality_rows``, well conditioned: for maps into the set."""
        return independent_equalities(self.equality_rows)

    # -- what the numbers say at once --------------------------------------------------------------------------

    @cached_property
    def intervals(self) -> Array:
        """Which coordinates (d,) have bounds, too wide apart for rounding to matter, and stand in no row."""
        low, high = self.lower_bounds, self.upper_bounds
        size = np.abs([low, high]).min(0)  # of a half-line, its finite end
        found = np.isfinite(size) & (np.isinf(low) | (high - low > CLEAR * (1 + size)))
        found[np.concatenate([self.inequalities.indices, self.equalities.indices])] = False
        return found

    @property
    def is_exact(self) -> bool:
        """Whether every number is an integer, a fraction or a small dyadic float, so that conversion is exact."""
        return self.rows.integers is not None and self.equality_rows.integers is not None

    @property
    def is_cone(self) -> bool:
        """Whether every right-hand side is stated as 0, so that x inside means t x inside for every t >= 0."""
        return not self.rows.rhs.any() and not self.equality_rows.rhs.any()

    @property
    def contains_zero(self) -> bool:
        """Whether x = 0 is inside, exactly: right-hand sides and bounds say so without a product."""
        above, below = (v is not None and (s * v > 0).any() for v, s in ((self.lower, 1), (self.upper, -1)))
        return not (above or below or (self.b < 0).any() or (self.b_eq != 0).any())

    @cached_property
    def fingerprint(self) -> str:
        """A digest of shape and rows: equal for sets stated alike, kept in checkpoints and caches."""
        digest = hashlib.sha256(repr(self.shape).encode())
        for part in (self.rows, self.equality_rows):
            for array in (part.matrix.indptr, part.matrix.indices):
                digest.update(np.asarray(array, np.int64).tobytes() + b"|")
            digest.update(part.matrix.data.tobytes() + part.rhs.tobytes() + b"|")
            if part.integers is not None:
                digest.update("|".join(",".join(map(str, v.tolist())) for v in part.integers).encode())
        return digest.hexdigest()

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What other rooms work out from this set alone and keep as long as it lives; not saved with it."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "kept"}

    def __eq__(self, other: object) -> bool:
        """Whether both state the same: the same rows in the same order, and the same names of coordinates.

        Two statements of one set may differ: :meth:`same_set` compares the sets.
        """
        if not isinstance(other, Statement):
            return NotImplemented
        if self is other:
            return True
        unnamed = self.coordinate_names is None and other.coordinate_names is None
        return self.fingerprint == other.fingerprint and (unnamed or self.coordinates == other.coordinates)

    def __hash__(self) -> int:
        return hash(self.fingerprint)


# -- what coordinates and their bounds are called ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CoordinateNames:
    """What a set's coordinates are called, and those of their bounds that have names of their own.

    ``bounds`` maps (coordinate, "lower" or "upper") to the name of the rule that states the bound.
    """

    names: tuple[str, ...]
    bounds: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_twice(self.names)

    def bound(self, side: str, flat: int) -> str:
        """The name of a ``side`` ("upper bound", "lower bound", "value") of the coordinate with number ``flat``."""
        stated = self.bounds.get((flat, "upper" if side == "upper bound" else "lower"))
        return f"{side} of {self.names[flat]}" if stated is None else stated

    def take(self, coordinates: Array) -> CoordinateNames:
        """The names of some coordinates, in this order."""
        place = {int(old): new for new, old in enumerate(coordinates)}
        bounds = {(place[i], side): name for (i, side), name in self.bounds.items() if i in place}
        return CoordinateNames(tuple(self.names[i] for i in coordinates), bounds)


def refuse_twice(names: Sequence[str]) -> None:
    """A name stands for one coordinate."""
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {name!r} is given {names.count(name)} times: every coordinate needs its own.")


def common_names(first: Any, second: Any, joint: Mapping[str, Array | None]) -> CoordinateNames | None:
    """The names in the intersection of two sets with bounds ``joint``: they must agree, or only one have names."""
    named = [P for P in (first, second) if P.coordinate_names is not None]
    if not named:
        return None
    if len(named) == 2 and first.coordinates != second.coordinates:
        mine, other = (", ".join(P.coordinates[:4]) for P in named)
        raise ValueError(
            f"the sets name their coordinates differently ({mine} and {other}): state the rules of both with the same "
            "variables."
        )
    bounds: dict[tuple[int, str], str] = {}
    for P in reversed(named):
        for (i, side), name in P.coordinate_names.bounds.items():
            old, new = getattr(P, side), joint[side]
            if old is not None and new is not None and old.ravel()[i] == new.ravel()[i]:  # it holds in the intersection
                bounds[i, side] = name
    return CoordinateNames(named[0].coordinates, bounds)
