"""The set: {x : A x <= b, A_eq x = b_eq, lower <= x <= upper}, and what can be asked of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.errors import optional
from rayhull.exact.numbers import Array, add, alike, grouped_sums, multiply, reciprocals
from rayhull.sets import description, interior, linear_programs, membership, plotting
from rayhull.sets.base_rule import base_rule as affine_rule
from rayhull.sets.reading import (
    Shape,
    as_shape,
    by_name,
    common_dim,
    in_order,
    read_bound,
    read_names,
    read_offsets,
    read_rows,
    refuse_unless_finite,
)
from rayhull.sets.rows import Names, Rows
from rayhull.sets.statement import CoordinateNames, Statement, common_names

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.products import BlockGroup

MAX_GENERATORS = 1_000_000  # of a conversion, unless it is given another budget


class PointSet(Statement):
    """What a set answers about points: each is a function of its room, with the set as its first argument."""

    centre: Any  # a point inside, and which rows hold with equality everywhere
    plot: Any

    violation = membership.violation
    contains = membership.contains
    contains_exactly = membership.contains_exactly
    explain = membership.explain
    slack = membership.slack

    def __contains__(self, x: Any) -> bool:
        """Whether a point, or every one of many, is inside, up to the tolerance of ``contains``."""
        return bool(np.all(np.asarray(self.contains(x))))

    def interior_point(self) -> Array:
        """A well-centred point of the relative interior (event shape): the analytic centre, leaning a little towards 0.

        Examples:
            >>> import rayhull as rh
            >>> x = rh.Polyhedron([[1, 1]], [1], lower=0).interior_point()
            >>> bool((x > 0.1).all() and x.sum() < 0.9)
            True
        """
        return np.asarray(self.centre.point.reshape(self.shape))

    def _repr_html_(self) -> str:
        return plotting.as_html(repr(self), self, self.plot)


class Polyhedron(PointSet):
    r"""The set of points that satisfy every stated linear rule.

    .. math:: \{x \in R^d : A x \le b,\; A_{eq} x = b_{eq},\; lower \le x \le upper\}

    Integers, fractions, and floats that are multiples of 2^-12 are kept exact; sparse rows stay sparse. An empty set
    is refused with the names of a small group of rows that contradict each other.

    Args:
        A: inequality rows (m, d): array-like, scipy sparse, torch tensor, integers or ``fractions.Fraction``.
        b: right-hand sides (m,), a number for all rows, or None for 0.
        A_eq, b_eq: equality rows and right-hand sides, likewise.
        lower, upper: bounds: a number, (d,) or the event shape; infinities mean no bound.
        shape: the event shape, such as (28, 28); coordinates are counted in C order. Default (d,).
        names: one name for each row of ``A``, used in messages; ``eq_names`` likewise for ``A_eq``.
        coordinates: one name for each coordinate, flat and in C order. Default ``x[0]``, ``x[2, 5]``. Columns of
            DataFrames and entries of Series are then taken by these names, in points, rows and bounds.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.Polyhedron([[1, 1]], [1], lower=0)    # the triangle x, y >= 0, x + y <= 1
        >>> P.contains(np.array([[0.2, 0.3], [0.9, 0.9]]))
        array([ True, False])
        >>> P.generators().vertices
        array([[0., 0.],
               [0., 1.],
               [1., 0.]])
    """

    def __init__(
        self,
        A: Any = None, b: Any = None, A_eq: Any = None, b_eq: Any = None, lower: Any = None, upper: Any = None,
        shape: Shape | None = None,
        *,
        names: Sequence[str] | None = None,
        eq_names: Sequence[str] | None = None,
        coordinates: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        for letter, matrix, rhs, called in (("A", A, b, names), ("A_eq", A_eq, b_eq, eq_names)):
            if matrix is None and (rhs is not None or called is not None):
                what = "a list of names" if rhs is None else letter.replace("A", "b")
                raise ValueError(f"{what} was given without {letter}.")
        if coordinates is not None:
            A, A_eq, lower, upper = (in_order(coordinates, part) for part in (A, A_eq, lower, upper))
        event = None if shape is None else as_shape(shape)
        inequalities = None if A is None else read_rows(A, b, names, ("A", "b"))
        equalities = None if A_eq is None else read_rows(A_eq, b_eq, eq_names, ("A_eq", "b_eq"))
        dim = common_dim(event, inequalities, equalities, lower, upper)
        event = (dim,) if event is None else event
        low, high = read_bound(lower, "lower", event, -math.inf), read_bound(upper, "upper", event, math.inf)
        super().__init__(event, inequalities, equalities, low, high, read_names(coordinates, dim))
        if not self.contains_zero:
            linear_programs.refuse_if_empty(self)

    @classmethod
    def from_rows(
        cls,
        inequalities: Rows | None,
        equalities: Rows | None,
        lower: Array | None,
        upper: Array | None,
        shape: tuple[int, ...],
        *,
        check: bool = True,
        coordinate_names: CoordinateNames | None = None,
    ) -> Polyhedron:
        """A set from what was read before.

        Args:
            inequalities, equalities: rows, or None.
            lower, upper: bounds (event shape), or None.
            shape: the event shape.
            coordinate_names: of the coordinates and their bounds, where they have names.
            check: False where the set cannot be empty.
        """
        made = cls.__new__(cls)
        Statement.__init__(made, shape, inequalities, equalities, lower, upper, coordinate_names)
        if check and not made.contains_zero:
            linear_programs.refuse_if_empty(made)
        return made

    # -- as a whole ------------------------------------------------------------------------------------------

    is_bounded = cached_property(linear_programs.is_bounded)
    is_subset = linear_programs.is_subset
    describe = description.describe
    __repr__ = description.summary
    plot = plotting.plot_polyhedron

    def same_set(self, other: Polyhedron) -> bool:
        """Whether this set and the ``other`` are the same, however they are stated.

        Examples:
            >>> import rayhull as rh
            >>> P, Q = rh.parse("x >= 0; y >= 0; x + y <= 1"), rh.parse("x >= 0; y >= 0; 2*x + 2*y <= 2; x <= 5")
            >>> P == Q, P.same_set(Q)
            (False, True)
        """
        return self.is_subset(other) and other.is_subset(self)

    # -- points of it, its blocks, other forms ---------------------------------------------------------------

    at_hand = cached_property(interior.at_hand)
    centre = cached_property(interior.centre)
    reach = interior.reach
    base_rule = affine_rule

    def sample(self, n: int, seed: int | None = None) -> Array:
        """n random points (n, event shape) by hit-and-run from the centre, the same ones for the same ``seed``.

        Unbounded directions are cut off.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.simplex(3)
            >>> x = P.sample(100, seed=0)
            >>> x.shape, bool(P.contains(x).all()), bool((x == P.sample(100, seed=0)).all())
            ((100, 3), True, True)
        """
        return interior.hit_and_run(self, n, np.random.default_rng(seed)).reshape(n, *self.shape)

    def volume(self, *, relative: bool = False) -> float:
        """The volume of a bounded set, by a triangulation of its own generators: small sets only.

        Args:
            relative: measured within the affine hull, for a set without interior.

        Examples:
            >>> import rayhull as rh
            >>> round((rh.box(0, 1, 3) & rh.Polyhedron([[1, 1, 1]], 1)).volume(), 12)
            0.166666666667
        """
        from rayhull.conversion.generators import volume

        return volume(self, relative=relative)

    def generators(self, **options: Any) -> Generators:
        """The same set as vertices, rays and lines; ``options`` are those of :func:`rayhull.convert`."""
        from rayhull.conversion import convert

        return convert(self, **options)

    @property
    def blocks(self) -> tuple[Array, ...]:
        """Groups of coordinates (flat) that no row ties together: the set is the product over them."""
        return tuple(index for group in self.block_groups for index in group.index)

    @cached_property
    def block_groups(self) -> tuple[BlockGroup, ...]:
        """The blocks, identical ones together: each a small set and the places where it stands."""
        from rayhull.sets.products import block_groups

        return block_groups(self)

    @cached_property
    def mirrored_groups(self) -> tuple[BlockGroup, ...]:
        """The blocks, identical ones and mirror images (x -> -x) together; many different intervals side by side."""
        from rayhull.sets.products import KINDS, block_groups

        return block_groups(self, mirrored=True, most=KINDS)

    # -- sets from sets, and other libraries -----------------------------------------------------------------

    def __and__(self, other: Any) -> Polyhedron:
        """The points in both sets."""
        if not isinstance(other, Polyhedron):
            return NotImplemented
        if other.shape != self.shape:
            raise ValueError(
                f"sets of shape {self.shape} and {other.shape} have no common points: give both the same shape."
            )
        lower, upper = _tighter(self.lower, other.lower, np.maximum), _tighter(self.upper, other.upper, np.minimum)
        return Polyhedron.from_rows(
            Rows.stack([self.inequalities, other.inequalities]),
            Rows.stack([self.equalities, other.equalities]),
            lower,
            upper,
            self.shape,
            coordinate_names=common_names(self, other, {"lower": lower, "upper": upper}),
        )

    def with_sides(self, *, b: Any = None, b_eq: Any = None, lower: Any = None, upper: Any = None) -> Polyhedron:
        """The set of one sample: other right-hand sides or bounds in place of the stated ones.

        Args:
            b, b_eq, lower, upper: as for the set itself.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("demand: coal + gas == 100; coal <= 60; gas <= 60; coal >= 0; gas >= 0")
            >>> print(P.with_sides(b_eq=50).explain([60, 10]))
            The point is outside: 1 of 5 rules is broken.
              broken  demand, by 20
              binds   coal <= 60
              3 rules have slack, the least 10: gas >= 0
            >>> P.with_sides(b_eq=150)
            Traceback (most recent call last):
            ...
            rayhull.errors.EmptySetError: These 3 of 5 rows have no common point:
            coal <= 60, gas <= 60 and demand contradict each other. ...
        """
        bounds = {"lower": (lower, self.lower, -math.inf), "upper": (upper, self.upper, math.inf)}
        low, high = (
            stated if given is None else read_bound(by_name(self, given), name, self.shape, none)
            for name, (given, stated, none) in bounds.items()
        )
        rows, equalities = (
            own if given is None else self._restated(own, read_offsets(given, len(own), letters), sign)
            for own, given, letters, sign in (
                (self.inequalities, b, ("A", "b"), "<="),
                (self.equalities, b_eq, ("A_eq", "b_eq"), "=="),
            )
        )
        named = common_names(self, self, {"lower": low, "upper": high})
        return Polyhedron.from_rows(rows, equalities, low, high, self.shape, coordinate_names=named)

    def _restated(self, rows: Rows, offsets: Array, sign: str) -> Rows:
        """Rows with other right-hand sides: a name that is the text of a rule is not true of another one."""
        new = replace(rows, offsets=offsets)
        name = partial(_name_of_restated, self, rows, new, sign)
        return replace(new, names=Names.by(name, np.arange(len(rows))))

    def in_units(self, mean: Any, std: Any) -> Polyhedron:
        """The same set in standardised units, {z : mean + std z is in the set}; exact where all numbers are.

        Args:
            mean, std: a number, or one for each coordinate (event shape), std positive.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("heat <= 1000 * share; heat >= 0; 0 <= share <= 1")
            >>> Q = P.in_units(mean=[500, 0.5], std=[200, 0.25])
            >>> [300, 0.25] in P, [-1, -1] in Q, [300, 0.5] in P, [-1, 0] in Q
            (False, False, True, True)
        """
        from rayhull.sets.products import units_of

        centre, unit = units_of(self, mean, std)
        inverse = reciprocals(unit)

        def moved(rows: Rows) -> Rows:  # a·(mean + std z) <= b is (a std)·z <= b - a·mean
            with np.errstate(over="ignore", invalid="ignore"):
                shift = grouped_sums(multiply(rows.data, centre[rows.indices]), rows.row_of_entry, len(rows))
                data, offsets = multiply(rows.data, unit[rows.indices]), add(rows.offsets, -shift)
            for part in (data, offsets):
                refuse_unless_finite("the set in these units", part)
            return replace(rows, data=data, offsets=offsets)

        def bound(values: Array | None) -> Array | None:
            return None if values is None else multiply(add(values.ravel(), -centre), inverse).reshape(self.shape)

        parts = moved(self.inequalities), moved(self.equalities), bound(self.lower), bound(self.upper)
        return Polyhedron.from_rows(*parts, self.shape, check=False, coordinate_names=self.coordinate_names)

    def to_cvxpy(self, x: Any = None) -> tuple[Any, list[Any]]:
        """A cvxpy variable of the event shape (or the given ``x``) and the constraints that put it in the set."""
        cp = optional("cvxpy", "cvxpy", "cvxpy", "Constraints of cvxpy")
        x = cp.Variable(self.shape, name="x") if x is None else x
        flat, rows, equal = cp.vec(x, order="C"), self.rows, self.equality_rows
        found = [rows.matrix @ flat <= rows.rhs] if len(rows) else []
        return x, found + ([equal.matrix @ flat == equal.rhs] if len(equal) else [])


def need_set(P: object, *, cones: bool = False) -> None:
    """Refuse what is not a set, with what to write instead; ``cones``: whether it may have some."""
    if isinstance(P, Polyhedron) or (cones and hasattr(P, "cones")):
        return
    if isinstance(P, tuple | list) and len(P) == 2:
        raise TypeError("expected a set, got two things: give rayhull.Polyhedron(A, b) for A x <= b.")
    hint = "rayhull.Polyhedron(A) for A x <= 0, rayhull.Polyhedron(A, b) for A x <= b"
    kind, without = type(P), " without cones" if hasattr(P, "cones") else ""
    raise TypeError(f"expected a set{without}, got {kind.__name__}: give {getattr(kind, 'instead', hint)}.")


def _tighter(first: Array | None, second: Array | None, pick: Any) -> Array | None:
    """The tighter of two bounds in each coordinate; ``pick`` is np.maximum or np.minimum."""
    if first is None or second is None:
        return second if first is None else first
    return np.asarray(pick(*alike([first, second])))


def _name_of_restated(P: Statement, old: Rows, new: Rows, sign: str, i: int) -> str:
    name = old.names[i]
    same = old.offsets[i] == new.offsets[i] or not any(f" {s} " in name for s in ("<=", ">=", "=="))
    return name if same else new.text(P.coordinates, sign, i)
