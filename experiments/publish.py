"""The numbers worth quoting, as one small JSON file for each study: what README and docs cite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from experiments.errors import ResultsError
from experiments.report import sections_of
from experiments.report.collect import Group, collect, mean_and_deviation
from experiments.report.pages import markdown_table
from experiments.report.tables import best
from experiments.results import explained, replace, write_json
from experiments.studies.projection import OPTIMUM

POINTS = 30  # of a published curve


def publish(out: Path, to: Path) -> list[Path]:
    """Write ``to``/STUDY.json for every study with results below ``out``."""
    studies = collect(out)
    if not studies:
        raise ResultsError(f"no results below {out}: run a study first, for example make demo.")
    written = []
    with explained(to):
        to.mkdir(parents=True, exist_ok=True)
        for study, groups in studies.items():
            numbers = timing(groups) if study == "timing" else {"groups": [_trained(group) for group in groups]}
            write_json(to / f"{study}.json", {"study": study, **numbers})
            written.append(to / f"{study}.json")
    return written


def fill(document: Path, out: Path) -> None:
    """Put each study's table into ``document``, between ``<!-- STUDY -->`` and ``<!-- end -->``."""
    text = document.read_text()
    for study, section in sections_of(out).items():
        first, last = f"<!-- {study} -->\n", "<!-- end -->"
        if first in text:
            head, rest = text.split(first, 1)
            text = f"{head}{first}{markdown_table(section.table)}\n{last}{rest.split(last, 1)[1]}"
    with explained(document.parent):
        replace(document, lambda new: new.write_text(text))


def _trained(group: Group) -> dict[str, Any]:
    """One method with one set of settings: mean and standard deviation over its runs, and its curve."""
    losses = group.curve("val_loss")
    summary = {key: _both(group.values(key)) for key in _common_keys(group)}
    entry = {
        "label": group.label,
        "settings": group.settings,
        "runs": group.runs,
        "finished_runs": len(group.summaries),
        "epochs_done": losses.shape[1],
        "best_val_loss": _both(best(group)),
        **({"gap_percent": _both(100 * (best(group) / OPTIMUM - 1))} if group.study == "projection" else {}),
        "seconds_an_epoch": _both(group.curve("seconds")[:, -1] / max(1, losses.shape[1])),
        "summary": summary,
    }
    return entry | {"val_loss": _thinned(losses)}


def _common_keys(group: Group) -> list[str]:
    if not group.summaries:
        return []
    numbers = (int, float)
    return [key for key, value in group.summaries[0].items() if isinstance(value, numbers)]


def _both(values: np.ndarray) -> dict[str, float]:
    mean, deviation = mean_and_deviation(values)
    return {"mean": _rounded(mean), "std": _rounded(deviation)}


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")  # more than the page shows, so that both round alike


def _thinned(curves: np.ndarray) -> dict[str, list[float]]:
    """The mean curve at no more than 30 epochs, the last among them."""
    epochs = np.unique(np.linspace(1, max(1, curves.shape[1]), POINTS).round().astype(int))
    mean = curves.mean(0)
    return {"epochs": epochs.tolist(), "mean": [_rounded(mean[e - 1]) for e in epochs if e <= len(mean)]}


def timing(groups: list[Group]) -> dict[str, Any]:
    """Seconds of each case, and the two ratios: to the unconstrained network, and of the OSQP loop to it."""
    entries = []
    for group in groups:
        lines = [line for run in group.metrics for line in run]
        middle = {(line["model"], line["label"]): float(np.median(line["seconds"])) for line in lines}
        cases = []
        for line in lines:
            mine, model = middle[line["model"], line["label"]], line["model"]
            free, loop = middle.get((model, "unconstrained")), middle.get((model, "ttp, OSQP loop"))
            cases.append(
                {
                    "model": model,
                    "label": line["label"],
                    "seconds": _both(np.array(line["seconds"])),
                    "median_seconds": _rounded(mine),
                    "repeats": len(line["seconds"]),
                    "times_the_unconstrained_network": _rounded(mine / free) if free else None,
                    "faster_than_the_osqp_loop": _rounded(loop / mine) if loop else None,
                }
            )
        entries.append({"settings": group.settings, "cases": cases, "machine": (group.summaries or [{}])[0]})
    return {"groups": entries}
