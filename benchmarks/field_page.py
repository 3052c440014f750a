"""docs/field.md from benchmarks/results/field.json: python -m benchmarks.field_page."""

from __future__ import annotations

from typing import Any

from benchmarks.field import UNFIT, Run, load, medians
from benchmarks.field_problems import field_problems
from benchmarks.field_training import METHODS
from benchmarks.harness import RESULTS, folded, table

PAGE = RESULTS.parent.parent / "docs" / "field.md"

# What the papers report: (problem, split, method, loss, largest inequality, largest equality, source).
PUBLISHED = [
    ("DC3 convex", "test", "OSQP, the optimum", "-15.047", "5e-4", "1e-4", "DC3"),
    ("DC3 convex", "test", "DC3", "-13.455", "2e-4", "2e-13", "DC3"),
    ("DC3 convex", "test", "network with a soft loss", "-12.569", "0", "0.35", "DC3"),
    ("DC3 nonconvex", "test", "IPOPT", "-11.592", "", "", "DC3"),
    ("DC3 nonconvex", "test", "DC3", "-10.664", "2e-4", "", "DC3"),
    ("DC3 nonconvex", "Pi-net's test", "optimum", "-11.5825", "", "", "Pi-net"),
    (
        "DC3 nonconvex",
        "Pi-net's test",
        "Pi-net, 500 steps (an independent run)",
        "-11.5566 (gap 0.22 %)",
        "",
        "",
        "Pi-net",
    ),
    ("DC3 convex", "Pi-net's test", "optimum", "-15.0372", "", "", "Pi-net"),
    ("HardNet opt", "test", "IPOPT", "-14.28", "", "", "HardNet"),
    ("HardNet opt", "test", "HardNet-Aff", "-14.10", "0", "0", "HardNet"),
    ("HardNet opt", "test", "DC3", "-12.57", "", "", "HardNet"),
    ("HardNet pwc", "test", "HardNet-Aff", "0.16 ± 0.01", "0", "", "HardNet"),
    ("HardNet pwc", "test", "DC3", "1.15", "2.31", "", "HardNet"),
    ("HardNet cbf", "test", "HardNet-Aff", "518.85 ± 8.71", "0", "", "HardNet"),
    ("HardNet cbf", "test", "CBF-QP", "948.3", "0", "", "HardNet"),
    ("HardNet cbf", "test", "network, free", "421.9", "157.6", "", "HardNet"),
]
HEADER = [
    "method",
    "loss",
    "gap to the optimum",
    "largest inequality",
    "largest equality",
    "outside",
    "training, s",
    "runs",
]
WORST = ("inequality", "equality", "outside")  # of all seeds, not the median
# What we set out to reach with "rayhull": (problem, split, measure, limit, how it is written).
GOALS = [
    ("DC3 convex", "test", "gap", 0.001, "gap at most 0.1 %"),
    ("DC3 nonconvex", "Pi-net's test", "gap", 0.001, "gap at most 0.1 %"),
    ("HardNet opt", "test", "loss", -14.10, "loss below -14.10"),
    ("HardNet pwc", "test", "loss", 0.16, "loss at most 0.16"),
    ("HardNet cbf", "test", "loss", 518.9, "cost at most 518.9"),
    ("toy MPC", "test", "gap", 0.005, "gap at most 0.5 %"),
    ("DC dispatch, case9", "test", "gap", 0.001, "gap at most 0.1 %"),
    ("DC dispatch, case30", "test", "gap", 0.001, "gap at most 0.1 %"),
]

SAME = "Generators meet the demand of every bus at the least cost, and no line is overloaded."
WHAT = {  # each problem in a sentence
    "DC3 convex": "The least of ½ yᵀQy + pᵀy over 50 equalities with the right-hand side of the sample and 50 "
    "inequalities, in R¹⁰⁰.",
    "DC3 nonconvex": "DC3's convex problem with pᵀ sin y in place of pᵀy.",
    "HardNet opt": "DC3's nonconvex problem with HardNet's own numbers.",
    "HardNet pwc": "A curve through 50 labelled points, with a bound from below or from above on each of four pieces.",
    "HardNet cbf": "Safe control: a unicycle drives to the origin past two obstacles. Each obstacle is a row on the "
    "control, and the row follows the state.",
    "toy MPC": "A plan of twenty steps in the plane: x[k+1] = x[k] + u[k], |u| ≤ 1, |x| ≤ 10, from a given start "
    "towards (3, -12).",
    "DC dispatch, case9": SAME,
    "DC dispatch, case30": SAME,
}

INTRODUCTION = """# The field's own benchmarks

Other papers on hard constraints have test problems of their own. This page has eight of them: our layer, the layers
of those papers, and the numbers that they published.

The problems are rebuilt from their public definitions with the published seeds. The optima agree with the papers' to
their last digit."""

READING = """- *rayhull* is `rh.Constrained(200, P, varies=..., strict=True, leak=0)`.
- The *gap* is how far the loss is above the optimum, as a share of it.
- *Outside* is the share of test samples that break an inequality at all, judged in float64 without a tolerance.
- *Met*: the worst of the seeds decides.
- *Before*: measured with the layer before it was rebuilt. Today's layer is not measured yet.

**What these numbers do not show.** There are three seeds at most, where five are usual. Networks and recipes of
the peers are ours, not their authors' best, and the recipe was chosen for rayhull, on DC3's validation samples.
[The times](#times-of-a-forward-pass) say who is faster than our layer.

**Safe control is special.** It takes 210 training steps here; its authors take 9000. Two things make that possible, and
both are ours: the nearest point of two barrier rows has a closed form, and corrections are in the unit of the control.
HardNet-Aff's row here has the same units and as few steps. It does not show what HardNet-Aff reaches in 9000."""

SETTING = """## How everything was trained

- **Network**: two hidden layers of 200 with ReLU, no normalisation, no dropout, float64, the same epochs for
  every method. (DC3's own network has BatchNorm and dropout.)
- **Learning rate**: chosen among three on validation data after a tenth of the epochs. It rises over the first
  fifth of the steps and falls along a cosine.
- **HardNet pwc** has no validation data. It is trained as published: He's initialisation, a constant rate of
  1e-4.
- **Safe control** (HardNet cbf) is trained through `torch.compile`; its corrections are in units of 10 of the
  control.

Peers are written from their papers and their authors' code (`benchmarks/peers.py`, with tests):

- **HardNet-Aff** adds ten times the squared violation to the loss. It goes without its step in the first tenth
  of the epochs, where its authors do.
- **DC3** adds five times the norm of the violation, with ten corrections.
- **Pi-net** adds nothing. It takes 50 steps in training and in evaluation (200 and 1000 for the toy MPC), as
  published.
- **RAYEN** takes constant sets only, and every set here depends on the sample: it is in the timing grid alone.

**DC3 nonconvex: a pull.** For our methods, except "no pull", the loss gets a tenth of the squared distance that
the map moves a point (`layer.unconstrained`). Without it one seed of three ended far above the others. The
points of all samples lay beyond one row that is hardly ever active at an optimum, and no gradient leads back
across an active row. A smaller learning rate did not help; a tenth of that weight was enough.

**The tables** have medians over seeds, least and largest in brackets; violations are the worst of the seeds.
Training seconds are of one processor that others used too. *Published* rows are the papers' own numbers, with
their networks, epochs and machines. What is not in a table was not run.

`python -m benchmarks.field` computes what is missing and goes on where it was stopped. `python -m
benchmarks.field_times` measures the times. `python -m benchmarks.field_page` writes this page from
`benchmarks/results/field.json`."""


def page() -> str:
    """The whole page."""
    runs: list[Run] = load()
    parts = [INTRODUCTION, goals(runs), READING, "## Problem by problem"]
    parts += [section(name, runs) for name in field_problems() if any(run.problem == name for run in runs)]
    parts += [
        text for text in (forward_times(load("test-sets")), overheads(load("overhead")), grid(load("grid"))) if text
    ]
    parts.append(SETTING)
    return "\n\n".join(parts) + "\n"


def goals(runs: list[Run]) -> str:
    """What we set out to reach, and whether it was: the worst of the seeds counts."""
    found, rows = medians(runs), []
    for problem, split, measure, limit, text in GOALS:
        name = next((n for n in ("rayhull", "rayhull, before") if (problem, n, split) in found), None)
        measures = found.get((problem, name or "", split))
        if measures is None:
            rows.append([problem, text, "not run", ""])
            continue
        middle, _, worst = measures[measure]
        outside = measures["outside"][2]
        met = worst <= limit and outside == 0
        seeds = sum((run.problem, run.method) == (problem, name) for run in runs)
        label = (name or "").removeprefix("rayhull")
        value = f"{100 * middle:.3f} %" if measure == "gap" else f"{middle:.5g}"
        rows.append(
            [
                problem,
                text,
                f"{value}, {100 * outside:.0f} % outside{label}",
                _verdict(met, seeds),
            ]
        )
    met = sum(row[-1].startswith("yes") for row in rows)
    return f"**{met} of {len(rows)} goals are met**, and a goal counts only if no output is outside:\n\n" + table(
        rows, ["problem", "goal", "rayhull", "met"]
    )


def _verdict(met: bool, seeds: int) -> str:
    return f"{'yes' if met else 'no'} ({seeds} seed{'s' if seeds > 1 else ''})"


def section(problem: str, runs: list[Run]) -> str:
    """One problem: a table for each test split."""
    own, found = [run for run in runs if run.problem == problem], medians(runs)
    parts = [WHAT[problem]] if problem in WHAT else []
    for split in own[0].measures:
        rows = [
            _row(method, found[problem, method, split], sum(run.method == method for run in own))
            for method in (*METHODS, *(f"{name}, before" for name in METHODS))
            if (problem, method, split) in found
        ]
        rows += [
            [f"*{m}*, published ({source})", loss, "", ineq, eq, "", "", ""]
            for p, s, m, loss, ineq, eq, source in PUBLISHED
            if (p, s) == (problem, split)
        ]
        title = "" if len(own[0].measures) == 1 else f"**{split}**\n\n"
        parts.append(title + table(rows, HEADER))
    unfit = [f"{method}: {why}" for (p, method), why in UNFIT.items() if p == problem]
    parts += ["Left out: " + "; ".join(unfit) + "."] if unfit else []
    return folded(f"{problem}, {own[0].epochs} epochs", "\n\n".join(parts))


def _row(method: str, measures: dict[str, tuple[float, float, float]], runs: int) -> list[str]:
    percent = {"gap": 100.0, "outside": 100.0}

    def text(name: str, form: str, unit: str = "", spread: bool = False) -> str:
        if name not in measures:
            return ""
        middle, low, high = (percent.get(name, 1.0) * v for v in measures[name])
        middle = high if name in WORST else middle
        around = f" ({low:{form}} .. {high:{form}})" if spread and runs > 1 else ""
        return f"{middle:{form}}{unit}{around}"

    return [
        method,
        text("loss", ".5g", spread=True),
        text("gap", ".3f", " %", spread=True),
        text("inequality", ".1e"),
        text("equality", ".1e"),
        text("outside", ".1f", " %"),
        text("training, s", ".0f"),
        str(runs),
    ]


def forward_times(rows: list[dict[str, Any]]) -> str:
    """Forward passes of trained networks."""
    if not rows:
        return ""
    cells = [
        [r["problem"], r["method"] + ("" if r.get("trained", True) else ", untrained"), r["samples"]]
        + [f"{r['all']:.2f}", f"{r['one']:.3f}"]
        for r in rows
    ]
    header = ["problem", "method", "samples", "whole test set, ms", "one sample, ms"]
    every = folded("Milliseconds of every method", table(cells, header))
    return (
        f"## Times of a forward pass\n\n{faster(rows)}\n\n{every}"
        "\n\nTimes are of the network and its head, in float64 on one processor, all methods of a problem in turns. "
        "Of safe control only the first step of an episode is timed. A method that does the same "
        "work with any weights is timed untrained."
    )


def faster(rows: list[dict[str, Any]]) -> str:
    """Which peers take less time than our layer, and on what."""
    own = {r["problem"]: r for r in rows if r["method"].removesuffix(", before") == "rayhull"}
    peers = [r for r in rows if not r["method"].startswith("rayhull") and r["problem"] in own]

    def where(part: str) -> str:
        quick: dict[str, list[str]] = {}
        for r in peers:
            if r[part] < own[r["problem"]][part]:
                quick.setdefault(r["method"], []).append(r["problem"])
        return "; ".join(f"{method} on {', '.join(where)}" for method, where in quick.items()) or "none"

    return (
        f"- Faster than `rayhull` for the whole test set: {where('all')}.\n- For one sample: {where('one')}.\n\nOnly "
        "our layer proves that its outputs are feasible (`strict=True`). The tables above say how far outside the "
        "others are."
    )


def overheads(rows: list[dict[str, Any]]) -> str:
    """What sides of the sample cost beside constant ones."""
    if not rows:
        return ""
    constant = {(r["way"], "equalities" in r["side"]): r["ms"] for r in rows if r["side"].startswith("constant")}
    beside = [r["ms"] / constant[r["way"], r["side"] in EQUALITIES] for r in rows]
    cells = [[r["way"], r["side"], f"{r['ms']:.2f}", f"{x:.2f}x"] for r, x in zip(rows, beside, strict=True)]
    most = max(x for r, x in zip(rows, beside, strict=True) if r["side"] in ("b", "b_eq"))
    met = (
        "met"
        if most <= 1.5
        else "missed: slack and base points of each sample are products of their own, forwards and backwards"
    )
    return (
        f"## What sides of the sample cost\n\nThe goal, at most 1.5x for right-hand sides, is {met}.\n\n"
        + folded("Milliseconds, sides of the sample beside constant ones", table(cells, SIDES_HEADER))
        + "\n\nMeasured on 30 rows in 50 coordinates, with 10 equalities where they are named: batch 256, float32, "
        "forward and backward. The last column is relative to the same layer with constant sides. Rows of the sample "
        'need batched products; the row "floor" is these products alone.'
    )


EQUALITIES = ("constant, with equalities", "b_eq")
SIDES_HEADER = ["method", "of the sample", "ms", "beside constant"]


def grid(rows: list[dict[str, Any]]) -> str:
    """RAYEN's timing grid."""
    if not rows:
        return ""
    methods = [name for name in rows[0] if name not in ("d", "rows")]
    cells = [[r["d"], r["rows"], *(f"{r[m]:.2f}" if m in r else "" for m in methods)] for r in rows]
    return (
        "## RAYEN's timing grid\n\nHow long a forward pass takes for each sample, by coordinates and rows. Rows are "
        "random: A ~ U(-1, 1), b ~ U(0.1, 1), 2000 samples, float32. Both layers are told that 0 is an interior point, "
        "and RAYEN takes the rows as they are, as its authors time it.\n\n"
        + folded("Microseconds a sample", table(cells, ["coordinates", "rows", *methods]))
        + "\n\nThe published grid goes on to 10 000 coordinates. Here it ends at a million entries: beyond them "
        "building our layer takes minutes (Newton steps to the centre of the set, each a system of d x d)."
    )


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
