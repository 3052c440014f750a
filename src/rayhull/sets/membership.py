"""Is x in the set, and how far outside, in floats: NumPy or torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.sets.rows import Array, Rows, is_torch

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

ULPS = 16  # the default tolerance of contains, in units of the dtype's eps


def flatten(P: Polyhedron, x: Any) -> Any:
    """x as (samples, d), after a check of its event shape. Shape: (\\*, event shape) → (prod \\*, d)."""
    if not is_torch(x):
        x = np.asarray(x)
        if x.dtype.kind not in "iubf":
            raise TypeError(f"points must be real numbers, got an array of {x.dtype}.")
    event = P.shape
    if x.ndim < len(event) or tuple(x.shape[x.ndim - len(event) :]) != event:
        raise ValueError(f"points must have shape (*, {', '.join(map(str, event))}), got {tuple(x.shape)}.")
    return x.reshape(math.prod(x.shape[: x.ndim - len(event)]), P.dim)


def violation(P: Polyhedron, x: Any) -> Any:
    """The largest amount by which a row or bound is exceeded. Shape: (\\*, event shape) → (\\*)."""
    flat = flatten(P, x)
    batch = x.shape[: np.ndim(x) - len(P.shape)] if not is_torch(x) else x.shape[: x.ndim - len(P.shape)]
    backend = _Torch(flat) if is_torch(flat) else _Numpy(flat)
    parts = [backend.excess(P.rows)]
    parts.append(abs(backend.excess(P.equality_rows)))
    return backend.largest(parts).reshape(batch)


def contains(P: Polyhedron, x: Any, atol: float | None) -> Any:
    """Whether every row and bound holds up to atol (default: 16 ulp of the row's scale). NaN is outside."""
    flat = flatten(P, x)
    torch_in = is_torch(x)
    batch = x.shape[: x.ndim - len(P.shape)] if torch_in else np.shape(x)[: np.ndim(x) - len(P.shape)]
    backend = _Torch(flat.detach()) if torch_in else _Numpy(flat)
    ok = backend.all_finite()
    for rows, both in ((P.rows, False), (P.equality_rows, True)):
        if not len(rows):
            continue
        excess = backend.excess(rows)
        excess = abs(excess) if both else excess
        allowed = backend.tolerance(rows) if atol is None else atol
        ok = ok & (excess <= allowed).all(1)
    return ok.reshape(batch)


class _Numpy:
    """Points (n, d) as NumPy floats."""

    def __init__(self, x: Array) -> None:
        self.eps = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else float(np.finfo(float).eps)
        self.x = x.astype(np.float64)

    def excess(self, rows: Rows) -> Array:
        """a·x - c for each sample and row, (n, m)."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray((rows.matrix @ self.x.T).T) - rows.rhs

    def tolerance(self, rows: Rows) -> Array:
        size = np.abs(self.x).max(1, initial=0.0)
        norms = np.asarray(abs(rows.matrix).sum(1)).ravel()
        return ULPS * self.eps * (np.outer(size, norms) + np.abs(rows.rhs))

    def all_finite(self) -> Array:
        return np.asarray(np.isfinite(self.x).all(1))

    def largest(self, parts: list[Array]) -> Array:
        return np.asarray(np.concatenate(parts, axis=1).max(1, initial=0.0))


class _Torch:
    """Points (n, d) as a torch tensor; excess is differentiable."""

    def __init__(self, x: Any) -> None:
        import torch

        self.eps = torch.finfo(x.dtype).eps if x.is_floating_point() else torch.finfo(torch.float64).eps
        self.x = x.to(torch.float64)
        self.torch = torch

    def _constant(self, values: Array) -> Any:
        return self.torch.as_tensor(np.ascontiguousarray(values), dtype=self.torch.float64, device=self.x.device)

    def excess(self, rows: Rows) -> Any:
        if not len(rows):
            return self.x.new_zeros(len(self.x), 0)
        places = np.stack([rows.row_of_entry, rows.matrix.indices]).astype(np.int64)
        sparse = self.torch.sparse_coo_tensor(
            self.torch.as_tensor(places, device=self.x.device),
            self._constant(rows.matrix.data),
            size=rows.matrix.shape,
            check_invariants=False,
        )
        return (sparse @ self.x.mT).mT - self._constant(rows.rhs)

    def tolerance(self, rows: Rows) -> Any:
        size = self.x.abs().amax(1) if len(self.x) else self.x.new_zeros(0)
        norms = self._constant(np.asarray(abs(rows.matrix).sum(1)).ravel())
        return ULPS * self.eps * (size[:, None] * norms + self._constant(np.abs(rows.rhs)))

    def all_finite(self) -> Any:
        return self.x.isfinite().all(1)

    def largest(self, parts: list[Any]) -> Any:
        zero = self.x.new_zeros(len(self.x), 1)
        return self.torch.cat([*parts, zero], dim=1).amax(1)
