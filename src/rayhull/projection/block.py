"""Blocks of one kind: their solver, and where their coordinates and rows stand in the set."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rayhull.projection.problem import InPlace, Problem
from rayhull.projection.sides import Sides
from rayhull.projection.solver import Solver
from rayhull.projection.standard_form import StandardForm
from rayhull.sets.rows import Array


class Block:
    """``count`` blocks of the same form, each with ``d`` coordinates; together they make one problem."""

    def __init__(
        self,
        form: StandardForm,
        solver: Solver,
        fallbacks: tuple[Solver, ...],
        index: Array,
        inequalities: Array,
        equalities: Array,
    ) -> None:
        self.form, self.solver, self.fallbacks = form, solver, fallbacks
        self.index = torch.as_tensor(np.ascontiguousarray(index))  # (count, d)
        self.count = len(index)
        self.whole = index.shape[0] == 1 and bool((index[0] == np.arange(index.size)).all())
        self.inequalities, self.equalities = inequalities, equalities  # (count, m), (count, k) among those stated
        self._constants: dict[torch.device, Constants] = {}

    def on(self, device: torch.device) -> Constants:
        """The numbers of the form as tensors on a device."""
        if device not in self._constants:
            self._constants[device] = Constants(self, device)
        return self._constants[device]

    def gather(self, v: Tensor) -> Tensor:
        """The coordinates of the blocks. Shape: (n, D) → (n · count, d) in float64."""
        if not (self.whole and v.shape[1] == self.index.shape[1]):
            v = v.index_select(1, self.on(v.device).places).reshape(v.shape[0] * self.count, -1)
        return v.to(torch.float64)

    def scatter(self, v: Tensor, out: Tensor) -> None:
        """Write (n · count, d) to its places in (n, D)."""
        if self.whole and out.shape[1] == self.index.shape[1]:
            out.copy_(v)
        else:
            out.index_copy_(1, self.on(out.device).places, v.reshape(out.shape[0], -1).to(out.dtype))

    def to_standard(self, v: Tensor) -> Tensor:
        root = self.on(v.device).root
        return v if root is None else v * root

    def to_plain(self, v: Tensor) -> Tensor:
        root = self.on(v.device).root
        return v if root is None else v / root

    def problem(self, x: Tensor, sides: Sides, out: Tensor | None = None) -> Problem:
        """The problem of these blocks for points (n, D); with ``out`` a solver may write its points there itself."""
        own, form = self.on(x.device), self.form
        c, lower, upper = own.c, own.lower, own.upper
        if sides.stated:
            n = len(x)
            lower, upper = (
                stated if value is None else self.to_standard(self.gather(value.expand(n, -1)))
                for value, stated in ((sides.lower, lower), (sides.upper, upper))
            )
            c = self.right_hand_sides(sides, n, own)
        in_place = None if out is None else InPlace(x, self.index, out)
        points = lambda: self.to_standard(self.gather(x))  # noqa: E731
        return Problem(points, form.matrix, form.m, c, lower, upper, sides.stated, in_place)

    def right_hand_sides(self, sides: Sides, n: int, own: Constants) -> Tensor:
        """c in standard form; one row where the call brings neither b nor b_eq. Shape: (1 or n · count, M)."""
        if sides.b is None and sides.b_eq is None:
            return own.c
        c, m = own.c.repeat(n * self.count, 1), self.form.m
        if sides.b is not None:
            c[:, :m] = self.rows_of(sides.b, own.inequalities, n) / own.norms[:m]
        if sides.b_eq is not None:
            c[:, m:] = own.combined(self.rows_of(sides.b_eq, own.equalities, n))
        return c

    def rows_of(self, value: Tensor, places: Tensor, n: int) -> Tensor:
        """The right-hand sides of these blocks' rows. Shape: (1 or n, all rows) → (n · count, rows) in float64."""
        picked = value.expand(n, -1).index_select(1, places)
        return picked.reshape(n * self.count, -1).to(torch.float64)

    def stated_units(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Multipliers of the stated rows from those of the unit rows: (n, count · m) and (n, count · k)."""
        own, m, n = self.on(w.device), self.form.m, len(w) // self.count
        inequalities, equalities = w[:, :m] / own.norms[:m], own.combined_back(w[:, m:])
        return inequalities.reshape(n, self.count * m), equalities.reshape(n, self.count * equalities.shape[1])

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_constants": {}}


class Constants:
    """The numbers of a block's form as tensors on one device."""

    def __init__(self, block: Block, device: torch.device) -> None:
        form = block.form
        self.c, self.lower, self.upper = (
            torch.as_tensor(v, dtype=torch.float64, device=device)[None] for v in (form.c, form.lower, form.upper)
        )
        self.places = block.index.reshape(-1).to(device)
        self.inequalities, self.equalities = (
            torch.as_tensor(v.ravel(), device=device) for v in (block.inequalities, block.equalities)
        )
        self.norms = torch.as_tensor(form.norms, device=device)
        self.root = None if form.root is None else torch.as_tensor(form.root, device=device)
        self.combination = None if form.combination is None else torch.as_tensor(form.combination, device=device)

    def combined(self, b_eq: Tensor) -> Tensor:
        """Right-hand sides of the unit equalities. Shape: (N, k) → (N, k)."""
        if self.combination is not None:
            return b_eq @ self.combination.mT
        return b_eq / self.norms[len(self.norms) - b_eq.shape[1] :]

    def combined_back(self, w: Tensor) -> Tensor:
        """The transposed map, for multipliers and derivatives. Shape: (N, k) → (N, k)."""
        if self.combination is not None:
            return w @ self.combination
        return w / self.norms[len(self.norms) - w.shape[1] :]
