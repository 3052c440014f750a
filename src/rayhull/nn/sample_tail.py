"""Sides of the sample in the compiled tail: right-hand sides, bounds and a base point of each sample, with gradients.

Two programs serve them. Where the base point of the set as it was stated keeps slack for every sample, the layer's own
program takes b and bounds as they come (*stays*). Elsewhere the set is seen whole from base points of the samples, as
:mod:`rayhull.nn.following` defines it (*of sample*): an affine rule, phase 1 or the call gives them. Rows of the sample
take the tensor operations, and so do samples that their base point does not certify.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.maps.approach import momenta
from rayhull.maps.sample_rows import MOST, step_of
from rayhull.maps.shrink import as_single, gamma, roundoff
from rayhull.nn import tail
from rayhull.nn.following import TINY
from rayhull.nn.sample_sets import Rows, SampleSets
from rayhull.nn.tail import Fields, Packed
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.nn.following import Following
    from rayhull.nn.map_into import MapInto


# -- the call --------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """How a layer takes sides of these names: worked out at the first call with them."""

    stays: Packed | None  # the program from the stated base point, where it may have slack for every sample
    of_sample: Packed | None  # the program from base points of the samples
    following: Following | None
    dtype: torch.dtype  # of base points
    strict: bool


def points(into: MapInto, c: Tensor, sides: Sides, origin: Sequence[Tensor], leak: float) -> Tensor | None:
    """Points by the operator, or None where the tensor operations have to serve, or refuse what was given."""
    names = sides.given
    if not tail.is_plain(c) or not all(_is_plain(getattr(sides, name)) for name in names):
        return None
    key = (names, c.dtype, into.shrinking, into.smooth)
    if key not in into.plans:
        into.plans[key] = _plan(into, names, c.dtype)
    plan = into.plans[key]
    if plan is None:
        return None
    return (_flat_points if _is_flat(into, c, sides, names) else _of_any_shape)(into, plan, c, sides, origin, leak)


def _plan(into: MapInto, names: Sequence[str], dtype: torch.dtype) -> Plan | None:
    """The programs that serve, None where the tensor operations do."""
    if {"A", "A_eq"} & set(names):
        return None
    stays = tail.program(into, dtype) if into.keeps_base(names) else None
    if into.keeps_base(names) and (stays is None or not stays.follows):
        return None
    follows = into.coefficients == into.polyhedron.dim and (into.strict or not into.parts.are_nearest)
    moves_bounds = bool({"lower", "upper"} & set(names))
    of_sample = followed_program(into, dtype, moves_bounds) if follows else None
    if stays is None and of_sample is None:
        return None
    wide = torch.float64 if into.strict else dtype
    return Plan(stays, of_sample, into.follow() if follows else None, wide, into.strict)


def _flat_points(
    into: MapInto, plan: Plan, c: Tensor, sides: Sides, origin: Sequence[Tensor], leak: float
) -> Tensor | None:
    """Points (n, d) for n samples with sides (n, width)."""
    origin = origin if plan.strict else ()
    if plan.stays is not None:
        x, _, missed = run(c, sides, (origin, plan.stays, into, leak))
        if not missed:
            return x
    if plan.of_sample is None or plan.following is None:
        return None
    if leak and plan.stays is not None:
        return _leaking_outside(into, plan, c, sides, origin, leak)
    base = plan.following.base_of(sides, c.shape[0], plan.dtype) if sides.base is None else sides.base
    x, certified, missed = run(c, sides._replace(base=base), (origin, plan.of_sample, into, leak))
    if not missed:
        return x
    if leak:
        return _leaking_outside(into, plan, c, sides, origin, leak)
    free, whole = into.meaning_of(c, origin), sides.spread(c.shape[:1], plan.dtype)
    return plan.following.settled(x.flatten(1), certified, whole, free, plan.strict)


def _leaking_outside(
    into: MapInto, plan: Plan, c: Tensor, sides: Sides, origin: Sequence[Tensor], leak: float
) -> Tensor:
    """The same with the leak around it: the free point is seen from the stated base point, or some points are settled
    elsewhere, which leak, too."""

    def found(damped: Tensor) -> Tensor:
        x = _flat_points(into, plan, damped, sides, origin, 0.0)
        assert x is not None
        return x.reshape(-1, *into.polyhedron.shape)

    return into.with_leak(found, c, sides, leak)


def _is_plain(side: Tensor) -> bool:
    return type(side) in tail.PLAIN and side.is_cpu and side.dtype in tail.DTYPES


def _is_flat(into: MapInto, c: Tensor, sides: Sides, names: Sequence[str]) -> bool:
    """Whether there are n samples with sides (n, width) each, as most calls have it."""
    if c.ndim != 2 or len(into.polyhedron.shape) > 1:
        return False
    n, widths = c.shape[0], into.side_widths
    return all(getattr(sides, name).shape == (n, widths[name]) for name in names)


def _of_any_shape(
    into: MapInto, plan: Plan, c: Tensor, sides: Sides, origin: Sequence[Tensor], leak: float
) -> Tensor | None:
    """The same for any batch dimensions: sides that serve all samples are expanded."""
    P = into.polyhedron
    checked = sides.checked(P)
    batch = checked.batch(tuple(c.shape[:-1]))  # refuses sides of another batch
    flat = Sides(**{name: _rows_of(getattr(checked, name), batch) for name in checked.given})
    if origin and tuple(origin[0].shape[:-1]) != batch:
        features, *weights = origin
        origin = (_rows_of(features, batch), *weights)
    x = _flat_points(into, plan, _rows_of(c, batch), flat, origin, leak)
    return None if x is None else x.reshape(*batch, *P.shape)


def _rows_of(value: Tensor, batch: tuple[int, ...]) -> Tensor:
    """One row for each sample."""
    return value.expand(*batch, -1).reshape(math.prod(batch), value.shape[-1])


class SampleTail(torch.autograd.Function):
    """The operator with its own backward pass; second derivatives are those of the tensor operations."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, base: Any, b: Any, lower: Any, upper: Any, call: Any) -> tuple[Any, ...]:
        ctx.origin, ctx.packed, ctx.into, ctx.leak = call
        ctx.save_for_backward(c, base, b, lower, upper)
        found = operators.layer_tail_of_samples(
            c, ctx.origin, (base, b, lower, upper), ctx.packed.layout, ctx.packed.numbers
        )
        ctx.mark_non_differentiable(found[1])
        return found

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        c, *given = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            return (*_differentiated(ctx, c, given, g), None)
        packed = ctx.packed
        made = operators.layer_tail_of_samples_backward(
            g.to(c.dtype), c, ctx.origin, given, packed.layout, packed.numbers, ctx.leak
        )
        own = zip(ctx.needs_input_grad, made, strict=False)
        return (*(gradient if needed else None for needed, gradient in own), None)


def _differentiated(ctx: Any, c: Tensor, given: Sequence[Tensor | None], g: Tensor) -> list[Tensor | None]:
    """The gradients in c and in the sides as functions that can be differentiated once more."""
    base, b, lower, upper = given
    x = ctx.into.in_tensor_operations(c, ctx.origin, Sides(b=b, lower=lower, upper=upper, base=base), ctx.leak)
    inputs = [t for t in (c, *given) if t is not None and t.requires_grad]
    gradients = torch.autograd.grad(x, inputs, g.reshape(x.shape), create_graph=True, allow_unused=True)
    found = dict(zip(map(id, inputs), gradients, strict=True))
    return [None if t is None else found.get(id(t)) for t in (c, *given)]


Call = tuple[Sequence[Tensor], Packed, "MapInto", float]  # origin, program, map, leak


def run(c: Tensor, sides: Sides, call: Call) -> tuple[Tensor, Tensor, int]:
    """Points (n, d), which samples are certified (n,), and how many are not. Shape: c (n, k), sides (n, width)"""
    given = (sides.base, sides.b, sides.lower, sides.upper)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (c, *given)):
        found: tuple[Tensor, Tensor, int] = SampleTail.apply(c, *given, call)  # type: ignore[no-untyped-call]
        return found
    origin, packed, *_ = call
    return operators.layer_tail_of_samples(c, origin, given, packed.layout, packed.numbers)


# -- the program of a set that is seen from base points of the samples -----------------------------------------------


def followed_program(into: MapInto, dtype: torch.dtype, bounded: bool) -> Packed | None:
    """The program for sides of the sample, worked out once; ``bounded``: bounds come with the call."""
    key = (dtype, into.shrinking, into.smooth, bounded)
    if key not in into.programs:
        served = operators.available() and into.shrinking and not into.smooth
        into.programs[key] = _packed(into, dtype, bounded) if served else None
    return into.programs[key]


def _packed(into: MapInto, dtype: torch.dtype, given: bool) -> Packed | None:
    following, d = into.follow(), into.polyhedron.dim
    sets, bounded = following.sets, given or following.sets.bounded
    if d * d > tail.LARGEST or len(sets.exact["A"]) * d > tail.LARGEST:
        return None
    fields = _direction(into) | _steps(following, given) | _slack(sets, dtype, into.strict, bounded)
    fields |= {"count": 1, "size": d, "coefficients": d, "columns": d}
    fields |= {"leak_index": into.block.numpy()} if into.block.numel() else {}
    packed = tail.Writer(into, [fields], np.arange(d))
    return packed.program() if packed.length <= tail.LARGEST else None


def _direction(into: MapInto) -> Fields:
    """What coefficients stand for: points or directions, by a matrix, along the equalities."""
    sets, d = into.follow().sets, into.polyhedron.dim
    with torch.no_grad():
        images = (
            into.to_event_order(into.parts.free(torch.eye(d + 1, d, dtype=sets.A.dtype))).flatten(1).double().numpy()
        )
    matrix, point = images[:-1] - images[-1], images[-1]
    diagonal = not (matrix - np.diag(matrix.diagonal())).any()
    fields: Fields = (
        {"linear": "diagonal", "matrix": matrix.diagonal()} if diagonal else {"linear": "matrix", "matrix": matrix}
    )
    null = sets.exact["null"]
    if null.shape[1] < d:
        fields["hull"] = np.linalg.svd(np.eye(d) - null @ null.T)[0][:, : d - null.shape[1]]
    return fields | ({"points": 1, "point": point} if into.parts.are_points else {})


def _stacked(sets: SampleSets, bounded: bool) -> tuple[Array, Array]:
    """Stated rows and bounds, and the place of each in a slack vector: rows, upper bounds, lower bounds."""
    A = sets.exact["A"]
    eye = np.eye(A.shape[1])
    both = np.concatenate([eye, -eye]) if bounded else eye[:0]
    return np.concatenate([A, both]), np.arange(len(A) + len(both))


def _moving(sets: SampleSets, rows: Array) -> Rows:
    return Rows.of(torch.as_tensor(rows), torch.as_tensor(sets.exact["null"]))


def _steps(following: Following, given: bool) -> Fields:
    """Dual steps over rows of unit length; those that nothing moves, and bounds that are not there, have no part."""
    sets = following.sets
    rows, places = _stacked(sets, given or sets.bounded)
    made = _moving(sets, rows)
    assert made.moving is not None
    moves = made.moving.numpy()
    if sets.bounded and not given:
        stated = np.isfinite(np.concatenate([sets.exact["upper"], sets.exact["lower"]]))
        moves[len(sets.exact["A"]) :] &= stated
    none: Fields = {"step_index": places[:0], "step_units": np.zeros(0)}
    if not following.steps or not moves.any():
        return none
    unit = (made.units() @ torch.as_tensor(sets.exact["null"]).mT).numpy()[moves]
    length = float(step_of(torch.as_tensor(unit)))
    fields: Fields = {"steps": following.steps, "step_rows": len(unit), "length": length, "back": unit}
    fields |= {"step_matrix": unit, "seen": np.ones(len(unit)), "momenta": np.array(momenta(following.steps, MOST))}
    fields |= {"step_index": places[moves], "step_units": 1 / made.lengths.numpy()[moves]}
    if len(unit) <= 2 * unit.shape[1]:
        return fields | {"step": "gram", "turn": np.eye(len(unit)) - length * (unit @ unit.T)}
    return fields | {"step": "points"}


def _slack(sets: SampleSets, dtype: torch.dtype, strict: bool, bounded: bool) -> Fields:
    """Slack of every row and bound, and the margins of a proof."""
    A, d = sets.exact["A"], len(sets.exact["lower"])
    rows, places = _stacked(sets, bounded)
    made = _moving(sets, rows)
    assert made.moving is not None
    still = places[~made.moving.numpy()]
    u, g, tiny = roundoff(dtype), gamma(d), torch.finfo(dtype).tiny
    eps = torch.finfo(torch.float64 if strict else dtype).eps
    single = ((A != 0).sum(1) == 1) & (np.abs(A).sum(1) == 1)
    fields: Fields = {"sides": "of sample", "side_rows": len(A), "columns_index": np.arange(len(A))}
    fields |= {"rhs": sets.exact["b"], "side_matrix": A, "side_sizes": np.abs(A), "steep": np.abs(A).sum(1)}
    fields |= {"gauge_index": np.arange(len(A)), "gauge_slack": np.ones(len(A))}
    fields |= {"still": len(still), "still_index": still, "proof": np.where(single, 0.0, as_single(g))}
    fields |= {"side_margins": [as_single(g + u), as_single(u + 2 * g), as_single(max(TINY, u * tiny)), 64 * eps]}
    if bounded:
        fields |= {"side_upper": sets.exact["upper"], "side_lower": sets.exact["lower"]}
    return fields | ({"scale": "shrink", "shrink_rows": len(A), "shrink_matrix": A} if len(A) else {})
