"""The README's numbers, drawn from the results files and from nothing else: python -m benchmarks.summary.

Writes results/summary.md and puts it between the markers in README.md. A test checks that both are up to date.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, table

ROOT = Path(__file__).parent.parent
MARKERS = re.compile(r"(<!-- begin: benchmarks/results/summary.md -->\n).*?(<!-- end -->)", re.DOTALL)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def conversion() -> str:
    """Ours beside the best of the other engines that gave the right answer."""
    rows = []
    for case, row in load(RESULTS / "conversion.json")["cases"].items():
        ours = row["rayhull"]["seconds"]
        others = {name: r["seconds"] for name, r in row.items() if name != "rayhull" and r["state"] == "fine"}
        if not others:
            rows.append([case, f"{ours:.3g} s", "none within the limit", ""])
            continue
        best = min(others, key=others.__getitem__)
        rows.append([case, f"{ours:.3g} s", f"{others[best]:.3g} s ({best})", times(others[best] / ours)])
    return table(rows, ["conversion", "rayhull", "best of cddlib, PPL, PPLite, Normaliz", "gain"])


def layer() -> str:
    """Forward and training cost over nn.Linear, and what is outside in rational arithmetic; one thread."""
    rows = []
    for name, part in load(RESULTS / "layer.json")["results"].items():
        if not name.endswith("1 threads"):
            continue
        floor, step = part["inference"]["nn.Linear"]["median"], part["training"]["nn.Linear"]["median"]
        for label, timing in part["inference"].items():
            if label == "nn.Linear":
                continue
            train = part["training"].get(label)
            outside = part.get("found", {}).get(label)
            rows.append(
                [
                    name.removesuffix(", 1 threads"),
                    label,
                    times(timing["median"] / floor),
                    "" if train is None else times(train["median"] / step),
                    "" if outside is None else f"{100 * outside['outside']:.0f} %",
                ]
            )
    return table(rows, ["set", "layer", "forward / Linear", "training step / Linear", "outside exactly"])


def projection() -> str:
    """Samples a second over the paper's solver loop, batch 256, float64, one thread."""
    rows = []
    for problem, result in load(RESULTS / "projection.json")["results"].items():
        ours, loop = result["rayhull"], result["OSQP, the paper's loop"]
        gain = (loop["seconds"]["median"] / loop["samples"]) / (ours["seconds"]["median"] / ours["samples"])
        rows.append([problem, f"{1e6 * ours['seconds']['median'] / ours['samples']:.3g} µs", times(gain)])
    return table(rows, ["nearest point", "rayhull, a sample", "over the paper's OSQP loop"])


def study() -> str:
    """The learned projection's gap to the optimum, as published."""
    rows = []
    for group in load(ROOT / "results" / "published" / "projection.json")["groups"]:
        gap, inside = group.get("gap_percent"), group.get("summary", {}).get("inside_exactly")
        if gap is None or group["settings"]["method"] == "optimum":
            continue
        exactly = "" if inside is None else f"{100 * inside['mean']:.0f} %"
        rows.append([group["label"], str(group["runs"]), f"{gap['mean']:.2f} %", exactly])
    return table(rows, ["learned projection (MNIST)", "runs", "gap to the optimum", "inside exactly"])


def times(ratio: float) -> str:
    """2.4x, 35x, 1200x: two digits, or all of them before the point."""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.2g}x"


def summary() -> str:
    """The section of the README."""
    parts = [
        "## What we measured",
        "Each table is written by a command: `python -m benchmarks.conversion`, `… benchmarks.layer`, `… "
        "benchmarks.projection` (all of them: `make bench`), `python -m experiments publish`. Times are medians of "
        "interleaved runs on two cores of a shared machine: read the ratios.",
        conversion(),
        layer(),
        projection(),
        study(),
        "Plots and every peer: [conversion](benchmarks/results/conversion.md), [layer](benchmarks/results/layer.md), "
        "[projection](benchmarks/results/projection.md).",
    ]
    return "\n\n".join(parts) + "\n"


def with_summary(readme: str, text: str) -> str:
    """README with the text between its markers."""
    return MARKERS.sub(lambda found: found.group(1) + text + found.group(2), readme)


def main() -> None:
    text = summary()
    (RESULTS / "summary.md").write_text(text, encoding="utf-8")
    path = ROOT / "README.md"
    path.write_text(with_summary(path.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
