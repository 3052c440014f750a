"""The figures: convergence with its uncertainty, pictures side by side, dots of times. Each is a matplotlib figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.report.groups import Group
from experiments.report.style import colour, line_style, pyplot, show_image, timed_name


def convergence(groups: Sequence[Group], label: str, optimum: float | None = None, over_time: bool = True) -> Any:
    """The validation loss over epochs; beside it the gap to the optimum where one is given, else the loss over seconds.

    Shaded is one standard deviation over the runs. ``over_time=False``: epochs alone, for runs that shared their
    machine with others.
    """
    panels = 1 if optimum is None and not over_time else 2
    figure, grid = pyplot().subplots(1, panels, figsize=(10, 4.8), squeeze=False)
    by_epoch, beside = grid[0, 0], grid[0, -1]
    seen: dict[str, int] = {}
    for group in groups:
        place = seen[group.method] = seen.get(group.method, -1) + 1
        _band(by_epoch, group, "epochs", place)
        if optimum is not None:
            _band(beside, group, "epochs", place, optimum)
        elif over_time:
            _band(beside, group, "seconds", place)
    _loss_axes(by_epoch, "epoch", label)
    if optimum is not None:
        by_epoch.axhline(optimum, color="black", lw=1, ls=(0, (1, 1)), label="optimum")
        beside.set(xlabel="epoch", ylabel="gap to the optimum, %", yscale="log")
        beside.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif over_time:
        _loss_axes(beside, "seconds of training", label)
        beside.set_ylim(by_epoch.get_ylim())
    handles, labels = by_epoch.get_legend_handles_labels()
    short = [textwrap.fill(text, 58) for text in labels]  # a browser's letters are wider than those measured here
    figure.legend(handles, short, fontsize=8, loc="outside lower center", ncols=2)
    figure.set_figheight(3.6 + 0.08 * sum(text.count("\n") + 2 for text in short))
    return figure


def _loss_axes(axes: Any, name: str, label: str) -> None:
    axes.set(xlabel=name, ylabel=label, yscale="log")
    _plain_ticks(axes)


def _band(axes: Any, group: Group, key: str, place: int, optimum: float | None = None) -> None:
    """One curve, or by how many percent it is above the optimum; for a single epoch a dot."""
    curve = group.curve()
    x, mean, tint = curve[key], curve["mean"], colour(group.method)
    shown = {"color": tint, "ls": line_style(place), "lw": 1.6, "marker": "o" if len(x) == 1 else None}
    low, high = (mean + sign * curve.get("std", 0.0) for sign in (-1, 1))
    if optimum is not None:
        low, mean, high = (100 * (loss / optimum - 1) for loss in (low, mean, high))
    axes.plot(x, mean, label=f"{group.label} (n\u00a0=\u00a0{group.runs})", **shown)
    if group.runs > 1 and "std" in curve:
        axes.fill_between(x, low, high, color=tint, alpha=0.18, lw=0)


def _plain_ticks(axes: Any) -> None:
    """0.4 and 60 in place of 4 x 10^-1 and 6 x 10^1."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    low, high = axes.get_ylim()
    if high / max(low, 1e-12) > 100:
        return
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 1.5, 2, 3, 4, 5, 6, 8)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def by_rate(series: dict[str, list[tuple[float, float, float]]], label: str, reported: float) -> Any:
    """Mean and deviation at each learning rate, a line for each entry; dotted is what the paper reports."""
    figure, axes = pyplot().subplots(figsize=(6, 3.4))
    for place, (name, points) in enumerate(series.items()):
        rates, means, deviations = zip(*sorted(points), strict=True)
        style = {"color": colour("paper"), "ls": line_style(place), "marker": "o", "capsize": 3}
        axes.errorbar(rates, means, yerr=deviations, label=name, **style)
    axes.axhline(reported, color="black", lw=1, ls=(0, (1, 1)), label=f"the paper: within {reported:g} %")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("learning rate at the start")
    axes.set_ylabel(label)
    axes.legend(fontsize=8)
    return figure


def side_by_side(columns: dict[str, np.ndarray], rows: int) -> Any:
    """One column of pictures for each entry. Shape of each: (at least rows, h, w)."""
    names = list(columns)
    figure, grid = pyplot().subplots(rows, len(names), figsize=(1.4 * len(names), 1.4 * rows + 0.35), squeeze=False)
    for i in range(rows):
        for j, name in enumerate(names):
            show_image(grid[i, j], columns[name][i], name if i == 0 else "")
    return figure


def mosaics(images: dict[str, np.ndarray], side: int) -> Any:
    """For each entry one mosaic of side x side pictures, in full lines. Shape of each: (at least side², h, w)."""
    wide, tall = columns(len(images)), max(name.count("\n") + 1 for name in images)  # lines of the titles
    high = -(-len(images) // wide)
    figure, grid = pyplot().subplots(high, wide, figsize=(3.6 * wide, (3.6 + 0.35 * tall) * high), squeeze=False)
    for axes in grid.flat[len(images) :]:
        axes.axis("off")
    for axes, (name, pictures) in zip(grid.flat, images.items(), strict=False):
        show_image(axes, mosaic(pictures, side), name)
    return figure


def columns(n: int) -> int:
    """How many pictures to a line, so that n of them leave no hole in the last line where that is possible."""
    if n <= 3:
        return max(1, n)
    return next((wide for wide in (3, 4, 2, 5) if n % wide == 0), 4)


def mosaic(pictures: np.ndarray, side: int) -> np.ndarray:
    """side² pictures as one, with a line between. Shape: (n, h, w) → (side (h + 1), side (w + 1))."""
    h, w = pictures.shape[1:]
    padded = np.pad(pictures[: side * side], ((0, 0), (0, 1), (0, 1)), constant_values=1.0)
    return padded.reshape(side, side, h + 1, w + 1).transpose(0, 2, 1, 3).reshape(side * (h + 1), side * (w + 1))


def times(panels: dict[str, list[dict[str, Any]]]) -> Any:
    """Median seconds for all samples, on a logarithmic scale; the whisker is the middle half. A scale without a zero
    has no bars: their length would mean nothing.
    """
    wide = min(2, len(panels))
    lines = -(-len(panels) // wide)
    figure, grid = pyplot().subplots(lines, wide, figsize=(5 * wide, 3.2 * lines), squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    for axes, (title, rows) in zip(grid.flat, panels.items(), strict=False):
        for place, row in enumerate(reversed(rows)):
            middle, (low, high) = row["median_seconds"], _middle_half(row)
            whisker = [[middle - low], [high - middle]]
            axes.errorbar(middle, place, xerr=whisker, fmt="o", color=colour(row["method"]), capsize=3)
            axes.text(high * 1.15, place, f"{middle:.3g} s", va="center", fontsize=8)
        axes.set_yticks(range(len(rows)), [_spelt(row) for row in reversed(rows)])
        axes.set_xscale("log")
        axes.set_xlim(right=axes.get_xlim()[1] * 4)
        axes.set_xlabel("seconds for all samples")
        axes.set_title(title)
        axes.grid(axis="y", visible=False)
    return figure


def _middle_half(row: dict[str, Any]) -> tuple[float, float]:
    """Where the middle half of the repeats lies; one deviation around the median where only that was kept."""
    if "middle_half" in row:
        return row["middle_half"][0], row["middle_half"][1]
    return row["median_seconds"] - row["seconds"]["std"], row["median_seconds"] + row["seconds"]["std"]


def _spelt(row: dict[str, Any]) -> str:
    """The label of a timed case with its method's full name; what comes after it on a line of its own."""
    return timed_name(row).replace(", ", ",\n")
