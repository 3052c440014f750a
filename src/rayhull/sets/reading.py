"""What a user states about a set, or beside points in a call, read and checked: numbers, rows, bounds, shapes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import Any, TypedDict

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, safe_integers
from rayhull.sets.rows import Names, Rows, compressed, count, indexed
from rayhull.sets.statement import CoordinateNames, Statement

Shape = int | Sequence[int]


def is_torch(x: object) -> bool:
    """Whether x is a torch tensor, without importing torch."""
    if isinstance(x, np.ndarray | int | float):  # most often, and at once
        return False
    return type(x).__module__.partition(".")[0] == "torch" or any(
        base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(x).__mro__
    )


def as_array(values: Any, name: str) -> Array:
    """Numbers as a NumPy array of int64, float64 or Python numbers; a clear refusal for anything else."""
    if is_torch(values):
        if values.requires_grad:
            side, own = (name, name) if name.isidentifier() else ("b", "tensor")
            raise ValueError(
                f"{name} is a tensor that requires grad, but a set holds constants and would drop its gradient. Give "
                f"what is learned with each call, layer(h, {side}=...), or state the set with {own}.detach()."
            )
        values = as_numpy(values)
    if np.ma.is_masked(values) or sp.issparse(values):
        raise TypeError(f"{name} must be a dense array without a mask: give .toarray() or .filled(...) of it.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers, got a ragged one: {error}") from None
    if array.dtype.kind == "c":
        raise TypeError(f"{name} is complex ({array.dtype}); linear inequalities need real numbers.")
    if array.dtype.kind == "O":
        return _python_numbers(array, name)
    if array.dtype.kind not in "iubf":
        raise TypeError(f"{name} must hold numbers, got an array of {array.dtype}.")
    return array.astype(np.float64) if array.dtype.kind == "f" else safe_integers(array)


def as_numpy(x: Any) -> Array:
    """The numbers of an array or a tensor; those of a tensor of floats in float64."""
    if not is_torch(x):
        return np.asarray(x)
    return np.asarray((x.double() if x.is_floating_point() else x).detach().cpu().numpy())


def _python_numbers(array: Array, name: str) -> Array:
    numbers = [v.item() if isinstance(v, np.generic) else v for v in array.ravel().tolist()]
    for v in numbers:
        if not isinstance(v, int | float | Fraction):
            raise TypeError(
                f"{name} must hold numbers, got {v!r} of type {type(v).__name__}: give int, float or Fraction."
            )
    out = np.empty(len(numbers), dtype=object)
    out[:] = numbers
    return out.reshape(array.shape)


def as_shape(shape: Shape) -> tuple[int, ...]:
    """An event shape as a tuple of sizes: 5 means (5,)."""
    sizes = tuple(shape) if isinstance(shape, Sequence | np.ndarray) and np.ndim(shape) == 1 else (shape,)
    if not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in sizes):
        raise ValueError(f"a shape is one or more positive whole sizes, such as 5 or (28, 28), got {shape!r}.")
    return tuple(int(n) for n in sizes)  # type: ignore[arg-type]  # just checked


def read_rows(matrix: object, rhs: object, names: Sequence[str] | None, letters: tuple[str, str]) -> Rows:
    """Rows from what a user gave: ``letters`` are what the two are called in error messages."""
    a_name, _ = letters
    dense = not sp.issparse(matrix)
    data, indices, indptr, width = (_from_dense if dense else _from_sparse)(matrix, a_name)
    m = len(indptr) - 1
    offsets = read_offsets(0 if rhs is None else rhs, m, letters)
    if names is not None and (not np.iterable(names) or len(names) != m):
        got = count(len(names), "name") if np.iterable(names) else repr(names)
        raise ValueError(f"{a_name} has {count(m, 'row')} but {got} came: give one for each row.")
    refuse_unless_finite(a_name, data)
    rule = partial(indexed, a_name, shape=(m,)) if names is None else tuple(names).__getitem__
    return Rows(data, indices, indptr, width, offsets, Names.by(rule, np.arange(m)), dense)


def read_offsets(rhs: object, m: int, letters: tuple[str, str]) -> Array:
    """Right-hand sides of m rows from what a user gave: a number for all, or one for each."""
    a_name, b_name = letters
    offsets = as_array(rhs, b_name)
    if offsets.ndim == 0:
        offsets = np.full(m, offsets[()], dtype=offsets.dtype)
    if offsets.shape != (m,):
        got = count(len(offsets), "entry") if offsets.ndim == 1 else f"shape {offsets.shape}"
        raise ValueError(f"{a_name} has {count(m, 'row')} but {b_name} has {got}: give one offset for each row.")
    refuse_unless_finite(b_name, offsets)
    return offsets


def _to_floats(name: str, values: Array) -> Array:
    try:
        return values.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} holds a number beyond the range of float64: divide the row by a large one.") from None


def refuse_unless_finite(name: str, values: Array) -> None:
    if values.dtype.kind == "i":
        return
    floats = _to_floats(name, values)
    if not np.isfinite(floats).all():
        bad = "NaN" if np.isnan(floats).any() else "an infinity"
        raise ValueError(f"{name} holds {bad}; every number must be finite (leave a row out to state no limit).")


def _from_dense(matrix: Any, name: str) -> tuple[Array, Array, Array, int]:
    array = as_array(matrix, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix (rows, coordinates), got shape {array.shape}.")
    return compressed(array)  # NaN != 0, so a NaN is stored and refused later with its message


def _from_sparse(matrix: Any, name: str) -> tuple[Array, Array, Array, int]:
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix (rows, coordinates), got shape {matrix.shape}.")
    csr = sp.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return as_array(csr.data, name), csr.indices.astype(np.int64), csr.indptr.astype(np.int64), int(csr.shape[1])


def read_bound(values: Any, name: str, shape: tuple[int, ...], none: float) -> Array | None:
    """Bounds in the event shape as given, None where no coordinate has one (all equal to ``none``)."""
    if values is None:
        return None
    array = as_array(values, name)
    if array.shape not in ((), shape, (math.prod(shape),)):
        raise ValueError(
            f"{name} has shape {array.shape}: expected a number, shape {shape} or one entry per coordinate."
        )
    array = array.reshape(shape) if array.ndim else np.broadcast_to(array, shape)
    floats = _to_floats(name, array)
    if np.isnan(floats).any():
        raise ValueError(f"{name} holds NaN; use infinities where there is no bound.")
    if (floats == -none).any():
        raise ValueError(f"{name} holds {-none}, which no number satisfies.")
    return None if (floats == none).all() else array.copy()


def common_dim(event: tuple[int, ...] | None, A: Rows | None, A_eq: Rows | None, lower: Any, upper: Any) -> int:
    """d, from whatever tells it; all that do must agree."""
    sizes = {} if event is None else {f"shape {event}": math.prod(event)}
    for name, rows in (("A", A), ("A_eq", A_eq)):
        if rows is not None:
            sizes[f"{name} ({rows.dim} columns)"] = rows.dim
    for name, values in (("lower", lower), ("upper", upper)):
        if values is not None and np.ndim(values) and not sizes:
            sizes[f"{name} ({np.size(values)} entries)"] = int(np.size(values))
    if not sizes:
        raise ValueError("how many coordinates? Give A, A_eq, bounds for each coordinate, or shape.")
    dim, *others = set(sizes.values())
    if others:
        raise ValueError(f"the numbers of coordinates disagree: {' but '.join(sizes)}.")
    if dim == 0:
        raise ValueError("a set needs at least one coordinate, got an empty matrix with 0 columns.")
    return dim


def read_names(names: Sequence[str] | None, dim: int) -> CoordinateNames | None:
    """Names of the coordinates, one for each."""
    if names is None:
        return None
    if not np.iterable(names) or len(names) != dim or not all(isinstance(name, str) for name in names):
        raise ValueError(f"coordinates must be {dim} names, one for each coordinate, got {names!r}.")
    return CoordinateNames(tuple(names))


def in_order(names: Sequence[str], x: Any) -> Any:
    """What a DataFrame, a Series or a dict calls by these names, in their order; x itself where it has no labels."""
    labels = x if isinstance(x, Mapping) else getattr(x, "columns", getattr(x, "index", None))
    labels = [] if labels is None or callable(labels) else list(labels)
    if not any(isinstance(label, str) for label in labels):
        return x
    if sorted(map(str, labels)) != sorted(names):
        mine, other = (", ".join(map(str, some[:6])) + ", ..." * (len(some) > 6) for some in (names, labels))
        raise ValueError(
            f"the columns are called {other}, the set's coordinates {mine}: give one column for each coordinate, such "
            "as frame[list(P.coordinates)], or the numbers without names."
        )
    values = np.stack([np.asarray(v) for v in x.values()], -1) if isinstance(x, Mapping) else np.asarray(x)
    for column in [] if values.dtype.kind in "iubf" else names:
        if text := [v for v in np.asarray(x[column], object).ravel() if not isinstance(v, Real)]:
            raise TypeError(f"the column {column} must hold numbers, got {text[0]!r} of type {type(text[0]).__name__}.")
    return values[..., [labels.index(name) for name in names]]


def by_name(P: Statement, x: Any) -> Any:
    """What has labels, in the order of a set with named coordinates and in its event shape; else x itself."""
    if P.coordinate_names is None and isinstance(x, Mapping):
        raise TypeError("the set's coordinates have no names: give the numbers alone, or state it with coordinates=.")
    values = x if P.coordinate_names is None else in_order(P.coordinates, x)
    return x if values is x else values.reshape(*values.shape[:-1], *P.shape)


# -- the event on another axis than the last ---------------------------------------------------------------------------


def event_last(P: Statement, x: Any, axis: int, **sides: Any) -> tuple[Any, dict[str, Any]]:
    """x with the event's axis moved to the end, and so the sides that have as many axes; A and A_eq end in theirs."""
    if axis == -1:
        return x, sides
    refuse_axis(P, axis)
    x = last(x, axis)
    given = {name: side for name, side in sides.items() if name not in ("A", "A_eq") and side is not None}
    return x, sides | {name: last(side, axis) for name, side in given.items() if _axes(side) == x.ndim}


def _axes(x: Any) -> int:
    """np.ndim, which torch.compile does not know."""
    return x.ndim if is_torch(x) else np.ndim(x)


def refuse_axis(P: Statement, axis: int) -> None:
    """A set of several axes stands on the last ones."""
    if not isinstance(axis, int):
        raise TypeError(f"axis must be a whole number, such as 1 for the channels of images, got {axis!r}.")
    if axis != -1 and len(P.shape) > 1:
        raise ValueError(f"axis= is for sets of one axis, and this one has shape {P.shape}: its axes come last.")


def last(x: Any, axis: int) -> Any:
    """x with one axis moved to the end."""
    if axis == -1:
        return x
    if not isinstance(axis, int | np.integer) or not -_axes(x) <= axis < _axes(x):
        raise ValueError(f"axis must be one of the {_axes(x)} axes of the points, got {axis!r}.")
    return x.movedim(axis, -1) if is_torch(x) else np.moveaxis(np.asarray(x), axis, -1)


# -- what a call states anew beside the points, one for all samples or one for each ----------------------------------


class GivenSides(TypedDict, total=False):
    """What may come beside points, in place of what the set states; what is read is float64, (1 or n, ...) flat.

    Shape: A (\\*, m, d), b (\\*, m), A_eq (\\*, k, d), b_eq (\\*, k), lower and upper a number or (\\*, event
    shape); the batch dimensions \\* broadcast with those of the points.
    """

    A: Any
    b: Any
    A_eq: Any
    b_eq: Any
    lower: Any
    upper: Any
    h: Any  # of cones
    centre: Any


def refuse_unknown(P: Statement, given: Iterable[str]) -> None:
    """A side that the set has not."""
    names = list(GivenSides.__annotations__)[: None if hasattr(P, "cones") else -2]
    for name in given:
        if name not in names:
            raise TypeError(f"unknown side {name!r}: the sides are {', '.join(names)}.")


def read_given(P: Statement, x: Any, batch: tuple[int, ...], **stated: Any) -> tuple[GivenSides, Any, tuple[int, ...]]:
    """What was given, the points (n, d) and their batch shape, all batch dimensions broadcast together."""
    refuse_unknown(P, stated)
    values = {name: _of_kind(_named(P, name, v), x, name) for name, v in stated.items() if v is not None}
    if not values:
        return {}, x, batch
    shapes = side_shapes(P, values)
    batches = {name: _batch(name, value, shapes[name]) for name, value in values.items()}
    try:
        whole = np.broadcast_shapes(batch, *batches.values())
    except ValueError:
        got = ", ".join(f"{name} {own}" for name, own in batches.items())
        raise ValueError(f"batch dimensions do not broadcast: points {batch}, {got}.") from None
    tails = {name: shape if name in ("A", "A_eq") else (math.prod(shape),) for name, shape in shapes.items()}
    flat: Any = {name: _flat(value, batches[name], whole, tails[name]) for name, value in values.items()}
    points = x.reshape(*batch, P.dim)
    points = points.broadcast_to((*whole, P.dim)) if is_torch(x) else np.broadcast_to(points, (*whole, P.dim))
    return flat, points.reshape(math.prod(whole), P.dim), whole


def _named(P: Statement, name: str, value: Any) -> Any:
    """A side with an entry for each coordinate, by their names."""
    return by_name(P, value) if name in ("lower", "upper", "centre", "base") else value


def floats_of(P: Statement, name: str, value: Any) -> Array:
    """A side that is no tensor, as floats of its own memory."""
    return np.array(_named(P, name, value), dtype=float)


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


def side_shapes(P: Statement, given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each side for one sample: rows that come with the call may be more or fewer than the set states."""
    m, k = _row_count(given, "A", "b", P.inequalities), _row_count(given, "A_eq", "b_eq", P.equalities)
    own = {"A": (m, P.dim), "b": (m,), "A_eq": (k, P.dim), "b_eq": (k,), "lower": P.shape, "upper": P.shape}
    return own | {"h": (len(getattr(P, "cones", ())),), "centre": P.shape}


def _row_count(given: Mapping[str, Any], matrix: str, rhs: str, stated: Rows) -> int:
    if matrix not in given:
        if rhs in given and not len(stated):
            raise ValueError(f"{rhs} was given, but the set states no {matrix}: give {matrix} too.")
        return len(stated)
    shape = np.shape(given[matrix])
    if len(shape) < 2 or shape[-1] != stated.dim:
        raise ValueError(f"{matrix} must have shape (*, rows, {stated.dim}), got {tuple(shape)}.")
    if rhs not in given and shape[-2] != len(stated):
        raise ValueError(
            f"{matrix} has {shape[-2]} rows, but the set states {len(stated)} right-hand sides: give {rhs} too."
        )
    return int(shape[-2])


def _batch(name: str, value: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if name in ("lower", "upper") and value.ndim == 0:
        return ()
    start = value.ndim - len(shape)
    if start < 0 or tuple(value.shape[start:]) != shape:
        raise misshapen(name, value, shape)
    return tuple(value.shape[:start])


def misshapen(name: str, value: Any, shape: tuple[int, ...]) -> ValueError:
    """The error of a side that is not (\\*, shape)."""
    hint = f": one number for each sample is {name}[:, None]" if shape == (1,) and value.ndim == 1 else ""
    return ValueError(f"{name} must have shape (*, {', '.join(map(str, shape))}), got {tuple(value.shape)}{hint}.")


def _flat(value: Any, own: tuple[int, ...], whole: tuple[int, ...], tail: tuple[int, ...]) -> Any:
    """(1 or n, *tail): one row where it is the same for every sample."""
    if not own:
        return value.reshape(1, 1) if value.ndim == 0 else value.reshape(1, *tail)
    target = (*whole, *value.shape[len(own) :])
    spread = value.broadcast_to(target) if is_torch(value) else np.broadcast_to(value, target)
    return spread.reshape(math.prod(whole), *tail)
