"""Strict finishes: a point that is inside up to rounding → one that is inside in rational arithmetic.

docs/strict.md has the proofs. The point is cleaned of what rounding left outside the equalities, then pulled towards a
point well inside by what it exceeds its rows, with every rounding error counted; a single coordinate is clamped. This
is the last step of a layer, whatever came before it. It moves points by rounding errors, so that its derivative is
left out. The numbers of a proof are derived from the rows once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.errors import RayhullError
from rayhull.maps.coefficients import without_carefully
from rayhull.maps.graphs import is_plain
from rayhull.maps.order import running_maximum
from rayhull.maps.shrink import EPS, gamma, inwards, pull, roundoff
from rayhull.maps.steps import clamped
from rayhull.nn.constants import Constants, Factory, Gauge
from rayhull.projection.plan import chain_path
from rayhull.sets.frame import equality_basis, interior_ray, refuse_thin, slack_below
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.nn.blocks import Places
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MOST_LOSS = 0.5  # a set that loses more than half of its slack to rounding is refused
LARGEST = 2**19  # entries of rows as a dense matrix for the compiled kernel: beyond, tensor operations are faster


class Finish(Constants):
    """Base: x (\\*, n), inside up to rounding → x in a dtype, inside. ``check(dtype)`` refuses one that is too coarse.

    The numbers of a proof depend on the dtype that comes out. They are kept as rows of a float64 buffer, one row for
    each of DTYPES, and not as Python's floats, which the ONNX exporter would round to float32.
    """

    largest = 0.0  # max|base point|, where it does not follow the point
    places: Places  # of its blocks

    def __init__(self, P: Polyhedron, factory: Factory) -> None:
        super().__init__(factory)
        _refuse_hidden_equalities(P)
        self.keep_equalities(equality_basis(P, P.centre.implicit), wide=True)
        if self.has_equalities:
            self.constant("hull", P.centre.point, wide=True)

    def loss(self, dtype: torch.dtype) -> float:
        """The share of the slack at the base point that rounding takes."""
        return 0.0

    def check(self, dtype: torch.dtype) -> None:
        if dtype not in DTYPES:
            raise TypeError(f"strict=True knows {', '.join(map(short, DTYPES))}, got {short(dtype)}.")
        loss = 1.0 if self.largest > limit_of(dtype) else self.loss(dtype)
        if not loss < MOST_LOSS:
            raise RayhullError(
                f"strict=True: {short(dtype)} is too coarse for this set: rounding takes {loss:.0%} of the slack "
                f"around its interior point (less than {MOST_LOSS:.0%} is needed). Use a wider dtype, scale the set, "
                "or state narrow directions as equalities."
            )

    def at_places(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The same for the blocks where they stand, as numbers of x. Shape: (\\*, d) → (\\*, d)"""
        own: Tensor = self.forward(self.places.read(x), dtype)
        return self.places.write(own.to(x.dtype), x)

    def clean(self, x: Tensor) -> Tensor:
        """x without what rounding left of it outside the equalities, seen from a point of the affine hull."""
        return self.hull + without_carefully(x - self.hull, self.equal) if self.has_equalities else x

    def keep_numbers(self) -> None:
        """Write down ``numbers_of`` every dtype that the set can be resolved in."""
        self.constant("numbers", np.array([self.numbers_of(dtype) for dtype in DTYPES]), wide=True)

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        """What ``forward`` needs to know of the dtype that comes out."""
        raise NotImplementedError

    def read(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        return self.numbers[DTYPES.index(dtype)].unbind()


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def limit_of(dtype: torch.dtype) -> float:
    """The largest size of what comes out: sums of a few stay finite."""
    return torch.finfo(dtype).max / 4


class Intervals(Finish):
    """Single coordinates: x → min(max(x, low), high) with low and high rounded inwards. Shape: (\\*, d) → (\\*, d)

    Args:
        kinds: blocks of one coordinate each, side by side.
    """

    def __init__(self, kinds: Sequence[BlockGroup], factory: Factory) -> None:
        Constants.__init__(self, factory)
        self.ends = torch.from_numpy(np.concatenate([ends_of(kind) for kind in kinds], 1))
        each = {dtype: self.numbers_of(dtype) for dtype in DTYPES}
        self.constant("numbers", np.stack(list(each.values())), wide=True)
        self.empty_in = {dtype for dtype, (low, high) in each.items() if (low > high).any()}

    def numbers_of(self, dtype: torch.dtype) -> Any:
        """Lows and highs that the dtype holds. Shape: (2, d)"""
        return torch.stack([inwards(side, dtype, up=not k) for k, side in enumerate(self.ends)]).numpy()

    def check(self, dtype: torch.dtype) -> None:
        super().check(dtype)
        if dtype in self.empty_in:
            low, high = self.ends[:, int(np.argmax(np.greater(*self.numbers_of(dtype))))].tolist()
            raise RayhullError(f"strict=True: no {short(dtype)} number lies in [{low}, {high}]: use a wider dtype.")

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        low, high = (bound.to(x.dtype) for bound in self.read(dtype))  # numbers of both dtypes
        return clamped(x, low, high)


def ends_of(kind: BlockGroup) -> Array:
    """The least and the largest float64 that rows of one entry leave each coordinate, place by place. Shape: (2, d)"""
    P = kind.polyhedron
    ends = np.repeat([[-math.inf], [math.inf]], P.dim, 1)
    for j, a, b in zip(P.rows.indices.tolist(), *P.rows.exact, strict=True):
        bound, up = Fraction(int(b), int(a)), a < 0
        nearest = float(bound)
        if nearest < bound if up else nearest > bound:
            nearest = math.nextafter(nearest, math.inf if up else -math.inf)
        ends[0 if up else 1, j] = (max if up else min)(ends[0 if up else 1, j], nearest)
    return np.where(kind.sign[:, None] > 0, ends[:, None], -ends[::-1, None]).reshape(2, -1)


class Pull(Finish):
    """Points that are inside up to rounding → points that are inside, pulled towards a base point q + s r.

    That base point follows the point where the set allows it, so that the pull is relative to the point at every scale:

    - the set contains 0 and rows hold with equality there: q = 0, r the centre, s = max|x| (at most 1 centre away);
    - its rays have an interior direction: q the centre, r that direction, s = max|x|;
    - elsewhere: q the centre, s = 0. Without any row only points that are too large are pulled.

    Shape: x (\\*, n) → (\\*, n)
    """

    def __init__(self, P: Polyhedron, factory: Factory) -> None:
        super().__init__(P, factory)
        point, tight = P.centre.point, np.flatnonzero(P.rows.rhs == 0)
        size = float(np.abs(point).max())
        self.conic = bool((P.rows.rhs >= 0).all()) and not P.equality_rows.rhs.any() and len(tight) > 0
        loose = np.flatnonzero(P.rows.rhs) if self.conic else np.arange(len(P.rows))
        direction = None if self.conic or not len(P.rows) else interior_ray(P)
        self.moving = self.conic or direction is not None
        self.largest = 0.0 if self.conic else size
        self.reach = size if self.conic and len(loose) else np.inf  # the largest s
        along = point / size if self.conic else np.zeros(P.dim) if direction is None else direction
        self.constant("start", np.zeros(P.dim) if self.conic else point, wide=True)
        self.constant("along", along, wide=True)
        self.entries = int(np.diff(P.rows.matrix.indptr).max(initial=0))
        self.tight: Gauge | None = None
        self.loose: Gauge | None = None
        self.tight_steepest = self.loose_steepest = self.offset = self.share = 0.0
        if self.conic:
            self.tight, self.tight_steepest = self._gauge(P, tight, slack_below(P, tight, along))
        if len(loose):
            slack = self._least_slack(P, loose, point, direction)
            self.loose, self.loose_steepest = self._gauge(P, loose, slack, offset=True)
            self.offset = float((np.abs(P.rows.rhs[loose]) / slack).max())
            self.share = self._rounding_share(P, loose, point, direction)
        self.keep_numbers()
        self._compiled: dict[torch.dtype, Any] = {}  # constants of the kernel
        if 0 < P.dim * len(P.rows) <= LARGEST and isinstance(self.equal, Tensor):
            arrays = self._as_arrays(P)
            for dtype, numbers in zip(DTYPES[:2], self.exact["numbers"], strict=False):
                self._compiled[dtype] = (*arrays, torch.from_numpy(numbers.copy()), self.moving, self.conic)

    def _least_slack(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> Array:
        """What is left at the base point for every s: the slack is linear in s."""
        slack = slack_below(P, numbers, point)
        if self.conic:
            return np.minimum(slack, slack_below(P, numbers, np.zeros(P.dim)))  # least at one of the ends
        if direction is not None:  # σ + s ρ >= (1 + s) min(σ, ρ)
            return np.minimum(slack, slack_below(P, numbers, direction, cone=True))
        return slack

    def _rounding_share(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> float:
        """max |a|·|base point| / slack over the rows and over s: what a unit of rounding takes of the slack."""
        matrix = abs(P.rows.matrix[numbers])
        if self.conic:
            return self.loose_steepest * self.reach
        share = matrix @ np.abs(point) / slack_below(P, numbers, point)
        if direction is not None:  # (p + s r) / (σ + s ρ) is at most the larger of p / σ and r / ρ
            gain = slack_below(P, numbers, direction, cone=True)
            share = np.maximum(share, matrix @ np.abs(direction) / gain)
        return float(share.max())

    def _gauge(self, P: Polyhedron, numbers: Array, slack: Array, *, offset: bool = False) -> tuple[Gauge, float]:
        """The gauge of some rows, and the largest |a|_1 over their slack."""
        refuse_thin(P, numbers, slack)
        steepest = float((abs(P.rows.matrix[numbers]).sum(1) / slack).max())
        return Gauge(P, numbers, slack, self.factory, offset=offset, wide=True), steepest

    def loss(self, dtype: torch.dtype) -> float:
        u, tiny = roundoff(dtype), torch.finfo(dtype).tiny
        return 2 * u * max(self.tight_steepest, self.share + self.loose_steepest * tiny)

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        margin, limit, tiny = gamma(self.entries) + 3 * roundoff(dtype), limit_of(dtype), torch.finfo(dtype).tiny
        constant = margin * self.loose_steepest * (self.largest + tiny) + 8 * EPS * self.offset
        slopes = [margin * self.loose_steepest, margin * self.tight_steepest]
        return [*slopes, constant, 1.0 - self.loss(dtype), tiny, min(self.reach, limit), limit]

    def at_places(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        if x.dtype == dtype and dtype in self._compiled and is_plain(x) and operators.available():
            flat = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
            found = operators.strict_pull(flat, *self.places.compiled, *self._compiled[dtype])
            return found if x.ndim == 2 else found.reshape(x.shape)
        return super().at_places(x, dtype)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self._pulled(self.clean(x.double()), dtype).to(dtype)

    def _pulled(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        loose_slope, tight_slope, constant, kept, tiny, reach, limit = self.read(dtype)
        size = x.abs().amax(-1)
        scale = size.clamp(tiny, reach) if self.moving else torch.zeros_like(size)
        farthest = size + scale  # with the size of the start, it bounds x, the base point and their difference
        excess = torch.full_like(size, -1.0)
        if self.loose is not None:
            excess = self.loose(x) + loose_slope * farthest + constant
            excess = excess if self.conic else excess / (1.0 + scale)
        if self.tight is not None:
            excess = torch.maximum(excess, (self.tight(x) + tight_slope * farthest) / scale)
        base = torch.addcmul(self.start, scale.unsqueeze(-1), self.along) if self.moving else self.start
        inside = pull(x, base, (excess + 8 * EPS) / kept, limit)
        if self.conic:  # 0 is in the set
            inside = torch.where((size < tiny).unsqueeze(-1), torch.zeros_like(x), inside)
        return inside

    def _as_arrays(self, P: Polyhedron) -> tuple[Tensor, ...]:
        """The constants as the compiled kernel takes them."""
        none = np.zeros((P.dim, 0))
        equal, hull = (self.exact["equal"], self.exact["hull"]) if self.has_equalities else (none, np.zeros(P.dim))
        arrays = [hull, equal, self.exact["start"], self.exact["along"]]
        arrays += [*_dense(self.tight, P)[::2], *_dense(self.loose, P)]
        return tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)


class Ordered(Finish):
    """A chain without bounds: rounded, which keeps an order, then the running maximum along it.

    Args:
        path: the coordinates in increasing order.
    """

    def __init__(self, P: Polyhedron, path: Array, factory: Factory) -> None:
        super().__init__(P, factory)
        self.in_order = bool((path == np.arange(len(path))).all())
        self.index("path", path)
        self.index("back", np.argsort(path))

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        limit = limit_of(dtype)
        along = x.clamp(-limit, limit).to(dtype)
        along = along if self.in_order else along.index_select(-1, self.path)
        known = (along - along == 0).all(-1, keepdim=True)
        found = torch.where(known, running_maximum(along), torch.full_like(along, torch.nan))
        return found if self.in_order else found.index_select(-1, self.back)


def _dense(gauge: Gauge | None, P: Polyhedron) -> tuple[Array, Array, Array]:
    """Rows a / σ (m, n), offsets b / σ (m,), and of bounds 1 / σ above and below, (2, n), with offsets (4, n)."""
    if gauge is None:
        return np.zeros((0, P.dim)), np.zeros(0), np.zeros((0, P.dim))
    rows, offset = np.zeros((0, P.dim)), np.zeros(0)
    if gauge.product is not None:
        offset = gauge.exact["row_offset"]
        stated = gauge._index["stated"]
        rows = P.rows.matrix[stated].toarray() * gauge.exact["inverse_slack"][:, None]
    names = ("upper", "lower", "upper_offset", "lower_offset")[: 4 if gauge.offset else 2]
    bounds = np.stack([gauge.exact[name] for name in names]) if gauge.bounded else np.zeros((0, P.dim))
    return rows, offset, bounds


def finish_of(P: Polyhedron, factory: Factory) -> Finish:
    """The finish of a block of rows."""
    path = chain_path(P) if len(P.rows) else None
    return Pull(P, factory) if path is None else Ordered(P, path, factory)


def _refuse_hidden_equalities(P: Polyhedron) -> None:
    """A set whose interior is empty for another reason than equalities has no finish."""
    hidden = np.flatnonzero(P.centre.implicit)
    if len(hidden):
        names = ", ".join(P.rows.names[i] for i in hidden[:4])
        raise RayhullError(
            f"strict=True: {len(hidden)} inequalities hold with equality on the whole set ({names}), which floats "
            "cannot do exactly. State them as equalities (A_eq), which hold up to a stated number of ulps."
        )
