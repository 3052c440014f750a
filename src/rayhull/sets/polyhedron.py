"""The set: {x : A x <= b, A_eq x = b_eq, lower <= x <= upper}, and what can be asked of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.exact.numbers import Array, alike
from rayhull.sets import membership
from rayhull.sets.description import count, describe
from rayhull.sets.emptiness import refuse_if_empty
from rayhull.sets.equalities import independent_equalities
from rayhull.sets.layout import RowLayout
from rayhull.sets.linear_programs import is_bounded
from rayhull.sets.names import CoordinateNames, Label, Names, common_names
from rayhull.sets.questions import Questions
from rayhull.sets.reading import Shape, as_shape, common_dim, read_bound, read_names, read_rows, tighter
from rayhull.sets.rows import Rows

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.base_rule import BaseRule
    from rayhull.sets.blocks import BlockGroup
    from rayhull.sets.interior import Centre


class Polyhedron(Questions):
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
        A: Any = None,
        b: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
        shape: Shape | None = None,
        *,
        names: Sequence[str] | None = None,
        eq_names: Sequence[str] | None = None,
        coordinates: Sequence[str] | None = None,
    ) -> None:
        for letter, matrix, rhs in (("A", A, b), ("A_eq", A_eq, b_eq)):
            if matrix is None and rhs is not None:
                raise ValueError(f"{letter.replace('A', 'b')} was given without {letter}.")
        event = None if shape is None else as_shape(shape)
        inequalities = None if A is None else read_rows(A, b, names, ("A", "b"))
        equalities = None if A_eq is None else read_rows(A_eq, b_eq, eq_names, ("A_eq", "b_eq"))
        dim = common_dim(event, inequalities, equalities, lower, upper)
        event = (dim,) if event is None else event
        low, high = read_bound(lower, "lower", event, -math.inf), read_bound(upper, "upper", event, math.inf)
        self._hold(event, inequalities, equalities, low, high, read_names(coordinates, dim))
        refuse_if_empty(self)

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
        made._hold(shape, inequalities, equalities, lower, upper, coordinate_names)
        if check:
            refuse_if_empty(made)
        return made

    def _hold(
        self,
        shape: tuple[int, ...],
        inequalities: Rows | None,
        equalities: Rows | None,
        lower: Array | None,
        upper: Array | None,
        coordinate_names: CoordinateNames | None,
    ) -> None:
        self.shape, self.coordinate_names = shape, coordinate_names
        self.inequalities = Rows.empty(self.dim) if inequalities is None else inequalities
        self.equalities = Rows.empty(self.dim) if equalities is None else equalities
        self.lower, self.upper = lower, upper

    # -- what is stated, in the form the other rooms use ---------------------------------------------------------

    @property
    def dim(self) -> int:
        """d, the number of coordinates."""
        return math.prod(self.shape)

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates (d,), flat and in C order."""
        if self.coordinate_names is not None:
            return self.coordinate_names.names
        label = Label("x[{}]", self.shape)
        return tuple(label(i) for i in range(self.dim))

    @cached_property
    def lower_bounds(self) -> Array:
        """Lower bounds (d,) as floats, -inf where there is none."""
        return np.full(self.dim, -math.inf) if self.lower is None else self.lower.astype(float).ravel()

    @cached_property
    def upper_bounds(self) -> Array:
        """Upper bounds (d,) as floats, inf where there is none."""
        return np.full(self.dim, math.inf) if self.upper is None else self.upper.astype(float).ravel()

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
    def layout(self) -> RowLayout:
        """Where each stated row and each bound stands in ``rows`` and ``equality_rows``."""
        order = self.bound_order
        return RowLayout(
            self.dim,
            inequalities=np.flatnonzero(self.inequalities.sizes),
            upper=np.flatnonzero((order < 0) & (self.upper_bounds < math.inf)),
            lower=np.flatnonzero((order < 0) & (self.lower_bounds > -math.inf)),
            equalities=np.flatnonzero(self.equalities.sizes),
            fixed=np.flatnonzero(order == 0),
        )

    @cached_property
    def bound_order(self) -> Array:
        """The sign of lower - upper for each coordinate, decided on the numbers as they were stated."""
        if self.lower is None or self.upper is None:
            return np.full(self.dim, -1)
        low, high = alike([self.lower.ravel(), self.upper.ravel()])
        return np.asarray(low > high, np.int64) - np.asarray(low < high, np.int64)

    @cached_property
    def rows(self) -> Rows:
        """Every inequality as a row: A without its zero rows, then the finite upper and the finite lower bounds.

        A coordinate with lower = upper is an equality and stands in ``equality_rows`` instead.
        """
        up = self._bound_rows(self.upper, self.layout.upper, +1, "upper")
        low = self._bound_rows(self.lower, self.layout.lower, -1, "lower")
        return Rows.stack([self.inequalities.without_zeros(), up, low])

    @cached_property
    def equality_rows(self) -> Rows:
        """Every equality as a row: A_eq, then the coordinates whose bounds leave one value."""
        fixed = self._bound_rows(self.lower, self.layout.fixed, +1, "value")
        return Rows.stack([self.equalities.without_zeros(), fixed])

    def _bound_rows(self, stated: Array | None, index: Array, sign: int, side: str) -> Rows:
        if stated is None or not len(index):
            return Rows.empty(self.dim)
        names = Names.by(self._bound_name(side), index)
        data, places = np.full(len(index), sign, np.int64), np.arange(len(index) + 1)
        return Rows(data, index, places, self.dim, sign * stated.ravel()[index], names)

    def _bound_name(self, side: str) -> Callable[[int], str]:
        if self.coordinate_names is not None:
            return self.coordinate_names.bound(side)
        return Label("value of x[{}]" if side == "value" else f"{side} bound of x[{{}}]", self.shape)

    @cached_property
    def independent_equalities(self) -> Rows:
        """As many rows as the rank with the solutions of ``equality_rows``, well conditioned: for maps into the set."""
        return independent_equalities(self.equality_rows)

    @property
    def is_exact(self) -> bool:
        """Whether every number is an integer, a fraction or a small dyadic float, so that conversion is exact."""
        return self.rows.integers is not None and self.equality_rows.integers is not None

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

    # -- questions ---------------------------------------------------------------------------------------------

    def violation(
        self,
        x: Any,
        *,
        A: Any = None,
        b: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
    ) -> Any:
        """How far x is outside: the largest amount by which a row or bound is exceeded, 0 inside.

        What is given beside x replaces what the set states, or is added to it, for all samples or for each its own.

        Shape: x (\\*, event shape), A (\\*, m, d), b (\\*, m), bounds a number or (\\*, event shape) → (\\*), NumPy or
        torch as x is, in float64. Differentiable for tensors.
        """
        return membership.violation(self, x, A=A, b=b, A_eq=A_eq, b_eq=b_eq, lower=lower, upper=upper)

    def contains(
        self,
        x: Any,
        atol: float | None = None,
        *,
        A: Any = None,
        b: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
    ) -> Any:
        """Whether each x is inside: every row and bound holds up to ``atol``; sides of the sample as in ``violation``.

        By default the tolerance is that of x's dtype: 16 ulp of ‖a‖₁ max|x| + |b| for each row a·x <= b.

        Shape: x (\\*, event shape) → booleans (\\*), NumPy or torch as x is.

        Examples:
            >>> import numpy as np, rayhull as rh
            >>> P = rh.Polyhedron([[1, 1]], [1], lower=0)
            >>> P.contains(np.array([0.9, 0.9]), b=np.array([[1.0], [2.0]]))    # one right-hand side for each sample
            array([False,  True])
        """
        return membership.contains(self, x, atol, A=A, b=b, A_eq=A_eq, b_eq=b_eq, lower=lower, upper=upper)

    def contains_exactly(
        self,
        x: Any,
        *,
        A: Any = None,
        b: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
    ) -> Any:
        """Whether each x is inside in rational arithmetic on the given floats: no tolerance, no rounding. Slow.

        Sides of the sample as in ``violation``, taken as the dyadic rationals that they are.
        """
        return membership.contains_exactly(self, x, A=A, b=b, A_eq=A_eq, b_eq=b_eq, lower=lower, upper=upper)

    @property
    def is_cone(self) -> bool:
        """Whether every right-hand side is stated as 0, so that x inside means t x inside for every t >= 0."""
        return not self.rows.rhs.any() and not self.equality_rows.rhs.any()

    @cached_property
    def is_bounded(self) -> bool:
        """Whether the set contains no ray and no line."""
        return is_bounded(self)

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
        from rayhull.conversion.triangulation import volume

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
        from rayhull.sets.blocks import block_groups

        return block_groups(self)

    @cached_property
    def mirrored_groups(self) -> tuple[BlockGroup, ...]:
        """The blocks, identical ones and mirror images (x -> -x) together."""
        from rayhull.sets.blocks import mirrored_groups

        return mirrored_groups(self)

    def describe(self) -> str:
        """What a person wants to know before using the set: dimension, rows, hidden equalities, blocks."""
        return describe(self)

    def __repr__(self) -> str:
        parts = []
        for rows, noun in ((self.inequalities, "inequality"), (self.equalities, "equality")):
            if len(rows):
                parts.append(count(len(rows), noun))
        for values, sign in ((self.lower, ">="), (self.upper, "<=")):
            if values is not None:
                low, high = values.min(), values.max()
                parts.append(f"x {sign} {low}" if low == high else f"x {sign} {low} .. {high}")
        few = self.coordinate_names is not None and self.dim <= 6 and "[" not in self.coordinates[0]
        where = ", ".join(self.coordinates) if few else f"shape={self.shape}"
        return f"Polyhedron({where}: {', '.join(parts) or 'the whole space'})"

    # -- sets from sets ----------------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Polyhedron:
        """The points in both sets."""
        if not isinstance(other, Polyhedron):
            return NotImplemented
        if other.shape != self.shape:
            raise ValueError(
                f"sets of shape {self.shape} and {other.shape} have no common points: give both the same shape."
            )
        lower, upper = tighter(self.lower, other.lower, np.maximum), tighter(self.upper, other.upper, np.minimum)
        return Polyhedron.from_rows(
            Rows.stack([self.inequalities, other.inequalities]),
            Rows.stack([self.equalities, other.equalities]),
            lower,
            upper,
            self.shape,
            coordinate_names=common_names(self, other, {"lower": lower, "upper": upper}),
        )

    @staticmethod
    def from_scipy(constraints: Any, bounds: Any = None, shape: Shape | None = None) -> Polyhedron:
        """From ``scipy.optimize.LinearConstraint`` (one or several) and ``Bounds``."""
        from rayhull.sets.interchange import from_scipy

        return from_scipy(constraints, bounds, shape)

    def to_scipy(self) -> tuple[Any, Any]:
        """As one ``scipy.optimize.LinearConstraint`` and one ``Bounds``."""
        from rayhull.sets.interchange import to_scipy

        return to_scipy(self)

    def to_cvxpy(self, x: Any = None) -> tuple[Any, list[Any]]:
        """A cvxpy variable of the event shape (or the given one) and the constraints that put it in the set."""
        from rayhull.sets.interchange import to_cvxpy

        return to_cvxpy(self, x)
