"""The numbers in README and docs, drawn from the results files and from nothing else: python -m benchmarks.summary.

A page says ``<!-- begin: NAME -->`` ... ``<!-- end -->``, with NAME one of ``PARTS``; what stands between is written
anew. A test checks that every page is up to date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, table

ROOT = Path(__file__).parent.parent
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("layer", "projection", "measured", "learning", "deploy", "scale")),
)
MARKERS = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def conversion() -> str:
    """Ours beside the best of the other engines that gave the right answer: its own time, and that to arrays.

    Results of before have one time, which is that to arrays.
    """
    cases = load(RESULTS / "conversion.json")["cases"]
    kinds = [kind for kind in ("seconds", "arrays") if all(kind in row["rayhull"] for row in cases.values())]
    rows = [
        [case, f"{row['rayhull']['seconds']:.3g} s", *(cell for kind in kinds for cell in _best(row, kind))]
        for case, row in cases.items()
    ]
    best = "best of cddlib, PPL, PPLite, Normaliz"
    heads = [f"{best}: its own time", "gain"] if len(kinds) > 1 else []
    heads += ["the best to arrays" if heads else f"{best}, to arrays", "gain"]
    return table(rows, ["conversion", "rayhull", *heads])


def _best(row: Mapping[str, Any], kind: str) -> list[str]:
    """The least time among the other engines, and how many times ours it is."""
    others = {name: r[kind] for name, r in row.items() if name != "rayhull" and r["state"] == "fine"}
    if not others:
        return ["none within the limit", ""]
    best = min(others, key=others.__getitem__)
    return [f"{others[best]:.3g} s ({best})", times(others[best] / row["rayhull"][kind])]


SHORT = (
    *("rayhull", "rayhull, strict", "rayhull, strict, shrink", "rayhull, strict, 10 steps"),
    *("rayhull, strict, folded", "rayhull, folded and compiled", "the paper's layer"),
)
PEERS = ("RAYEN", "HardNet-Aff", "Pi-net, tuned", "qpth", "cvxpylayers", "OSQP, one by one")


def layer(labels: Collection[str] | None = None) -> str:
    """Forward and training cost over nn.Linear, and what is outside in rational arithmetic; one thread.

    "before" in a label: measured with the layer before it was rebuilt.
    """
    rows = []
    for name, part in load(RESULTS / "layer.json")["results"].items():
        if not name.endswith("1 threads"):
            continue
        floor, step = part["inference"]["nn.Linear"]["median"], part["training"]["nn.Linear"]["median"]
        for label, timing in part["inference"].items():
            if label == "nn.Linear" or (labels is not None and label.removesuffix(", before") not in labels):
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


def by_hand() -> str:
    """Our layer over what a good user would write in plain torch; empty for a file from before it was measured."""
    rows = []
    for name, part in load(RESULTS / "layer.json")["results"].get("by hand", {}).items():
        ratios = [
            part[kind]["rayhull"]["median"] / part[kind]["by hand"]["median"] for kind in ("inference", "training")
        ]
        rows.append([name, *map(times, ratios)])
    heads = ["set", "layer / the same by hand, forward", "training step"]
    return table(rows, heads) if rows else ""


def floors() -> str:
    """What the ratios of the small sets are ratios of."""
    results = load(RESULTS / "layer.json")["results"]
    cone, box = (results[f"{name}, 1 threads"] for name in ("cone d=20 m=10", "box d=50 m=30"))
    first, second = (1e6 * part["inference"]["nn.Linear"]["median"] for part in (cone, box))
    peer = box["found"].get("HardNet-Aff")
    worst = peer["violation"] if peer else float("nan")
    return (
        f"The floor, `nn.Linear` alone, takes {first:.0f} µs on the cone and {second:.0f} µs on the box, so a few "
        "short operations are a large ratio there. "
        "HardNet-Aff costs less in training, and its points are outside: on the box it breaks a row by "
        f"{worst:.2g}. " + BEFORE
    )


def projection() -> str:
    """Samples a second over the paper's solver loop, batch 256, float64, one thread."""
    rows = []
    for problem, result in load(RESULTS / "projection.json")["results"].items():
        ours, loop = result["rayhull"], result["OSQP, the paper's loop"]
        gain = (loop["seconds"]["median"] / loop["samples"]) / (ours["seconds"]["median"] / ours["samples"])
        rows.append([problem, f"{1e6 * ours['seconds']['median'] / ours['samples']:.3g} µs", times(gain)])
    return table(rows, ["nearest point", "rayhull, a sample", "over the paper's OSQP loop"])


def study() -> str:
    """The learned projection's gap to the optimum, as published; outside the set it would mean nothing."""
    rows = []
    for group in load(ROOT / "results" / "published" / "projection.json")["groups"]:
        found = group["summary"]
        if group["settings"]["method"] == "optimum" or found["inside"]["mean"] < 1:
            continue
        gap, exactly = f"{group['gap_percent']['mean']:.2f} %", f"{100 * found['inside_exactly']['mean']:.0f} %"
        rows.append([group["label"], str(group["runs"]), gap, exactly])
    return table(rows, ["learned projection (MNIST), hard methods", "runs", "gap to the optimum", "inside exactly"])


def inference() -> str:
    """The layer beside the network without it and before the solver loop, as published."""
    rows = []
    for group in load(ROOT / "results" / "published" / "timing.json")["groups"]:
        for case in group["cases"]:
            if case["label"] == "constrained":
                own = (case["times_the_unconstrained_network"], case["faster_than_the_osqp_loop"])
                rows.append([case["model"], str(group["settings"]["network_threads"]), *map(times, own)])
    return table(rows, ["59 000 images", "threads", "constrained / unconstrained", "faster than the OSQP loop by"])


def decoders() -> str:
    """The VAE's evidence and how its images are read, as published."""
    rows = []
    for group in load(ROOT / "results" / "published" / "vae.json")["groups"]:
        found = {name: value["mean"] for name, value in group["summary"].items()}
        shares = [f"{100 * found[name]:.1f} %" for name in ("plain_accuracy", "inside_exactly")]
        rows.append([group["label"], str(group["runs"]), f"{found['test_elbo']:.2f}", *shares])
    return table(rows, ["VAE (MNIST)", "runs", "ELBO", "digits read right", "inside exactly"])


BEFORE = '"Before" marks what was measured with the layer before it was rebuilt.'


def times(ratio: float) -> str:
    """1.15x, 35x, 1200x."""
    return f"{ratio:.0f}x" if ratio >= 10 else f"{ratio:.2f}x"


def summary() -> str:
    """Every table, for the page of measurements."""
    parts = [
        "Each table is written by a command: `python -m benchmarks.conversion`, `… benchmarks.layer`, `… "
        "benchmarks.projection` (all of them: `make bench`), `python -m experiments publish`. Times are medians of "
        "interleaved runs on two cores of a shared machine: read the ratios.",
        conversion(),
        "To arrays: with the Python loops of the benchmark that state the rows and copy an engine's answer, which is "
        "most of PPLite's time. "
        "A gain below 1 means that another engine is faster: on sets of a millisecond or two, where splitting and "
        "verifying cost more than converting. cddlib's floats were wrong or gave up on some rows; such answers do not "
        "count as best.",
        layer(SHORT + PEERS),
        floors(),
        by_hand(),
        projection(),
        study(),
        decoders(),
        inference(),
        "More on these studies, and of which layer our rows are: [the paper's studies](reproduction.md).",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


HARD = ("rayhull, strict", "rayhull, strict, shrink", "RAYEN", "HardNet-Aff", "qpth")
FEW_SETS = ("checkerboard", "dense 50x100", "simplex 1000")
LEARNING_COLUMNS = ("problem", "auto", "auto, before", "RAYEN", "HardNet-Aff", "free, then project")
FEW_CALLS = ("set, layer, forward: checkerboard", "first project: two rows", "first convert: grid 8x8")
FEW_CONES = ("monotone 784", "grid 7x7", "gaussian 40x12")


def claims() -> str:
    """The section of the README: one small table for each claim."""
    parts = [
        "## What we measured",
        "Every number is drawn from a file that a command wrote (`make bench`, `python -m experiments publish`); all "
        f"of them, with the peers that are faster somewhere: [measured](docs/measured.md). {BEFORE}",
        "**Learns.** Test losses after the same training, rates chosen on validation data, medians of six seeds, "
        "where marked ³ of three ([every problem that was run](docs/learning.md), also where we are not the best):",
        _columns(_kept(nth_table("learning", 1), "convex curve", "thin set", "portfolio"), LEARNING_COLUMNS),
        "**Hard.** The same 30 rows and a box in R⁵⁰, judged in rational arithmetic on the floats that come out:",
        _kept(layer(HARD), "box d=50"),
        "**Fast.** Nearest points, a sample of a batch of 256, beside the paper's solver loop:",
        _kept(projection(), *FEW_SETS),
        "**Exact.** Inequalities to rays and back, verified:",
        _kept(conversion(), *FEW_CONES),
        "**Ready at once.** A first call in a new process, nothing cached; kernels come compiled:",
        _kept(first_table("cold"), *FEW_CALLS),
    ]
    return "\n\n".join(parts) + "\n"


def _columns(text: str, names: Collection[str]) -> str:
    """The named columns of a table, those that it has."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    pick = [rows[0].index(name) for name in names if name in rows[0]]
    return table([[row[i] for i in pick] for row in rows[2:]], [rows[0][i] for i in pick])


def _kept(text: str, *starts: str) -> str:
    """A table's head and the rows that begin with one of the given words."""
    lines = text.splitlines()
    return "\n".join(lines[:2] + [line for line in lines[2:] if line[2:].startswith(starts)])


def first_table(name: str) -> str:
    """The first table of a results page."""
    return nth_table(name, 0)


def nth_table(name: str, n: int) -> str:
    """The n-th table of a results page, counted from 0."""
    return (RESULTS / f"{name}.md").read_text(encoding="utf-8").split("\n\n")[n].strip()


def accuracy() -> str:
    """Our nearest points beside those of an independent exact solver."""
    rows = [
        [problem, r["samples"], f"{r['difference']:.1e}", f"{r['residual']:.1e}", r["fallback"]]
        for problem, r in load(RESULTS / "projection_accuracy.json")["results"].items()
    ]
    return table(rows, ["problem", "samples", "largest difference", "largest KKT residual", "fallbacks"])


def scale() -> str:
    """Large sets, once they have been measured."""
    return first_table("scale") if (RESULTS / "scale.md").exists() else "The table is not measured yet."


PARTS: dict[str, Callable[[], str]] = {
    "summary": summary,
    "claims": claims,
    "layer": layer,
    "projection": lambda: first_table("projection"),
    "backward": lambda: first_table("projection_backward"),
    "choices": lambda: first_table("projection_choices"),
    "learning": lambda: first_table("learning"),
    "exports": lambda: first_table("exports"),
    "learning_losses": lambda: nth_table("learning", 1),
    "learning_costs": lambda: nth_table("learning", 2),
    "accuracy": accuracy,
    "scale": scale,
}


def filled(page: str) -> str:
    """The page with every marked part as the results files have it."""
    return MARKERS.sub(lambda found: f"{found.group(1)}{PARTS[found.group(2)]().strip()}\n{found.group(3)}", page)


def main() -> None:
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"{path.relative_to(ROOT)} is up to date")


if __name__ == "__main__":
    main()
