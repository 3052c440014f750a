"""The ways into a block, each a small module: the nearest point, steps and a shrink, vertices, rays.

The nearest point, steps and the shrink keep points of the block where they are: a coefficient is a coordinate, seen
from the base point in one unit for all of them, and ``start`` gives the unconstrained point x0 + s c. The others have
coefficients of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.maps.coefficients import NonNegative, Weights, without
from rayhull.maps.graphs import is_plain
from rayhull.maps.leak import damped, leaking, leaking_alone
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.maps.steps import ROOT, Factor, clamped, splitting
from rayhull.maps.steps import factor as factor_of
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.scaling import Gauge, Slack
from rayhull.projection.formulas import formula_of
from rayhull.projection.module import NearestPoint
from rayhull.projection.sides import NONE, Sides
from rayhull.projection.solve import Leak
from rayhull.sets.frame import DEPENDENT, Frame, near_one
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 2.0**36  # how far a point may be, in units of the base point, to have a nearest point of its own


def value_of(y: Tensor, x: Tensor) -> Tensor:
    """y, with the gradient of x: for a y that is x but for rounding."""
    return y.detach() + (x - x.detach()).to(y.dtype) if x.requires_grad else y


class Way(Constants):
    """Base of the modules below. Shape: ``start`` (\\*, count, k) → (\\*, count, n), ``forward`` → (\\*, count, n)

    Attributes:
        coefficients: how many numbers one block takes.
        keeps_inside: whether coefficients are coordinates, and points of the block stay where they are.
        follows: which sides of the sample ``forward`` takes into account; b_eq needs a base point that meets it.
        is_nearest: whether it is the nearest point, which all kinds of blocks can take together.
        has_base: whether it starts from a base point, with which it can follow b_eq.
        shrinking, smooth: switches of the shrink.
    """

    coefficients: int
    keeps_inside = is_nearest = has_base = False
    follows: frozenset[str] = frozenset()
    shrinking, smooth = True, False

    def start(self, c: Tensor) -> Tensor:
        """What coefficients stand for before the set is imposed."""
        return c

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Undoes ``start``, where ``keeps_inside``."""
        return x

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        """Points of the block; ``sides`` may bring a base point of each sample, too."""
        raise NotImplementedError

    def slack(self, sides: Sides) -> Slack | None:
        """The slack at the base point for the sides of each sample, where a shrink needs one."""
        return None

    def fits_graphs(self, sides: Sequence[str]) -> bool:
        """Whether tensor operations are all that it takes, for these sides of the sample."""
        return True

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        """The same, past which a share of the gradient leaks to u, where ``keeps_inside``."""
        if sides is NONE:
            return leaking_alone(self(u), u, share, self.unit_of_leak, block)
        return leaking(self(damped(u, share), sides), u, share, self.unit_of_leak, block)

    @property
    def unit_of_leak(self) -> Tensor | float:
        return 1.0


class Whole(Way):
    """No row at all: x = u."""

    keeps_inside = True
    follows = frozenset({"b", "b_eq"})

    def __init__(self, size: int, scale: float, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients, self.unit = size, scale

    def start(self, c: Tensor) -> Tensor:
        return c if self.unit == 1.0 else c * self.unit

    def coefficients_of(self, x: Tensor) -> Tensor:
        return x / self.unit

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        return u


class Seen(Way):
    """Base of the ways from x0 + s c, seen from a base point in the units of the set."""

    keeps_inside = True
    base: Tensor
    units: Tensor

    def __init__(self, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = base.size
        self.constant("base", base, persistent=True)
        self.constant("units", units, persistent=True)

    def start(self, c: Tensor) -> Tensor:
        return torch.addcmul(self.base, c, self.units)

    def coefficients_of(self, x: Tensor) -> Tensor:
        return (x - self.base) / self.units

    @property
    def unit_of_leak(self) -> Tensor | float:
        return self.units


class Nearest(Seen):
    """The nearest point of the set to x0 + s c. NaN stays NaN.

    Args:
        P: the block, or the whole set.
        base, units: x0 and s, flat.
    """

    is_nearest = True
    follows = frozenset({"b", "b_eq", "lower", "upper"})

    def __init__(self, P: Polyhedron, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(base, units, factory)
        self.nearest, self.event = NearestPoint(P), P.shape
        self.reach = FAR * max(1.0, float(np.abs(base).max()))

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        if sides is NONE and (found := self._direct(u)) is not None:
            return found
        given = {} if sides is NONE else sides.without_base(self.event)
        known = (u - u == 0).all(-1, keepdim=True)
        x = torch.where(known, u if given else self._in_reach(u), torch.zeros_like(u))
        z: Tensor = self.nearest(x.reshape(*x.shape[:-1], *self.event), **given).reshape(x.shape)
        return torch.where(known, z, torch.full_like(z, torch.nan))

    def fits_graphs(self, sides: Sequence[str]) -> bool:
        return formula_of(self.nearest.projector, sides) is not None

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        found = None if sides is not NONE else self._direct(u, Leak(share, self.units, block))
        return super().leaking(u, sides, share, block) if found is None else found

    def _direct(self, u: Tensor, leak: Leak | None = None) -> Tensor | None:
        """The kernels' points; None in graphs, and where something is left open (points far away, not finite)."""
        if not is_plain(u) or not u.numel():
            return None
        found = self.nearest.projector.direct(u.reshape(-1, u.shape[-1]), leak)
        return None if found is None else found.reshape(u.shape)

    def _in_reach(self, x: Tensor) -> Tensor:
        """x, or where it is FAR times as large as the base point the point at that distance on its way to 0.

        Seen from there the set is a point in float64: no solver could certify which one of it is nearest.
        """
        largest = x.abs().amax(-1, keepdim=True)
        return torch.where(largest > self.reach, x / largest * self.reach, x)


class Bounds(Seen):
    """Bounds alone: x = clamp(x0 + s c), the nearest point."""

    is_nearest = True
    lower: Tensor
    upper: Tensor

    def __init__(self, P: Polyhedron, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(base, units, factory)
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        return clamped(u, self.lower, self.upper)


class Steps(Seen):
    """Steps towards the nearest point (:mod:`rayhull.maps.steps`), then the shrink; none: bounds are clamped first.

    Args:
        P: the block.
        frame: the block seen from its base point, at which every row that is no equality has slack.
        units: s (n,).
        steps: how many.
        stretch: the weight of rows beside bounds in the steps.
    """

    has_base = True
    equal: Tensor
    lower: Tensor
    upper: Tensor
    lower_seen: Tensor
    upper_seen: Tensor
    low: Tensor
    high: Tensor
    numbers: Tensor
    norms: Tensor
    as_stated: Tensor
    rhs: Tensor

    def __init__(
        self, P: Polyhedron, frame: Frame, units: Array, steps: int, factory: Factory, *, stretch: float = 1.0
    ) -> None:
        super().__init__(frame.base, units, factory)
        self.has_equalities = frame.equal.shape[1] > 0
        self.bounded = bool(np.isfinite([P.lower_bounds, P.upper_bounds]).any())
        if len(frame.loose) == len(P.rows):  # rows that hold with equality everywhere have no slack to follow
            self.follows = frozenset({"b", "lower", "upper"} if self.bounded else {"b"})
        rows = np.ones(len(frame.loose), bool) if self.has_equalities else P.layout.is_stated(frame.loose)
        self.gauge = Gauge(P, frame.loose[rows], frame.slack[rows], factory)  # bounds alone are clamped
        self.shrinks = bool(rows.any())
        self.constant("equal", frame.equal)
        for name, bound in (("lower", P.lower_bounds), ("upper", P.upper_bounds)):
            self.constant(name, bound)
            self.constant(f"{name}_seen", bound - frame.base)
        self.steps = steps if self.shrinks else 0
        if steps:
            self._take_rows(P, frame, stretch)

    def _take_rows(self, P: Polyhedron, frame: Frame, stretch: float) -> None:
        """Rows of one length along the equalities, and their limits seen from the base point."""
        numbers = frame.loose[P.layout.is_stated(frame.loose)]
        null = scipy.linalg.null_space(frame.equal.T) if self.has_equalities else None
        rows = P.rows.matrix[numbers].toarray()
        scale = near_one(rows)[:, None] if len(rows) else np.ones((0, 1))  # squares must not overflow or vanish
        along = rows * scale if null is None else (rows * scale) @ null @ null.T
        moved = np.linalg.norm(along, axis=1) > DEPENDENT  # rows that nothing moves along the equalities have no part
        numbers, rows, scale, along = (part[moved] for part in (numbers, rows, scale, along))
        lengths = np.linalg.norm(along, axis=1) / stretch
        found = factor_of(along / lengths[:, None], null, bounded=self.bounded)
        self.wide = Factor(*(torch.from_numpy(np.ascontiguousarray(part)) for part in found))
        for name, part in found._asdict().items():
            self.constant(f"{name}_", part)
        norms = lengths / scale[:, 0] / ROOT
        self.index("numbers", numbers)
        self.constant("norms", norms)
        self.constant("as_stated", rows / norms[:, None])
        self.constant("rhs", P.rows.rhs[numbers] / norms)
        limit = (P.rows.rhs[numbers] - rows @ frame.base) / norms
        below = np.full(len(numbers), -np.inf)
        ends = [ROOT * (bound - frame.base) for bound in (P.lower_bounds, P.upper_bounds)]
        self.constant("low", np.concatenate([ends[0], below] if self.bounded else [below]))
        self.constant("high", np.concatenate([ends[1], limit] if self.bounded else [limit]))

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        base = self.base if sides.base is None else sides.base
        y = self._approached(u - base, base, sides)
        if self.shrinking and (self.shrinks or sides is not NONE):
            gauge = self.gauge(y, None if sides is NONE else self.slack(sides))
            y = y * (smooth_factor(gauge) if self.smooth else factor(gauge)).unsqueeze(-1)
        x = base + y
        if not (self.bounded and self.shrinking):
            return x
        inside = clamped(x, *self._bounds(0.0, sides))  # which rounding may have left by an ulp
        return value_of(inside, x) if self.has_equalities else inside  # else its derivative is that of the first clamp

    def _approached(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        if self.steps:
            low, high = (self.low, self.high) if sides is NONE else self._limits(base, sides)
            constants = Factor(*(getattr(self, f"{name}_") for name in Factor._fields))
            y = splitting(y, constants, low, high, self.steps, wide=self.wide)
        if self.has_equalities:
            return without(y, self.equal)
        return clamped(y, *self._bounds(base, sides)) if self.bounded and self.shrinking else y

    def _bounds(self, base: Tensor | float, sides: Sides) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds seen from the base point."""
        if sides is NONE:
            return (self.lower_seen, self.upper_seen) if isinstance(base, Tensor) else (self.lower, self.upper)
        lower = self.lower if sides.lower is None else sides.lower
        upper = self.upper if sides.upper is None else sides.upper
        return lower - base, upper - base

    def _limits(self, base: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """The limits of G y for the sides and the base point of each sample."""
        rhs = self.rhs if sides.b is None else sides.b[..., self.numbers] / self.norms
        limit = rhs - base @ self.as_stated.mT
        below = torch.full_like(limit, -torch.inf)
        if not self.bounded:
            return below, limit
        low, high = (ROOT * bound for bound in self._bounds(base, sides))
        batch = torch.broadcast_shapes(low.shape[:-1], high.shape[:-1], limit.shape[:-1])  # type: ignore[no-untyped-call]
        low, high, below, limit = (v.expand(*batch, -1) for v in (low, high, below, limit))
        return torch.cat([low, below], -1), torch.cat([high, limit], -1)

    def slack(self, sides: Sides) -> Slack | None:
        gauge, base = self.gauge, self.base if sides.base is None else sides.base
        moved = sides.base is not None
        rows = upper = lower = None
        if gauge.product is not None and (moved or sides.b is not None):
            rhs = gauge.row_offset if sides.b is None else sides.b[..., gauge.stated] * gauge.inverse_slack
            rows = rhs - gauge.product(base)
        low, high = self._bounds(base, sides)
        if (self.bounded and (moved or sides.upper is not None)) or sides.upper is not None:
            upper = high
        if (self.bounded and (moved or sides.lower is not None)) or sides.lower is not None:
            lower = -low
        return None if rows is upper is lower is None else Slack(rows, upper, lower)


class Rays(Way):
    """x0 + L γ + R f(β): lines followed both ways, rays with non-negative weights; rows with slack by the shrink.

    Few lines have a coefficient each. Many lines take one u in R^n, of which the part in the span of the rows is
    removed: that costs less than a product with a basis of the lines.

    Args:
        rays: (r, n).
        lines: an orthonormal basis of the lines (l, n), or of what is orthogonal to all of them (n, k).
        by_basis: which of the two.
        frame: the block seen from the point where its rows meet; None: nothing is shrunk.
    """

    rays: Tensor
    lines: Tensor
    base: Tensor
    lower: Tensor
    upper: Tensor

    def __init__(
        self,
        P: Polyhedron,
        frame: Frame | None,
        rays: Array,
        lines: Array,
        nonnegative: NonNegative,
        factory: Factory,
        *,
        by_basis: bool,
    ) -> None:
        super().__init__(factory)
        self.nonnegative, self.by_basis, self.along_lines = nonnegative, by_basis, len(lines)
        self.coefficients = self.along_lines + len(rays)
        self.constant("rays", rays, persistent=True)
        if self.along_lines:
            self.constant("lines", lines, persistent=by_basis)
        self.shrinks = frame is not None and len(frame.loose) > 0
        self.bounded = self.shrinks and bool(np.isfinite([P.lower_bounds, P.upper_bounds]).any())
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)
        self.at_zero = frame is None or not frame.base.any()
        if frame is not None:
            self.constant("base", frame.base, persistent=True)
            self.gauge = Gauge(P, frame.loose, frame.slack, factory)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        y = self.direction(u)
        scale = self.scale(y)
        y = y if scale is None else y * scale.unsqueeze(-1)
        x = y if self.at_zero else self.base + y
        closed = self.bounded and self.shrinking
        return value_of(clamped(x.detach(), self.lower, self.upper), x) if closed else x

    def direction(self, c: Tensor) -> Tensor:
        y = self.nonnegative(c[..., self.along_lines :] if self.along_lines else c) @ self.rays
        if not self.along_lines:
            return y
        u = c[..., : self.along_lines]
        return y + (u @ self.lines if self.by_basis else without(u, self.lines))

    def scale(self, y: Tensor) -> Tensor | None:
        """The factor of the shrink, None for 1. Shape: (\\*, n) → (\\*)"""
        if not (self.shrinks and self.shrinking):
            return None
        gauge = self.gauge(y)
        return smooth_factor(gauge) if self.smooth else factor(gauge)


class Vertices(Way):
    """Convex weights of vertices, plus rays and lines: conv(V) + cone(R) + span(L)."""

    vertices: Tensor
    lower: Tensor
    upper: Tensor

    def __init__(self, P: Polyhedron, vertices: Array, beyond: Rays | None, weights: Weights, factory: Factory) -> None:
        super().__init__(factory)
        self.count, self.weights, self.beyond = len(vertices), weights, beyond
        self.coefficients = self.count + (0 if beyond is None else beyond.coefficients)
        self.constant("vertices", vertices, persistent=True)
        self.bounded = bool(np.isfinite([P.lower_bounds, P.upper_bounds]).any())
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        if self.beyond is None:
            x = self.weights(u) @ self.vertices
        else:
            x = self.weights(u[..., : self.count]) @ self.vertices + self.beyond(u[..., self.count :])
        return clamped(x, self.lower, self.upper) if self.bounded else x  # which rounding may have left by an ulp
