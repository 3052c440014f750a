"""``leak``: training through the nearest point, a share of the gradient past it (``rayhull.Projection(leak=)``)."""

from __future__ import annotations

from experiments.methods.projection import Projection


class Leak(Projection):
    """As ``projection``; coordinates that are tied together learn from their own errors too."""

    name = "leak"
    leak = 0.1
