"""What a call states anew beside the points: rows, right-hand sides and bounds, one for all samples or one for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.sets.reading import as_array, is_torch

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


@dataclass(frozen=True, eq=False)
class Given:
    """Float64 arrays of the points' kind, flat: (1 or n, ...) each, or None where the set's own numbers hold.

    Shape: A (\\*, m, d), b (\\*, m), A_eq (\\*, k, d), b_eq (\\*, k), lower and upper a number or (\\*, event
    shape); the batch dimensions \\* broadcast with those of the points.
    """

    A: Any = None
    b: Any = None
    A_eq: Any = None
    b_eq: Any = None
    lower: Any = None
    upper: Any = None


def read_given(P: Polyhedron, x: Any, batch: tuple[int, ...], **stated: Any) -> tuple[Given, Any, tuple[int, ...]]:
    """What was given, the points (n, d) and their batch shape, all batch dimensions broadcast together."""
    values = {name: _of_kind(value, x, name) for name, value in stated.items() if value is not None}
    if not values:
        return Given(), x, batch
    _refuse_missing(P, values)
    shapes = _shapes(P, values)
    batches = {name: _batch(name, value, shapes[name]) for name, value in values.items()}
    try:
        whole = np.broadcast_shapes(batch, *batches.values())
    except ValueError:
        got = ", ".join(f"{name} {own}" for name, own in batches.items())
        raise ValueError(f"batch dimensions do not broadcast: points {batch}, {got}.") from None
    tails = {name: shape if name in ("A", "A_eq") else (math.prod(shape),) for name, shape in shapes.items()}
    flat = {name: _flat(value, batches[name], whole, tails[name]) for name, value in values.items()}
    points = x.reshape(*batch, P.dim)
    points = points.broadcast_to((*whole, P.dim)) if is_torch(x) else np.broadcast_to(points, (*whole, P.dim))
    return Given(**flat), points.reshape(math.prod(whole), P.dim), whole


def _of_kind(value: Any, x: Any, name: str) -> Any:
    if is_torch(x):
        import torch

        kept = value if is_torch(value) else torch.as_tensor(as_array(value, name).astype(np.float64))
        return kept.to(device=x.device, dtype=torch.float64)
    array = as_array(value.detach() if is_torch(value) else value, name)
    if array.dtype == object:
        raise TypeError(
            f"{name} given with the points must hold floats or integers: state fractions in the set itself."
        )
    return array.astype(np.float64)


def _refuse_missing(P: Polyhedron, values: dict[str, Any]) -> None:
    for matrix, rhs, rows in (("A", "b", P.inequalities), ("A_eq", "b_eq", P.equalities)):
        if rhs in values and matrix not in values and not len(rows):
            raise ValueError(f"{rhs} was given, but the set states no {matrix}: give {matrix} too.")
        if matrix in values and values[matrix].ndim < 2:
            raise ValueError(f"{matrix} must have shape (*, rows, {P.dim}), got {tuple(values[matrix].shape)}.")
        if matrix in values and rhs not in values and values[matrix].shape[-2] != len(rows):
            raise ValueError(
                f"{matrix} has {values[matrix].shape[-2]} rows, but the set states {len(rows)} right-hand sides: "
                f"give {rhs} too."
            )


def _shapes(P: Polyhedron, values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each without its batch."""
    m = values["A"].shape[-2] if "A" in values else len(P.inequalities)
    k = values["A_eq"].shape[-2] if "A_eq" in values else len(P.equalities)
    return {"A": (m, P.dim), "b": (m,), "A_eq": (k, P.dim), "b_eq": (k,), "lower": P.shape, "upper": P.shape}


def _batch(name: str, value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if name in ("lower", "upper") and value.ndim == 0:
        return ()
    start = value.ndim - len(shape)
    if start < 0 or tuple(value.shape[start:]) != shape:
        raise ValueError(f"{name} must have shape (*, {', '.join(map(str, shape))}), got {tuple(value.shape)}.")
    return tuple(value.shape[:start])


def _flat(value: Any, own: tuple[int, ...], whole: tuple[int, ...], tail: tuple[int, ...]) -> Any:
    """(1 or n, *tail): one row where it is the same for every sample."""
    if not own:
        return value.reshape(1, 1) if value.ndim == 0 else value.reshape(1, *tail)
    target = (*whole, *value.shape[len(own) :])
    spread = value.broadcast_to(target) if is_torch(value) else np.broadcast_to(value, target)
    return spread.reshape(math.prod(whole), *tail)
