"""Bijections from R^k onto the relative interior of a block, with their log-determinants and inverses.

A block is first seen in its affine hull: a centre, an orthonormal basis, the rows that bound it there. Each map is
three tensor functions of the coefficients c (\\*, k), points x (\\*, n) and the block's constants. Determinants are
those of c → y in orthonormal coordinates of the affine hull: densities refer to the k-dimensional volume there
(Lebesgue measure where the set has an interior).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from rayhull.maps.coefficients import inverse_softplus
from rayhull.maps.shrink import SMOOTHNESS, smooth_factor
from rayhull.sets.frame import independent, round_coordinates, unit_rows
from rayhull.sets.interior import base_point, hull_basis
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


TINY = 1e-13  # entries of a simplex' vertices below this share of the largest are rounding
FLAT = 1e-9  # rows shorter than this share of their length within the hull do not bound it


@dataclass(frozen=True, eq=False)
class Hull:
    """x = base + basis y, with A x <= b for the m rows that bound the set within its hull."""

    base: Array  # (n,) a point of the relative interior, in the scale of the data
    basis: Array  # (n, k) orthonormal
    A: Array  # (m, n)
    b: Array  # (m,)

    @property
    def within(self) -> Array:
        """The rows in the hull's own coordinates, (m, k)."""
        return np.asarray(self.A @ self.basis)

    @property
    def slack(self) -> Array:
        """b - A base > 0, (m,)."""
        return np.asarray(self.b - self.A @ self.base)


def hull_of(P: Polyhedron) -> Hull:
    """The affine hull of P, from its stated and its implicit equalities."""
    middle = P.centre
    basis = hull_basis(P, middle.implicit)
    loose = np.flatnonzero(~middle.implicit)
    A, b = P.rows.matrix[loose].toarray(), P.rows.rhs[loose]
    bounding = np.linalg.norm(A @ basis, axis=1) > FLAT * np.linalg.norm(A, axis=1)
    return Hull(base_point(P), basis, A[bounding], b[bounding])


class BlockMap(ABC):
    """c → x and back. ``constants`` are float64 arrays; the caller passes them as tensors of the right dtype."""

    method: str
    coefficients: int  # k
    constants: dict[str, Any]
    log_volume: Any  # log|det| of the constant linear part

    @abstractmethod
    def forward(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        """The point, (\\*, k) → (\\*, n)."""

    @abstractmethod
    def inverse(self, x: Tensor, k: dict[str, Tensor]) -> Tensor:
        """The coefficients of a point of the interior, (\\*, n) → (\\*, k)."""

    @abstractmethod
    def log_det(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        """log|det J| at c, (\\*, k) → (\\*)."""

    @staticmethod
    def slack(x: Tensor, k: dict[str, Tensor]) -> Tensor:
        return k["b"] - x @ k["A"].mT


class Softmax(BlockMap):
    r"""A simplex with vertices v: :math:`x = \sum_i w_i v_i,\; w = \mathrm{softmax}(H c)`.

    H has orthonormal columns, each of sum 0.
    :math:`\log|\det J| = \sum_i \log w_i + const`; the inverse is :math:`c = H^T \log w`, w_i the slack of the opposite
    row as a share of its largest.
    """

    method = "softmax"

    def __init__(self, hull: Hull, shares: Array) -> None:
        self.coefficients = k = hull.basis.shape[1]
        total = float(shares @ hull.slack)
        scaled = {"A": hull.A * shares[:, None] / total, "b": hull.b * shares / total}  # slack = barycentric weight
        height = scaled["A"] @ hull.basis  # (k + 1, k); weights are w = w0 - height y
        at_base = scaled["b"] - scaled["A"] @ hull.base
        vertices = hull.base + (at_base - np.eye(k + 1)) @ np.linalg.pinv(height).T @ hull.basis.T  # (k + 1, n)
        vertices[np.abs(vertices) < TINY * np.abs(vertices).max(initial=1.0)] = 0.0
        H = scipy.linalg.null_space(np.ones((1, k + 1)))
        self.constants = {**scaled, "vertices": vertices, "H": H}
        self.log_volume = float(np.linalg.slogdet((vertices.T @ H).T @ hull.basis)[1] + np.log(k + 1))

    def forward(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        return (c @ k["H"].mT).softmax(-1) @ k["vertices"]

    def inverse(self, x: Tensor, k: dict[str, Tensor]) -> Tensor:
        least = torch.finfo(x.dtype).tiny
        return self.slack(x, k).clamp_min(least).log() @ k["H"]

    def log_det(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        return (c @ k["H"].mT).log_softmax(-1).sum(-1) + self.log_volume


class Softplus(BlockMap):
    r"""Independent rows: :math:`x = apex + S\,\mathrm{softplus}(c_s) + F c_f`, S the edges along which one slack grows.

    :math:`\log|\det J| = \sum \log\sigma(c_s) + const`; the inverse undoes softplus on the slacks.
    """

    method = "softplus"

    def __init__(self, hull: Hull) -> None:
        self.coefficients = hull.basis.shape[1]
        length = np.linalg.norm(hull.within, axis=1)
        A, b = hull.A / length[:, None], hull.b / length
        rows = A @ hull.basis
        back = np.linalg.pinv(rows)  # (k, m)
        free = scipy.linalg.null_space(rows) if len(rows) else np.eye(self.coefficients)
        apex = hull.base + hull.basis @ (back @ (b - A @ hull.base))
        edges, lines = -(hull.basis @ back).T, (hull.basis @ free).T
        for values in (apex, edges, lines):
            values[np.abs(values) < TINY * max(1.0, np.abs(values).max(initial=0.0))] = 0.0
        self.constants = {"A": A, "b": b, "apex": apex, "edges": edges, "lines": lines}
        self.log_volume = float(np.linalg.slogdet(np.concatenate([-back, free], axis=1))[1])

    def forward(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        m = len(k["b"])
        return k["apex"] + softplus(c[..., :m]) @ k["edges"] + c[..., m:] @ k["lines"]

    def inverse(self, x: Tensor, k: dict[str, Tensor]) -> Tensor:
        bound = inverse_softplus(self.slack(x, k).clamp_min(torch.finfo(x.dtype).tiny))
        return torch.cat([bound, (x - k["apex"]) @ k["lines"].mT], -1)

    def log_det(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        return logsigmoid(c[..., : len(k["b"])]).sum(-1) + self.log_volume


class Radial(BlockMap):
    r"""Any set with a relative interior: :math:`x = q + s(g)\,T c,\; s = (1 + g^4)^{-1/4}`, g the gauge of T c.

    :math:`\log|\det J| = -\frac{k + 4}{4} \log(1 + g^4) + \log|\det T|`. With p the gauge of x - q, the inverse is
    :math:`c = T^{-1}(x - q)(1 - p^4)^{-1/4}`, :math:`1 - p^4 = (1 - p)(1 + p)(1 + p^2)`, and 1 - p is the least slack
    as a share of that at q: no cancellation.
    """

    method = "radial"

    def __init__(self, coefficients: int, constants: dict[str, Any], log_volume: Any) -> None:
        self.coefficients, self.constants, self.log_volume = coefficients, constants, log_volume

    @classmethod
    def of(cls, hull: Hull) -> Radial:
        """In round coordinates of the set's hull."""
        T = round_coordinates(hull.within, hull.slack, 1.0)
        gauge = hull.within @ T / hull.slack[:, None]
        back = np.linalg.inv(T) @ hull.basis.T
        relative = {"A": hull.A / hull.slack[:, None], "b": hull.b / hull.slack}
        constants = {**relative, "base": hull.base, "out": (hull.basis @ T).T, "gauge": gauge.T, "back": back.T}
        return cls(hull.basis.shape[1], constants, float(np.linalg.slogdet(T)[1]))

    def _factor(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        """The smooth shrink at the gauge of T c, at least 0: without rows nothing shrinks."""
        return smooth_factor(torch.cat([c @ k["gauge"], c.new_zeros((*c.shape[:-1], 1))], -1).amax(-1, keepdim=True))

    def forward(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        return k["base"] + (c * self._factor(c, k)) @ k["out"]

    def inverse(self, x: Tensor, k: dict[str, Tensor]) -> Tensor:
        slack = self.slack(x, k)
        # 1 - p; points that rounding has put on the boundary count as one ulp inside
        left = torch.cat([slack, slack.new_ones((*slack.shape[:-1], 1))], -1).amin(-1, keepdim=True)
        left = left.clamp_min(torch.finfo(x.dtype).eps / 4)
        p = 1.0 - left
        return ((x - k["base"]) @ k["back"]) * (left * (1.0 + p) * (1.0 + p * p)) ** (-1.0 / SMOOTHNESS)

    def log_det(self, c: Tensor, k: dict[str, Tensor]) -> Tensor:
        return (self.coefficients + SMOOTHNESS) * self._factor(c, k).squeeze(-1).log() + self.log_volume


def block_map(hull: Hull, method: str) -> BlockMap:
    """The map that suits a block: softmax for a simplex, softplus for independent rows, else the radial one."""
    if method != "radial":
        if independent(unit_rows(hull.within)):
            return Softplus(hull)
        shares = _simplex_shares(hull)
        if shares is not None:
            return Softmax(hull, shares)
    return Radial.of(hull)


def _simplex_shares(hull: Hull) -> Array | None:
    """λ > 0 with Σ λ_i a_i = 0 if the k + 1 rows bound a simplex, else None."""
    rows = hull.within
    if len(rows) != rows.shape[1] + 1 or not independent(unit_rows(rows[1:])):
        return None
    shares = np.concatenate([[1.0], -np.linalg.solve(rows[1:].T, rows[0])])
    return shares if (shares > 0).all() else None
