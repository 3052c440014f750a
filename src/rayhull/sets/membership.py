"""Is x in the set, in floats with a tolerance or in rational arithmetic without one; the slack of every rule there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, float_above, float_below, floats_as_integers
from rayhull.sets.reading import GivenSides, as_numpy, by_name, event_last, is_torch, read_given
from rayhull.sets.rows import Rows, count

if TYPE_CHECKING:
    from rayhull.sets.statement import Statement

ULPS = 16  # the default tolerance of contains, in units of the dtype's eps
CHUNK = 4_000_000  # values of rows at samples looked at together
SHOWN = 20  # rules in a printed table


def violation(P: Statement, x: Any, *, axis: int = -1, **sides: Unpack[GivenSides]) -> Any:
    """How far x is outside: the largest amount by which a row or bound, as stated, is exceeded, 0 inside.

    Args:
        x: points. Columns of a DataFrame and keys of a dict are taken by the names of the set's coordinates.
        axis: the one that the event stands on, where it is not the last: 1 for the channels of images.
        sides: ``A``, ``b``, ``A_eq``, ``b_eq``, ``lower``, ``upper``, and of cones ``h`` and ``centre``: they replace
            what the set states, or are added to it, for all samples or for each its own.

    Shape: x (\\*, event shape), A (\\*, m, d), b (\\*, m), bounds a number or (\\*, event shape) → (\\*), NumPy or
    torch as x is, in float64. Differentiable for tensors.

    Examples:
        >>> import rayhull as rh
        >>> rh.Polyhedron([[1, 1]], [1], lower=0).violation([[0.5, 0.5], [2.0, 1.0], [0.0, -0.25]])
        array([0.  , 2.  , 0.25])
    """
    _, given, points, batch = _read(P, x, axis, sides, _float64)
    xp = _namespace(points)
    worst = [xp.zeros_like(points[:, :1])]
    for excess, exponents, _, equal in _excesses(P, points, given):
        half = exponents // 2  # 2^1024 is no float, its root is one
        factors = [_like(points, np.ldexp(1.0, k)) for k in (half, exponents - half)]
        with np.errstate(over="ignore"):
            stated = excess * factors[0] * factors[1]
        worst.append(abs(stated) if equal else stated)
    return xp.amax(xp.concatenate(worst, axis=1), axis=1).reshape(batch)


def contains(P: Statement, x: Any, atol: float | None = None, *, axis: int = -1, **sides: Unpack[GivenSides]) -> Any:
    """Whether each x is inside: every row and bound holds up to ``atol``; sides and ``axis`` as in ``violation``.

    By default the tolerance is that of x's dtype: 16 ulp of ``‖a‖₁ max|x| + |b|`` for each row a·x <= b.

    Shape: x (\\*, event shape) → booleans (\\*), NumPy or torch as x is.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.Polyhedron([[1, 1]], [1], lower=0)
        >>> P.contains(np.array([0.9, 0.9]), b=np.array([[1.0], [2.0]]))    # one right-hand side for each sample
        array([False,  True])
    """
    flat, given, points, batch = _read(P, x.detach() if is_torch(x) else x, axis, sides, _float64)
    tolerance: Any = 0 if atol is None else atol
    if not (isinstance(tolerance, Real) and float(tolerance) >= 0):
        raise ValueError(f"atol must be a number, 0 or more, or None for a few ulp, got {atol!r}.")
    eps, xp = _eps(flat), _namespace(points)
    inside = xp.isfinite(points).all(axis=1)
    size = xp.amax(abs(points), axis=1)[:, None]
    for excess, exponents, (norms, rhs), equal in _excesses(P, points, given):
        finite = xp.where(xp.isinf(rhs), xp.zeros_like(rhs), abs(rhs))
        allowed = ULPS * eps * (size * norms + finite) if atol is None else _like(points, np.ldexp(atol, -exponents))
        inside = inside & ((abs(excess) if equal else excess) <= allowed).all(axis=1)
    return inside.reshape(batch)


def contains_exactly(P: Statement, x: Any, *, axis: int = -1, **sides: Unpack[GivenSides]) -> Any:
    """Whether each x is inside in rational arithmetic on the given floats: no tolerance, no rounding. Slow.

    ``sides`` and ``axis`` as in ``violation``; all inexact floats are taken as the dyadic rationals that they are.
    Floats hardly ever meet an equality exactly: ask a set without equalities.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.Polyhedron([[10, 10, 10]], [3])
        >>> [bool(judge([0.1, 0.1, 0.1])) for judge in (P.contains, P.contains_exactly)]    # 0.1 is above 1/10
        [True, False]
    """
    # Floats decide what they can decide for certain: bounds, rounded to the last float inside, and rows that are
    # further from their right-hand sides than the rounding error of computing them. Integers decide the rest.
    flat, given, points, batch = _read(P, x, axis, sides, _exact_floats)
    inside, step = np.zeros(len(points), bool), max(1, CHUNK // max(1, len(P.rows) + len(P.equality_rows)))
    for start in range(0, len(points), step):
        some = slice(start, start + step)
        own: Any = {name: v if len(v) == 1 else v[some] for name, v in given.items()}
        inside[some] = _hold_exactly(P, points[some], own)
    if is_torch(flat):
        return _namespace(flat).as_tensor(inside, device=flat.device).reshape(batch)
    return inside.reshape(batch)


def _hold_exactly(P: Statement, x: Array, given: GivenSides) -> Array:
    inside: Array = np.asarray(np.isfinite(x).all(axis=1))
    x = np.where(np.isfinite(x), x, 0.0)
    upper, lower = given.get("upper"), given.get("lower")
    for bound, stated, limit, sign in ((upper, P.upper, float_below, 1), (lower, P.lower, float_above, -1)):
        most: Any = limit(stated.ravel()) if bound is None and stated is not None else bound
        if most is not None:
            inside &= (sign * x <= sign * most).all(axis=1)
    for rows, A, b, equal in _stated_and_given(P, given):
        inside &= _rows_hold(rows, A, b, x, equal=equal)
    if hasattr(P, "cones_hold_exactly"):
        inside &= P.cones_hold_exactly(x, given)
    return inside


def _read(P: Statement, x: Any, axis: int, sides: GivenSides, floats: Callable[[Any], Any]) -> Any:
    """x as (samples, d); what was given beside it, the points as floats, and their batch shape: see ``read_given``."""
    x, own = event_last(P, x, axis, **sides)
    flat, batch = flatten(P, x)
    return flat, *read_given(P, floats(flat), batch, **own)


def flatten(P: Statement, x: Any) -> tuple[Any, tuple[int, ...]]:
    """x as (samples, d) and its batch shape, after a check of its event shape."""
    if not is_torch(x):
        x = np.asarray(by_name(P, x))
    if x.is_complex() if is_torch(x) else x.dtype.kind not in "iubf":
        raise TypeError(f"points must be real numbers, got an array of {x.dtype}: give np.asarray(x, float).")
    event, batch = P.shape, tuple(x.shape[: max(0, x.ndim - len(P.shape))])
    if tuple(x.shape[len(batch) :]) != event:
        raise ValueError(f"points must have shape (*, {', '.join(map(str, event))}), got {tuple(x.shape)}.")
    return x.reshape(math.prod(batch), P.dim), batch


# -- the slack of every rule at a point, by name -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Slack:
    """What :func:`slack` finds. Reading it as pairs, or by a rule's name, gives a column each."""

    names: tuple[str, ...]
    values: Any  # (*, m)
    kinds: tuple[str, ...]  # "broken", "binds", "holds" (an equality) or "" for each rule, at the worst point

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, self.values[..., i]) for i, name in enumerate(self.names))

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(f"no rule is called {name!r}: there are {', '.join(self.names[:6])} ...")
        return self.values[..., self.names.index(name)]

    @property
    def least(self) -> Array:
        """The least slack of each rule over all points, (m,)."""
        return np.asarray(as_numpy(self.values).min(tuple(range(self.values.ndim - 1)), initial=np.inf))

    def __repr__(self) -> str:
        width = max((len(name) for name in self.names[:SHOWN]), default=0)
        rows = zip(self.names[:SHOWN], self.least, self.kinds, strict=False)
        lines = [f"{name:<{width}}  {value:>10.6g}  {kind}".rstrip() for name, value, kind in rows]
        return "\n".join(lines + ([f"... {count(len(self) - SHOWN, 'rule')} more"] if len(self) > SHOWN else []))


def slack(P: Statement, x: Any) -> Slack:
    """The slack b - a·x of every rule by name, worst first: negative where broken; of an equality, minus its error.

    Of a cone it is ``g·x + h - |E x + f|``.

    Shape: x (\\*, event shape) → values (\\*, m), NumPy or torch as x is. Differentiable for a tensor.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.parse("coal + gas == 100; coal <= 2*gas; gas >= 0; gas <= 60")
        >>> P.slack([70, 30])
        coal <= 2*gas              -10  broken
        coal + gas == 100            0  holds
        gas <= 60                   30
        gas >= 0                    30
        >>> float(P.slack([70, 30])["coal <= 2*gas"])
        -10.0
    """
    points, batch = flatten(P, x)
    parts = [_slacks(rows, points) for rows in (P.equality_rows, P.rows)]
    names = [*P.equality_rows.names, *P.rows.names]
    if hasattr(P, "cones"):
        x = _float64(points)
        over, (slope, constant) = P.excess(x, {})  # type: ignore[attr-defined]
        size = _namespace(x).amax(abs(x), axis=1)[:, None]
        parts.append((-over, ULPS * _eps(points) * (size * slope + constant)))
        names += [cone.name for cone in P.cones]
    first = 0.0 - abs(parts[0][0])
    values = _namespace(points).concatenate([first, *(part[0] for part in parts[1:])], axis=1)  # (n, m)
    plain, margin = as_numpy(values), np.concatenate([as_numpy(tolerance) for _, tolerance in parts], axis=1)
    order = np.argsort(np.where(np.isnan(plain), -np.inf, plain).min(0, initial=np.inf), kind="stable")
    kinds = _kinds(plain, margin, len(P.equality_rows))
    ordered = values[:, order.tolist()].reshape(*batch, len(order))
    return Slack(tuple(names[i] for i in order), ordered, tuple(kinds[i] for i in order))


def _slacks(rows: Rows, points: Any) -> tuple[Any, Any]:
    """b - a·x for each point and row, and the tolerance that ``contains`` grants it: (n, d) → (n, m) twice."""
    x = _float64(points)
    excess, exponents, (norms, c) = _excess(rows, x)
    scale, size = _like(x, np.ldexp(1.0, exponents)), _namespace(x).amax(abs(x), axis=1)[:, None]
    size = _namespace(x).where(_namespace(x).isfinite(size), size, _like(x, np.zeros(1)))  # infinity tolerates nothing
    return (0.0 - excess) * scale, ULPS * _eps(points) * (size * norms + abs(c)) * scale


def _kinds(values: Array, tolerance: Array, equalities: int) -> list[str]:
    broken = np.any(~(values >= -tolerance), axis=0).tolist()  # NaN, too
    binds = np.any(values <= tolerance, axis=0).tolist()
    kinds = ["broken" if b else "binds" if t else "" for b, t in zip(broken, binds, strict=True)]
    return ["holds" if i < equalities and kind != "broken" else kind for i, kind in enumerate(kinds)]


def explain(P: Any, x: Any) -> str:
    """One point ``x`` (event shape) in words: which rules are broken and by how much, which bind.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.parse("coal + gas == 100; coal <= 2*gas; gas >= 0; gas <= 60")
        >>> print(P.explain([40, 60]))
        The point is inside: all 4 rules hold.
          binds   gas <= 60
          2 rules have slack, the least 60: gas >= 0
    """
    found: Slack = P.slack(x)
    points = as_numpy(flatten(P, x)[0])
    if len(points) != 1:
        raise ValueError(f"explain takes one point of shape {P.shape}, got {np.shape(x)}: slack(x) takes many.")
    for i in np.flatnonzero(~np.isfinite(points[0]))[:1]:
        return f"The point is outside: {P.coordinates[i]} is {points[0, i]}, and a set holds finite numbers alone."
    broken, binding, loose = ([i for i, k in enumerate(found.kinds) if k == kind] for kind in ("broken", "binds", ""))
    rules, be = count(len(found), "rule"), "is" if len(broken) == 1 else "are"
    verdict = f"outside: {len(broken)} of {rules} {be} broken" if broken else f"inside: all {rules} hold"
    lines = [f"The point is {verdict}."]
    lines += [f"  broken  {found.names[i]}, by {-found.least[i]:.6g}" for i in broken[:SHOWN]]
    lines += [f"  binds   {found.names[i]}" for i in binding[:SHOWN]]
    if loose:
        verb, i = "has" if len(loose) == 1 else "have", loose[0]
        least = f"{found.least[i]:.6g}: {found.names[i]}"
        lines.append(f"  {count(len(loose), 'rule')} {verb} slack, the least {least}")
    return "\n".join(lines)


# -- in floats, NumPy or torch ---------------------------------------------------------------------------------------


def _stated_and_given(P: Statement, given: GivenSides) -> tuple[tuple[Rows, Any, Any, bool], ...]:
    """(stated rows, given matrix, given right-hand sides, whether they are equalities)"""
    return (
        (P.inequalities, given.get("A"), given.get("b"), False),
        (P.equalities, given.get("A_eq"), given.get("b_eq"), True),
    )


def _excesses(P: Statement, x: Any, given: GivenSides) -> Iterator[tuple[Any, Array, tuple[Any, Any], bool]]:
    """For each kind of rule: a·x - c (n, m) over 2^k, the exponents k, (‖a‖₁, c) over 2^k, whether it is an equality.

    The powers of two keep sums from overflowing; they change no digit.
    """
    none = np.zeros(1, np.int64)
    for rows, A, b, equal in _stated_and_given(P, given):
        if A is not None or len(rows):
            yield *_excess(rows, x, b, A), equal
    for bound, stated, sign in ((given.get("upper"), P.upper, 1), (given.get("lower"), P.lower, -1)):
        own = bound if bound is not None or stated is None else _like(x, stated.ravel())
        if own is not None:
            c = sign * own
            with np.errstate(invalid="ignore"):  # infinity less infinity
                over = sign * x - c
            yield over, none, (1.0, c), False
    if hasattr(P, "cones"):
        over, sizes = P.excess(x, given)  # type: ignore[attr-defined]
        yield over, none, sizes, False


def _excess(rows: Rows, x: Any, b: Any = None, A: Any = None) -> tuple[Any, Array, tuple[Any, Any]]:
    """The same for stated rows, with a matrix or right-hand sides of the call in place of their own."""
    if A is not None:
        c = _like(x, rows.rhs) if b is None else b
        return (A @ x[:, :, None])[:, :, 0] - c, np.zeros(1, np.int64), (abs(A).sum(-1), c)
    matrix, rhs, exponents = rows.scaled
    norms = _like(x, np.asarray(abs(matrix).sum(axis=1)).ravel())
    c = _like(x, rhs) if b is None else b * _like(x, np.ldexp(1.0, -exponents))
    return _product(rows, x) - c, exponents, (norms, c)


def _namespace(x: Any) -> Any:
    """numpy or torch: both know zeros_like, amax, concatenate and isfinite by these names."""
    if is_torch(x):
        import torch

        return torch
    return np


def _float64(x: Any) -> Any:
    return x.to(_namespace(x).float64) if is_torch(x) else x.astype(np.float64)


def _eps(x: Any) -> float:
    xp = _namespace(x)
    is_float = x.is_floating_point() if is_torch(x) else x.dtype.kind == "f"
    return float(xp.finfo(x.dtype if is_float else xp.float64).eps)


def _like(x: Any, values: Array) -> Any:
    """Constants as float64 of x's kind, on x's device."""
    floats = np.ascontiguousarray(values, dtype=np.float64)
    return _namespace(x).as_tensor(floats, device=x.device) if is_torch(x) else floats


def _product(rows: Rows, x: Any) -> Any:
    """The scaled rows at each point: (n, d) → (n, m), differentiable for a tensor."""
    found = x.mT if is_torch(x) else x.T
    for part in rows.sums:
        if is_torch(x):
            torch, (data, at) = _namespace(x), (part.data, np.stack(sp.coo_array(part).coords))
            places = torch.as_tensor(at, device=x.device)
            found = torch.sparse_coo_tensor(places, _like(x, data), size=part.shape, check_invariants=False) @ found
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                found = np.asarray(part @ found)
    return found.mT if is_torch(x) else found.T


# -- in integers -----------------------------------------------------------------------------------------------------


def _rows_hold(rows: Rows, A: Array | None, b: Array | None, x: Array, *, equal: bool) -> Array:
    """Whether every row holds at each point (n, d), exactly; A (1 or n, m, d) and b (1 or n, m) come with the call.

    An inequality with an infinite right-hand side says nothing; with any other that is not finite nothing is inside.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        value, _, (norms, c) = _excess(rows, x, b, A)
        size = np.abs(x).max(axis=1, keepdims=True) * norms + np.abs(c)
    silent = np.zeros_like(c, bool) if equal else c == np.inf
    value = np.where(np.isfinite(c), value, np.where(silent, -1.0, 1.0))
    size = np.where(np.isfinite(c), size, 0.0)

    def exact(i: int, at: Array) -> Array:
        if A is None and b is None:
            return _exact_excess(rows, i, x[at])
        return np.array([_fraction_excess(rows, i, A, b, s, x[s]) for s in at], object)

    return _decided(value, size, int(rows.sizes.max(initial=0)) if A is None else rows.dim, equal, exact)


def _fraction_excess(rows: Rows, i: int, A: Array | None, b: Array | None, s: int, x: Array) -> Fraction:
    """a·x - c of row i at sample s, with what came with the call."""
    stated = slice(rows.indptr[i], rows.indptr[i + 1])
    columns, numbers = (rows.indices[stated], rows.data[stated]) if A is None else (slice(None), A[s % len(A), i])
    right = rows.offsets[[i]] if b is None else b[s % len(b), [i]]
    terms = zip(numbers.tolist(), x[columns].tolist(), strict=True)
    return sum((Fraction(a) * Fraction(v) for a, v in terms), -Fraction(right.tolist()[0]))


def _decided(value: Array, size: Array, most: int, equal: bool, exact: Callable[[int, Array], Array]) -> Array:
    """Whether all rows hold, (n, m) → (n,): by floats a·x - c beyond their rounding error, else exactly.

    ``size`` bounds the sum of the at most ``most`` terms, whose coefficients are rounded, too.
    """
    unsure = ~(np.abs(value) > 2.0**-52 * (most + 4) * size + 1e-300)
    broken = ((value != 0) if equal else (value > 0)) & ~unsure
    ok: Array = np.asarray(~broken.any(axis=1))
    for i in np.flatnonzero(unsure[ok].any(axis=0)):
        at = np.flatnonzero(unsure[:, i] & ok)
        excess = exact(int(i), at)
        ok[at] = np.asarray(excess == 0 if equal else excess <= 0, bool)
    return ok


def _exact_excess(rows: Rows, i: int, points: Array) -> Array:
    """a·x - c of row i at each point, as Python integers times a positive number."""
    data, rhs = rows.exact
    entries = slice(rows.indptr[i], rows.indptr[i + 1])
    scaled, shift = floats_as_integers(points[:, rows.indices[entries]])
    return np.asarray(scaled.dot(data[entries].astype(object)) - (int(rhs[i]) << shift))


def _exact_floats(x: Any) -> Array:
    """Points as float64, refused where that would round them."""
    if is_torch(x):
        long = not x.is_floating_point() and bool((abs(x) >= 2**53).any())
    else:
        long = x.dtype.itemsize > 8 or (x.dtype.kind in "iu" and bool((np.abs(x.astype(np.float64)) >= 2**53).any()))
    if long:
        raise ValueError("points beyond float64 (long doubles, integers of 2^53 or more) cannot be judged exactly.")
    return as_numpy(x).astype(np.float64)
