"""Sides of the sample: right-hand sides, bounds and rows that come with a call, in one record for every room.

A layer takes them as they come (``checked``, ``spread``); a projection wants them and its points flat (``flat_points``,
``flat_sides``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from rayhull.maps.coefficients import without
from rayhull.maps.graphs import broadcast, is_plain
from rayhull.sets.reading import event_last, floats_of, misshapen, refuse_unknown, side_shapes

if TYPE_CHECKING:
    from rayhull.sets.statement import Statement


class Sides(NamedTuple):
    """What a call gave; None: as the set states it.

    Shape: for the set b (\\*, m), b_eq (\\*, m_eq), lower, upper and base (\\*, event shape), A (\\*, m, d), A_eq
    (\\*, m_eq, d); flat, \\* is 1 or n; for one kind of block (\\*, count, rows of the block) and (\\*, count, n).
    """

    b: Tensor | None = None
    b_eq: Tensor | None = None
    lower: Tensor | None = None
    upper: Tensor | None = None
    A: Tensor | None = None
    A_eq: Tensor | None = None
    base: Tensor | None = None
    h: Tensor | None = None  # right-hand sides of cones, radii of balls
    centre: Tensor | None = None  # of balls and ellipsoids

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those that are given."""
        return tuple(name for name, value in zip(self._fields, self, strict=True) if value is not None)

    def without_base(self, event: tuple[int, ...]) -> dict[str, Any]:
        """What a projection takes, bounds in the event shape."""
        found = {name: getattr(self, name) for name in self.given if name != "base"}
        for name in {"lower", "upper", "centre"} & set(found) if len(event) > 1 else ():
            found[name] = found[name].reshape(*found[name].shape[:-1], *event)
        return found

    @property
    def has_rows(self) -> bool:
        return self.A is not None or self.A_eq is not None

    def fits_kernels(self, n: int) -> bool:
        """Whether finite right-hand sides and bounds are all there is, a row for all of n eager samples or for each."""
        own = [v for v in self[:4] if v is not None]
        others = self.A is self.A_eq is self.h is self.centre is None
        fit = others and all(v.ndim == 2 and v.shape[0] in (1, n) and is_plain(v) for v in own)
        return fit and not any(_looks_infinite(v) for v in own)

    def detached(self) -> Sides:
        """The same, which no derivative follows."""
        return Sides(*(v if v is None else v.detach() for v in self))

    def checked(self, P: Statement, like: Tensor) -> Sides:
        """The same as tensors with flat bounds; a shape that does not fit is refused."""
        flat, given = {}, {name: _tensor(P, name, getattr(self, name), like) for name in self.given}
        refuse_unknown(P, given.keys() - {"base"})
        shapes = side_shapes(P, given)
        for name, value in given.items():
            shape = shapes.get(name, P.shape)
            value = value if value.ndim else value.expand(shape)
            if tuple(value.shape[value.ndim - len(shape) :]) != shape or value.ndim < len(shape):
                raise misshapen(name, value, shape)
            flat[name] = value if name in ("A", "A_eq") else value.flatten(value.ndim - len(shape))
        return Sides(**flat)

    def batch(self, points: tuple[int, ...]) -> tuple[int, ...]:
        """The batch dimensions of points and sides together."""
        own = {name: tuple(getattr(self, name).shape[: -_dimensions(name)]) for name in self.given}
        if all(shape == points for shape in own.values()):  # torch takes 20 µs to say so
            return points
        try:
            return broadcast(points, *own.values())
        except (RuntimeError, ValueError):
            got = ", ".join(f"{name} {shape}" for name, shape in own.items())
            raise ValueError(f"batch dimensions do not broadcast: points {points}, {got}.") from None

    def spread(self, batch: tuple[int, ...], dtype: torch.dtype) -> Sides:
        """Every side for every sample, (n, ...), in the dtype."""
        flat = {}
        for name in self.given:
            value = getattr(self, name).to(dtype)
            tail = value.shape[-_dimensions(name) :]
            flat[name] = value.expand(*batch, *tail).reshape(-1, *tail)
        return Sides(**flat)


ROUNDINGS, CERTAIN = 4, 1e-9  # of their dtype, and as a share: by so much sides of dependent equalities may disagree


def agreeing(
    b_eq: Tensor, lengths: Tensor, cancelling: Tensor | Callable[[Tensor], Tensor], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Sides of equalities divided by the rows' lengths, and whether those that depend on each other agree.

    They may contradict each other by the rounding of the dtype that they came in, which is then removed.

    Args:
        cancelling: the combinations in which rows of length 1 cancel (k, r), or what takes them out of sides (\\*, k).

    Shape: b_eq (\\*, k), lengths (k,) → (\\*, k), (\\*)
    """
    unit = b_eq.double() / lengths
    consistent = without(unit, cancelling)
    share = max(ROUNDINGS * torch.finfo(dtype).eps, CERTAIN)
    agreed = (unit - consistent).norm(dim=-1, keepdim=True) <= share * unit.norm(dim=-1, keepdim=True)
    return torch.where(agreed, consistent, unit), agreed.squeeze(-1)


def zero_rows_hold(P: Statement, sides: Sides) -> Tensor | None:
    """Whether the sides of rows of zeros, which no point can change, ask no more than 0; None where none came.

    Shape: b (\\*, m), b_eq (\\*, k) → (\\*)
    """
    held = None
    for side, matrix, rows in ((sides.b, sides.A, P.inequalities), (sides.b_eq, sides.A_eq, P.equalities)):
        if side is None or matrix is not None or not rows.zeros:
            continue
        own = side[..., rows.zeros]
        fine = ((own >= 0) if side is sides.b else (own == 0)).all(-1)
        held = fine if held is None else held & fine
    return held


NONE = Sides()
CONIC = ("h", "centre")  # what sets with cones take, too


class TakesSides(nn.Module):
    """A module that sides come to by name, as torch.export wants them, and that has them as one record."""

    polyhedron: Any
    axis = -1  # of the event, in what comes and goes; inside it is the last

    def forward(
        self,
        features: Tensor,
        *,
        b: Tensor | None = None,
        b_eq: Tensor | None = None,
        lower: Tensor | None = None,
        upper: Tensor | None = None,
        A: Tensor | None = None,
        A_eq: Tensor | None = None,
        base: Tensor | None = None,
        h: Tensor | None = None,
        centre: Tensor | None = None,
        **unknown: Any,
    ) -> Tensor:
        """Points of the set; what is given beside features replaces what was stated, for all samples or for each.

        Args:
            features: of a head the features of each sample, of :class:`rayhull.MapInto` the coefficients.
            b, b_eq: right-hand sides of inequalities and of equalities.
            lower, upper: bounds.
            A, A_eq: the rows themselves.
            base: a point strictly inside the set of each sample, if you know one.
            h, centre: of a set with cones, as for :func:`rayhull.project`.

        Shape: b (\\*, m), b_eq (\\*, m_eq), lower, upper, base and centre (\\*, event shape), A (\\*, m, d),
        A_eq (\\*, m_eq, d), h (\\*, cones)

        Examples:
            >>> import torch, rayhull as rh
            >>> P = rh.simplex(3)                               # the sum is 1, for this call 2
            >>> x = rh.Constrained(8, P)(torch.randn(5, 8), b_eq=2.0)
            >>> bool(P.contains(x, b_eq=[2.0]).all())
            True
        """
        if unknown:
            raise TypeError(f"unknown side {min(unknown)!r}: the sides are {', '.join(Sides._fields)}.")
        if not isinstance(features, Tensor):
            raise TypeError(f"expected a tensor first, got {type(features).__name__}: torch.as_tensor makes one of it.")
        stated = b is b_eq is lower is upper is A is A_eq is base is h is centre is None
        sides = NONE if stated else Sides(b, b_eq, lower, upper, A, A_eq, base, h, centre)
        if self.axis == -1:
            return self._points(features, sides)
        features, moved = event_last(self.polyhedron, features, self.axis, **sides._asdict())
        return self._points(features, NONE if stated else Sides(**moved)).movedim(-1, self.axis)

    def _points(self, features: Tensor, sides: Sides) -> Tensor:
        raise NotImplementedError


def _dimensions(name: str) -> int:
    """The number of dimensions of a flat side: rows stay matrices."""
    return 2 if name in ("A", "A_eq") else 1


def flat_points(P: Statement, x: Tensor) -> tuple[tuple[int, ...], Tensor]:
    """The batch shape, and the points (n, D), after a check of shape, dtype and values."""
    event, shape = P.shape, tuple(x.shape)
    batch = shape[: len(shape) - len(event)]
    if len(shape) < len(event) or shape[len(batch) :] != event:
        raise ValueError(f"points must have shape (*, {', '.join(map(str, event))}), got {shape}.")
    if not x.is_floating_point():
        raise TypeError(f"points must be floating-point numbers, got {x.dtype}: call x.float() first.")
    flat = x if len(batch) == len(event) == 1 else x.reshape(math.prod(batch), math.prod(event))
    if _looks_infinite(flat):
        bad = (~flat.isfinite()).any(1).nonzero()[:, 0].tolist()
        if bad:
            raise ValueError(f"points must be finite, got NaN or infinity in sample {bad[0]} ({len(bad)} in all).")
    return batch, flat


def flat_sides(P: Statement, values: dict[str, Any], batch: tuple[int, ...], like: Tensor) -> Sides:
    """Each side as (1 or n, length), after a check of its name, shape and values."""
    given = {name: value for name, value in values.items() if value is not None}
    refuse_unknown(P, given)
    if not given:
        return NONE
    shapes = side_shapes(P, given)
    sides = {name: _tensor(P, name, value, like) for name, value in given.items()}
    return Sides(**{name: _flat_side(shapes[name], name, side, batch, like) for name, side in sides.items()})


def _tensor(P: Statement, name: str, value: Any, like: Tensor) -> Tensor:
    """A side as a tensor of floats; numbers, arrays and what has labels are read as a set's own sides are."""
    if isinstance(value, Tensor):
        return value if value.is_floating_point() else value.double()
    return torch.as_tensor(floats_of(P, name, value), device=like.device)


def _flat_side(event: tuple[int, ...], name: str, side: Tensor, batch: tuple[int, ...], like: Tensor) -> Tensor:
    if side.device != like.device:
        side = side.to(like.device)
    if side.ndim < len(event):
        side = side.expand(event)
    lead = tuple(side.shape[: side.ndim - len(event)])
    if tuple(side.shape[len(lead) :]) != event or not _broadcasts(lead, batch):
        raise ValueError(
            f"{name} must have shape {event} or {(*batch, *event)} for points of batch shape {batch}, "
            f"got {tuple(side.shape)}."
        )
    if _looks_infinite(side):
        none = {"lower": -math.inf, "upper": math.inf}.get(name, 0.0)  # a bound may be infinite: there is none
        if not bool((side.isfinite() | (side == none)).all()):
            raise ValueError(f"{name} must hold numbers, got NaN or infinity.")
    flat = event if _dimensions(name) == 2 else (math.prod(event),)
    if lead == (1,) and event == flat:
        return side
    if all(size == 1 for size in lead):
        return side.reshape(1, *flat)
    return side.expand(*batch, *event).reshape(math.prod(batch), *flat)


def _looks_infinite(values: Tensor) -> bool:
    """One cheap pass over the values; a careful look is needed only if their sum is not finite."""
    return not math.isfinite((values.detach() if values.requires_grad else values).sum().item())


def _broadcasts(lead: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    return len(lead) <= len(batch) and all(a in (1, b) for a, b in zip(lead[::-1], batch[::-1], strict=False))


def has_derivatives(x: Tensor, sides: Sides) -> bool:
    """Whether autograd follows one of them, backwards or forwards."""
    if torch.is_grad_enabled() and (
        x.requires_grad or (sides is not NONE and any(v is not None and v.requires_grad for v in sides))
    ):
        return True
    if forward_ad._current_level < 0:  # no forward derivative is under way
        return False
    tangents = (forward_ad.unpack_dual(v).tangent for v in (x, *sides) if v is not None)  # type: ignore[no-untyped-call]
    return any(t is not None for t in tangents)
