"""A map drawn: the set, and where coefficients land in it, to see where points crowd (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.sets.plotting import GREEN, VERMILION, axes, picked

if TYPE_CHECKING:
    from rayhull.nn.map_into import MapInto

CLOUD = 2000  # random coefficients


def draw(into: MapInto, coordinates: Sequence[Any] | None, ax: Any, reach: float) -> Any:
    """The set of a map, and a grid of its two coefficients or a cloud of more: :meth:`rayhull.MapInto.plot`."""
    pick, P = picked(into.polyhedron, coordinates), into.polyhedron
    ax = P.plot(coordinates, ax=axes(ax, len(pick)), vertices=False)
    lines = _grid(reach) if into.coefficients == 2 else _cloud(into.coefficients, reach)
    with torch.no_grad():
        c = lines.to(into.device, into.dtype)
        points = into(c).double().cpu().numpy().reshape(*lines.shape[:-1], P.dim)[..., pick]
    if into.coefficients == 2:
        _draw_grid(ax, points)
    else:
        label = f"{CLOUD} random coefficients, scale {reach:g}"
        ax.scatter(*points[0].T, s=3, color=GREEN, linewidth=0, label=label)
    return ax


def _grid(reach: float, lines: int = 17, steps: int = 201) -> Tensor:
    """Lines of constant first, then of constant second coefficient: (2 lines, steps, 2)."""
    along = torch.linspace(-reach, reach, steps, dtype=torch.float64).expand(lines, steps)
    across = torch.linspace(-reach, reach, lines, dtype=torch.float64)[:, None].expand(lines, steps)
    return torch.cat([torch.stack([across, along], -1), torch.stack([along, across], -1)])


def _cloud(count: int, reach: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, CLOUD, count, generator=generator, dtype=torch.float64) * reach


def _draw_grid(ax: Any, points: np.ndarray[Any, Any]) -> None:
    half = len(points) // 2
    for number, line in enumerate(points):
        ax.plot(*line.T, color=GREEN if number < half else VERMILION, linewidth=0.7, alpha=0.9)
