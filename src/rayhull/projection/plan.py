"""From a set to its blocks and the way of each: what is worked out once, at construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.projection.order import narrow_order
from rayhull.projection.problem import Problem, Rhs
from rayhull.projection.solver import Way
from rayhull.projection.solvers import external
from rayhull.projection.solvers.affine import Affine
from rayhull.projection.solvers.chain import Chain
from rayhull.projection.solvers.clamp import Clamp
from rayhull.projection.solvers.clipped_shift import ClippedShift
from rayhull.projection.solvers.generic import ActiveSet, DualNewton
from rayhull.projection.solvers.orthogonal import Orthogonal
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

CLOSED: tuple[type[Way], ...] = (Clamp, ClippedShift, Orthogonal, Affine, Chain)
GENERIC: tuple[type[Way], ...] = (ActiveSet, DualNewton)
SOLVERS: dict[str, tuple[type[Way], ...]] = {
    "auto": (*CLOSED, *GENERIC),
    "active set": (Clamp, ActiveSet),
    "dual": (Clamp, DualNewton),
}


@dataclass(frozen=True, eq=False)
class Given:
    """What a call states anew, flat and checked: (1 or n, length) each, or None where the set's own values hold."""

    b: Tensor | None = None
    b_eq: Tensor | None = None
    lower: Tensor | None = None
    upper: Tensor | None = None

    def __bool__(self) -> bool:
        return any(v is not None for v in (self.b, self.b_eq, self.lower, self.upper))


class Part:
    """Blocks of one kind: their way, and where their coordinates and rows stand in the set."""

    def __init__(self, way: Way, index: Array, inequalities: Array, equalities: Array) -> None:
        self.way = way
        self.index = torch.as_tensor(np.ascontiguousarray(index))  # (count, size)
        self.places, self.count = self.index.reshape(-1), len(index)
        self.inequalities = torch.as_tensor(inequalities)  # (count, m) among P.inequalities
        self.equalities = torch.as_tensor(equalities)  # (count, M - m) among P.equalities
        problem = way.problem
        self.root = None if problem.root is None else torch.as_tensor(problem.root)
        self.norms = torch.as_tensor(problem.norms)
        self.sides = (  # places among all right-hand sides, norms, and columns among the rows of a block
            (self.inequalities.reshape(-1), self.norms[: problem.m], slice(None, problem.m)),
            (self.equalities.reshape(-1), self.norms[problem.m :], slice(problem.m, None)),
        )
        self.whole = index.shape[0] == 1 and bool((index[0] == np.arange(index.size)).all())
        self._rhs: dict[torch.device, Rhs] = {}

    def gather(self, v: Tensor) -> Tensor:
        """Shape: (n, D) → (n · count, size) in float64."""
        if not (self.whole and v.shape[1] == self.index.shape[1]):
            v = v.index_select(1, self.places.to(v.device)).reshape(v.shape[0] * self.count, -1)
        return v if v.dtype == torch.float64 else v.to(torch.float64)

    def scatter(self, block: Tensor, out: Tensor) -> None:
        """Write (n · count, size) to its places in (n, D)."""
        if self.whole and out.shape[1] == self.index.shape[1]:
            out.copy_(block)
            return
        out.index_copy_(1, self.places.to(out.device), block.reshape(out.shape[0], -1).to(out.dtype))

    def to_standard(self, v: Tensor) -> Tensor:
        return v if self.root is None else v * self.root.to(v.device)

    def to_plain(self, v: Tensor) -> Tensor:
        return v if self.root is None else v / self.root.to(v.device)

    def rhs(self, given: Given, n: int, device: torch.device) -> Rhs:
        """Right-hand sides of this call; what is not given stays one row."""
        if device not in self._rhs:
            self._rhs[device] = Rhs.of(self.way.problem, device)
        own = self._rhs[device]
        if not given:
            return own
        lower, upper = (
            stated if value is None else self.to_standard(self.gather(value.expand(n, -1)))
            for value, stated in ((given.lower, own.lower), (given.upper, own.upper))
        )
        c = own.c if given.b is None and given.b_eq is None else own.c.repeat(n * self.count, 1)
        for value, (places, norms, columns) in zip((given.b, given.b_eq), self.sides, strict=True):
            if value is not None:
                picked = value.expand(n, -1).index_select(1, places.to(device))
                c[:, columns] = picked.reshape(n * self.count, -1) / norms.to(device)
        return Rhs(c, lower, upper)


def plan(P: Polyhedron, weights: Array | None = None, solver: str = "auto") -> list[Part]:
    """The parts of a set and their ways."""
    if solver in external.SOLVERS:
        return [_whole(P, weights, solver)]
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join([*SOLVERS, *external.SOLVERS])}, got {solver!r}.")
    stated, stated_eq = P.layout.inequalities, P.layout.equalities
    parts = []
    for group in P.block_groups:
        m, k = len(group.polyhedron.inequalities), len(group.polyhedron.equalities)
        for members, w in _by_weights(weights, group.index):
            problem = Problem.of(group.polyhedron, w)
            way = next(kind for kind in SOLVERS[solver] if kind.fits(problem))
            rows, rows_eq = stated[group.rows[members, :m]], stated_eq[group.equality_rows[members, :k]]
            if way is ActiveSet:
                order = narrow_order(problem)
                problem, rows = problem.in_order(order), rows[:, order[:m]]
            parts.append(Part(way(problem), group.index[members], rows, rows_eq))
    return parts


def _by_weights(weights: Array | None, index: Array) -> list[tuple[Array, Array | None]]:
    """Blocks with equal weights together: (which, their weights)."""
    everything = np.arange(len(index))
    if weights is None:
        return [(everything, None)]
    kinds, label = np.unique(weights[index], axis=0, return_inverse=True)
    return [(everything[label.ravel() == k], kinds[k]) for k in range(len(kinds))]


def _whole(P: Polyhedron, weights: Array | None, solver: str) -> Part:
    """The set as one block, as a solver that knows nothing of blocks sees it."""
    problem = Problem.of(P, weights)
    stated, stated_eq = P.layout.inequalities, P.layout.equalities
    return Part(external.External(problem, solver), np.arange(P.dim)[None], stated[None], stated_eq[None])
