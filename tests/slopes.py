"""Slopes of points in the sides of their set: autograd beside finite differences, sample by sample.

What the contract and the fuzz of gradients share. Each sample is a function of its own side alone, so that one backward
pass and five forward passes compare as many slopes as there are samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import rayhull as rh

STEP = 3e-5  # of the nearer difference, in units of the points; the further one is four times as wide
CLOSER = 32  # a slope that seems wrong is looked at again in steps so much shorter: kinks on both sides may be at fault
SOLVED = 1e-10  # the accuracy of a point, relative to its size
KINK = 0.01  # of the slope: differences ahead and behind, near and far that are further apart see a kink


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of a weighted sum of each point along one direction of its side, all (n,)."""

    autograd: Tensor
    difference: Tensor
    error: Tensor  # of the difference
    smooth: Tensor  # whether no kink is near

    @property
    def wrong(self) -> Tensor:
        """The samples for which autograd is not within the difference's error."""
        off = (self.autograd - self.difference).abs()
        return self.smooth & ~(off <= self.error)  # NaN is wrong

    def __str__(self) -> str:
        shown = [f"{float(a):.6g} beside {float(d):.6g}" for a, d in zip(self.autograd, self.difference, strict=True)]
        return f"autograd beside differences: {', '.join(shown[i] for i in torch.nonzero(self.wrong).flatten()[:6])}"


def slopes(points: Callable[[Tensor], Tensor], side: Tensor, direction: Tensor, generator: torch.Generator) -> Slopes:
    """Compare the slopes of a random weighted sum of ``points(side)``. Shape: side and direction (n, \\*)"""
    leaf = side.clone().requires_grad_()
    x = points(leaf)
    weights = torch.randn(x.shape[1:], generator=generator, dtype=x.dtype)
    (gradient,) = torch.autograd.grad((x * weights).sum(), leaf)
    noise = SOLVED * (x.detach() * weights).abs().flatten(1).sum(1)

    def sums(own: Tensor) -> Tensor:
        return (points(own).detach() * weights).flatten(1).sum(1)

    autograd = (gradient * direction).flatten(1).sum(1)
    found = _beside(autograd, sums, side, direction, noise, STEP)
    return _beside(autograd, sums, side, direction, noise, STEP / CLOSER) if found.wrong.any() else found


def _beside(
    autograd: Tensor, sums: Callable[[Tensor], Tensor], side: Tensor, direction: Tensor, noise: Tensor, step: float
) -> Slopes:
    left, before, at, after, right = (sums(side + k * step * direction) for k in (-4, -1, 0, 1, 4))
    far, behind, ahead = (right - left) / (8 * step), (at - before) / step, (after - at) / step
    near = (ahead + behind) / 2
    apart = (ahead - behind).abs() + (near - far).abs()
    error = apart + 1e-6 * near.abs() + noise / step
    return Slopes(autograd, near, error, smooth=apart <= KINK * near.abs() + noise / step)


def stated_sides(P: rh.Polyhedron) -> dict[str, Tensor]:
    """The sides that the set states, as tensors of the shape that a call takes."""
    sides = {"b": P.inequalities.rhs, "b_eq": P.equalities.rhs}
    bounds = {"lower": P.lower_bounds.reshape(P.shape), "upper": P.upper_bounds.reshape(P.shape)}
    given = {name: v for name, v in sides.items() if len(v)} | {k: v for k, v in bounds.items() if np.isfinite(v).any()}
    return {name: torch.as_tensor(np.asarray(value, np.float64)) for name, value in given.items()}


def units(P: rh.Polyhedron, name: str) -> Tensor:
    """How far one entry of a side moves when a point moves by 1: ‖a‖₁ of each row, 1 for a finite bound, else 0."""
    if name in ("lower", "upper"):
        return torch.isfinite(stated_sides(P)[name]).double()
    rows = P.inequalities if name == "b" else P.equalities
    return torch.as_tensor(np.asarray(abs(rows.matrix).sum(axis=1)).ravel(), dtype=torch.float64)


def loosened(P: rh.Polyhedron, name: str, n: int, share: float, generator: torch.Generator) -> Tensor:
    """The stated side for n samples, each entry looser by a random amount: no sample sits on a kink of the set.

    Equalities have no looser side: they move with a point. Shape: (n, \\*)
    """
    if name == "b_eq":
        return stated_sides(P)[name] + share * moved(P, name, n, generator)
    amount = torch.rand(n, *units(P, name).shape, generator=generator, dtype=torch.float64) * units(P, name)
    return stated_sides(P)[name] + (-share if name == "lower" else share) * amount


def moved(P: rh.Polyhedron, name: str, n: int, generator: torch.Generator) -> Tensor:
    """A random direction of a side for each of n samples; equalities move as those of a moved point do. (n, \\*)"""
    if name != "b_eq":
        return torch.randn(n, *units(P, name).shape, generator=generator, dtype=torch.float64) * units(P, name)
    matrix = torch.as_tensor(P.equalities.matrix.toarray(), dtype=torch.float64)
    return torch.randn(n, P.dim, generator=generator, dtype=torch.float64) @ matrix.mT
