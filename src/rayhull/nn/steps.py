"""Steps towards the nearest point and the shrink, as a way into a block, and the trial that says how many are near.

Base point, units and bounds are those of :class:`rayhull.nn.ways.Seen`; the steps themselves are in
:mod:`rayhull.maps.steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.maps.coefficients import without
from rayhull.maps.graphs import eagerly, is_plain
from rayhull.maps.leak import Leak
from rayhull.maps.steps import (
    ROOT,
    SWEEP,
    Factor,
    Plane,
    SparseFactor,
    clamped,
    in_tensor_operations,
    splitting,
    sums_of_neighbours,
)
from rayhull.maps.steps import factor as factor_of
from rayhull.nn.constants import Factory, Gauge, Product
from rayhull.nn.ways import Seen, closed
from rayhull.projection import project
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.conic_interior import joined
from rayhull.sets.frame import DEPENDENT, Frame, is_large
from rayhull.sets.rows import Array, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

SQUARE = 1000  # rows up to which a device takes one product a step, though two thinner ones would be less work
TOGETHER = 256  # rows that are moved onto a plane at once
STEPS = (5, 10, 20, 40, 80)  # that are tried
NEAR = 0.005  # what steps may leave of the way to the nearest point, as a share of the block's own size
POINTS, NUMBERS = (2, 24), 2400  # of a trial: the fewest and the most points, and how many numbers they hold
SPREADS = (2.0, 8.0)  # of the points, in units: around the block, and so far out that corners are nearest
STRETCHES, MANY = (1.0, 2.0), 300  # weights of the rows beside bounds, and coordinates up to which both are tried
MOST = 160  # steps that stand in for the nearest point of a large block


class Steps(Seen):
    """Steps towards the nearest point (:mod:`rayhull.maps.steps`), then the shrink; none: bounds are clamped first.

    Args:
        P: the block.
        frame: the block seen from its base point, at which every row that is no equality has slack.
        units: s (n,).
        steps: how many.
        stretch: the weight of rows beside bounds in the steps.
        band: numbers of rows along a band from which all others follow: sums of neighbours are then taken, too, and
            what is left of them is met by their inverse.
        kernel: whether the compiled kernel is to take the steps on the CPU. It has one penalty; tensor operations sweep
            over several, which follow points that are far away.
    """

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
        if len(P.layout.fixed):
            self.index("single", np.isin(np.arange(P.dim), P.layout.fixed))
        if len(frame.loose) < len(P.rows):  # rows that hold with equality everywhere have no slack to follow
            self.follows = frozenset()
        else:
            self.follows |= {"b_eq", "b", "lower", "upper"} if self.bounded else {"b_eq", "b"}
        rows = np.ones(len(frame.loose), bool) if self.has_equalities else P.layout.is_stated(frame.loose)
        self.gauge = Gauge(P, frame.loose[rows], frame.slack[rows], factory)  # bounds alone are clamped
        self.shrinks = bool(rows.any())
        self.constant("lower_seen", P.lower_bounds - frame.base)
        self.constant("upper_seen", P.upper_bounds - frame.base)
        self.steps, self.banded, self.kernel = steps if self.shrinks else 0, band is not None, kernel
        self.penalties = (1.0,) if kernel or self.onto is not None else SWEEP
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
        each = self.penalties
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
        return self._moved_into(self._approached(u - base, base, sides), base, sides)

    def leaking(self, u: Tensor, sides: Sides, share: float, block: Tensor) -> Tensor:
        rows = self.gauge.product
        clamps = not (self.steps or self.smooth or self.has_equalities) and self.shrinking
        if not (clamps and sides is NONE and rows is not None and not rows.has_short and is_plain(u)):
            return super().leaking(u, sides, share, block)
        out: Tensor = eagerly(ClampedAndShrunk, u, self, Leak(share, self.units, block))
        return out

    def after(self, u: Tensor, counts: Sequence[int]) -> Iterator[Tensor]:
        """Points after each of several numbers of steps, which grow: one run, but for steps that sweep."""
        if len(self.penalties) > 1:
            for self.steps in counts:
                yield self(u)
            return
        (factor,), y, done, t = self._factors(), u - self.base, 0, None
        for count in counts:
            found, t = in_tensor_operations(y, factor, self.low, self.high, count - done, (), self.onto, t)
            done = count
            yield self._moved_into(self._closed(found, self.high), self.base, NONE)

    def _moved_into(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        """The point of a direction from the base point: onto equalities or bounds, shrunk, and closed."""
        if self.has_equalities:
            y = without(y, self.equal)
        elif self.bounded and self.shrinking:
            y = clamped(y, *self._bounds(base, sides))
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
            y = self._closed(splitting(y, first, low, high, self.steps, wide=self.wide, **more), high)
        return y

    @property
    def closes(self) -> bool:
        """Whether what steps leave of the rows is met by their inverse, before the shrink."""
        return self.banded and not (self.bounded or self.has_equalities)

    def _closed(self, y: Tensor, high: Tensor) -> Tensor:
        if not self.closes:
            return y
        m = self.back.shape[-1]
        return y - (y @ self.rows_[:m].mT - high[..., :m]).relu() @ self.back.mT

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        return not self.sparse and ("b" in self.follows or not set(sides))

    def _factors(self) -> list[Any]:
        if self.sparse:
            return [self.factor_]
        names = Factor._fields[1:]
        many = range(len(self.penalties))
        return [Factor(self.rows_, *(getattr(self, f"{name}_{k}") for name in names)) for k in many]

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
        low, high = self._room(base, sides)
        if gauge.product is None:
            return joined([high, -low])
        rhs = gauge.row_offset if sides.b is None else sides.b[..., gauge.stated] * gauge.inverse_slack
        return joined([high, -low, rhs - gauge.product(base)])

    def _room(self, base: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """Bounds seen from the base point; none where a coordinate keeps its one value, which the base point has."""
        low, high = self._bounds(base, sides)
        if "single" not in self._index:
            return low, high
        off = torch.finfo(base.dtype).eps * base.abs()
        still = self.single & (low.abs() <= off) & (high.abs() <= off)
        return low.masked_fill(still, -torch.inf), high.masked_fill(still, torch.inf)

    def certified(self, sides: Sides) -> Tensor:
        return (self.slack(sides) > 0).all(-1)


class ClampedAndShrunk(torch.autograd.Function):
    """Clamp and shrink with their leak, as one node: autograd's eleven take twice as long."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, way: Any, leak: Leak) -> Tensor:
        held, rows = way._buffers, way.gauge.product.dense
        y = u - held["base"]
        z = clamped(y, way.lower_seen, way.upper_seen)
        gauge, steepest = (z @ rows.mT).max(-1, keepdim=True)
        share = way.shrink(gauge)
        x = closed(held["base"] + z * share, way.lower, way.upper)
        ctx.save_for_backward(u, y == z, z, share, rows, steepest, u - x)
        ctx.way, ctx.leak = way, leak
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        u, inside, z, share, rows, steepest, away = ctx.saved_tensors
        if torch.is_grad_enabled():  # a graph of this pass, too, is wanted: autograd's own
            (own,) = torch.autograd.grad(ctx.way(u), u, g, create_graph=True)
            return ctx.leak.gradient(g, away, own), None, None
        across = (g * z).sum(-1, keepdim=True) * share * share
        own = torch.addcmul(g * share, torch.where(share < 1, across, 0.0), rows[steepest.squeeze(-1)], value=-1)
        return ctx.leak.gradient(g, away, own * inside), None, None


@dataclass(frozen=True, eq=False)
class Trial:
    """Points around a block and far out, and their nearest points; the draws are fixed."""

    ways: tuple[Steps, ...]
    free: Tensor  # (k, n)
    nearest: Tensor  # of a large block, where nearest points would take long: where MOST steps end
    judge: str
    known: dict[int, Tensor] = field(default_factory=dict)  # where numbers of steps on the way there end

    @classmethod
    def of(cls, P: Polyhedron, frame: Frame, units: Array, band: Array | None = None, *, kernel: bool = True) -> Trial:
        """Rows of one or two stretches; and along their band, for which there is no kernel, where one is given."""
        stretches = STRETCHES if P.dim <= MANY and len(P.inequalities) else STRETCHES[:1]
        options: list[dict[str, Any]] = [{"stretch": stretch, "kernel": kernel} for stretch in stretches]
        options += [] if band is None else [{"band": band, "kernel": False}]
        ways = tuple(Steps(P, frame, units, MOST, Factory(None, torch.float64), **own) for own in options)
        return cls.among(ways, P, frame.base, units, large=is_large(P))

    @classmethod
    def among(cls, ways: tuple[Steps, ...], P: Any, base: Array, units: Array, *, large: bool = False) -> Trial:
        """Ways in float64 at points that are drawn around their base point."""
        count = 1 if large else int(np.clip(NUMBERS // P.dim, *POINTS))
        drawn = np.random.default_rng(0).standard_normal((count, P.dim)) * units
        free = torch.as_tensor(np.concatenate([base + spread * drawn for spread in SPREADS]))
        if large:
            counts = (*STEPS, MOST)
            with torch.no_grad():
                known = dict(zip(counts, ways[0].after(free, counts), strict=True))
            return cls(ways, free, known[MOST], f"where {MOST} steps end", known)
        return cls(ways, free, project(P, free.reshape(-1, *P.shape)).reshape(free.shape), "the nearest point")

    @torch.no_grad()
    def left(self, counts: Sequence[int], way: int = 0) -> Iterator[float]:
        """How far from the nearest points so many steps and the shrink end, over their distance to the base point.

        The worse of both halves of the points, root mean squares: corners count as much as points around the block.
        """
        own = self.ways[way]
        known = self.known.keys() >= {*counts}
        ends = (self.known[count] for count in counts) if known else own.after(self.free, counts)
        size = (self.nearest - own.base).chunk(2)
        for x in ends:
            halves = zip((x - self.nearest).chunk(2), size, strict=True)
            yield max(float((a.square().sum() / s.square().sum().clamp_min(1e-300)).sqrt()) for a, s in halves)

    def best(self, counts: Sequence[int] = STEPS, near: float = NEAR) -> tuple[int, int, list[float]]:
        """The fewest steps that are near, else the nearest of all; which way, and what each number of steps left."""
        tried: list[list[float]] = []
        for left in zip(*(self.left(counts, way) for way in range(len(self.ways))), strict=True):
            tried.append([*left])
            if min(left) <= near:
                break
        number = int(np.argmin([min(each) for each in tried]))
        return counts[number], int(np.argmin(tried[number])), [min(each) for each in tried]

    def taken(self, steps: int, way: int, factory: Factory) -> Any:
        """A way that was tried, with its number of steps, where and in what precision it is wanted."""
        found = self.ways[way].to(device=factory.device, dtype=factory.dtype or torch.get_default_dtype())
        found.steps = steps
        return found
