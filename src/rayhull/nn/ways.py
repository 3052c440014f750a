"""The ways into a block, each a small module: the nearest point, steps and a shrink, vertices, rays.

The nearest point, steps and the shrink keep points of the block where they are: a coefficient is a coordinate, seen
from the base point in one unit for all of them, and ``start`` gives the unconstrained point x0 + s c. The others have
coefficients of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.autograd import forward_ad

from rayhull.maps.coefficients import NonNegative, Weights, without
from rayhull.maps.graphs import is_away, is_differentiated, is_plain
from rayhull.maps.leak import Leak, damped, leaking
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.maps.steps import ROOT, SWEEP, Factor, Plane, SparseFactor, clamped, splitting, sums_of_neighbours
from rayhull.maps.steps import factor as factor_of
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.scaling import Gauge, Product
from rayhull.projection.formulas import formula_of
from rayhull.projection.module import NearestPoint
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.cones import joined
from rayhull.sets.frame import DEPENDENT, Frame
from rayhull.sets.rows import Array, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

SQUARE = 1000  # rows up to which a device takes one product a step, though two thinner ones would be less work
TOGETHER = 256  # rows that are moved onto a plane at once
FAR = 2.0**36  # how far a point may be, in units of the base point, to have a nearest point of its own


def value_of(y: Tensor, x: Tensor) -> Tensor:
    """y, with the gradient of x: for a y that is x but for rounding."""
    return y.detach() + (x - x.detach()).to(y.dtype) if is_differentiated(x) else y


def closed(x: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """x within its bounds, which rounding may have left by an ulp; its derivative is that of x."""
    if not is_plain(x):
        return value_of(clamped(x.detach(), lower, upper), x)
    x.detach().clamp_(lower, upper)  # x is new, and nothing has kept it for a backward pass
    return x


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

    def certified(self, sides: Sides) -> Tensor | None:
        """Which samples (blocks) their base point certifies; None where that is not asked for. Shape: (\\*)"""
        return None

    def shrink(self, gauge: Tensor) -> Tensor:
        """The factor of the shrink."""
        return smooth_factor(gauge) if self.smooth else factor(gauge)

    def prepare(self) -> None:
        """Make what is to run in graphs and on other devices, where the way takes a solver on the CPU."""

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        """Whether tensor operations are all that it takes, for these sides of the sample."""
        return True

    @property
    def elsewhere(self) -> str:
        """What runs there, in words; nothing where it is the same."""
        return ""

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        """The same, past which a share of the gradient leaks to u, where ``keeps_inside``; nothing is moved here."""
        return u


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
    follows = frozenset({"b", "b_eq", "lower", "upper"})

    def __init__(
        self, P: Polyhedron, base: Array, units: Array, factory: Factory, weights: Array | None = None
    ) -> None:
        super().__init__(base, units, factory)
        self.nearest, self.event = NearestPoint(P, weights=weights), P.shape
        self.projector = self.nearest.projector
        self.reach = FAR * max(1.0, float(np.abs(base).max()))
        self._forms: list[Way] = []  # of tensor operations; in a list, so that checkpoints know nothing of it
        if is_away(self.device):
            self.prepare()

    @staticmethod
    def form_of(P: Polyhedron, base: Array, units: Array, factory: Factory, weights: Array | None = None) -> Way:
        """The form in tensor operations; :mod:`rayhull.nn.recognise`, which knows blocks and trials, puts it here."""
        raise NotImplementedError

    def prepare(self) -> None:
        formula_of(self.projector, device=self.device)  # makes its constants
        if not self._forms and formula_of(self.projector, self.follows) is None:
            P, base, units = self.projector.polyhedron, self.exact["base"], self.exact["units"]
            self._forms = [self.form_of(P, base, units, self.factory, self.projector.weights)]

    @property
    def elsewhere(self) -> str:
        return self._forms[0].elsewhere if self._forms and formula_of(self.projector) is None else ""

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
        if sides is NONE and (found := self._direct(u)) is not None:
            return found
        form = self._form(u, sides)
        if form is not None:
            return form(u.nan_to_num(0.0, 0.0, 0.0), sides) + (u.detach() * 0).sum(-1, keepdim=True)  # 0, or NaN
        given = sides.without_base(self.event)
        known = (u - u == 0).all(-1, keepdim=True)
        x = torch.where(known, u if given else self._in_reach(u), torch.zeros_like(u))
        z: Tensor = self.nearest(x.reshape(*x.shape[:-1], *self.event), **given).reshape(x.shape)
        return torch.where(known, z, torch.full_like(z, torch.nan))

    def certified(self, sides: Sides) -> Tensor | None:
        form = self._form(next(side for side in sides if side is not None), sides)
        return form.certified(sides) if isinstance(form, Way) else None

    def _form(self, u: Tensor, sides: Sides) -> Callable[[Tensor, Sides], Tensor] | None:
        """What finds the points where no solver can: a formula, else steps; None for the solver."""
        if not (is_away(u.device) or torch.compiler.is_exporting()):
            return None
        if (formula := formula_of(self.projector, sides.given)) is None:
            return self._forms[0] if self._forms and self._forms[0].fits_graphs(sides.given) else None

        def run(x: Tensor, sides: Sides) -> Tensor:
            return formula(x.reshape(*x.shape[:-1], *self.event), sides.without_base(self.event)).reshape(x.shape)

        return run

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        found = None if sides is not NONE else self._direct(u, Leak(share, self.units, block))
        return super().leaking(u, sides, share, block) if found is None else found

    def _direct(self, u: Tensor, leak: Leak | None = None) -> Tensor | None:
        """The kernels' points; None in graphs, and where something is left open (points far away, not finite)."""
        if not is_plain(u) or not u.numel():
            return None
        flat = u.ndim == 2
        found = self.projector.direct(u if flat else u.reshape(-1, u.shape[-1]), leak)
        return found if flat or found is None else found.reshape(u.shape)

    def _in_reach(self, x: Tensor) -> Tensor:
        """x, or where it is FAR times as large as the base point the point at that distance on its way to 0.

        Seen from there the set is a point in float64: no solver could certify which one of it is nearest.
        """
        largest = x.abs().amax(-1, keepdim=True)
        return torch.where(largest > self.reach, x / largest * self.reach, x)


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


class Steps(Seen):
    """Steps towards the nearest point (:mod:`rayhull.maps.steps`), then the shrink; none: bounds are clamped first.

    Args:
        P: the block.
        frame: the block seen from its base point, at which every row that is no equality has slack.
        units: s (n,).
        steps: how many.
        stretch: the weight of rows beside bounds in the steps.
        band: numbers of rows along a band from which all others follow: sums of neighbours are then taken, too, with a
            sweep of penalties, and what is left of them is met by their inverse.
        kernel: whether the compiled kernel is to take the steps on the CPU.
    """

    has_base, left = True, 0.0  # what a trial found to be left of the way to the nearest point
    onto: Callable[..., Tensor] | None = None  # in place of the steps' clamp
    wide: Factor | None = None

    def __init__(
        self,
        P: Polyhedron,
        frame: Frame,
        units: Array,
        steps: int,
        factory: Factory,
        *,
        stretch: float = 1.0,
        band: Array | None = None,
        kernel: bool = True,
    ) -> None:
        super().__init__(frame.base, units, factory)
        self.keep_equalities(frame.equal)
        self.sparse = isinstance(self.equal, Plane)
        self.keep_bounds(P)
        self.all_loose = len(frame.loose) == len(P.rows)
        if self.all_loose:  # rows that hold with equality everywhere have no slack to follow
            self.follows = frozenset({"b", "lower", "upper"} if self.bounded else {"b"})
        rows = np.ones(len(frame.loose), bool) if self.has_equalities else P.layout.is_stated(frame.loose)
        self.gauge = Gauge(P, frame.loose[rows], frame.slack[rows], factory)  # bounds alone are clamped
        self.shrinks = bool(rows.any())
        self.constant("lower_seen", P.lower_bounds - frame.base)
        self.constant("upper_seen", P.upper_bounds - frame.base)
        self.steps, self.banded, self.kernel = steps if self.shrinks else 0, band is not None, kernel
        self.seen: Product | None = None  # no default of the class, which would hide the module
        if steps:
            self._take_rows(P, frame, stretch, band)

    def _take_rows(self, P: Polyhedron, frame: Frame, stretch: float, band: Array | None) -> None:
        """Rows of one length along the equalities, and their limits seen from the base point."""
        numbers = frame.loose[P.layout.is_stated(frame.loose)] if band is None else band
        rows, rhs, norms = unit_rows(P.rows.matrix[numbers], P.rows.rhs[numbers])
        if band is not None:
            mix = sums_of_neighbours(len(band))
            self.constant("mix", mix / norms)
            rows, rhs, norms = unit_rows(sp.csr_array(mix @ rows), mix @ rhs)
        null = scipy.linalg.null_space(frame.equal.T) if self.has_equalities and not self.sparse else None
        lengths = self._lengths(rows, null) / stretch
        moved = np.flatnonzero(lengths > (DEPENDENT if band is None else 0))  # rows that nothing moves have no part
        rows = sp.csr_array(sp.diags_array(1 / lengths[moved]) @ rows[moved])
        order = self._see(rows)
        self._take_factor(rows[order], null)
        moved = moved[order]
        norms, rhs = norms[moved] * lengths[moved] / ROOT, rhs[moved] / lengths[moved] * ROOT
        self.index("numbers", numbers[moved] if band is None else band)
        self.constant("norms", norms)
        self.constant("rhs", rhs)
        limit, below = rhs - ROOT * (rows[order] @ frame.base), np.full(len(rhs), -np.inf)
        ends = [ROOT * (bound - frame.base) for bound in (P.lower_bounds, P.upper_bounds)]
        self.constant("low", np.concatenate([ends[0], below] if self.bounded else [below]))
        self.constant("high", np.concatenate([ends[1], limit] if self.bounded else [limit]))

    def _lengths(self, rows: sp.csr_array, null: Array | None) -> Array:
        """How long rows are along the equalities. Shape: (m, n) → (m,)"""
        if not (self.has_equalities and rows.shape[0]):
            return np.ones(rows.shape[0])
        if null is not None:
            return np.linalg.norm(rows @ null, axis=1)
        lengths = np.ones(rows.shape[0])
        assert isinstance(self.equal, Plane)
        across = np.flatnonzero(abs(rows @ self.equal.system.rows.T).sum(1))  # others lie along the equalities
        for some in np.split(across, range(TOGETHER, len(across), TOGETHER)):
            lengths[some] = np.linalg.norm(self.equal.nearest(rows[some].toarray().T), axis=0)
        return lengths

    def _see(self, rows: sp.csr_array) -> Array:
        """Keep the product that sees a base point of the sample; the order in which it gives the rows."""
        if self.banded:
            self.constant("as_stated", ROOT * rows.toarray())
            return np.arange(rows.shape[0])
        self.seen = Product(ROOT * rows, self.factory) if rows.shape[0] else None
        return np.zeros(0, np.int64) if self.seen is None else self.seen.order

    def _take_factor(self, rows: sp.csr_array, null: Array | None) -> None:
        if isinstance(self.equal, Plane):
            self.factor_ = SparseFactor(rows, self.equal, bounded=self.bounded)
            return
        along = rows.toarray() if null is None else (rows @ null) @ null.T
        square = not self.kernel and len(along) <= SQUARE
        each = SWEEP if self.banded else (1.0,)
        found = [factor_of(along, null, bounded=self.bounded, penalty=penalty, square=square) for penalty in each]
        if self.kernel:
            self.wide = Factor(*(torch.from_numpy(np.ascontiguousarray(part)) for part in found[0]))
        self.constant("rows_", found[0].rows)
        for k, own in enumerate(found):
            for name in Factor._fields[1:]:
                self.constant(f"{name}_{k}", getattr(own, name))
        if self.closes:
            self.constant("back", np.linalg.pinv(found[0].rows[: self.mix.shape[1]]))

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        base = self.base if sides.base is None else sides.base
        y = self._approached(u - base, base, sides)
        if self.shrinking and (self.shrinks or sides is not NONE):
            y = y * self._share(y, sides)
        x = base + y
        return closed(x, *self._bounds(0.0, sides)) if self.bounded and self.shrinking else x

    def _share(self, y: Tensor, sides: Sides) -> Tensor:
        """The factor of the shrink. Shape: (\\*, n) → (\\*, 1)"""
        if sides is NONE:
            return self.shrink(self.gauge(y)).unsqueeze(-1)
        values = [y, -y] if self.gauge.product is None else [y, -y, self.gauge.product(y)]
        return self.shrink((torch.cat(values, -1) / self.slack(sides)).amax(-1, keepdim=True))

    def _approached(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        if self.steps:
            low, high = (self.low, self.high) if sides is NONE else self._limits(base, sides)
            first, *others = self._factors()
            more = {"sweep": others, "equal": self.has_equalities, "onto": self.onto}
            y = splitting(y, first, low, high, self.steps, wide=self.wide, **more)
            if self.closes:
                m = self.back.shape[-1]
                y = y - (y @ self.rows_[:m].mT - high[..., :m]).relu() @ self.back.mT
        if self.has_equalities:
            return without(y, self.equal)
        return clamped(y, *self._bounds(base, sides)) if self.bounded and self.shrinking else y

    @property
    def closes(self) -> bool:
        """Whether what steps leave of the rows is met by their inverse, before the shrink."""
        return self.banded and not (self.bounded or self.has_equalities)

    @property
    def elsewhere(self) -> str:
        return f"{self.steps} steps and a shrink, which leave {self.left:.1%} of the way to the nearest point"

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        return not self.sparse and (self.all_loose or not {"b", "lower", "upper"} & set(sides))

    def _factors(self) -> list[Any]:
        if self.sparse:
            return [self.factor_]
        names = Factor._fields[1:]
        many = len(SWEEP) if self.banded else 1
        return [Factor(self.rows_, *(getattr(self, f"{name}_{k}") for name in names)) for k in range(many)]

    def _bounds(self, base: Tensor | float, sides: Sides) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds seen from the base point."""
        if sides is NONE:
            return (self.lower_seen, self.upper_seen) if isinstance(base, Tensor) else (self.lower, self.upper)
        lower = self.lower if sides.lower is None else sides.lower
        upper = self.upper if sides.upper is None else sides.upper
        return (lower - base, upper - base) if isinstance(base, Tensor) else (lower, upper)

    def _limits(self, base: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """The limits of G y for the sides and the base point of each sample."""
        rhs = self.rhs
        if sides.b is not None:
            own = sides.b[..., self.numbers]
            rhs = (own @ self.mix.mT if self.banded else own) / self.norms
        if self.banded:
            limit = rhs - base @ self.as_stated.mT
        else:
            limit = rhs if self.seen is None else rhs - self.seen(base)
        below = torch.full_like(limit, -torch.inf)
        if not self.bounded:
            return below, limit
        low, high = (ROOT * bound for bound in self._bounds(base, sides))
        return joined([low, below]), joined([high, limit])

    def slack(self, sides: Sides) -> Tensor:
        """At the base point of each sample: of bounds, then of stated rows as a share of the constant one."""
        gauge, base = self.gauge, self.base if sides.base is None else sides.base
        low, high = self._bounds(base, sides)
        if gauge.product is None:
            return joined([high, -low])
        rhs = gauge.row_offset if sides.b is None else sides.b[..., gauge.stated] * gauge.inverse_slack
        return joined([high, -low, rhs - gauge.product(base)])

    def certified(self, sides: Sides) -> Tensor:
        return (self.slack(sides) > 0).all(-1)


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
