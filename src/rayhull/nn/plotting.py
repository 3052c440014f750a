"""Where a map puts its coefficients: a grid of them, or a cloud, drawn in the set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.sets.plotting import GREEN, VERMILION, axes, picked

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

CLOUD = 2000  # points of a cloud


def plot_map(
    into: Callable[[Tensor], Tensor],
    P: Polyhedron,
    count: int,
    coordinates: Sequence[Any] | None,
    *,
    ax: Any,
    reach: float,
    like: Tensor,
) -> Any:
    """The set, and how coefficients up to ±reach land in it: grid lines for two coefficients, else a cloud of points.

    Args:
        into: coefficients (\\*, count) → points (\\*, event shape).
        coordinates: two or three coordinates to show, by name or number; all of a set in R^2 or R^3.
        reach: the grid's half width, or the cloud's standard deviation.
        like: a tensor with the dtype and device of the coefficients.
    """
    pick = picked(P, coordinates)
    ax = P.plot(coordinates, ax=axes(ax, len(pick)), vertices=False)
    lines = _grid(reach) if count == 2 else _cloud(count, reach)
    with torch.no_grad():
        points = into(lines.to(like)).double().cpu().numpy()
    points = points.reshape(*lines.shape[:-1], P.dim)[..., pick]
    if count == 2:
        _draw_grid(ax, points)
    else:
        ax.scatter(*points[0].T, s=3, color=GREEN, linewidth=0, label=f"{CLOUD} random coefficients, scale {reach:g}")
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
