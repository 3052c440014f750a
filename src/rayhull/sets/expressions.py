"""Arrays of affine expressions in named variables, and the rules that comparing them makes.

An expression of n entries is kept as sparse rows: entry i is sum_k data[k] * column[k] + constant[i], k from starts[i]
to starts[i + 1]. Each variable owns a range of column numbers, so that expressions meet without a common table.
Integers and fractions stay exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, add, grouped_sums, joined, multiply, reciprocals
from rayhull.sets.reading import as_array
from rayhull.sets.rows import affine_text, indexed, row_entries

NO_MAXIMUM = "For max(a, b) <= c write two rules: a <= c, b <= c; for min(a, b) >= c: a >= c, b >= c."
NO_MODULUS = "For |e| <= c write two rules: e <= c, e >= -c."
MOVES = {  # functions of NumPy that put entries elsewhere
    *("concatenate", "stack", "hstack", "vstack", "ravel", "reshape", "transpose", "moveaxis", "swapaxes", "roll"),
    *("flip", "repeat", "tile", "take", "squeeze", "expand_dims", "broadcast_to", "atleast_1d"),
}
LINEAR = "a rule adds variables times numbers. Squares go into rayhull.norm(e) <= c or rayhull.quadratic(Q, q, r)."


@dataclass(frozen=True, eq=False)
class Variable:
    """A name, its shape, and the column numbers that it owns: start, start + 1, ..., in C order."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def label(self, place: int) -> str:
        """The name of one coordinate: ``coal`` or ``x[2, 5]``."""
        return indexed(self.name, place, self.shape)


def _refused(message: str) -> Callable[..., Any]:
    """An operation that makes no linear rule; ``message`` has places for the expression and for the other side."""

    def refuse(self: Expression, other: Any = None) -> NoReturn:
        raise TypeError(message.format(self.text(0) if self.size else "nothing", other))

    return refuse


@dataclass(eq=False)
class Expression:
    """An array of affine expressions in variables; made by :func:`rayhull.variables` and arithmetic."""

    __array_ufunc__ = None  # so that array + expression asks the expression
    __hash__ = None  # type: ignore[assignment]  # == makes a rule

    shape: tuple[int, ...]
    starts: Array
    columns: Array
    data: Array
    constant: Array
    variables: tuple[Variable, ...]

    # -- arrays ------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            hint = 'several variables are variables("a", "b"), an array is variables("x", shape=2)'
            raise TypeError(f"{self.text(0)} is a single expression, without length: {hint}.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Expression]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Expression:
        """Entries as NumPy would pick them: numbers, slices, lists, masks, ``...`` and None."""
        try:
            places = np.arange(self.size).reshape(self.shape)[key]
        except IndexError as error:
            named = f" ({self.variables[0].name})" if len(self.variables) == 1 else ""
            raise IndexError(f"{error}: the expression has shape {self.shape}{named}.") from None
        return self._take(np.asarray(places))

    def _take(self, places: Array) -> Expression:
        """The entries with the given flat numbers, in the shape of ``places``."""
        flat = places.ravel()
        starts, entries = row_entries(self.starts, flat)
        parts = self.columns[entries], self.data[entries], self.constant[flat]
        return Expression(places.shape, starts, *parts, self.variables)

    def reshape(self, *shape: int | tuple[int, ...]) -> Expression:
        """The same entries in another shape, in C order."""
        return self._take(np.arange(self.size).reshape(*shape))

    def flatten(self) -> Expression:
        """The same entries along one axis, in C order."""
        return self.reshape(self.size)

    @property
    def T(self) -> Expression:
        return self._take(np.arange(self.size).reshape(self.shape).T)

    def sum(self, axis: int | tuple[int, ...] | None = None, dtype: None = None, out: None = None) -> Expression:
        """The sum over all entries, or along ``axis``; ``np.sum`` and ``np.mean`` give the other two."""
        axes = tuple(range(self.ndim)) if axis is None else axis
        shape = np.empty(self.shape, np.int8).sum(axis=axes).shape
        into = np.broadcast_to(np.expand_dims(np.arange(math.prod(shape)).reshape(shape), axes), self.shape)
        return self._grouped(into.ravel(), shape)

    @property
    def _row(self) -> Array:
        """The entry that each of ``columns`` belongs to."""
        return np.repeat(np.arange(self.size), np.diff(self.starts))

    def _grouped(self, into: Array, shape: tuple[int, ...]) -> Expression:
        """Entry i is added to entry ``into[i]`` of the result."""
        constant = grouped_sums(self.constant, into, math.prod(shape))
        return _gathered(shape, into[self._row], self.columns, self.data, constant, self.variables)

    def mean(self, axis: int | tuple[int, ...] | None = None, dtype: None = None, out: None = None) -> Expression:
        """The mean over all entries, or along ``axis``."""
        total = self.sum(axis)
        return total / (self.size // total.size)

    def diff(self, n: int = 1, axis: int = -1) -> Expression:
        """x[i+1] - x[i] along ``axis``, n times."""
        if n < 0:
            raise ValueError(f"differences are taken 0 times or more, got n={n}.")
        for _ in range(n):
            places = np.moveaxis(np.arange(self.size).reshape(self.shape), axis, -1)
            after, before = (self._take(np.moveaxis(p, -1, axis)) for p in (places[..., 1:], places[..., :-1]))
            self = after - before
        return self

    def __array__(self, dtype: None = None, copy: None = None) -> Array:
        """One object, so that a sparse matrix of SciPy leaves its product with an expression to the expression."""
        found = np.empty((), object)
        found[()] = self
        return found

    def __array_function__(self, function: Any, types: Any, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """NumPy's functions that are linear: methods of this class, products, and what only moves entries."""
        name = function.__name__
        if name in ("sum", "mean", "diff"):
            return getattr(expression(given[0]), name)(*given[1:], **options)
        if name == "dot":
            return _matrix_product(*given)
        if name not in MOVES:
            raise TypeError(f"numpy.{name} takes no variables: {LINEAR} {NO_MAXIMUM}")
        several = isinstance(given[0], list | tuple)
        items = [expression(v) for v in (given[0] if several else given[:1])]
        ends = np.cumsum([0, *(e.size for e in items)])
        places = [np.arange(end, end + e.size).reshape(e.shape) for e, end in zip(items, ends, strict=False)]
        return _side_by_side(items)._take(function(places if several else places[0], *given[1:], **options))

    # -- arithmetic --------------------------------------------------------------------------------------------

    def __neg__(self) -> Expression:
        return Expression(self.shape, self.starts, self.columns, -self.data, -self.constant, self.variables)

    def __pos__(self) -> Expression:
        return self

    def __add__(self, other: Any) -> Expression:
        left, right = both = broadcast(self, other)
        rows, columns = np.concatenate([e._row for e in both]), np.concatenate([e.columns for e in both])
        data, constant = joined([left.data, right.data]), add(left.constant, right.constant)
        return _gathered(left.shape, rows, columns, data, constant, _owners(both))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Expression:
        return self + -expression(other)

    def __rsub__(self, other: Any) -> Expression:
        return -self + other

    def __mul__(self, other: Any) -> Expression:
        left, right = broadcast(self, other)
        if len(left.columns) and len(right.columns):
            raise TypeError(f"({left.text(0)}) * ({right.text(0)}) is not linear: {LINEAR}")
        if len(right.columns):
            left, right = right, left
        data, constant = multiply(left.data, right.constant[left._row]), multiply(left.constant, right.constant)
        return _gathered(left.shape, left._row, left.columns, data, constant, left.variables)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        divisor = expression(other)
        if len(divisor.columns):
            raise TypeError(f"division by ({divisor.text(0)}) is not linear: divide by numbers only.")
        if not divisor.constant.astype(float).all():
            raise ZeroDivisionError(f"({self.text(0)}) is divided by 0.")
        return self * reciprocals(divisor.constant).reshape(divisor.shape)

    def __matmul__(self, other: Any) -> Expression:
        return _matrix_product(self, other)

    def __rmatmul__(self, other: Any) -> Expression:
        return _matrix_product(other, self)

    __rtruediv__ = _refused("division by ({}) is not linear: divide by numbers only.")
    __pow__ = _refused("({}) ** {} is not linear: " + LINEAR)
    __rpow__ = _refused("{1} ** ({0}) is not linear: " + LINEAR)
    __abs__ = _refused("|{}| is not linear. " + NO_MODULUS)

    # -- comparisons -------------------------------------------------------------------------------------------

    def __le__(self, other: Any) -> Rule:
        return _rule(self, "<=", other)

    def __ge__(self, other: Any) -> Rule:
        return NotImplemented if getattr(other, "is_norm", False) else _rule(self, ">=", other)

    def __eq__(self, other: Any) -> Rule:  # type: ignore[override]
        return _rule(self, "==", other)

    __lt__ = _refused("write <= instead of <: a set contains its boundary. " + NO_MAXIMUM)
    __gt__ = _refused("write >= instead of >: a set contains its boundary. " + NO_MAXIMUM)
    __ne__ = _refused("!= has no convex set: rules are made with <=, >= and ==.")
    __bool__ = _refused("an expression has no truth value: compare it with <=, >= or == to make a rule.")

    # -- words -------------------------------------------------------------------------------------------------

    def text(self, entry: int) -> str:
        """One entry in words: ``coal + 2*gas - 3``."""
        part = slice(self.starts[entry], self.starts[entry + 1])
        terms = [(self._label(c), v) for c, v in zip(self.columns[part], self.data[part].tolist(), strict=True)]
        return affine_text(terms, np.asarray(self.constant[entry : entry + 1]).tolist()[0])

    def _label(self, column: int) -> str:
        owner = next(v for v in self.variables if v.start <= column < v.start + v.size)
        return owner.label(int(column) - owner.start)

    def __repr__(self) -> str:
        if not self.shape:
            return self.text(0)
        return f"Expression(shape={self.shape}: {self.text(0) if self.size else ''}{', ...' if self.size > 1 else ''})"


def expression(value: Any) -> Expression:
    """Numbers as expressions without variables."""
    if isinstance(value, Expression):
        return value
    if isinstance(value, list | tuple) and any(isinstance(v, Expression) for v in value):
        items = broadcast(*value)
        return _side_by_side(items).reshape(len(items), *items[0].shape)
    numbers = as_array(value, "a number in a rule")
    none = np.zeros(0, np.int64)
    return Expression(numbers.shape, np.zeros(numbers.size + 1, np.int64), none, none, numbers.ravel(), ())


def broadcast(*values: Any) -> list[Expression]:
    """Expressions and numbers in one common shape, as NumPy broadcasts."""
    items = [expression(v) for v in values]
    try:
        shape = np.broadcast_shapes(*(e.shape for e in items))
    except ValueError:
        raise ValueError(f"shapes {' and '.join(str(e.shape) for e in items)} do not go together in a rule.") from None
    return [
        e if e.shape == shape else e._take(np.broadcast_to(np.arange(e.size).reshape(e.shape), shape)) for e in items
    ]


def _rule(left: Any, sign: str, right: Any) -> Rule:
    first, second = broadcast(left, right)
    return Rule(first, second, sign)


@dataclass(frozen=True, eq=False)
class Rule:
    """left <= right, left >= right or left == right, entry by entry; made by comparing expressions."""

    left: Expression
    right: Expression
    sign: str
    name: str | None = None

    def named(self, name: str) -> Rule:
        """The same rule under a name of its own, for messages, ``slack`` and ``explain``.

        Examples:
            >>> import rayhull as rh
            >>> wind = rh.variables("wind")
            >>> (wind <= 40).named("capacity of the park")
            capacity of the park: wind <= 40
        """
        return replace(self, name=name)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.right.shape

    def label(self, entry: int) -> str:
        """What one entry is called: the given name with its place, or its own text."""
        return self.text(entry) if self.name is None else indexed(self.name, entry, self.shape)

    def text(self, entry: int) -> str:
        return f"{self.left.text(entry)} {self.sign} {self.right.text(entry)}"

    def __bool__(self) -> bool:
        raise TypeError(
            f"the rule {self.text(0)} has no truth value. Python reads 0 <= x <= 1 as (0 <= x) and (x <= 1), which "
            "keeps one rule and loses the other: write two rules, 0 <= x, x <= 1."
        )

    def __repr__(self) -> str:
        entries = [self.text(i) for i in range(min(self.right.size, 5))]
        more = [f"... ({self.right.size} rules)"] if self.right.size > len(entries) else []
        return (f"{self.name}: " if self.name else "") + "\n".join(entries + more)


def _side_by_side(items: list[Expression]) -> Expression:
    """The entries of all, flat and in order."""
    starts = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(e.starts) for e in items]))])
    columns = np.concatenate([e.columns for e in items])
    data, constant = joined([e.data for e in items]), joined([e.constant for e in items])
    return Expression((len(constant),), starts, columns, data, constant, _owners(items))


def _matrix_product(left: Any, right: Any) -> Expression:
    if sp.issparse(right):
        return _matrix_product(right.T, left.T).T
    if sp.issparse(left):
        if left.shape[1] != right.shape[0]:
            raise ValueError(f"a matrix of shape {left.shape} does not go with an expression of shape {right.shape}.")
        entries, (rows, *rest) = sp.coo_array(left), np.indices((left.shape[0], *right.shape[1:]))
        flat = np.arange(rows.size).reshape(rows.shape)
        row, column = entries.coords
        numbers = np.broadcast_to(entries.data.reshape(-1, *[1] * len(rest)), (len(row), *rows.shape[1:]))
        return (right[column] * numbers)._grouped(flat[row].ravel(), rows.shape)
    first, second = expression(left), expression(right)
    if second.ndim == 1:
        return (first * second).sum(-1)
    return (first[..., None] * second[..., None, :, :] if first.ndim > 1 else first[:, None] * second).sum(-2)


def _owners(items: list[Expression]) -> tuple[Variable, ...]:
    """The variables of all, in the order of their creation."""
    owners = {v.start: v for e in items for v in e.variables}
    return tuple(owners[start] for start in sorted(owners))


def _gathered(
    shape: tuple[int, ...], row: Array, columns: Array, data: Array, constant: Array, owners: tuple[Variable, ...]
) -> Expression:
    """An expression from entries in any order: the same column in the same row is added up, zeros are dropped."""
    order = np.lexsort((columns, row))
    row, columns, data = row[order], columns[order], data[order]
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (columns[1:] != columns[:-1])
    data = grouped_sums(data, np.cumsum(new) - 1, int(new.sum()))
    row, columns = row[new], columns[new]
    keep = np.flatnonzero(data != 0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=math.prod(shape)))]).astype(np.int64)
    return Expression(shape, starts, columns[keep], data[keep], constant, owners)
