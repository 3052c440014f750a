"""The learned projection on Fashion-MNIST: whether what the digits show holds for other images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.report import figures, tables
from experiments.report.groups import Group
from experiments.report.pages import Figure, Section
from experiments.report.sections import hard, ranked, shaded
from experiments.settings import option
from experiments.studies import Job, Study, job
from experiments.studies.projection import BEST, OURS, ProjectionSettings, run


@dataclass(frozen=True)
class FashionSettings(ProjectionSettings):
    """The learned projection on Fashion-MNIST."""

    dataset: str = option("fashion-mnist", "mnist, fashion-mnist, or mnist-small (ships with the repository)")


TEXT = (
    "Clothes in place of digits, everything else as in the learned projection. The optimum is that of these images, "
    "the row of the nearest point itself."
)


def section(groups: Sequence[Group]) -> Section:
    """The table of the learned projection with an optimum of its own, and the curves."""
    rows = ranked(groups)
    measured = next((g.spread("best_val_loss") for g in rows if g.method == "optimum"), None)
    optimum = measured.mean if measured else float("nan")
    table = [{k: v for k, v in row.items() if k != "paper"} for row in tables.projection(rows, optimum)]
    made = Section("The learned projection on Fashion-MNIST", [TEXT], table)
    curves = hard(rows)
    if curves:
        drawing = figures.convergence(curves, "validation loss", optimum if measured else None)
        caption = f"Validation loss over epochs, and by how much it is above the optimum{shaded(curves)}."
        made.figures.append(Figure("fashion", caption, drawing))
    return made


def reproduce(runs: int) -> Iterator[Job]:
    """The optimum, test-time projection and the paper's layer in its settings, and ours in its own; three seeds."""
    yield job("fashion", FashionSettings(method="optimum", epochs=1), 20)
    for seed in range(min(3, runs)):
        yield job("fashion", FashionSettings(method="ttp", seed=seed), 130 * 3)
        yield job("fashion", FashionSettings(method="constrained", seed=seed, **OURS), 60 * 5)
        yield job("fashion", FashionSettings(method="paper", seed=seed), 130 * 6)


STUDY = Study(FashionSettings, run, section, best=BEST, reproduce=reproduce)
