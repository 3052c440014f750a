"""Variables to write rules in, and rules → a set: sparse, exact where the numbers are, each row with its name.

Rules may also come as affine constraints of cvxpy (an extra).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, as_fraction, whole
from rayhull.sets.cones import Cone, ConeRule, ConvexSet
from rayhull.sets.expressions import Expression, Rule, Variable, expression
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape, as_shape, read_bound, refuse_unless_finite
from rayhull.sets.rows import Names, Rows
from rayhull.sets.statement import CoordinateNames, refuse_twice

SIGNS = {"Inequality": "<=", "NonPos": "<=", "NonNeg": ">=", "Equality": "==", "Zero": "=="}  # of cvxpy


_variables = itertools.count()


def variables(*names: str, shape: Shape | None = None) -> Any:
    """Variables to write rules in: one for each of the ``names``, scalars or arrays of the given shape.

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
    if not names or not all(isinstance(name, str) and name.strip() and "," not in name for name in names):
        hint = "" if all(isinstance(name, str) for name in names) else " Sizes go into shape=."
        raise ValueError(f'variables needs one name or more, such as variables("coal", "gas"), got {names!r}.{hint}')
    refuse_twice(names)
    event = () if shape is None else as_shape(shape)
    made = tuple(_variable(name, event) for name in names)
    return made[0] if len(made) == 1 else made


def _variable(name: str, shape: tuple[int, ...]) -> Expression:
    size = math.prod(shape)
    start = next(_variables) << 32  # so many column numbers are its own
    columns = np.arange(start, start + size)
    zero, one = np.zeros(size, np.int64), np.ones(size, np.int64)
    return Expression(shape, np.arange(size + 1), columns, one, zero, (Variable(name, shape, start),))


# -- rules in words: clauses over variables from 0 to 1, relaxed ------------------------------------------------------


def implies(a: Any, b: Any) -> Rule:
    """a -> b, as a <= b: where a is certain, b is.

    For variables from 0 to 1, the truth of a statement or its probability; at 0 and 1 the rule is the clause. ``1 - a``
    is "not a", and "a or b or not c" is ``a + b + (1 - c) >= 1``.

    Examples:
        >>> import rayhull as rh
        >>> cat, animal = rh.variables("cat", "animal")
        >>> rh.implies(cat, animal)
        cat <= animal
    """
    return expression(a) <= b


def excludes(*statements: Any) -> Rule:
    """Not both: of two statements, or of more, at most one holds.

    Examples:
        >>> import rayhull as rh
        >>> red, green = rh.variables("red", "green")
        >>> P = rh.rules(rh.excludes(red, green), red >= 0, green >= 0)
        >>> [0.7, 0.3] in P, [0.7, 0.4] in P
        (True, False)
    """
    return at_most(1, *statements)


def at_most(k: Any, *statements: Any) -> Rule:
    """At most k of the statements hold: their sum is at most k.

    Examples:
        >>> import rayhull as rh
        >>> x = rh.variables("x", shape=4)
        >>> rh.at_most(2, *x)
        x[0] + x[1] + x[2] + x[3] <= 2
    """
    listed = [expression(v) for v in statements]
    if not listed or (len(listed) == 1 and listed[0].shape):
        raise TypeError("expected statements one by one, such as at_most(1, a, b), or at_most(1, *x) of an array x.")
    return sum(listed[1:], listed[0]) <= k


# -- rules → a set ---------------------------------------------------------------------------------------------------


def rules(*given: Any, variables: Sequence[Expression] | None = None) -> Any:
    """The set of points that keep every rule.

    Coordinates are the variables in the order of their creation: a single array of variables gives the event shape,
    several variables are laid out flat, one after the other. A rule on one variable becomes a bound. Integers and
    fractions stay exact.

    Args:
        given: rules, or lists of rules. With one of :func:`rayhull.norm` the set is a :class:`rayhull.ConvexSet`.
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
    builder = _Builder(_owners(listed, variables))
    for rule in listed:
        builder.read(rule)
    P = builder.polyhedron()
    return ConvexSet(P, builder.cones) if builder.cones else P


def _flattened(given: Iterable[Any]) -> Iterator[Rule]:
    for item in given:
        if isinstance(item, Rule):
            yield item
        elif isinstance(item, list | tuple) or hasattr(item, "__next__"):
            yield from _flattened(item)
        else:
            hint = " Two plain numbers were compared." if isinstance(item, bool | np.bool_) else ""
            raise TypeError(f"expected a rule such as x + y <= 1, got {item!r} of type {type(item).__name__}.{hint}")


def _owners(listed: Sequence[Rule], variables: Sequence[Expression] | None) -> tuple[Variable, ...]:
    """The variables that are the coordinates, in order."""
    used = {v.start: v for rule in listed for side in (rule.left, rule.right) for v in side.variables}
    if variables is None:
        owners = tuple(used[start] for start in sorted(used))
    else:
        items = variables if isinstance(variables, list | tuple) else [variables]
        owners = tuple(v for e in items for v in expression(e).variables)
        missing = [v.name for v in used.values() if v not in owners]
        if missing:
            raise ValueError(f"the rules use {', '.join(missing)}, which variables= does not list.")
    if not owners:
        raise ValueError("the rules mention no variable.")
    refuse_twice(tuple(v.name for v in owners))
    return owners


class _Builder:
    """Rows, bounds and cones, gathered rule by rule."""

    def __init__(self, owners: tuple[Variable, ...]) -> None:
        self.owners = owners
        self.dim = sum(v.size for v in owners)
        self.inequalities: list[Rows] = []
        self.equalities: list[Rows] = []
        self.cones: list[Cone] = []
        self.bounds: dict[tuple[int, str], tuple[Any, str]] = {}  # (coordinate, side) → value, name
        starts = np.array([v.start for v in owners])
        firsts = np.cumsum([0, *(v.size for v in owners[:-1])])  # where each begins among the coordinates
        order = np.argsort(starts)
        self._starts, self._shift = starts[order], (firsts - starts)[order]

    def read(self, rule: Rule) -> None:
        """a·x + c <= 0 (or = 0) for each entry: a bound where a has one term that divides exactly, else a row."""
        if isinstance(rule, ConeRule):
            self.cones += [rule.cone(entry, self) for entry in range(rule.right.size)]
            return
        gap = rule.left - rule.right if rule.sign != ">=" else rule.right - rule.left
        equal = rule.sign == "=="
        alone = np.flatnonzero(np.diff(gap.starts) == 1)
        bounds = {int(i) for i in alone if self._bound(gap, int(i), equal, rule)}
        rows = np.array([i for i in range(gap.size) if i not in bounds], np.int64)
        if len(rows):
            (self.equalities if equal else self.inequalities).append(self.rows(gap._take(rows), rule, rows))

    def rows(self, gap: Expression, rule: Rule, entries: Array) -> Rows:
        """The rows gap <= 0, called as the given entries of the rule; names are written when somebody reads them."""
        for what, numbers in (("a coefficient", gap.data), ("a constant", gap.constant)):
            refuse_unless_finite(f"{what} of the rule {rule.label(int(entries[0]))}", numbers)
        names = Names.by(rule.label, entries)
        return Rows(gap.data, self.columns(gap.columns), gap.starts, self.dim, -gap.constant, names)

    def columns(self, numbers: Array) -> Array:
        """Coordinates of the set for column numbers of variables."""
        return numbers + self._shift[np.searchsorted(self._starts, numbers, side="right") - 1]

    def _bound(self, gap: Expression, entry: int, equal: bool, rule: Rule) -> bool:
        """Keep an entry as a bound, the tightest of its side; False where it must be a row."""
        at = gap.starts[entry]
        factor, offset = (as_fraction(np.asarray(v).tolist()) for v in (gap.data[at], gap.constant[entry]))
        if factor is None or offset is None:
            if abs(gap.data[at]) != 1:
                return False  # the quotient of two floats would be another number
            factor, value = Fraction(int(gap.data[at])), -float(gap.constant[entry]) * float(gap.data[at])
        else:
            value = whole(-offset / factor)
        if value != value:  # NaN
            raise ValueError(f"the rule {rule.label(entry)} holds NaN: every number must be one.")
        coordinate = int(self.columns(gap.columns[at : at + 1])[0])
        for side in ("upper", "lower") if equal else ("upper" if factor > 0 else "lower",):
            old = self.bounds.get((coordinate, side))
            if old is None or (value < old[0] if side == "upper" else value > old[0]):
                self.bounds[coordinate, side] = value, rule.label(entry)
        return True

    def _side(self, side: str, none: float) -> Array | None:
        """Bounds of one side (d,), None where there are none."""
        found = {i: value for (i, s), (value, _) in self.bounds.items() if s == side}
        if not found:
            return None
        values = np.full(self.dim, none, object)
        values[list(found)] = list(found.values())
        return values.astype(np.int64) if all(type(v) is int and abs(v) < 2**62 for v in values) else values

    def polyhedron(self) -> Polyhedron:
        shape = self.owners[0].shape if len(self.owners) == 1 and self.owners[0].shape else (self.dim,)
        names = tuple(v.label(i) for v in self.owners for i in range(v.size))
        bounds = {key: name for key, (_, name) in self.bounds.items()}
        return Polyhedron.from_rows(
            Rows.stack([Rows.empty(self.dim), *self.inequalities]),
            Rows.stack([Rows.empty(self.dim), *self.equalities]),
            read_bound(self._side("lower", -math.inf), "lower", shape, -math.inf),
            read_bound(self._side("upper", math.inf), "upper", shape, math.inf),
            shape,
            coordinate_names=CoordinateNames(names, bounds),
        )


# -- constraints of cvxpy ----------------------------------------------------------------------------------------------


def from_cvxpy(constraints: Sequence[Any], order: Sequence[Any] | None = None) -> Polyhedron:
    """The set of affine cvxpy constraints, with the names of their variables (the extra ``cvxpy``).

    Coordinates are the variables in the order of their first mention, each flat in C order; a single array variable
    gives the event shape. ``nonneg``, ``nonpos`` and ``bounds`` of a variable are rules too.

    Args:
        constraints: affine equalities and inequalities.
        order: the cvxpy variables that are the coordinates, where it should be another order.

    Examples:
        >>> import rayhull as rh
        >>> import cvxpy as cp                                                 # doctest: +SKIP
        >>> x = cp.Variable(3, name="x", nonneg=True)                          # doctest: +SKIP
        >>> rh.from_cvxpy([cp.sum(x) == 1]) == rh.simplex(3)                   # doctest: +SKIP
        True
    """
    found = list(order or dict.fromkeys(v for c in constraints for v in c.variables()))
    mine = {v.id: variables(v.name(), shape=v.shape or None) for v in found}
    with _at_zero(found):
        listed = [_from_constraint(c, mine) for c in constraints]
    listed += [rule for v in found for rule in _attributes(v, mine[v.id])]
    return rules(listed, variables=tuple(mine.values()))


@contextmanager
def _at_zero(found: list[Any]) -> Iterator[None]:
    """Variables at 0, where an affine expression is its constant; their values come back afterwards."""
    before = [v.value for v in found]
    for v in found:
        v.save_value(np.zeros(v.shape))
    try:
        yield
    finally:
        for v, value in zip(found, before, strict=True):
            v.save_value(value)


def _from_constraint(constraint: Any, mine: dict[int, Expression]) -> Rule:
    """expr <= 0, >= 0 or == 0 in our expressions."""
    kind = type(constraint).__name__
    if kind not in SIGNS or not constraint.expr.is_affine():
        raise ValueError(f"{constraint} is not an affine equality or inequality: a set is made of those.")
    inner = constraint.expr
    gap = expression(np.asarray(inner.value, float))
    for variable, gradient in inner.grad.items():
        gradient = gradient if sp.issparse(gradient) else np.atleast_2d(gradient)  # a number for one by one
        entries = sp.coo_array(sp.csr_array(gradient.T)[_to_c_order(inner.shape)][:, _to_c_order(variable.shape)])
        flat = mine[variable.id].reshape(math.prod(variable.shape))
        terms = flat[entries.coords[1]] * entries.data
        gap = gap + terms._grouped(entries.coords[0], (entries.shape[0],)).reshape(inner.shape)
    return Rule(gap, expression(np.zeros(gap.shape)), SIGNS[kind])


def _to_c_order(shape: tuple[int, ...]) -> Any:
    """Positions in cvxpy's column-major order of the entries in C order."""
    return np.arange(math.prod(shape)).reshape(shape, order="F").ravel()


def _attributes(variable: Any, x: Expression) -> list[Rule]:
    """What a variable's attributes demand."""
    given = {name for name, value in variable.attributes.items() if value is not None and value is not False}
    other = given - {"nonneg", "nonpos", "bounds"}
    if other:
        raise ValueError(f"the variable {variable.name()} is {', '.join(sorted(other))}, which no linear rule states.")
    found = [x >= 0] if "nonneg" in given else []
    found += [x <= 0] if "nonpos" in given else []
    if "bounds" in given:
        low, high = (np.broadcast_to(np.asarray(side, float), x.shape) for side in variable.attributes["bounds"])
        found += [x[np.isfinite(low)] >= low[np.isfinite(low)], x[np.isfinite(high)] <= high[np.isfinite(high)]]
    return found
