"""The learning benchmark as tables and a plot, from its results file: python -m benchmarks.learning_report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import plots
from benchmarks.harness import RESULTS, table
from benchmarks.learning import PROBLEMS
from benchmarks.learning_training import RATES, SEEDS

OURS = ("auto", "auto, extents", "auto, scale=targets", "nearest", "nearest, no leak", "steps", "shrink")
BEFORE = ("auto, before", "nearest, before", "nearest with leak, before", "steps, before", "shrink, before")
HARD = (
    *OURS,
    *BEFORE,
    "by hand, then nearest",
    "RAYEN",
    "HardNet-Aff",
    "qpth",
    "Moreau",
)  # "before": the layer before it was rebuilt
PEERS = ("by hand", "by hand, then nearest", "RAYEN", "HardNet-Aff", "qpth", "Moreau", "Pi-net", "penalty", "DC3")
AFTER, GOAL, GOAL_AFTER = "free, then project", 1.10, 1.25
FARTHEST = 300  # of the plot's axis: RAYEN's convex curves would be at 4e5
Row = Mapping[str, Any]
STYLES = {
    "auto": ("tab:blue", "o", 70),
    "auto, before": ("tab:blue", "x", 45),
    "nearest": ("tab:green", "s", 30),
    "shrink": ("tab:purple", "d", 24),
    "steps": ("tab:cyan", "P", 24),
    "free, then project": ("grey", "|", 90),
    "RAYEN": ("tab:orange", "^", 30),
    "HardNet-Aff": ("tab:red", "v", 30),
}


def figure(row: Row | None) -> str:
    """The loss, or the gap to the optimum, with the spread over seeds; a dash where the way has no answer.

    Empty where it was not run; ° where it was run at older rates than the others, ³ with three seeds, not six.
    """
    if row is None or row.get("left out", "").startswith("not installed"):
        return ""
    if "left out" in row:
        return "–"
    older = "" if {run["rate"] for run in row["runs"]} == set(RATES) else "°"
    older += "" if older or "splits" in row or {run["seed"] for run in row["runs"]} == set(SEEDS) else "³"
    if row["optimum"] is None:
        return f"{row['loss']:.3g} ± {row['spread']:.1g}{older}"
    unit = 100 / abs(row["optimum"])
    return f"{unit * (row['loss'] - row['optimum']):.2f} ± {unit * row['spread']:.1g} %{older}"


def excess(row: Row) -> float:
    """The loss, or the gap to the optimum as a share of it: what ratios are taken of."""
    return row["loss"] if row["optimum"] is None else (row["loss"] - row["optimum"]) / abs(row["optimum"])


def best_other(rows: Mapping[str, Row]) -> str | None:
    """The hard way with the smallest loss beside auto, today's or before."""
    known = [name for name in HARD if "loss" in rows.get(name, {}) and name not in ("auto", "auto, before")]
    return min(known, key=lambda name: excess(rows[name]), default=None)


def ratio(rows: Mapping[str, Row], other: str | None) -> float | None:
    """auto's loss over another's."""
    if other is None or "loss" not in rows.get(other, {}) or "loss" not in rows.get("auto", {}):
        return None
    return excess(rows["auto"]) / excess(rows[other])


def _judged(value: float | None, goal: float) -> str:
    return "" if value is None else f"{value:.2f}" if value <= goal else f"**{value:.2f}**"


def measured(body: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """The table without columns of which nothing was measured."""
    kept = [i for i in range(len(heads)) if any(row[i] for row in body)]
    return table([[row[i] for i in kept] for row in body], [heads[i] for i in kept])


def verdicts(results: Mapping[str, Mapping[str, Row]]) -> str:
    """auto against the best other hard way and against projecting afterwards; above the goal in bold."""
    body = []
    for problem, rows in results.items():
        best = best_other(rows)
        losses = [*(figure(rows.get(name)) for name in ("auto", "auto, before")), f"{best} {figure(rows.get(best))}"]
        judged = [_judged(ratio(rows, best), GOAL), _judged(ratio(rows, AFTER), GOAL_AFTER)]
        body.append([problem, _way(rows.get("auto", {}).get("way", "")), *losses, figure(rows.get(AFTER)), *judged])
    heads = ["problem", "auto takes", "auto", "auto, before", "best other hard way", AFTER]
    return measured(body, [*heads, "auto / best other", f"auto / {AFTER}"])


def count(results: Mapping[str, Mapping[str, Row]]) -> str:
    """On how many problems auto meets the goal."""
    each = [ratio(rows, best_other(rows)) for rows in results.values()]
    judged = [value for value in each if value is not None]
    good = sum(value <= GOAL for value in judged)
    return (
        f'On {good} of {len(judged)} problems, the loss of `method="auto"` is within {GOAL - 1:.0%} of the best other '
        "hard method's."
    )


def losses(results: Mapping[str, Mapping[str, Row]]) -> str:
    """Every way on every problem."""
    columns = (*OURS, *BEFORE, *PEERS, AFTER)
    body = [[problem, *(figure(rows.get(name)) for name in columns)] for problem, rows in results.items()]
    return measured(body, ["problem", *columns])


def costs(results: Mapping[str, Mapping[str, Row]], timed: Mapping[str, Mapping[str, Row]]) -> str:
    """A training step (ms) and the inference of a sample (µs), auto's set-up, and how its points lie in the set."""
    names = ("auto", "auto, before", "shrink", "nearest", "RAYEN")
    body = []
    for problem, rows in results.items():
        row, known = rows.get("auto"), timed.get(problem, {})
        times = [f"{known[n]['step']:.2f} · {known[n]['inference']:.1f}" if n in known else "" for n in names]
        lies = [f"{row['setup']:.2f}", f"{row['violation']:.0e}", f"{row['outside']:.0%}"] if row else ["", "", ""]
        body.append([problem, *times, *lies])
    heads = [f"{name}: ms · µs" for name in names]
    return measured(body, ["problem", *heads, "set-up s", "largest violation", "outside exactly"])


def _way(described: str) -> str:
    """The way of each kind of block in a description, without the reason."""
    ways = re.findall(r"^  (?:one block|\d+ blocks) of \d+: ([^:]*)", described, re.MULTILINE)
    return ", ".join(dict.fromkeys(re.sub(", (as asked|for probabilities).*", "", way) for way in ways))


def plot(results: Mapping[str, Mapping[str, Row]]) -> None:
    """Each way's loss over that of the best hard way, problem by problem."""
    shown = {p: r for p, r in results.items() if any("loss" in r.get(name, {}) for name in ("auto", "auto, before"))}
    drawing, axis = plots.pyplot().subplots(figsize=(9, 0.42 * len(shown) + 1.6))
    floors = [min(excess(v) for n, v in r.items() if "loss" in v and n in HARD) for r in shown.values()]
    for name, (colour, marker, size) in STYLES.items():
        points = [(i, excess(r[name])) for i, r in enumerate(shown.values()) if "loss" in r.get(name, {})]
        ratios = [min(value / floors[i], FARTHEST) for i, value in points]
        axis.scatter(ratios, [i for i, _ in points], c=colour, marker=marker, s=size, label=name, zorder=3)
    axis.axvline(1, color="lightgrey", zorder=1)
    axis.axvspan(1, 1.1, color="tab:blue", alpha=0.12, zorder=0)
    axis.set_xscale("log")
    axis.set_yticks(range(len(shown)), list(shown))
    axis.invert_yaxis()
    axis.set_xlabel("test loss (or gap to the optimum) over that of the best hard way, at most 300; the band is 10 %")
    drawing.legend(loc="outside lower center", ncols=4, fontsize=8)
    plots.save(drawing, "learning")


def main() -> None:
    page = json.loads((RESULTS / "learning.json").read_text())
    results = {name: page["results"][name] for name in PROBLEMS if name in page["results"]}
    parts = verdicts(results), losses(results), costs(results, page.get("costs", {})), count(results)
    text = "\n\n".join(parts) + "\n"
    (RESULTS / "learning.md").write_text(text)
    plot(results)
    print(text)


if __name__ == "__main__":
    main()
