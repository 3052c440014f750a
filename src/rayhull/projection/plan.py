"""From a set to its blocks and their solvers: what is worked out once, and kept as long as the set lives."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.exact.threads import one_blas_thread
from rayhull.projection.intervals import has_short_factor
from rayhull.projection.problem import Problem, Solver
from rayhull.projection.sides import Sides, agreeing
from rayhull.projection.solvers.any_rows import GENERIC, ActiveSet, DualNewton, InteriorPoint, first_that_fits
from rayhull.projection.solvers.banded import Banded, banded_order, is_curve
from rayhull.projection.solvers.closed_forms import Affine, Chain, Clamp, ClippedShift, Forest, path_order
from rayhull.projection.solvers.one_by_one import LeastDistance
from rayhull.projection.standard_form import ENTRIES, StandardForm
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

BY_STRUCTURE: tuple[type[Solver], ...] = (Clamp, ClippedShift, Affine, Chain, Forest, Banded)
SOLVERS: dict[str, tuple[type[Solver], ...]] = {
    "auto": (*BY_STRUCTURE, *GENERIC),
    "active set": (Clamp, ActiveSet, DualNewton),
    "dual": (Clamp, DualNewton),
}
PRODUCTS = 1e7  # of a sparse factor, up to which the exact point costs less than the steps that would be near it
ENDLESS = 2_000_000  # places in the rows, from which dense solvers take minutes
MOST = 8  # plans kept for one set
HOST = torch.device("cpu")


class Places:
    """Where the blocks of one kind stand in the samples: coordinate j of block k is ``scale[k, j]`` x[``index[k, j]``].

    The scale is √w for weights w, negative where the block is the mirror image of its kind.
    """

    def __init__(self, index: Array, sign: Array, root: Array | None, dim: int, device: torch.device) -> None:
        self.count = len(index)
        self.index = torch.as_tensor(index, dtype=torch.int32, device=device)  # (count, d)
        self.flat = self.index.reshape(-1).long()
        mirrored, scale = (sign < 0).any(), sign[:, None] * (np.ones(index.shape[1]) if root is None else root)
        plain = root is None and not mirrored
        self.scale = None if plain else torch.as_tensor(scale, dtype=torch.float64, device=device)  # (count, d)
        self.mirrored = torch.as_tensor(scale < 0, device=device) if mirrored else None
        self.whole = np.array_equal(index, np.arange(dim)[None])  # one block of all coordinates as they come

    def read(self, x: Tensor) -> Tensor:
        """The points of the blocks. Shape: (n, D) → (N, d) in float64."""
        return self._times_scale(self._gathered(x))

    def write(self, z: Tensor, out: Tensor) -> None:
        """Points (N, d) to their places in (n, D)."""
        self._scatter(self._over_scale(z), out)

    def read_gradient(self, g: Tensor) -> Tensor:
        """Gradients by the blocks' coordinates from those by the samples': they scale inversely. As ``read``."""
        return self._over_scale(self._gathered(g))

    def write_gradient(self, g: Tensor, out: Tensor) -> None:
        """Gradients by the samples' coordinates. As ``write``."""
        self._scatter(self._times_scale(g), out)

    def pick(self, v: Tensor, image: Tensor) -> Tensor:
        """``image`` where a block is a mirror image, else ``v``. Shape: (1 or N, d) each."""
        if self.mirrored is None:
            return v
        picked = torch.where(self.mirrored, self._by_block(image), self._by_block(v))
        return picked.reshape(-1, v.shape[1])

    def _gathered(self, x: Tensor) -> Tensor:
        if not self.whole:
            x = x.index_select(1, self.flat).reshape(x.shape[0] * self.count, -1)
        return x.to(torch.float64)

    def _scatter(self, v: Tensor, out: Tensor) -> None:
        if self.whole:
            out.copy_(v)
        else:
            out.index_copy_(1, self.flat, v.reshape(out.shape[0], -1).to(out.dtype))

    def _over_scale(self, v: Tensor) -> Tensor:
        return v if self.scale is None else (self._by_block(v) / self.scale).reshape(v.shape)

    def _times_scale(self, v: Tensor) -> Tensor:
        return v if self.scale is None else (self._by_block(v) * self.scale).reshape(v.shape)

    def _by_block(self, v: Tensor) -> Tensor:
        """(N, d) → (n, count, d); one row for all stays one."""
        return v[None] if v.shape[0] == 1 and self.count > 1 else v.reshape(-1, self.count, v.shape[1])


class Block:
    """Blocks of one kind on one device: their form and solver, and where they stand in the set.

    Shape: ``inequalities`` (count, m) and ``equalities`` (count, k), the places of the blocks' rows among those stated.
    """

    def __init__(self, form: StandardForm, name: str, places: Places, inequalities: Array, equalities: Array) -> None:
        self.form, self.name, self.places, self.count = form, name, places, places.count
        on = partial(torch.as_tensor, device=places.index.device)
        self.inequalities, self.equalities = on(inequalities.ravel()), on(equalities.ravel())
        self.c, self.lower, self.upper = (on(v, dtype=torch.float64)[None] for v in (form.c, form.lower, form.upper))
        self.lengths = on(form.norms[: form.m]), on(form.norms[form.m :])  # of inequalities and equalities
        self.combination = None if form.combination is None else on(form.combination)

    @cached_property
    def solver(self) -> Solver:
        """The first that fits, made when it is asked for: a factor of many rows takes long."""
        with one_blas_thread():
            return first_that_fits(SOLVERS[self.name], self.form)

    @cached_property
    def fallbacks(self) -> tuple[Solver, ...]:
        """Who is asked where the first one gave no certified answer: the other solvers for any rows that can end."""
        kinds: tuple[type[Solver], ...] = (*GENERIC, LeastDistance)
        if self.form.matrix.count * self.form.d > ENDLESS and InteriorPoint.fits(self.form):
            kinds = (InteriorPoint,)
        return tuple(kind(self.form) for kind in kinds if kind.fits(self.form) and kind.name != self.solver.name)

    def problem(self, x: Tensor, sides: Sides | None = None, out: Tensor | None = None) -> Problem:
        """The problem of these blocks for points (n, D); with ``out`` a solver may write its points there itself."""
        form = self.form
        if sides is None:
            return Problem(form.matrix, form.m, self.c, self.lower, self.upper, None, self.places, x, out)
        c, (lower, upper) = self.right_hand_sides(sides, x.shape[0], self.c), self._bounds(sides, x.shape[0])
        return Problem(form.matrix, form.m, c, lower, upper, None, self.places, x, out, may_be_empty=True)

    def _bounds(self, sides: Sides, n: int) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds in standard form; one row where the call brings none. Shape: (1 or N, d)."""
        if sides.lower is None and sides.upper is None:
            return self.lower, self.upper
        low, high = (None if v is None else self.places.read(v.expand(n, -1)) for v in (sides.lower, sides.upper))
        lower = self.places.pick(self.lower if low is None else low, self.lower if high is None else high)
        upper = self.places.pick(self.upper if high is None else high, self.upper if low is None else low)
        return lower, upper

    def right_hand_sides(self, sides: Sides, n: int, otherwise: Tensor) -> Tensor:
        """c in standard form; as it is ``otherwise`` where the call brings neither b nor b_eq. Shape: (1 or N, M)."""
        m, parts = self.form.m, []
        if otherwise.shape[1] == 0 or (sides.b is None and sides.b_eq is None):
            return otherwise
        if m:
            own = None if sides.b is None else self._rows_of(sides.b, self.inequalities, n)
            parts.append(otherwise[:, :m] if own is None else own.double() / self.lengths[0])
        if m < otherwise.shape[1]:
            own = None if sides.b_eq is None else self._rows_of(sides.b_eq, self.equalities, n)
            parts.append(otherwise[:, m:] if own is None else self._of_equalities(own))
        return parts[0] if len(parts) == 1 else torch.cat([v.expand(max(map(len, parts)), -1) for v in parts], 1)

    def _rows_of(self, value: Tensor, rows: Tensor, n: int) -> Tensor:
        """The right-hand sides of these blocks' rows. Shape: (1 or n, all rows) → (N, rows)."""
        picked = value if self.count == 1 and len(rows) == value.shape[1] else value.index_select(1, rows)
        if self.count > 1 or picked.shape[0] != n:  # a single sample is spared what it does not need: each costs 2 µs
            picked = picked.expand(n, -1).reshape(n * self.count, -1)
        return picked

    def _of_equalities(self, b_eq: Tensor) -> Tensor:
        """Right-hand sides of the unit equalities. Shape: (N, k) → (N, k)."""
        b_eq = b_eq if b_eq.dtype == torch.float64 else self._consistent(b_eq)
        return b_eq / self.lengths[1] if self.combination is None else b_eq @ self.combination.mT

    def _consistent(self, b_eq: Tensor) -> Tensor:
        """In float64, less what the rounding of a shorter dtype put between equalities that depend on each other."""
        if self.dependence is None:
            return b_eq.double()
        null, lengths = self.dependence
        return agreeing(b_eq, lengths, null, b_eq.dtype)[0] * lengths

    @cached_property
    def dependence(self) -> tuple[Tensor, Tensor] | None:
        """In which combinations the unit equalities cancel, and their lengths; None where they are independent."""
        rows = self.form.equalities
        if len(rows) * rows.dim > ENTRIES or not rows.cancelling.shape[1]:
            return None
        return torch.as_tensor(rows.cancelling, device=self.c.device), torch.as_tensor(rows.unit[2]).to(self.c.device)

    def stated_units(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Multipliers of the stated rows from those of the unit rows: (n, count · m) and (n, count · k)."""
        m, n = self.form.m, len(w) // self.count
        inequalities, equalities = w[:, :m] / self.lengths[0], w[:, m:]
        equalities = equalities / self.lengths[1] if self.combination is None else equalities @ self.combination
        return inequalities.reshape(n, self.count * m), equalities.reshape(n, self.count * equalities.shape[1])

    def write_multipliers(self, problem: Problem, w: Tensor, rows: Tensor, rows_eq: Tensor, bounds: Tensor) -> None:
        """Those of the stated rows and of the bounds to their places. Shape: (n, m), (n, m_eq), (n, D)."""
        v = problem.shifted(w)
        rows[:, self.inequalities], rows_eq[:, self.equalities] = self.stated_units(w)
        self.places.write_gradient(v - problem.clip(v), bounds)


Plan = tuple[Block, ...]


def plan(P: Polyhedron, weights: Array | None = None, solver: str = "auto", device: torch.device = HOST) -> Plan:
    """The blocks of a set with their solvers, made at the first call for this set, these weights and this solver."""
    kept: dict[tuple[str, bytes, torch.device], Plan] = P.kept.setdefault("plans of nearest points", {})
    key = solver, b"" if weights is None else weights.tobytes(), device
    if key not in kept:
        if len(kept) >= MOST:
            kept.pop(next(iter(kept)))
        with torch.inference_mode(False):  # its tensors serve calls that are differentiated, too
            kept[key] = _make(P, weights, solver, device)
    return kept[key]


@one_blas_thread()
def _make(P: Polyhedron, weights: Array | None, solver: str, device: torch.device) -> Plan:
    blocks, on_host = [], device.type == "cpu" and operators.available()
    for group in P.mirrored_groups:
        for members, w in _by_weights(weights, group.index):
            form = StandardForm.of(group.polyhedron, w, compiled=on_host)
            m, k = form.m, form.matrix.count - form.m
            rows = P.layout.inequalities[group.rows[members, :m]]
            rows_eq = P.layout.equalities[group.equality_rows[members, :k]]
            places = Places(group.index[members], group.sign[members], form.root, P.dim, device)
            blocks.append(Block(form, solver, places, rows, rows_eq))
    return tuple(blocks)


def _by_weights(weights: Array | None, index: Array) -> list[tuple[Array, Array | None]]:
    """Blocks with equal weights together: (which, their weights)."""
    everything = np.arange(len(index))
    if weights is None:
        return [(everything, None)]
    kinds, label = np.unique(weights[index], axis=0, return_inverse=True)
    return [(everything[label.ravel() == k], kinds[k]) for k in range(len(kinds))]


def structure(P: Polyhedron) -> str | None:
    """What makes the nearest point of a block cheap, whatever is compiled; None for rows of no kind that we know."""
    form = StandardForm.of(P)
    found = next((kind.structure for kind in BY_STRUCTURE if kind.fits(form)), None)
    is_smooth = form.m == form.matrix.count and not form.bounded and is_curve(form.matrix.rows)
    return Banded.structure if found is None and is_smooth else found


def is_short(P: Polyhedron) -> bool:
    """Whether the rows of a block have a sparse factor that takes few products, whatever is compiled."""
    matrix = StandardForm.of(P).matrix
    return has_short_factor(matrix.rows, matrix.m, min(PRODUCTS, matrix.few_products))


def band_of(P: Polyhedron) -> Array | None:
    """All inequalities of a block along a band, in order, with bounds or without; or None."""
    form = StandardForm.of(P)
    return banded_order(sp.csr_array(form.matrix.rows[: form.m])) if form.m > 1 else None


def chain_path(P: Polyhedron) -> Array | None:
    """The coordinates in increasing order where a block is a chain x_i <= x_j and nothing else, exactly; else None."""
    only_rows = len(P.rows) == len(P.inequalities) and not len(P.equality_rows) and not P.rows.rhs.any()
    if not only_rows or (np.diff(P.rows.indptr) != 2).any() or P.rows.data.reshape(-1, 2).sum(1).any():
        return None
    found = path_order(StandardForm.of(P))
    return None if found is None else found[0]
