"""The set: {x : A x <= b, A_eq x = b_eq, lower <= x <= upper}, and what can be asked of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from rayhull.exact.numbers import Array, alike
from rayhull.sets import membership
from rayhull.sets.interior import at_hand
from rayhull.sets.linear_programs import is_bounded, is_subset, refuse_if_empty
from rayhull.sets.reading import GivenSides, Shape, as_shape, common_dim, event_last, read_bound, read_names, read_rows
from rayhull.sets.rows import Rows
from rayhull.sets.statement import CoordinateNames, Statement, common_names

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.base_rule import BaseRule
    from rayhull.sets.interior import Centre
    from rayhull.sets.products import BlockGroup

MAX_GENERATORS = 1_000_000  # of a conversion, unless it is given another budget


class Polyhedron(Statement):
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
        coordinates: one name for each coordinate, flat and in C order. Default ``x[0]``, ``x[2, 5]``.

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
        for letter, matrix, rhs in (("A", A, b), ("A_eq", A_eq, b_eq)):
            if matrix is None and rhs is not None:
                raise ValueError(f"{letter.replace('A', 'b')} was given without {letter}.")
        event = None if shape is None else as_shape(shape)
        inequalities = None if A is None else read_rows(A, b, names, ("A", "b"))
        equalities = None if A_eq is None else read_rows(A_eq, b_eq, eq_names, ("A_eq", "b_eq"))
        dim = common_dim(event, inequalities, equalities, lower, upper)
        event = (dim,) if event is None else event
        low, high = read_bound(lower, "lower", event, -math.inf), read_bound(upper, "upper", event, math.inf)
        super().__init__(event, inequalities, equalities, low, high, read_names(coordinates, dim))
        if not self.contains_zero:
            refuse_if_empty(self, at_hand)

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
        """A set from rows and bounds (event shape, or None) that were read before.

        Args:
            check: False where the set cannot be empty.
        """
        made = cls.__new__(cls)
        Statement.__init__(made, shape, inequalities, equalities, lower, upper, coordinate_names)
        if check and not made.contains_zero:
            refuse_if_empty(made, at_hand)
        return made

    # -- at a point ------------------------------------------------------------------------------------------

    def violation(self, x: Any, *, axis: int = -1, **sides: Unpack[GivenSides]) -> Any:
        """How far x is outside: the largest amount by which a row or bound, as stated, is exceeded, 0 inside.

        ``A``, ``b``, ``A_eq``, ``b_eq``, ``lower``, ``upper`` beside x replace what the set states, or are added to it,
        for all samples or for each its own. Columns of a DataFrame are taken by the names of the set's coordinates.
        ``axis`` is the one that the event stands on, where it is not the last: 1 for the channels of images.

        Shape: x (\\*, event shape), A (\\*, m, d), b (\\*, m), bounds a number or (\\*, event shape) → (\\*), NumPy or
        torch as x is, in float64. Differentiable for tensors.
        """
        x, given = event_last(self, x, axis, **sides)
        return membership.violation(self, x, **given)

    def contains(self, x: Any, atol: float | None = None, *, axis: int = -1, **sides: Unpack[GivenSides]) -> Any:
        """Whether each x is inside: every row and bound holds up to ``atol``; sides of the sample as in ``violation``.

        By default the tolerance is that of x's dtype: 16 ulp of ``‖a‖₁ max|x| + |b|`` for each row a·x <= b. ``axis``
        as in ``violation``, too.

        Shape: x (\\*, event shape) → booleans (\\*), NumPy or torch as x is.

        Examples:
            >>> import numpy as np, rayhull as rh
            >>> P = rh.Polyhedron([[1, 1]], [1], lower=0)
            >>> P.contains(np.array([0.9, 0.9]), b=np.array([[1.0], [2.0]]))    # one right-hand side for each sample
            array([False,  True])
        """
        x, given = event_last(self, x, axis, **sides)
        return membership.contains(self, x, atol, **given)

    def contains_exactly(self, x: Any, *, axis: int = -1, **sides: Unpack[GivenSides]) -> Any:
        """Whether each x is inside in rational arithmetic on the given floats: no tolerance, no rounding. Slow.

        Sides of the sample as in ``violation``, taken as the dyadic rationals that they are.
        """
        x, given = event_last(self, x, axis, **sides)
        return membership.contains_exactly(self, x, **given)

    def __contains__(self, x: Any) -> bool:
        """Whether a point, or every one of many, is inside, up to the tolerance of ``contains``."""
        return bool(np.all(np.asarray(self.contains(x))))

    def slack(self, x: Any) -> membership.Slack:
        """The slack b - a·x of every rule by name, worst first: negative where broken; of an equality, minus its error.

        Shape: x (\\*, event shape) → values (\\*, m), NumPy or torch as x is. Differentiable for a tensor.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("coal + gas == 100; coal <= 2*gas; gas >= 0; gas <= 60")
            >>> P.slack([70, 30])
            coal <= 2*gas              -10  broken
            coal + gas == 100            0  holds
            gas <= 60                   30
            gas >= 0                    30
            >>> float(P.slack([70, 30])["coal <= 2*gas"])
            -10.0
        """
        return membership.slack(self, x)

    def explain(self, x: Any) -> str:
        """One point in words: which rules are broken and by how much, which bind.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("coal + gas == 100; coal <= 2*gas; gas >= 0; gas <= 60")
            >>> print(P.explain([40, 60]))
            The point is inside: all 4 rules hold.
              binds   gas <= 60
              2 rules have slack, the least 60: gas >= 0
        """
        return membership.explain(self, x)

    # -- as a whole ------------------------------------------------------------------------------------------

    @cached_property
    def is_bounded(self) -> bool:
        """Whether the set contains no ray and no line."""
        return is_bounded(self)

    def is_subset(self, other: Polyhedron) -> bool:
        """Whether every point of this set lies in the other, by a linear program for each of its rows.

        Examples:
            >>> import rayhull as rh
            >>> rh.simplex(3).is_subset(rh.box(0, 1, 3)), rh.box(0, 1, 3).is_subset(rh.simplex(3))
            (True, False)
        """
        return is_subset(self, other)

    def same_set(self, other: Polyhedron) -> bool:
        """Whether both are the same set, however stated.

        Examples:
            >>> import rayhull as rh
            >>> P, Q = rh.parse("x >= 0; y >= 0; x + y <= 1"), rh.parse("x >= 0; y >= 0; 2*x + 2*y <= 2; x <= 5")
            >>> P == Q, P.same_set(Q)
            (False, True)
        """
        return is_subset(self, other) and is_subset(other, self)

    # -- points of it, its blocks, other forms ---------------------------------------------------------------

    def interior_point(self) -> Array:
        """A well-centred point of the relative interior (event shape): the analytic centre, or near it."""
        return self.centre.point.reshape(self.shape)

    @cached_property
    def centre(self) -> Centre:
        """The interior point with the rows that hold with equality everywhere."""
        from rayhull.sets.interior import centre

        return centre(self)

    def base_rule(self, varies: Mapping[str, tuple[Any, Any]], scale: float = 1.0) -> BaseRule:
        """A base point x0(θ) = K θ + k that is inside for every value of the sides that vary: :class:`BaseRule`."""
        from rayhull.sets.base_rule import base_rule

        return base_rule(self, varies, scale)

    def sample(self, n: int, seed: int | None = None) -> Array:
        """n random points (n, event shape) by hit-and-run from the centre; unbounded directions are cut off."""
        from rayhull.sets.interior import hit_and_run

        return hit_and_run(self, n, np.random.default_rng(seed)).reshape(n, *self.shape)

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
        """The same set as vertices, rays and lines: :func:`rayhull.convert`."""
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
        """The blocks, identical ones and mirror images (x -> -x) together."""
        from rayhull.sets.products import block_groups

        return block_groups(self, mirrored=True)

    def describe(self) -> str:
        """What a person wants to know before using the set: dimension, rows, hidden equalities, blocks."""
        from rayhull.sets.description import describe

        return describe(self)

    def __repr__(self) -> str:
        from rayhull.sets.description import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from rayhull.sets.plotting import as_html

        return as_html(repr(self), self, self.plot)

    def plot(
        self,
        coordinates: Sequence[Any] | None = None,
        *,
        at: Any = None,
        ax: Any = None,
        points: Any = None,
        vertices: bool = True,
        window: tuple[Any, Any] | None = None,
        color: str = "#0072B2",
    ) -> Any:
        """Draw the set in two or three coordinates with matplotlib (the extra ``plot``); returns the axes.

        Unbounded sets are clipped to a window; edges that go on beyond it end in arrows.

        Args:
            coordinates: two or three names or flat numbers; a set in R^2 or R^3 needs none.
            at: a point (event shape): the section through it is drawn. By default the projection of the whole set.
            ax: axes to draw on; for three coordinates made with ``projection="3d"``.
            points: points (n, event shape) to draw too: dots inside, crosses outside.
            vertices: whether to mark the vertices.
            window: lower and upper corner, or two numbers, to which an unbounded set is clipped.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("coal + gas + wind == 100; coal <= 2*gas; coal >= 0; gas >= 0; 0 <= wind <= 40")
            >>> ax = P.plot(("coal", "wind"), points=P.sample(50, seed=0))  # doctest: +SKIP
        """
        from rayhull.sets.plotting import plot_polyhedron

        return plot_polyhedron(
            self, coordinates, at=at, ax=ax, points=points, vertices=vertices, window=window, color=color
        )

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
        from rayhull.sets.products import in_units

        return in_units(self, mean, std)

    def to_cvxpy(self, x: Any = None) -> tuple[Any, list[Any]]:
        """A cvxpy variable of the event shape (or the given one) and the constraints that put it in the set."""
        from rayhull.sets.rules import to_cvxpy

        return to_cvxpy(self, x)


def need_set(P: object, *, cones: bool = False) -> None:
    """Refuse what is not a set, with what to write instead; ``cones``: whether it may have some."""
    if isinstance(P, Polyhedron) or (cones and hasattr(P, "cones")):
        return
    if isinstance(P, tuple | list) and len(P) == 2:
        raise TypeError("expected a set, got two things: give rayhull.Polyhedron(A, b) for A x <= b.")
    hint = "rayhull.Polyhedron(A) for A x <= 0, rayhull.Polyhedron(A, b) for A x <= b"
    raise TypeError(f"expected a set, got {type(P).__name__}: give {getattr(type(P), 'instead', hint)}.")


def _tighter(first: Array | None, second: Array | None, pick: Any) -> Array | None:
    """The tighter of two bounds in each coordinate; ``pick`` is np.maximum or np.minimum."""
    if first is None or second is None:
        return second if first is None else first
    return np.asarray(pick(*alike([first, second])))
