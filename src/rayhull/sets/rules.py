"""Variables to write rules in, and rules → a set: sparse, exact where the numbers are, each row with its name."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from rayhull.exact.numbers import Array, as_fraction, whole
from rayhull.sets.expressions import Expression, Variable
from rayhull.sets.names import CoordinateNames, Names, refuse_twice
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape, as_shape, read_bound, refuse_unless_finite
from rayhull.sets.rows import Rows
from rayhull.sets.rule import Rule


class _Columns:
    """Column numbers that are handed out once."""

    def __init__(self) -> None:
        self.free, self.lock = 0, threading.Lock()

    def take(self, count: int) -> int:
        """The first of ``count`` numbers in a row that nobody has."""
        with self.lock:
            start, self.free = self.free, self.free + count
        return start


_columns = _Columns()


def variables(*names: str, shape: Shape | None = None) -> Any:
    """Variables to write rules in: one for each name, scalars or arrays of the given shape.

    They add, subtract, scale, index, slice, broadcast, and have ``sum``, ``mean``, ``diff`` and ``A @ x``, as NumPy
    arrays do; comparisons with ``<=``, ``>=`` and ``==`` make rules for :func:`rayhull.rules`.

    Examples:
        >>> import rayhull as rh
        >>> coal, gas, wind = rh.variables("coal", "gas", "wind")
        >>> coal + 2 * gas <= 100 - wind
        coal + 2*gas <= -wind + 100
        >>> x = rh.variables("x", shape=(2, 3))
        >>> x.sum(axis=0) == [1, 2, 3]
        x[0, 0] + x[1, 0] == 1
        x[0, 1] + x[1, 1] == 2
        x[0, 2] + x[1, 2] == 3
    """
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError(f'variables needs one name or more, such as variables("coal", "gas"), got {names!r}.')
    refuse_twice(names)
    event = () if shape is None else as_shape(shape)
    made = tuple(_variable(name, event) for name in names)
    return made[0] if len(made) == 1 else made


def _variable(name: str, shape: tuple[int, ...]) -> Expression:
    size = math.prod(shape)
    start = _columns.take(size)
    columns = np.arange(start, start + size)
    zero, one = np.zeros(size, np.int64), np.ones(size, np.int64)
    return Expression(shape, np.arange(size + 1), columns, one, zero, (Variable(name, shape, start),))


# -- rules → a set ---------------------------------------------------------------------------------------------------


def rules(*given: Rule | Iterable[Rule], variables: Sequence[Expression] | None = None) -> Polyhedron:
    """The set of points that keep every rule.

    Coordinates are the variables in the order of their creation: a single array of variables gives the event shape,
    several variables are laid out flat, one after the other. A rule on one variable becomes a bound. Integers and
    fractions stay exact.

    Args:
        given: rules, or lists of rules.
        variables: the coordinates and their order, where it should be another one, or where some appear in no rule.

    Examples:
        >>> import rayhull as rh
        >>> coal, gas, wind = rh.variables("coal", "gas", "wind")
        >>> P = rh.rules(coal + gas + wind == 100, coal <= 2 * gas, coal >= 0, gas >= 0, wind >= 0, wind <= 40)
        >>> P.coordinates
        ('coal', 'gas', 'wind')
        >>> [50, 10, 40] in P
        False
        >>> P.slack([50, 10, 40])
        coal <= 2*gas                -30  broken
        coal + gas + wind == 100       0  holds
        wind <= 40                     0  binds
        gas >= 0                      10
        wind >= 0                     40
        coal >= 0                     50
    """
    listed = list(_flattened(given))
    if not listed:
        raise ValueError("rules needs at least one rule, such as x + y <= 1.")
    owners = _owners(listed, variables)
    return _Builder(owners).read(listed).polyhedron()


def _flattened(given: Iterable[Any]) -> Iterator[Rule]:
    for item in given:
        if isinstance(item, Rule):
            yield item
        elif isinstance(item, list | tuple) or hasattr(item, "__next__"):
            yield from _flattened(item)
        else:
            hint = " Two plain numbers were compared." if isinstance(item, bool | np.bool_) else ""
            raise TypeError(f"expected a rule such as x + y <= 1, got {item!r} of type {type(item).__name__}.{hint}")


def _owners(listed: list[Rule], variables: Sequence[Expression] | None) -> tuple[Variable, ...]:
    """The variables that are the coordinates, in order."""
    used = {v.start: v for rule in listed for side in (rule.left, rule.right) for v in side.variables}
    if variables is None:
        owners = tuple(used[start] for start in sorted(used))
    else:
        items = [variables] if isinstance(variables, Expression) else variables
        owners = tuple(v for e in items for v in e.variables)
        missing = [v.name for v in used.values() if v not in owners]
        if missing:
            raise ValueError(f"the rules use {', '.join(missing)}, which variables= does not list.")
    if not owners:
        raise ValueError("the rules mention no variable.")
    refuse_twice(tuple(v.name for v in owners))
    return owners


class _Builder:
    """Rows and bounds, gathered rule by rule."""

    def __init__(self, owners: tuple[Variable, ...]) -> None:
        self.owners = owners
        self.dim = sum(v.size for v in owners)
        self.inequalities, self.equalities = _Gathered(self.dim), _Gathered(self.dim)
        self.bounds: dict[tuple[int, str], tuple[Any, str]] = {}  # (coordinate, side) → value, name
        starts = np.array([v.start for v in owners])
        self._sorted = np.argsort(starts)
        self._starts = starts[self._sorted]
        sizes = np.array([v.size for v in owners])
        self._shift = (np.concatenate([[0], np.cumsum(sizes)[:-1]]) - starts)[self._sorted]

    def read(self, listed: list[Rule]) -> _Builder:
        for rule in listed:
            self._read(rule)
        return self

    def _read(self, rule: Rule) -> None:
        """a·x + c <= 0 (or = 0) for each entry: a bound where a has one term that divides exactly, else a row."""
        gap = rule.left - rule.right if rule.sign != ">=" else rule.right - rule.left
        equal = rule.sign == "=="
        alone = np.flatnonzero(np.diff(gap.starts) == 1)
        bounds = {int(i) for i in alone if self._bound(gap, int(i), equal, rule)}
        rows = np.array([i for i in range(gap.size) if i not in bounds], np.int64)
        into = self.equalities if equal else self.inequalities
        into.add(gap._take(rows), self.columns(gap._take(rows).columns), rule, rows)

    def columns(self, numbers: Array) -> Array:
        """Coordinates of the set for column numbers of variables."""
        return numbers + self._shift[np.searchsorted(self._starts, numbers, side="right") - 1]

    def _bound(self, gap: Expression, entry: int, equal: bool, rule: Rule) -> bool:
        at = gap.starts[entry]
        factor, offset = (as_fraction(np.asarray(v).tolist()) for v in (gap.data[at], gap.constant[entry]))
        if factor is None or offset is None:
            if abs(gap.data[at]) != 1:
                return False  # the quotient of two floats would be another number
            factor, value = Fraction(int(gap.data[at])), -float(gap.constant[entry]) * float(gap.data[at])
        else:
            value = whole(-offset / factor)
        coordinate = int(self.columns(gap.columns[at : at + 1])[0])
        for side in ("upper", "lower") if equal else ("upper" if factor > 0 else "lower",):
            self._tighten(coordinate, side, value, rule.label(entry))
        return True

    def _tighten(self, coordinate: int, side: str, value: Any, name: str) -> None:
        old = self.bounds.get((coordinate, side))
        if old is None or (value < old[0] if side == "upper" else value > old[0]):
            self.bounds[coordinate, side] = value, name

    def _side(self, side: str, none: float) -> Array | None:
        """Bounds of one side (d,), None where there are none."""
        found = {i: value for (i, s), (value, _) in self.bounds.items() if s == side}
        if not found:
            return None
        values = np.full(self.dim, none, object)
        for i, value in found.items():
            values[i] = value
        return values.astype(np.int64) if all(type(v) is int and abs(v) < 2**62 for v in values) else values

    def polyhedron(self) -> Polyhedron:
        shape = self.owners[0].shape if len(self.owners) == 1 and self.owners[0].shape else (self.dim,)
        names = tuple(v.label(i) for v in self.owners for i in range(v.size))
        bounds = {key: name for key, (_, name) in self.bounds.items()}
        return Polyhedron.from_rows(
            self.inequalities.rows(),
            self.equalities.rows(),
            read_bound(self._side("lower", -math.inf), "lower", shape, -math.inf),
            read_bound(self._side("upper", math.inf), "upper", shape, math.inf),
            shape,
            coordinate_names=CoordinateNames(names, bounds),
        )


class _Gathered:
    """Rows a·x <= b collected from rules, with their names written when somebody reads them."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.parts: list[Rows] = []

    def add(self, gap: Expression, columns: Array, rule: Rule, entries: Array) -> None:
        """The rows gap <= 0, called as the given entries of the rule."""
        if len(entries):
            for what, numbers in (("a coefficient", gap.data), ("a constant", gap.constant)):
                refuse_unless_finite(f"{what} of the rule {rule.label(int(entries[0]))}", numbers)
            names = Names.by(rule.label, entries)
            self.parts.append(Rows(gap.data, columns, gap.starts, self.dim, -gap.constant, names))

    def rows(self) -> Rows:
        return Rows.stack(self.parts) if self.parts else Rows.empty(self.dim)
