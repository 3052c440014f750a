"""docs/field2.md from benchmarks/results/field2.json: python -m benchmarks.field2_page."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.field2_labels import HEADS, SOURCES
from benchmarks.harness import RESULTS, table

PAGE = RESULTS.parent.parent / "docs" / "field2.md"
Tables = dict[str, list[dict[str, Any]]]

INTRODUCTION = """# Other people's tables

Data that others made, numbers that others published, and ours beside them. `python -m benchmarks.field2 FOLDER`
computes every table from a folder with the public files (it names the place of each, and checks its hash), keeps what
is finished in `benchmarks/results/field2.json` and writes this page. Medians over seeds where a network is trained,
least and largest in brackets."""

BOTNET = """## Corrections of generated network traffic

PiShield's botnet test: 70 rows of a generator in 757 columns, 366 rules over them, and what PiShield's layer made of
them, all stored in its repository. Two pairs of rules are equalities, stated as two inequalities each.

{table}

PiShield solves for one variable after the other, the last of which takes up the rounding; the nearest point moves
many of them, and in float32 the rounding of long sums is left. In float64 that is of no concern, and where it is
one, state the two pairs as equalities: `strict=True` then keeps every inequality exactly."""

TOURISM = """## Forecasts that add up: Australian domestic tourism

425 series of a hierarchy, 304 at the bottom, the last eight quarters as test; base forecasts by AutoETS as in
Nixtla's example, reconciled. Root mean square error of each level; *published* is the table of that example
(hierarchicalforecast, `nbs/examples/australiandomestictourism.ipynb`). Ours is `rh.project(rh.reconciled(S), base,
weights=W)`, and with `& rh.nonnegative(n)` without negative numbers.

{table}

Every reconciliation is a nearest point, and its objective can be compared with the optimum by SciPy's non-negative
least squares. Nixtla's MinTrace sets negative base forecasts to 0 first and solves to a tolerance (version 1.5.3, run
on the same base forecasts):

{objectives}"""

QP = """## A quadratic program of Homeomorphic Projection

200 variables, 100 equalities with the right-hand side of the sample, 100 inequalities, a box of ±5; seed 2023, the
last 1024 of 20 000 inputs test (the repository's own generator of data; its published row is in
`results/all_record.csv`). The mean optimum here is that of their errors, 55.5. The network is ours (two hidden layers
of 200), 20 epochs without labels.

{table}"""

DISPATCH = """## DC dispatch on PGLib

Generators meet the demand of every bus, between 0.9 and 1.1 of the stated one, at the least cost, within the limits
of every line by distribution factors (PYPOWER's makePTDF); the optimum of each of 500 test samples is a linear
program. Trained on 2500 samples for 40 epochs without labels; units with a capacity of 0 stay among the coordinates.

{table}

T-SKM-Net's abstract reports gaps of 0.0025 % and 0.0008 % at most on case118, with the protocol of its paper, which
we have not seen: demands, labels and training may differ."""

LABELS = """## Labels in a hierarchy

Data sets, networks, rates and epochs of C-HMCNN (Giunchiglia and Lukasiewicz, NeurIPS 2020): genes with functions
(FUN, 499 classes in a tree; GO, 4 100 in a graph) and other data. A class is at most as probable as each of its
parents. Ours is `rh.Constrained(features, rh.ordered(edges, n))` among logits, a sigmoid after it, and the ordinary
cross-entropy; theirs, restated, takes the maximum over descendants, with a loss of its own. Area under the
precision-recall curve of all classes together, higher is better: median over seeds; *published* is the mean of ten.

{table}"""

PUBLISHED = [  # of Nixtla's example: Total, Purpose, State, Regions, Bottom, Overall
    ("base", 1743.29, 534.75, 308.15, 51.66, 19.37, 41.12),
    ("bottom-up", 3028.62, 791.19, 413.39, 55.13, 19.37, 49.82),
    ("mint_shrink", 2112.73, 577.14, 316.82, 46.55, 17.80, 40.47),
    ("ols", 1818.94, 515.53, 287.32, 46.28, 18.19, 38.75),
]
LEVELS = ("Total", "Purpose", "State", "Regions", "Bottom", "Overall")


def page(tables: Tables) -> str:
    """The page, with the tables that there are."""
    parts = [INTRODUCTION]
    if "botnet" in tables:
        parts.append(BOTNET.format(table=botnet(tables["botnet"])))
    if "tourism" in tables:
        parts.append(TOURISM.format(table=tourism(tables["tourism"]), objectives=objectives(tables["tourism"])))
    if "QP 200" in tables:
        parts.append(QP.format(table=quadratic(tables["QP 200"])))
    cases = {name: rows for name, rows in tables.items() if name.startswith("case")}
    if cases:
        parts.append(DISPATCH.format(table=dispatch(cases)))
    found = {name: tables[name] for name in SOURCES if name in tables}
    if found:
        parts.append(LABELS.format(table=labels(found)))
    return "\n\n".join(parts) + "\n"


def botnet(rows: list[dict[str, Any]]) -> str:
    header = ["correction", "mean distance moved", "above 1e-6", "largest violation", "milliseconds for all"]
    cells = [
        [
            row["method"],
            f"{row['mean distance']:.1f}",
            f"{100 * row['above 1e-6']:.0f} %",
            f"{row['largest violation']:.1e}",
            f"{row['milliseconds']:.0f}" if row["method"].startswith("rayhull") else "",
        ]
        for row in rows
    ]
    return table(cells, header)


def tourism(rows: list[dict[str, Any]]) -> str:
    published = {name: values for name, *values in PUBLISHED}
    cells = []
    for row in rows:
        if row["method"].endswith("Nixtla"):
            continue
        cells.append([row["method"], *(f"{row[level]:.2f}" for level in LEVELS), f"{round(row['least'], 2) + 0.0:.2f}"])
        if row["method"] in published:
            cells.append([f"*{row['method']}, published*", *(f"{value:.2f}" for value in published[row["method"]]), ""])
    return table(cells, ["method", *LEVELS, "least"])


def objectives(rows: list[dict[str, Any]]) -> str:
    found = {row["method"]: row["beside NNLS"] for row in rows if "beside NNLS" in row}
    names = [name for name in found if not name.endswith("Nixtla")]
    cells = [[name, f"{found[name]:.0e}", _share(found.get(f"{name}, Nixtla"))] for name in names]
    return table(cells, ["objective above the optimum", "rayhull", "Nixtla"])


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.4f} %"


def _spread(rows: list[dict[str, Any]], name: str, text: str, factor: float = 1.0) -> str:
    values = [factor * row[name] for row in rows]
    return f"{statistics.median(values):{text}} ({min(values):{text}} .. {max(values):{text}})"


def _trained(label: str, rows: list[dict[str, Any]]) -> list[str]:
    feasible = f"{100 * (1 - max(row['outside'] for row in rows)):.0f} %"
    equality = f"{max(row['equality'] for row in rows):.0e}"
    return [label, _spread(rows, "gap", ".4f", 100.0) + " %", feasible, equality, str(len(rows))]


COLUMNS = ["objective above the optimum", "feasible", "largest equality", "seeds"]


def quadratic(rows: list[dict[str, Any]]) -> str:
    cells = [
        _trained("rayhull, strict", rows),
        ["*network*, published", "1.90 %", "63.28 %", "", ""],
        ["*Homeomorphic Projection*, published", "2.10 %", "100 %", "", ""],
    ]
    return table(cells, ["method", *COLUMNS])


def dispatch(cases: Tables) -> str:
    return table([_trained(name, rows) for name, rows in cases.items()], ["network", *COLUMNS])


def labels(tables: Tables) -> str:
    cells = []
    for name, rows in tables.items():
        each = [[row for row in rows if row["method"] == head] for head in HEADS]
        scores = [_spread(own, "score", ".3f") if own else "" for own in each]
        worst = max(row["violation"] for row in each[0])
        cells.append([name, *scores, f"{SOURCES[name].published:.3f}", f"{worst:.0e}", str(len(each[0]))])
    return table(cells, ["data", *HEADS, "*published*", "our largest violation", "seeds"])


def main() -> None:
    from benchmarks.field2 import load

    PAGE.write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main()
