"""The strict finish with sides of the sample: what comes out is proven for the numbers of the call, or refused.

Bounds are met by a clamp to numbers of the dtype. Rows are met by drawing points towards their base point, with the
margins of docs/strict.md for the rows of each sample; without a base point, by the nearest point of a tightened set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rayhull.errors import EmptySetError, RayhullError
from rayhull.maps.graphs import may_look
from rayhull.maps.shrink import Ends, as_single, clamped_inside, drawn_inside, gamma, is_between, proven, roundoff
from rayhull.projection.sides import Sides
from rayhull.projection.solve import sample_names

if TYPE_CHECKING:
    from rayhull.nn.per_sample import PerSample

CERTIFIED = 1e-9  # more than the projection's own tolerance
MOST_BYTES = 10**9  # of a dense matrix that is made of sparse rows


def finished(own: PerSample, x: Tensor, base: Tensor | None, sides: Sides) -> Tensor:
    """x, inside up to rounding → inside the sample's own set in rational arithmetic, or refused. Shape: (\\*, d)"""
    flat, batch, given = own.spread(x.detach(), sides, torch.float64)  # what is proven is proven of those numbers
    x0 = None if base is None else base.expand(*batch, -1).reshape(flat.shape).detach().double()
    b, low, high = (getattr(given if name in given.given else own, name) for name in ("b", "lower", "upper"))
    ends = Ends(low, high, low == high)
    if own.conic is not None:
        out = own.conic(flat, x.dtype, x0, given)
        held, off = ~out.isnan().any(-1), (out.double() - low).abs() > torch.finfo(x.dtype).eps * low.abs()
        ends = Ends(low, high, ends.single & ~off)
    else:
        rows = _stated_rows(own) if given.A is None else given.A
        out, held = _proven(own, flat, x0, given, rows, b.expand(flat.shape[0], -1), ends)
    return _refused(own, out, held & is_between(out, ends), flat, given).reshape(*batch, flat.shape[-1])


def _proven(
    own: PerSample, x: Tensor, x0: Tensor | None, sides: Sides, rows: Tensor, rhs: Tensor, ends: Ends
) -> tuple[Tensor, Tensor]:
    """Points in the dtype of x between their bounds, and whether their rows are proven."""
    if x0 is not None:
        both = torch.stack([drawn_inside(x.double(), x0, rows, rhs, ends, x.dtype), x0]).to(x.dtype)
        out, safe = both = clamped_inside(both, ends)
        held, base_held = proven(both, rows, rhs)
        return torch.where((held | out.isnan().any(-1)).unsqueeze(-1), out, safe), held | base_held
    share = 8 * as_single(roundoff(x.dtype) + gamma(x.shape[-1]))
    out = _tightened(own, x, sides, rows, rhs, ends, share)
    held = proven(out, rows, rhs)
    if x.dtype == torch.float64 and may_look(x) and not bool(held.all()):  # certified to less than an ulp
        out = torch.where(held.unsqueeze(-1), out, _tightened(own, x, sides, rows, rhs, ends, CERTIFIED))
        held = proven(out, rows, rhs)
    return out, held


def _stated_rows(own: PerSample) -> Tensor:
    """A (m, d) in float64."""
    if "A" in own.exact:
        return own.A
    size = 8 * own.polyhedron.dim * len(own.polyhedron.inequalities)
    if size > MOST_BYTES:
        raise RayhullError(
            f"strict=True with sides of the sample needs the rows as a dense matrix of {size / 1e9:.1f} GB: use "
            "strict=False for such calls, whose points are inside up to rounding."
        )
    return torch.as_tensor(own.polyhedron.inequalities.matrix.toarray(), device=own.device)


def _tightened(own: PerSample, x: Tensor, sides: Sides, rows: Tensor, b: Tensor, ends: Ends, share: float) -> Tensor:
    """The nearest point of the set less a margin of each row and bound, a share of what is added up in it."""
    layout, largest = own.polyhedron.layout, x.double().nan_to_num(0.0, 0.0, 0.0).abs().amax(-1, keepdim=True)
    low, high, _ = ends
    share_of = torch.where(high > low, share, 0.0)  # a coordinate with one value keeps it
    tight: dict[str, Tensor | None] = {"base": None}
    if rows.shape[-2]:
        tight["b"] = b - share * (rows.abs().sum(-1) * largest + b.abs())
    if sides.upper is not None or layout.upper.size:
        tight["upper"] = high - share_of * (largest + high.nan_to_num(posinf=0.0).abs())
    if sides.lower is not None or layout.lower.size:
        tight["lower"] = low + share_of * (largest + low.nan_to_num(neginf=0.0).abs())
    try:
        return clamped_inside(own.points(x.double(), sides._replace(**tight)).to(x.dtype), ends)
    except EmptySetError as error:  # of the tightened set: the set itself has a point, which came in
        raise _uncertified(own, torch.tensor(error.samples), f"too thin for {x.dtype}") from None


def _uncertified(own: PerSample, samples: Tensor, why: str) -> RayhullError:
    other = 'infeasible="nan" or strict=False' if own.conic is None else "strict=False"
    return RayhullError(
        f"strict=True cannot certify {sample_names(samples)}: their sets are {why}. Give base points inside them "
        f"(base=), or use {other}."
    )


def _refused(own: PerSample, out: Tensor, held: Tensor, x: Tensor, sides: Sides) -> Tensor:
    """Points that hold; for the others what the layer was told to do."""
    hidden = not may_look(held)
    if not hidden and bool(held.all()):
        return out
    lost = held if hidden else ~held & x.isfinite().all(-1)
    if hidden or own.infeasible == "nan" or not bool(lost.any()):
        return torch.where(held.unsqueeze(-1), out, torch.full_like(out, torch.nan))
    refuse_nan(sides)
    if own.infeasible == "least":
        return torch.where(held.unsqueeze(-1), out, x)
    raise _uncertified(own, lost.nonzero(), f"empty, or too thin for {x.dtype}")


def refuse_nan(sides: Sides) -> None:
    """A side that holds NaN is told apart from a set that is empty."""
    for name in sorted(sides.given, key="base".__eq__):  # which the others move: it comes last
        bad = getattr(sides, name).isnan().flatten(1).any(1).nonzero()
        if len(bad):
            raise ValueError(f"{name} must hold numbers, got NaN in {sample_names(bad)}.")
