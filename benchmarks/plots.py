"""Every plot of the benchmarks in one style, from the results files: python -m benchmarks.plots [--format svg pdf].

Dots, not bars: a logarithmic axis has no zero for a bar to start from. SVG for the pages, PDF for papers on request.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS
from experiments.report import style

OURS = "rayhull"
PALETTE = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F", "#999933", "#332288", "#AA4499")
BLUE, GREY = "#0072B2", "#555555"
MARKS = "osD^vPX<>h"


def pyplot() -> Any:
    """matplotlib as the report of the studies has it, in a smaller type."""
    plt = style.pyplot()
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "rayhull"})
    return plt


def save(figure: Any, name: str, kinds: Sequence[str] = ("svg",), folder: Path = RESULTS) -> None:
    """NAME.svg and the like in ``folder``; the same bytes from the same results."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(folder / f"{name}.{kind}", dpi=200, metadata=undated)
    pyplot().close(figure)


def layer(results: dict[str, Any]) -> Any:
    """Forward passes over nn.Linear: one line a layer, ours in blue, the linear layer as the floor."""
    panels = {name.removesuffix(", 1 threads"): results[name]["inference"] for name in results if "1 threads" in name}
    most = max(map(len, panels.values()))
    figure, grid = pyplot().subplots(1, len(panels), figsize=(11, 0.3 * most + 1.2), width_ratios=[1.0] * len(panels))
    for axes, (title, timings) in zip(grid, panels.items(), strict=True):
        floor = timings["nn.Linear"]["median"]
        for place, (label, timing) in enumerate(reversed(timings.items())):
            ratio = timing["median"] / floor
            tint = BLUE if OURS in label else GREY if label == "nn.Linear" else PALETTE[0]
            axes.plot(ratio, place, "o", color=tint)
            axes.annotate(_times(ratio), (ratio, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
        axes.set(xscale="log", title=title, xlabel="forward, over nn.Linear")
        axes.set_yticks(range(len(timings)), list(timings)[::-1], fontsize=8)
        axes.grid(axis="y", visible=False)
        _room_for_labels(axes)
    return figure


def _room_for_labels(axes: Any) -> None:
    """A third of the axis more on the right; plain numbers where it spans less than two decades."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.35)
    if high / low < 100:
        axes.xaxis.set_major_locator(FixedLocator([1, 2, 3, 5, 10, 20, 50]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlim(low, high * (high / low) ** 0.35)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


def projection(results: dict[str, Any]) -> Any:
    """Samples a second over the paper's solver loop, problem by problem."""
    loop = "OSQP, the paper's loop"
    gains = {
        problem: {name: _cost(ways[loop]) / _cost(entry) for name, entry in ways.items() if _in_batches(name, entry)}
        for problem, ways in results.items()
    }
    figure = dots(gains, "samples per second over the paper's OSQP loop")
    figure.axes[0].axvline(1, color="0.6", lw=1, zorder=0)
    return figure


def _in_batches(name: str, entry: dict[str, Any]) -> bool:
    return "seconds" in entry and not name.endswith(", batch 1")


def _cost(entry: dict[str, Any]) -> float:
    return float(entry["seconds"]["median"]) / entry["samples"]


def conversion(cases: dict[str, Any]) -> Any:
    """Seconds of each engine, set by set; an engine that failed or took too long has no mark."""
    seconds = {
        case: {engine: entry["seconds"] for engine, entry in engines.items() if entry["state"] == "fine"}
        for case, engines in cases.items()
    }
    return dots(seconds, "seconds of the engine itself; no mark: over the limit, an error, or wrong")


def scale(results: dict[str, Any]) -> Any:
    """Seconds to build and milliseconds of a sample over the number of coordinates, a line for each kind of set."""
    figure, grid = pyplot().subplots(1, 2, figsize=(10, 4))
    panels = (("build", 1.0, "seconds to build"), ("forward", 1e3, "forward of a sample, ms (dashed: OSQP)"))
    for axes, (key, unit, label) in zip(grid, panels, strict=True):
        for way, line in ((OURS, "o-"), ("OSQP", "x--")):
            for tint, (kind, found) in zip(
                itertools.cycle((BLUE, *PALETTE)), _by_kind(results, way, key), strict=False
            ):
                if way == OURS or key == "forward":
                    named = kind if way == OURS and key == "build" else None
                    axes.plot(
                        [d for d, _ in found], [unit * value for _, value in found], line, color=tint, label=named
                    )
        axes.set(xscale="log", yscale="log", xlabel="coordinates", title=label)
    figure.legend(loc="outside lower center", ncols=6, fontsize=8)
    return figure


def _by_kind(results: dict[str, Any], way: str, key: str) -> list[tuple[str, list[tuple[int, float]]]]:
    """For each kind of set, by the first word of its name, sizes and values in order."""
    kinds: dict[str, list[tuple[int, float]]] = {name.split()[0]: [] for name in results}
    for name, ways in results.items():
        run = ways.get(way, {})
        if key in run:
            kinds[name.split()[0]].append((run["d"], run[key]))
    return [(kind, sorted(found)) for kind, found in kinds.items()]


def dots(rows: dict[str, dict[str, float]], label: str) -> Any:
    """One line a row, one mark a name; ours larger and in blue, the legend below the frame."""
    names = sorted({name for row in rows.values() for name in row}, key=lambda name: (name != OURS, name.lower()))
    figure, axes = pyplot().subplots(figsize=(8, 0.27 * len(rows) + 1.5))
    for name, tint, mark in zip(names, itertools.cycle((BLUE, *PALETTE)), itertools.cycle(MARKS), strict=False):
        found = [(row[name], -place) for place, row in enumerate(rows.values()) if name in row]
        size, above = (70, 3) if name == OURS else (28, 2)
        axes.scatter(*zip(*found, strict=True), color=tint, marker=mark, s=size, zorder=above, label=name)
    axes.set(xscale="log", xlabel=label)
    axes.set_yticks([-place for place in range(len(rows))], list(rows))
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    return figure


PLOTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "layer": (layer, "results"),
    "projection": (projection, "results"),
    "conversion": (conversion, "cases"),
    "scale": (scale, "results"),
}


def draw(names: Iterable[str] = PLOTS, kinds: Sequence[str] = ("svg",), folder: Path = RESULTS) -> None:
    """The plots of these benchmarks, from their results files, where they have been run."""
    for name in names:
        if not (RESULTS / f"{name}.json").exists():
            continue
        plot, key = PLOTS[name]
        save(plot(json.loads((RESULTS / f"{name}.json").read_text())[key]), name, kinds, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"{', '.join(PLOTS)} (default: all)")
    parser.add_argument("--format", nargs="+", default=["svg"], choices=("svg", "pdf", "png"))
    parser.add_argument("--to", type=Path, default=RESULTS, help="a folder (default: benchmarks/results)")
    options = parser.parse_args()
    draw(options.names or PLOTS, options.format, options.to)


if __name__ == "__main__":
    main()
