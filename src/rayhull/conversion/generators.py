"""The set as vertices, rays and lines, conv(vertices) + cone(rays) + span(lines), and the way back to inequalities.

The inequalities that hold on a set form a cone themselves: its rays are the irredundant ones, its lines the equalities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from rayhull.exact.numbers import directions_to_float, to_float
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import as_array
from rayhull.sets.rows import Array


@dataclass(frozen=True, eq=False)
class ExactGenerators:
    """Integers behind the floats: vertex i is numerators[i] / denominators[i], rays and lines are primitive."""

    numerators: Array  # (p, d)
    denominators: Array  # (p,), positive
    rays: Array  # (r, d)
    lines: Array  # (l, d)


class Generators:
    """conv(vertices) + cone(rays) + span(lines).

    ``vertices`` (p, d), ``rays`` (r, d) and ``lines`` (l, d) are float64. A cone's only vertex is 0. Where the set was
    stated exactly, ``exact`` holds the integers behind them; ``exact_vertices`` gives the vertices as fractions.

    Args:
        vertices, rays, lines: array-likes of numbers; integers and fractions stay exact. Without vertices, 0 is one.

    Examples:
        >>> import rayhull as rh
        >>> G = rh.Generators(vertices=[[0, 0], [2, 0], [0, 1]])
        >>> G
        Generators(3 vertices, 0 rays, 0 lines in R^2, exact)
        >>> G.to_polyhedron().contains([0.5, 0.5]).item()
        True
    """

    def __init__(self, vertices: Any = None, rays: Any = None, lines: Any = None, dim: int | None = None) -> None:
        given = {"vertices": vertices, "rays": rays, "lines": lines}
        arrays = {name: _matrix(values, name) for name, values in given.items() if values is not None}
        sizes = {a.shape[1] for a in arrays.values()} | ({dim} if dim is not None else set())
        if len(sizes) != 1:
            raise ValueError(f"vertices, rays and lines must have the same number of columns, got {sorted(sizes)}.")
        d = sizes.pop()
        blank = np.zeros((0, d), np.int64)
        points = arrays.get("vertices", np.zeros((1, d), np.int64))
        directions = [arrays.get("rays", blank), arrays.get("lines", blank)]
        self.exact: ExactGenerators | None = _exact(points, *directions)
        self.vertices, self.rays, self.lines = (to_float(a) for a in (points, *directions))

    @classmethod
    def from_exact(cls, exact: ExactGenerators) -> Generators:
        """From integers; the floats are the nearest ones."""
        made = cls.__new__(cls)
        made.exact = exact
        made.vertices = _quotients(exact.numerators, exact.denominators)
        made.rays, made.lines = directions_to_float(exact.rays), directions_to_float(exact.lines)
        return made

    @classmethod
    def from_floats(cls, vertices: Array, rays: Array, lines: Array) -> Generators:
        """From computed floats: rounded numbers that look like small dyadic ones are not meant as exact."""
        made = cls.__new__(cls)
        made.exact = None
        made.vertices, made.rays, made.lines = vertices, rays, lines
        return made

    @property
    def dim(self) -> int:
        return int(self.vertices.shape[1])

    @cached_property
    def exact_vertices(self) -> Array | None:
        """The vertices as an object array of fractions, or None where the set was not exact."""
        if self.exact is None:
            return None
        rows = zip(self.exact.numerators.tolist(), self.exact.denominators.tolist(), strict=True)
        fractions = [[Fraction(n, bottom) for n in top] for top, bottom in rows]
        return np.array(fractions, dtype=object).reshape(self.vertices.shape)

    def __len__(self) -> int:
        return len(self.vertices) + len(self.rays) + len(self.lines)

    def __repr__(self) -> str:
        kind = "exact" if self.exact is not None else "floats"
        return (
            f"Generators({len(self.vertices)} vertices, {len(self.rays)} rays, {len(self.lines)} lines "
            f"in R^{self.dim}, {kind})"
        )

    def plot(
        self,
        coordinates: Sequence[int] | None = None,
        *,
        ax: Any = None,
        window: tuple[Any, Any] | None = None,
        color: str = "#0072B2",
    ) -> Any:
        """Draw the set in two or three coordinates, clipped where it is unbounded: :meth:`rayhull.Polyhedron.plot`."""
        from rayhull.sets.plotting import plot_generators

        return plot_generators(self, coordinates, ax=ax, window=window, color=color)

    def to_polyhedron(self, **options: Any) -> Polyhedron:
        """The same set as inequalities and equalities, by the same machinery (options as in ``rayhull.convert``)."""
        from rayhull.conversion.convert import convert

        return hull(convert(polar(self), **options), unit_of(self))


def _matrix(values: Any, name: str) -> Array:
    array = as_array(values, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix (one generator a row), got shape {array.shape}.")
    if not np.isfinite(array.astype(float)).all():
        raise ValueError(f"{name} must be finite.")
    return array


def _exact(points: Array, rays: Array, lines: Array) -> ExactGenerators | None:
    from rayhull.exact.matrices import primitive
    from rayhull.exact.numbers import common_denominator, rationals

    scaled = []
    for array in (points, rays, lines):
        parts = rationals(array)
        if parts is None:
            return None
        flat = zip(parts[0].ravel().tolist(), parts[1].ravel().tolist(), strict=True)
        fractions = np.array([Fraction(a, b) for a, b in flat], dtype=object).reshape(array.shape)
        scaled.append(common_denominator(fractions))
    (numerators, denominators), (along, _), (both_ways, _) = scaled
    return ExactGenerators(numerators, denominators, primitive(along), primitive(both_ways))


def _quotients(numerators: Array, denominators: Array) -> Array:
    """Correctly rounded floats of numerators / denominators."""
    if numerators.dtype != object and denominators.dtype != object and np.abs(numerators).max(initial=0) < 2**53:
        return numerators / denominators[:, None]
    exact = [[n / b for n in top] for top, b in zip(numerators.tolist(), denominators.tolist(), strict=True)]
    return np.array(exact, dtype=np.float64).reshape(numerators.shape)


def polar(G: Generators) -> Polyhedron:
    """The cone of the inequalities a·x <= c, as (c / unit, a), that hold on all of G: a·v <= c, a·r <= 0, a·l = 0."""
    if not len(G.vertices):
        raise ValueError("generators without a vertex describe the empty set; a cone has the vertex 0.")
    return Polyhedron(np.concatenate(_stacked(G)), A_eq=_with_zero(G.lines if G.exact is None else G.exact.lines))


def _stacked(G: Generators) -> list[Array]:
    """Rows (-1, v) and (0, r) of the polar cone, scaled to integers where exact."""
    if G.exact is not None:
        top = np.concatenate([-G.exact.denominators[:, None], G.exact.numerators], axis=1)
        return [top, _with_zero(G.exact.rays)]
    return [np.concatenate([-np.ones((len(G.vertices), 1)), G.vertices / unit_of(G)], axis=1), _with_zero(G.rays)]


def unit_of(G: Generators) -> float:
    """A power of two near the largest entry of a vertex: beside -1, floats of 1e-20 would look like rounding."""
    size = float(np.abs(G.vertices).max(initial=0.0)) if G.exact is None else 0.0
    return float(2.0 ** np.floor(np.log2(size))) if size else 1.0


def _with_zero(directions: Array) -> Array:
    return np.concatenate([np.zeros((len(directions), 1), directions.dtype), directions], axis=1)


def hull(facets: Generators, unit: float = 1.0) -> Polyhedron:
    """The set whose inequalities (c / unit, a) are the rays of the polar cone, and whose equalities are its lines."""
    known = facets if facets.exact is None else facets.exact
    rows, equalities = known.rays, known.lines
    rows = rows[(rows[:, 1:] != 0).any(axis=1)]  # (1, 0) says 0 <= 1
    scale = 1 if unit == 1.0 else Fraction(unit) if facets.exact else unit
    return Polyhedron(rows[:, 1:], rows[:, 0] * scale, equalities[:, 1:], equalities[:, 0] * scale)
