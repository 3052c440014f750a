"""docs/field.md from benchmarks/results/field.json: python -m benchmarks.field_page."""

from __future__ import annotations

from benchmarks.field import UNFIT, load, medians
from benchmarks.field_problems import field_problems
from benchmarks.field_training import METHODS
from benchmarks.harness import RESULTS, table

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

INTRODUCTION = """# The field's own benchmarks

DC3's quadratic programs, HardNet's problems and Pi-net's toy MPC, rebuilt from their public definitions with the
published seeds (`benchmarks/field_problems.py`; the optima agree with the papers' to their last digit). Every method
here has the same network (two hidden layers of 200), the same epochs and the same choice of learning rates, made on
validation data (the published rate where there are none); medians over seeds, least and largest in brackets.
"Outside" is the share of test samples with an inequality broken at all, judged in float64 without a tolerance.
Training seconds are of one processor. *Published* rows are the papers' own numbers, with their networks, epochs and
machines.

`python -m benchmarks.field` computes what is missing and goes on where it was stopped;
`python -m benchmarks.field_page` writes this page from
`benchmarks/results/field.json`. What is not in a table was not run.
"""


def page() -> str:
    """The whole page."""
    runs = load()
    found = medians(runs)
    parts = [INTRODUCTION]
    for problem in field_problems():
        own = [run for run in runs if run.problem == problem]
        if not own:
            continue
        parts.append(f"## {problem}\n\n{own[0].epochs} epochs.")
        for split in own[0].measures:
            rows = [
                _row(method, found[problem, method, split], _count(own, method))
                for method in METHODS
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
        if unfit:
            parts.append("Left out: " + "; ".join(unfit) + ".")
    return "\n\n".join(parts) + "\n"


def _row(method: str, measures: dict[str, tuple[float, float, float]], runs: int) -> list[str]:
    percent = {"gap": 100.0, "outside": 100.0}

    def text(name: str, form: str, unit: str = "", spread: bool = False) -> str:
        if name not in measures:
            return ""
        middle, low, high = (percent.get(name, 1.0) * v for v in measures[name])
        around = f" ({low:{form}} .. {high:{form}})" if spread and runs > 1 else ""
        return f"{middle:{form}}{unit}{around}"

    return [
        method,
        text("loss", ".5g", spread=True),
        text("gap", ".3f", " %", spread=True),
        text("inequality", ".1e"),
        text("equality", ".1e"),
        text("outside", ".0f", " %"),
        text("training, s", ".0f"),
        str(runs),
    ]


def _count(runs: list, method: str) -> int:
    return sum(run.method == method for run in runs)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
