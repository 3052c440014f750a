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

from benchmarks.harness import RESULTS, folded, table

ROOT = Path(__file__).parent.parent
PAGE_NAMES = ("layer", "projection", "measured", "learning", "learning_tables", "deploy", "scale", "cones")
PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in PAGE_NAMES),
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
    """Every table, for the page of measurements: the point first, the rows folded."""
    parts = [
        "## Conversion",
        "Inequalities to vertices and rays, verified. A gain below 1 means that another engine is faster: on sets of a "
        "millisecond or two, where splitting and verifying cost more than converting.",
        "![conversion, seconds for each engine](../benchmarks/results/conversion.svg)",
        folded("Every set beside cddlib, PPL, PPLite and Normaliz", conversion()),
        '"To arrays" includes the Python loops of the benchmark that state the rows and copy an answer, which is most '
        "of PPLite's time. cddlib's floats were wrong or gave up on some rows; such answers do not count as best.",
        "## The layer",
        f"Forward and training step over `nn.Linear` of the same size. {floors()}",
        "![the layer and its peers over nn.Linear](../benchmarks/results/layer.svg)",
        folded("Three sets, with peers", layer()),
        folded("Our layer over what a good user would write by hand", by_hand()),
        "## Nearest points",
        "A sample of a batch of 256, beside the paper's solver loop ([more](projection.md)).",
        "![nearest points over the paper's solver loop](../benchmarks/results/projection.svg)",
        folded("Ten problems beside the paper's loop and the best solver", first_table("projection")),
        folded("Accuracy against an independent exact solver", accuracy()),
        folded("Forward and backward beside other layers", first_table("projection_backward")),
        'The set of "sample-wise b" is DC3\'s: 100 variables, 50 equalities of the sample, 50 inequalities.',
        "## The paper's studies",
        "Which layer our rows are of, and what agrees with the paper: [the paper's studies](reproduction.md).",
        inference(),
        folded("Learned projection on MNIST, hard methods", study()),
        folded("VAE on MNIST", decoders()),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


FEW_LAYERS = ("rayhull, strict", "rayhull, strict, 10 steps", "rayhull, strict, shrink", "RAYEN", "HardNet-Aff")


def layer_few() -> str:
    """The layer's costs on one set."""
    head, line, *rows = layer(FEW_LAYERS).splitlines()
    chosen = [head, line, *(row for row in rows if row.startswith("| box d=50"))]
    return "\n".join("|" + row.split("|", 2)[2] for row in chosen)  # without the column that names the set


def claims() -> str:
    """The section of the README: one row for each claim, with who does it too."""
    rows = [_learns(), _hard(), _fast(), _exact(), _ready()]
    return "\n\n".join(
        [
            "## What we measured",
            "One row for each claim. The page behind it has all rows, also those where others are better. "
            "Every number comes from a file that a command wrote (`make bench`, `python -m experiments publish`).",
            table(rows, ["", "measured on", "rayhull", "beside it", "all rows"]),
        ]
    )


GOOD = "convex curve", "portfolio", "thin set", "shares with zeros"
FEW_PROBLEMS = (*GOOD, "allocation with caps", "rating matrix", "chain at 1e-3")


def learning_few() -> str:
    """Problems on which auto is good, then some on which another way is better."""
    kept = ("problem", "auto", "best other hard way", "free, then project")
    rows = [row_of(first_table("learning"), problem) for problem in FEW_PROBLEMS]
    return table([[row[name] for name in kept] for row in rows], kept)


def _learns() -> list[str]:
    found = row_of(nth_table("learning", 1), "portfolio")
    peers = "; ".join(f"{name} {found[name]}" for name in ("free, then project", "RAYEN"))
    return ["**learns**", "portfolios: gap to the best choice", found["auto"], peers, _link("learning")]


def _hard() -> list[str]:
    text, on, names = layer(), "box d=50 m=30", ("rayhull, strict", "RAYEN", "HardNet-Aff")
    ours, *peers = (
        f"{row['outside exactly']}, {row['training step / Linear']}"
        for row in (row_of(text, on, name) for name in names)
    )
    beside = "; ".join(f"{name} {found}" for name, found in zip(names[1:], peers, strict=True))
    what = "30 rows and a box in R⁵⁰: share outside, in rational arithmetic; training step over nn.Linear"
    return ["**hard**", what, ours, beside, "[layer](docs/layer.md#what-it-costs)"]


def _fast() -> list[str]:
    found = row_of(projection(), "checkerboard")
    gain = found["over the paper's OSQP loop"]
    loop = f"{gain} as long: the paper's OSQP loop"
    what = "the nearest point of a 28 × 28 checkerboard, a sample of 256"
    return ["**fast**", what, found["rayhull, a sample"], loop, "[measured](docs/measured.md#nearest-points)"]


def _exact() -> list[str]:
    found = row_of(conversion(), "gaussian 40x12")
    best = next(value for name, value in found.items() if name.startswith("best of"))
    what = "the rays of 40 random inequalities in R¹², verified"
    return ["**exact**", what, found["rayhull"], f"{best}, the best of four", _link("measured")]


def _ready() -> list[str]:
    found = row_of(first_table("cold"), "set, layer, forward: checkerboard and box")
    seconds = next(value for name, value in found.items() if name.startswith("CPU seconds"))
    what = "a new process, nothing cached: set, layer, first forward"
    return ["**ready at once**", what, f"{seconds} s", "", "[cold](benchmarks/results/cold.md)"]


def _link(page: str) -> str:
    return f"[{page}](docs/{page}.md)"


def row_of(text: str, *start: str) -> dict[str, str]:
    """The row of a table that begins with these cells, by the names of its columns."""
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return next(dict(zip(head, row, strict=True)) for row in rows if row[: len(start)] == list(start))


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


def scale_few() -> str:
    """Three sets in a sentence each."""
    runs = load(RESULTS / "scale.json")["results"]
    flow, year, box = (runs[name] for name in ("flow 500/1500", "storage 8760", "box 1000000"))
    faster = flow["OSQP"]["forward"] / flow["rayhull"]["forward"]
    flow_ms, year_ms, box_ms = (1e3 * run["rayhull"]["step"] for run in (flow, year, box))
    return (
        f"A flow on 500 nodes and 1500 edges trains in {flow_ms:.2g} ms a sample, and its nearest point is found "
        f"{faster:.2g} times as fast\nas by OSQP, one by one. A year of storage trains in {year_ms:.2g} ms, a box of a "
        f"million coordinates in {box_ms:.2g} ms."
    )


PARTS: dict[str, Callable[[], str]] = {
    "summary": summary,
    "claims": claims,
    "layer_few": layer_few,
    "choices": lambda: first_table("projection_choices"),
    "learning": lambda: first_table("learning"),
    "learning_few": learning_few,
    "exports": lambda: first_table("exports"),
    "learning_losses": lambda: nth_table("learning", 1),
    "learning_costs": lambda: nth_table("learning", 2),
    "learning_count": lambda: nth_table("learning", 3),
    "scale": scale,
    "scale_few": scale_few,
    "cones_grid": lambda: nth_table("cones", 3),
    "cones_learning": lambda: nth_table("cones", 5),
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
