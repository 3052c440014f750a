"""Maps that are the identity inside the set, and what they allow.

A trained Linear keeps what it says, a weight stays in a set (``torch.nn.utils.parametrize``), training starts free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rayhull.maps.coefficients import NonNegative
from rayhull.nn.map_into import MapInto

if TYPE_CHECKING:
    from rayhull.nn.constrained import Constrained
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


class Parametrization(nn.Module):
    """A weight that stays in the set, whatever the optimiser does to the tensor behind it.

    The tensor behind has the weight's own shape, and a weight inside the set is kept as it is: "auto" takes the first
    way in that is the identity there ("shrink" always is).

    Args:
        P: a set of the weight's shape.
        method, nonnegative, smooth, strict, device, dtype: as for :class:`rayhull.MapInto`.

    Shape: (event shape) → (event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> from torch.nn.utils import parametrize
        >>> P = rh.nonnegative((3, 5)) & rh.box(0, 2)    # a layer that is monotone in every feature
        >>> lin = parametrize.register_parametrization(torch.nn.Linear(5, 3), "weight", rh.Parametrization(P))
        >>> bool(P.contains(lin.weight))
        True
    """

    def __init__(
        self,
        P: Polyhedron,
        *,
        method: str = "auto",
        nonnegative: str | NonNegative | None = None,
        smooth: bool = False,
        strict: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.map = keeping_map(
            P, method, nonnegative=nonnegative, smooth=smooth, strict=strict, device=device, dtype=dtype
        )

    def forward(self, coefficients: Tensor) -> Tensor:
        return self.map(coefficients.flatten())

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Coefficients of a weight: exact for one inside the set; one outside is first mapped into it."""
        if tuple(weight.shape) != self.map.polyhedron.shape:
            raise ValueError(f"the set has shape {self.map.polyhedron.shape}, the weight {tuple(weight.shape)}.")
        return self.map.coefficients_of(weight).reshape(weight.shape)


class FreeStart:
    r"""Training begins without the set and ends inside it; evaluation is inside at any time.

    While ``layer.training``, what comes out is :math:`(1 - s)\, x + s\, u`, the point x of the set and the free point u
    before it was moved into the set, and s falls from ``start`` to 0 along a line in ``steps`` steps. It is for ways in
    that are the identity inside (``layer.map.identity_inside``); the others have no free point.

    Args:
        layer: the layer.
        steps: how many calls of ``step()`` until the set is closed.
        start: the first share of the free point.

    Examples:
        >>> import torch, rayhull as rh
        >>> layer = rh.Constrained(4, rh.monotone(5), method="projection")
        >>> schedule = rh.FreeStart(layer, steps=2)
        >>> h = 10 * torch.randn(64, 4)
        >>> bool(layer.polyhedron.contains(layer(h)).all()), bool(layer.polyhedron.contains(layer.eval()(h)).all())
        (False, True)
        >>> for _ in range(2):
        ...     schedule.step()
        >>> bool(layer.polyhedron.contains(layer.train()(h)).all())
        True
    """

    def __init__(self, layer: Constrained, steps: int, start: float = 1.0) -> None:
        if steps < 1 or not 0 < start <= 1:
            raise ValueError(f"steps must be at least 1 and start in (0, 1], got {steps} and {start}.")
        if not layer.map.identity_inside:
            raise ValueError(f"only ways in that are the identity inside have a free point: {layer.describe()}")
        self.layer, self.steps, self.start, self.done = layer, steps, start, 0
        layer.free_share = start

    def step(self) -> None:
        """After each step of the optimiser."""
        self.done += 1
        self.layer.free_share = self.start * max(0.0, 1 - self.done / self.steps)
