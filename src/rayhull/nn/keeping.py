"""Maps that keep what is inside: for weights, and for a trained Linear whose outputs become coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rayhull.nn.map_into import MapInto

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

KEEPING = ("auto", "shrink", "projection")  # tried in this order for a map that is the identity inside


def keeping_map(P: Polyhedron, method: str = "auto", **options: Any) -> MapInto:
    """A map into P that leaves points of the set where they are; ``options`` are those of :class:`rayhull.MapInto`."""
    for way in KEEPING if method == "auto" else (method,):
        into = MapInto(P, method=way, **options)
        if into.identity_inside:
            return into
    raise ValueError(
        f"method={method!r} moves points of the set too, so nothing of what is there would be kept: use 'shrink' or "
        "'projection'."
    )


def refuse_other_size(linear: nn.Linear, P: Polyhedron) -> None:
    """The Linear's outputs must be the coordinates of the set."""
    if linear.out_features != P.dim:
        raise ValueError(
            f"the Linear has {linear.out_features} outputs but the set has {P.dim} coordinates: they must be the same."
        )


def weights_for(into: MapInto, linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """Weight and bias of coefficients whose points are what the Linear says.

    The coefficients of a point are affine in it, so that they fold into the Linear.
    """
    event = into.polyhedron.shape
    with torch.no_grad():
        rows = linear.weight.mT.double().reshape(linear.in_features, *event)
        bias = torch.zeros(event, dtype=torch.float64, device=rows.device)
        if linear.bias is not None:
            bias = bias + linear.bias.double().reshape(event)
        at_zero = into.coefficients_of(torch.zeros_like(bias))
        weight = (into.coefficients_of(rows) - at_zero).mT
        return weight.to(linear.weight), into.coefficients_of(bias).to(linear.weight)
