"""The set: {x : A x <= b, A_eq x = b_eq, lower <= x <= upper}, and what can be asked of it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.sets import exact_membership, membership
from rayhull.sets.reading import (
    Shape,
    as_shape,
    common_dim,
    join,
    stack,
    stated_bound,
    stated_matrix,
    stated_offsets,
    tighter,
)
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.blocks import BlockGroup


class Polyhedron:
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
    ) -> None:
        for letter, matrix, rhs in (("A", A, b), ("A_eq", A_eq, b_eq)):
            if matrix is None and rhs is not None:
                raise ValueError(f"{letter.replace('A', 'b')} was given without {letter}.")
        event = None if shape is None else as_shape(shape)
        inequalities = None if A is None else Rows.read(A, b, names, ("A", "b"))
        equalities = None if A_eq is None else Rows.read(A_eq, b_eq, eq_names, ("A_eq", "b_eq"))
        dim = common_dim(event, inequalities, equalities, lower, upper)
        self.shape: tuple[int, ...] = (dim,) if event is None else event
        self.inequalities = Rows.empty(dim) if inequalities is None else inequalities
        self.equalities = Rows.empty(dim) if equalities is None else equalities
        self.A = stated_matrix(A, "A", dim)
        self.A_eq = stated_matrix(A_eq, "A_eq", dim)
        self.b = stated_offsets(b, "b", len(self.inequalities))
        self.b_eq = stated_offsets(b_eq, "b_eq", len(self.equalities))
        self.lower = stated_bound(lower, "lower", self.shape, -math.inf)
        self.upper = stated_bound(upper, "upper", self.shape, math.inf)
        self._refuse_crossed_bounds()
        from rayhull.sets.linear_programs import refuse_if_empty

        refuse_if_empty(self)

    # -- what is stated, in the form the other rooms use ---------------------------------------------------------

    @property
    def dim(self) -> int:
        """d, the number of coordinates."""
        return math.prod(self.shape)

    @cached_property
    def lower_bounds(self) -> Array:
        """Lower bounds (d,) as floats, -inf where there is none."""
        return np.full(self.dim, -math.inf) if self.lower is None else self.lower.astype(float).ravel()

    @cached_property
    def upper_bounds(self) -> Array:
        """Upper bounds (d,) as floats, inf where there is none."""
        return np.full(self.dim, math.inf) if self.upper is None else self.upper.astype(float).ravel()

    @cached_property
    def rows(self) -> Rows:
        """Every inequality as a row: A without its zero rows, then the finite upper and the finite lower bounds.

        A coordinate with lower = upper is an equality and stands in ``equality_rows`` instead.
        """
        loose = self.lower_bounds < self.upper_bounds
        up = self._bound_rows(self.upper, np.flatnonzero(loose & (self.upper_bounds < math.inf)), +1, "upper")
        low = self._bound_rows(self.lower, np.flatnonzero(loose & (self.lower_bounds > -math.inf)), -1, "lower")
        return Rows.stack([self.inequalities.without_zeros(), up, low])

    @cached_property
    def equality_rows(self) -> Rows:
        """Every equality as a row: A_eq, then the coordinates whose bounds leave one value."""
        fixed = np.flatnonzero(self.lower_bounds == self.upper_bounds)
        return Rows.stack([self.equalities.without_zeros(), self._bound_rows(self.lower, fixed, +1, "fixed")])

    def _bound_rows(self, stated: Array | None, index: Array, sign: int, kind: str) -> Rows:
        if stated is None or not len(index):
            return Rows.empty(self.dim)
        label = {"upper": "upper bound of", "lower": "lower bound of", "fixed": "value of"}[kind]
        names = tuple(f"{label} x[{self.coordinate_name(i)}]" for i in index)
        values = stated.ravel()[index]
        if values.dtype.kind == "u":
            values = values.astype(np.int64)
        data = np.full(len(index), sign, np.int64)
        return Rows.from_parts(data, index, np.arange(len(index) + 1), self.dim, sign * values, names, ("A", "bounds"))

    def coordinate_name(self, flat: int) -> str:
        """The coordinate's place in the event shape: '3' or '2, 5'."""
        return ", ".join(str(i) for i in np.unravel_index(int(flat), self.shape))

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

    def violation(self, x: Any) -> Any:
        """How far x is outside: the largest amount by which a row or bound is exceeded, 0 inside.

        Shape: x (\\*, event shape) → (\\*), NumPy or torch as x is, in float64. Differentiable for a tensor.
        """
        return membership.violation(self, x)

    def contains(self, x: Any, atol: float | None = None) -> Any:
        """Whether each x is inside: every row and bound holds up to ``atol``.

        By default the tolerance is that of x's dtype: 16 ulp of ‖a‖₁ max|x| + |b| for each row a·x <= b.

        Shape: x (\\*, event shape) → booleans (\\*), NumPy or torch as x is.
        """
        return membership.contains(self, x, atol)

    def contains_exactly(self, x: Any) -> Any:
        """Whether each x is inside in rational arithmetic on the given floats: no tolerance, no rounding. Slow."""
        return exact_membership.contains_exactly(self, x)

    @property
    def is_cone(self) -> bool:
        """Whether every right-hand side is stated as 0, so that x inside means t x inside for every t >= 0."""
        return not self.rows.rhs.any() and not self.equality_rows.rhs.any()

    @cached_property
    def is_bounded(self) -> bool:
        """Whether the set contains no ray and no line."""
        from rayhull.sets.linear_programs import is_bounded

        return is_bounded(self)

    def interior_point(self) -> Array:
        """A well-centred point of the relative interior (event shape): the analytic centre, or near it."""
        from rayhull.sets.centre import centre

        return centre(self).point.reshape(self.shape)

    def sample(self, n: int, seed: int | None = None) -> Array:
        """n random points (n, event shape) by hit-and-run from the centre; unbounded directions are cut off."""
        from rayhull.sets.sampling import hit_and_run

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

    def describe(self) -> str:
        """What a person wants to know before using the set: dimension, rows, hidden equalities, blocks, way in."""
        from rayhull.sets.description import describe

        return describe(self)

    def __repr__(self) -> str:
        parts = []
        if len(self.inequalities):
            parts.append(f"{len(self.inequalities)} inequalities")
        if len(self.equalities):
            parts.append(f"{len(self.equalities)} equalities")
        for values, sign in ((self.lower, ">="), (self.upper, "<=")):
            if values is not None:
                low, high = values.min(), values.max()
                parts.append(f"x {sign} {low}" if low == high else f"x {sign} {low} .. {high}")
        return f"Polyhedron(shape={self.shape}: {', '.join(parts) or 'the whole space'})"

    # -- sets from sets ----------------------------------------------------------------------------------------

    def __and__(self, other: Any) -> Polyhedron:
        """The points in both sets."""
        if not isinstance(other, Polyhedron):
            return NotImplemented
        if other.shape != self.shape:
            raise ValueError(
                f"sets of shape {self.shape} and {other.shape} have no common points: give both the same shape."
            )
        return Polyhedron.assemble(
            shape=self.shape,
            A=stack(self.A, other.A),
            A_eq=stack(self.A_eq, other.A_eq),
            b=join(self.b, other.b),
            b_eq=join(self.b_eq, other.b_eq),
            inequalities=Rows.stack([self.inequalities, other.inequalities]),
            equalities=Rows.stack([self.equalities, other.equalities]),
            lower=tighter(self.lower, other.lower, np.maximum),
            upper=tighter(self.upper, other.upper, np.minimum),
        )

    @classmethod
    def assemble(cls, *, check: bool = True, **parts: Any) -> Polyhedron:
        """A set from parts that are already in our form; ``check=False`` where it cannot be empty."""
        from rayhull.sets.linear_programs import refuse_if_empty

        made = cls.__new__(cls)
        made.__dict__.update(parts)
        made._refuse_crossed_bounds()
        if check:
            refuse_if_empty(made)
        return made

    def _refuse_crossed_bounds(self) -> None:
        from rayhull.errors import EmptySetError

        crossed = np.flatnonzero(self.lower_bounds > self.upper_bounds)
        if len(crossed):
            i = self.coordinate_name(crossed[0])
            low, high = self.lower_bounds[crossed[0]], self.upper_bounds[crossed[0]]
            raise EmptySetError(
                f"lower > upper in {len(crossed)} coordinates, first at x[{i}]: {low:g} > {high:g}.",
                (f"lower bound of x[{i}]", f"upper bound of x[{i}]"),
            )

    @staticmethod
    def from_scipy(constraints: Any, bounds: Any = None, shape: Shape | None = None) -> Polyhedron:
        """From ``scipy.optimize.LinearConstraint`` (one or several) and ``Bounds``."""
        from rayhull.sets.scipy import from_scipy

        return from_scipy(constraints, bounds, shape)

    def to_scipy(self) -> tuple[Any, Any]:
        """As one ``scipy.optimize.LinearConstraint`` and one ``Bounds``."""
        from rayhull.sets.scipy import to_scipy

        return to_scipy(self)
