"""From a set to its blocks and their solvers: what is worked out once, and kept as long as the set lives."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from rayhull.projection import compiled
from rayhull.projection.block import Block
from rayhull.projection.solver import Solver
from rayhull.projection.solvers import external
from rayhull.projection.solvers.affine import Affine
from rayhull.projection.solvers.chain import Chain
from rayhull.projection.solvers.clamp import Clamp
from rayhull.projection.solvers.clipped_shift import ClippedShift
from rayhull.projection.solvers.generic import ActiveSet, DualNewton
from rayhull.projection.solvers.least_distance import LeastDistance
from rayhull.projection.solvers.order import Order
from rayhull.projection.standard_form import StandardForm
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

GENERIC: tuple[type[Solver], ...] = (ActiveSet, DualNewton)
SOLVERS: dict[str, tuple[type[Solver], ...]] = {
    "auto": (Clamp, ClippedShift, Affine, Chain, Order, *GENERIC),
    "active set": (Clamp, *GENERIC),
    "dual": (Clamp, DualNewton),
}
MOST = 8  # plans kept for one set

Plan = tuple[Block, ...]
_plans: WeakKeyDictionary[Polyhedron, dict[tuple[str, bytes, bool], Plan]] = WeakKeyDictionary()


def plan(P: Polyhedron, weights: Array | None = None, solver: str = "auto", device: str = "cpu") -> Plan:
    """The blocks of a set with their solvers, made at the first call for this set, these weights and this solver."""
    kept = _plans.setdefault(P, {})
    on_host = device == "cpu" and compiled.available()
    key = solver, b"" if weights is None else weights.tobytes(), on_host
    if key not in kept:
        if len(kept) >= MOST:
            kept.pop(next(iter(kept)))
        kept[key] = _make(P, weights, solver, on_host)
    return kept[key]


def _make(P: Polyhedron, weights: Array | None, solver: str, on_host: bool) -> Plan:
    if solver in external.SOLVERS:
        return (_whole(P, weights, solver, on_host),)
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join([*SOLVERS, *external.SOLVERS])}, got {solver!r}.")
    stated, stated_eq = P.layout.inequalities, P.layout.equalities
    blocks = []
    for group in P.block_groups:
        m, k = len(group.polyhedron.inequalities), len(group.polyhedron.equalities)
        for members, w in _by_weights(weights, group.index):
            form = StandardForm.of(group.polyhedron, w, compiled=on_host)
            chosen = next(kind for kind in SOLVERS[solver] if kind.fits(form))(form)
            rows, rows_eq = stated[group.rows[members, :m]], stated_eq[group.equality_rows[members, :k]]
            blocks.append(Block(form, chosen, fallbacks(form, chosen), group.index[members], rows, rows_eq))
    return tuple(blocks)


def _by_weights(weights: Array | None, index: Array) -> list[tuple[Array, Array | None]]:
    """Blocks with equal weights together: (which, their weights)."""
    everything = np.arange(len(index))
    if weights is None:
        return [(everything, None)]
    kinds, label = np.unique(weights[index], axis=0, return_inverse=True)
    return [(everything[label.ravel() == k], kinds[k]) for k in range(len(kinds))]


def _whole(P: Polyhedron, weights: Array | None, solver: str, on_host: bool) -> Block:
    """The set as one problem for a solver of someone else's."""
    form = StandardForm.of(P, weights, compiled=on_host)
    chosen = external.External(form, solver)
    rows, rows_eq = P.layout.inequalities[None], P.layout.equalities[None]
    return Block(form, chosen, fallbacks(form, chosen), np.arange(P.dim)[None], rows, rows_eq)


def fallbacks(form: StandardForm, first: Solver) -> tuple[Solver, ...]:
    """Who is asked where the first one gave no certified answer: our other solvers, then those that are installed."""
    kinds: tuple[type[Solver], ...] = (*GENERIC, LeastDistance)
    ours = [kind(form) for kind in kinds if kind.fits(form)]
    others = [external.External(form, name) for name in ("daqp", "piqp") if external.installed(name)]
    return tuple(solver for solver in (*ours, *others) if solver.name != first.name)
