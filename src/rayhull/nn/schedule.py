"""A start that is free: the set closes over training."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rayhull.nn.constrained import Constrained


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
