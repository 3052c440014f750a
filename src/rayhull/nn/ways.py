"""The ways into a block, each a small module: the nearest point, vertices, rays; :mod:`rayhull.nn.steps` has steps.

The nearest point, steps and the shrink keep points of the block where they are: a coefficient is a coordinate, seen
from the base point in one unit for all of them, and ``start`` gives the unconstrained point x0 + s c. The others have
coefficients of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from rayhull.maps.coefficients import NonNegative, Weights, without
from rayhull.maps.graphs import is_away, is_differentiated, is_plain
from rayhull.maps.leak import Leak, damped, leaking
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.maps.steps import clamped
from rayhull.nn.constants import Constants, Factory, Gauge
from rayhull.projection.formulas import formula_of
from rayhull.projection.module import NearestPoint
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.frame import Frame
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

# How far a point may be, in units of the base point, to have a nearest point of its own: seen from beyond the set is a
# point in float64, and no solver could certify which one of it is nearest. Such a point is brought nearer to 0.
FAR = 2.0**36
FAR_OF_CONES = 2.0**12  # the same for cones, in units of the set or of the base point, whichever is larger
WIDER = 2.0**12  # times that with sides of the sample, whose set may be as much wider than the stated one


def value_of(y: Tensor, x: Tensor) -> Tensor:
    """y, with the gradient of x: for a y that is x but for rounding."""
    return y.detach() + (x - x.detach()).to(y.dtype) if is_differentiated(x) else y


def closed(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """x within its bounds, which rounding may have left by an ulp; its derivative is that of x."""
    if not is_plain(x):
        return value_of(clamped(x.detach(), lower, upper), x)
    x.detach().clamp_(lower, upper)  # x is new, and nothing has kept it for a backward pass
    return x


def in_reach(y: Tensor, reach: float | Tensor) -> Tensor:
    """y, shortened where its largest entry is beyond; no 0 / 0 at 0, whose derivative would be NaN."""
    return y / (y.abs().amax(-1, keepdim=True) / reach).clamp_min(1.0)


class Way(Constants):
    """Base of the modules below. Shape: ``start`` (\\*, count, k) → (\\*, count, n), ``forward`` → (\\*, count, n)

    Attributes:
        coefficients: how many numbers one block takes.
        keeps_inside: whether coefficients are coordinates, and points of the block stay where they are.
        follows: which sides of the sample ``forward`` takes into account, with a base point that meets the equalities.
        is_nearest: whether it is the nearest point, which all kinds of blocks can take together.
        elsewhere: what runs in graphs and on other devices, in words; nothing where it is the same.
        shrinking, smooth: switches of the shrink.
    """

    coefficients: int
    keeps_inside = is_nearest = False
    follows: frozenset[str] = frozenset({"base"})
    shrinking, smooth, elsewhere = True, False, ""

    def keep_bounds(self, P: Polyhedron) -> None:
        """Register the block's bounds, perhaps infinite."""
        self.bounded = bool(np.isfinite([P.lower_bounds, P.upper_bounds]).any())
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)

    def start(self, c: Tensor) -> Tensor:
        """What coefficients stand for before the set is imposed."""
        return c

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Undoes ``start``, where ``keeps_inside``."""
        return x

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        """Points of the block; ``sides`` may bring a base point of each sample, too."""
        raise NotImplementedError

    def points(self, u: Tensor, sides: Sides) -> Tensor:
        """The same, as parts have it, which stand in for the way into a set of several blocks."""
        return self.forward(u, sides)

    def certified(self, sides: Sides) -> Tensor | None:
        """Which samples (blocks) their base point certifies; None where that is not asked for. Shape: (\\*)"""
        return None

    def shrink(self, gauge: Tensor) -> Tensor:
        """The factor of the shrink."""
        return smooth_factor(gauge) if self.smooth else factor(gauge)

    def prepare(self) -> None:
        """Make what is to run elsewhere, where the way takes a solver on the CPU."""

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        """Whether tensor operations are all that it takes, for these sides of the sample."""
        return True

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        """The same, past which a share of the gradient leaks to u, where ``keeps_inside``; nothing is moved here."""
        return u


class Whole(Way):
    """No row at all: x = u."""

    keeps_inside = True
    follows = frozenset({"base", "b", "b_eq"})

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

    def __init__(self, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = base.size
        self.constant("base", base, persistent=True)
        self.constant("units", units, persistent=True)

    def start(self, c: Tensor) -> Tensor:
        held: Any = self._buffers  # self.base takes longer than a small layer can spare
        return torch.addcmul(held["base"], c, held["units"])

    def coefficients_of(self, x: Tensor) -> Tensor:
        return (x - self.base) / self.units

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        leak = Leak(share, self.units, block)
        if sides is NONE:
            return leaking(self.forward(u), u, leak, kept=1 - share)
        return leaking(self.forward(damped(u, share), sides), u, leak)


class Nearest(Seen):
    """The nearest point of the set to x0 + s c. NaN stays NaN.

    Kernels and solvers find it on the CPU. Other devices and exported graphs take tensor operations alone: a formula,
    or steps and a shrink that a trial found to be near it (:mod:`rayhull.nn.recognise`).

    Args:
        P: the block, or the whole set.
        base, units: x0 and s, flat.
        weights: of the squared distances (n,), if any.
    """

    is_nearest = True
    follows = frozenset({"base", "b", "b_eq", "lower", "upper"})
    form_of: Callable[..., Any]  # in tensor operations; rayhull.nn.recognise, which knows blocks and trials, sets it

    def __init__(
        self, P: Polyhedron, base: Array, units: Array, factory: Factory, weights: Array | None = None
    ) -> None:
        super().__init__(base, units, factory)
        self.nearest, self.event, self.weights = NearestPoint(P, weights=weights), P.shape, weights
        self.projector = self.nearest.projector
        self.reach = FAR * max(1.0, float(np.abs(base).max()))
        if self.nearest.has_cones:  # their rows are certified by lengths, which need more of the digits
            self.reach = FAR_OF_CONES * float(max(units.max(), np.abs(base).max()))
        self._forms: list[Any] = []  # of tensor operations; in a list, so that checkpoints know nothing of it
        if is_away(self.device):
            self.prepare()

    def prepare(self) -> None:
        formula_of(self.projector, device=self.device)  # makes its constants
        if not self._forms and formula_of(self.projector, self.follows) is None:
            P, base, units = self.projector.polyhedron, self.exact["base"], self.exact["units"]
            self._forms = [self.form_of(P, base, units, self.factory, self.weights)]
            self.elsewhere = self._forms[0].elsewhere if formula_of(self.projector) is None else ""

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        return formula_of(self.projector, sides) is not None or any(form.fits_graphs(sides) for form in self._forms)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        for form in self._forms:
            form._apply(fn)
        if is_away(self.device):
            self.prepare()
        return self

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        if (found := self.projector.direct(u, None, sides)) is not None:
            return found
        given = sides.without_base(self.event)
        if is_away(u.device) or torch.compiler.is_exporting():
            x, mark = u.nan_to_num(0.0, 0.0, 0.0), (u.detach() * 0).sum(-1, keepdim=True)  # 0, or NaN
            if (form := self._form(u, sides)) is not None:
                return form.points(x, sides) + mark
            if (formula := formula_of(self.projector, sides.given, u.device)) is not None:
                return formula(x.reshape(*x.shape[:-1], *self.event), given).reshape(x.shape) + mark
        known = (u - u == 0).all(-1, keepdim=True)
        reach = self.reach if not given else self.reach * WIDER if self.nearest.has_cones else None
        x = torch.where(known, u if reach is None else in_reach(u, reach), torch.zeros_like(u))
        z: Tensor = self.nearest(x.reshape(*x.shape[:-1], *self.event), **given).reshape(x.shape)
        return torch.where(known, z, torch.full_like(z, torch.nan))

    def certified(self, sides: Sides) -> Tensor | None:
        form = self._form(next(side for side in sides if side is not None), sides)
        return None if form is None else form.certified(sides)

    def _form(self, u: Tensor, sides: Sides) -> Any:
        """Steps, which find the points where neither a solver nor a formula can; else None."""
        away = is_away(u.device) or torch.compiler.is_exporting()
        if not (away and self._forms and self._forms[0].fits_graphs(sides.given)):
            return None
        return self._forms[0] if formula_of(self.projector, sides.given) is None else None

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        held: Any = self._buffers
        found = self.projector.direct(u, Leak(share, held["units"], block), sides)
        return super().leaking(u, sides, share, block) if found is None else found


class Bounds(Seen):
    """Bounds alone: x = clamp(x0 + s c), the nearest point."""

    is_nearest = True

    def __init__(self, P: Polyhedron, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(base, units, factory)
        self.keep_bounds(P)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        return clamped(u, self.lower, self.upper)

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        at = u if forward_ad._current_level >= 0 else u.detach()
        return leaking(self.forward(at), u, Leak(share, self.units, block), kept=None)


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
        self.keep_bounds(P)
        self.at_zero = frame is None or not frame.base.any()
        if frame is not None:
            self.constant("base", frame.base, persistent=True)
            self.gauge = Gauge(P, frame.loose, frame.slack, factory)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        y = self.direction(u)
        scale = self.scale(y)
        y = y if scale is None else y * scale.unsqueeze(-1)
        x = y if self.at_zero else self.base + y
        return closed(x, self.lower, self.upper) if self.bounded and self.shrinks and self.shrinking else x

    def direction(self, c: Tensor) -> Tensor:
        if not self.along_lines:
            return self.nonnegative(c) @ self.rays
        u, weights = torch.split(c, [self.along_lines, self.coefficients - self.along_lines], -1)
        return self.nonnegative(weights) @ self.rays + (u @ self.lines if self.by_basis else without(u, self.lines))

    def scale(self, y: Tensor) -> Tensor | None:
        """The factor of the shrink, None for 1. Shape: (\\*, n) → (\\*)"""
        return self.shrink(self.gauge(y)) if self.shrinks and self.shrinking else None


class Vertices(Way):
    """Convex weights of vertices, plus rays and lines: conv(V) + cone(R) + span(L)."""

    def __init__(self, P: Polyhedron, vertices: Array, beyond: Rays | None, weights: Weights, factory: Factory) -> None:
        super().__init__(factory)
        self.count, self.weights, self.beyond = len(vertices), weights, beyond
        self.coefficients = self.count + (0 if beyond is None else beyond.coefficients)
        self.constant("vertices", vertices, persistent=True)
        self.keep_bounds(P)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        if self.beyond is None:
            x = self.weights(u) @ self.vertices
        else:
            x = self.weights(u[..., : self.count]) @ self.vertices + self.beyond(u[..., self.count :])
        return closed(x, self.lower, self.upper) if self.bounded else x
