"""The learning benchmark as tables and a plot, from its results file: python -m benchmarks.learning_report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmarks import plots
from benchmarks.harness import RESULTS, table

HARD = ("auto", "shrink", "projection", "RAYEN", "HardNet-Aff", "qpth", "projection, before", "shrink, before")
OURS = ("auto", "auto, before", "projection", "projection, before", "shrink")
COLUMNS = (*OURS, "RAYEN", "HardNet-Aff", "free, then project", "penalty", "DC3")
Row = Mapping[str, Any]
STYLES = {
    "auto": ("tab:blue", "o", 70),
    "auto, before": ("tab:blue", "x", 45),
    "projection": ("tab:green", "s", 30),
    "projection, before": ("tab:green", "+", 45),
    "free, then project": ("grey", "|", 90),
    "RAYEN": ("tab:orange", "^", 30),
    "HardNet-Aff": ("tab:red", "v", 30),
}


def figure(row: Row | None) -> str:
    """The loss, or the gap to the optimum, with the spread over seeds; a dash where the way has no answer."""
    if row is None:
        return ""
    if "left out" in row:
        return "–"
    if row["optimum"] is None:
        return f"{row['loss']:.3g} ± {row['spread']:.1g}"
    unit = 100 / abs(row["optimum"])
    return f"{unit * (row['loss'] - row['optimum']):.2f} ± {unit * row['spread']:.1g} %"


def excess(row: Row) -> float:
    """The loss, or the gap to the optimum as a share of it: what ratios are taken of."""
    return row["loss"] if row["optimum"] is None else (row["loss"] - row["optimum"]) / abs(row["optimum"])


def ratio(rows: Mapping[str, Row], others: tuple[str, ...]) -> float | None:
    """auto's loss over the best of the others'."""
    known = [excess(rows[name]) for name in others if name in rows and "loss" in rows[name]]
    return excess(rows["auto"]) / min(known) if known and "loss" in rows.get("auto", {}) else None


def losses(results: Mapping[str, Mapping[str, Row]]) -> str:
    """One row for each problem: losses, and auto over the best hard way and over projecting afterwards."""
    body = []
    for problem, rows in results.items():
        best = ratio(rows, HARD[1:])
        free = ratio(rows, ("free, then project",))
        shown = ["" if r is None else f"{r:.2f}" for r in (best, free)]
        body.append([problem, *(figure(rows.get(name)) for name in COLUMNS), *shown])
    return table(body, ["problem", *COLUMNS, "auto / best hard", "auto / free, then project"])


def costs(results: Mapping[str, Mapping[str, Row]]) -> str:
    """What auto takes, its cost, and how its points lie in the set."""
    body = []
    for problem, rows in results.items():
        row = rows.get("auto", {})
        if "loss" not in row:
            continue
        times = [f"{row['seconds an epoch']:.3f}", f"{row['setup']:.2f}"]
        body.append([problem, _way(row["way"]), *times, f"{row['violation']:.0e}", f"{row['outside']:.0%}"])
    return table(body, ["problem", "auto takes", "s an epoch", "set-up s", "largest violation", "outside exactly"])


def _way(described: str) -> str:
    """The methods in a description: the words before the brackets."""
    lines = described.splitlines()[1:]
    return ", ".join(dict.fromkeys(line.split(": ", 1)[1].split(" (")[0] for line in lines if ": " in line))


def plot(results: Mapping[str, Mapping[str, Row]]) -> None:
    """Each way's loss over that of the best hard way, problem by problem."""
    shown = {p: r for p, r in results.items() if "loss" in r.get("auto", {})}
    drawing, axis = plots.pyplot().subplots(figsize=(9, 0.42 * len(shown) + 1.6))
    floors = [min(excess(v) for n, v in r.items() if "loss" in v and n in HARD) for r in shown.values()]
    for name, (colour, marker, size) in STYLES.items():
        points = [(i, excess(r[name])) for i, r in enumerate(shown.values()) if "loss" in r.get(name, {})]
        ratios = [value / floors[i] for i, value in points]
        axis.scatter(ratios, [i for i, _ in points], c=colour, marker=marker, s=size, label=name, zorder=3)
    axis.axvline(1, color="lightgrey", zorder=1)
    axis.axvspan(1, 1.1, color="tab:blue", alpha=0.12, zorder=0)
    axis.set_xscale("log")
    axis.set_yticks(range(len(shown)), list(shown))
    axis.invert_yaxis()
    axis.set_xlabel("test loss (or gap to the optimum) over that of the best hard way; the band is 10 %")
    drawing.legend(loc="outside lower center", ncols=4, fontsize=8)
    plots.save(drawing, "learning")


def main() -> None:
    results = json.loads((RESULTS / "learning.json").read_text())["results"]
    page = "\n\n".join([losses(results), costs(results)]) + "\n"
    (RESULTS / "learning.md").write_text(page)
    plot(results)
    print(page)


if __name__ == "__main__":
    main()
