"""The paper's section on related work as one table: where each method ends, how far outside, what training costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from experiments.report import tables
from experiments.report.groups import Group
from experiments.report.sections import best_of_each, is_hard, ranked
from experiments.report.style import full_name

Studies = Mapping[str, Sequence[Group]]
SHOWN = {  # study: its title in the table, the size of image at which its steps are timed, methods
    "projection": ("learned projection", "28 x 28", ("penalty", "lagrangian", "alternating", "ttp", "paper")),
    "optnet": ("the same at 8 x 8", "8 x 8", ("optnet",)),
    "simplex": ("shares that sum to one", "", ("projection", "penalty", "softmax")),
}
OURS = ("constrained",)
NAMES = {("simplex", "projection"): "nearest point of the simplex (Briq et al.)"}


def related(studies: Studies, optimum: float) -> tables.Table:
    """One row a method, ours last in each study."""
    return [row for study in SHOWN if study in studies for row in _rows(study, studies, optimum)]


def _rows(study: str, studies: Studies, optimum: float) -> Iterator[dict[str, str]]:
    title, size, methods = SHOWN[study]
    for group in _shown(studies[study], (*methods, *OURS)):
        bound = optimum if study == "projection" else _bound(group)
        yield {
            "study": title,
            "method": _name(group),
            "hard": "yes" if is_hard(group.method) else "no",
            "runs": str(group.runs),
            "validation loss": tables.spread(group.spread("best_val_loss"), ".5f"),
            "gap to the optimum": _gap(group, bound, "best_val_loss"),
            "gap, outputs projected": _gap(group, bound, "best_projected_loss"),
            "largest violation": tables.largest(group.summary("violation")),
            "training step, times the free network": tables.times(_cost(studies, size, group.method)),
        }


def _shown(groups: Sequence[Group], methods: Sequence[str]) -> list[Group]:
    """Of a hard method its best group; of a soft one all, since a smaller loss comes with a larger violation."""
    best = best_of_each(groups)
    return [
        group
        for method in methods
        for group in ranked(groups)
        if group.method == method and (group in best or not is_hard(method))
    ]


def _name(group: Group) -> str:
    """The method as related work calls it; of a soft one with its weight, of a hard one without its settings."""
    own = NAMES.get((group.study, group.method), full_name(group.method))
    return own if is_hard(group.method) else group.label


def _bound(group: Group) -> float | None:
    """The loss of the targets' own nearest points; None where the targets are inside."""
    found = group.summary("optimum")
    return found.mean if found and found.mean > 1e-9 else None


def _gap(group: Group, optimum: float | None, key: str) -> str:
    loss = group.spread(key) or group.summary(key)
    if loss is None or optimum is None:
        return "–"
    return f"{tables.spread(tables.above(loss, optimum), '.2f')} %"


def _cost(studies: Studies, size: str, method: str) -> float | None:
    """How many times as long a training step takes as that of the unconstrained network."""
    for group in studies.get("steps", ()):
        for case in group.numbers["cases"]:
            if (case["model"], case["method"]) == (size, method):
                return float(case["times_the_unconstrained_network"])
    return None
