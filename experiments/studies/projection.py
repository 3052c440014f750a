"""Learned projection: one FC layer learns to move an image to the nearest point of the set (figures 3 and 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.errors import choose
from experiments.methods.base import Method
from experiments.report import figures, paper, tables
from experiments.report.groups import Group
from experiments.report.pages import Figure, Section
from experiments.report.sections import best_of_each, hard, narrow, ranked, shaded
from experiments.results import Run
from experiments.settings import TrainingSettings, as_dict, option
from experiments.studies import Job, Study, job
from experiments.training import Task, ending, train

OPTIMUM = 0.355553  # mean squared error per pixel of the exact projection of the 1000 validation images
PICTURES = 10
EXACT = 1000  # test images judged in rational arithmetic, which is slow


@dataclass(frozen=True)
class ProjectionSettings(TrainingSettings):
    """Learned projection: one FC layer learns to move an image into the set (figures 3 and 4)."""

    epochs: int = option(500, "passes over the training set")
    box_delay: int = option(25, "epochs before the box is added in training (method paper)")
    generators: str = option("ours", "lines and rays of a tile: ours or cddlib (method paper)", paper="cddlib")

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("generators", self.generators, ("ours", "cddlib"))


def paper_set() -> rh.Polyhedron:
    """The paper's set: 16 tiles of 7 x 7 pixels, dark and bright in turn on average, and pixels in [-1, 1]."""
    return rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)


class Projecting(Task):
    """Image in, nearby image of the set out; the loss is the mean squared error per pixel."""

    def __init__(self, method: Method, validation: Tensor) -> None:
        super().__init__()
        self.method = method
        self.validation = validation

    def network(self, images: Tensor) -> Tensor:
        return self.method(images.flatten(1))

    def forward(self, images: Tensor) -> Tensor:
        return self.method.training_loss(self.network(images), images, torch.nn.functional.mse_loss)

    def epoch_begins(self, epoch: int) -> None:
        self.method.epoch_begins(epoch)

    def evaluate(self) -> dict[str, float]:
        x = self.method.deliver(self.network(self.validation))
        measures = {"val_loss": self.loss(x), "violation": float(self.method.P.violation(x).max())}
        if not self.method.hard:  # outside the set a loss means little: that of the nearest points can be compared
            measures["projected_loss"] = self.loss(rh.project(self.method.P, x))
        return measures

    def loss(self, x: Tensor) -> float:
        """Of the activations for the validation set."""
        return float(torch.nn.functional.mse_loss(x, self.validation))


def build(settings: ProjectionSettings, validation: Tensor, P: rh.Polyhedron | None = None) -> Projecting:
    """The task of one run, its weights drawn from the seed."""
    P = paper_set() if P is None else P
    torch.manual_seed(settings.seed)
    return Projecting(methods.build(settings.method, P.dim, P, settings), validation)


def run(
    settings: ProjectionSettings,
    digits: Digits,
    run: Run,
    fabric: Any,
    quiet: bool = False,
    P: rh.Polyhedron | None = None,
) -> bool:
    """Train one method, and save its measures and its pictures of test images. False if it was stopped."""
    task = build(settings, digits.validation, P)
    label = f"{run.study}/{settings.method} seed {settings.seed}"
    if not train(task, (digits.train[: settings.samples],), settings, run, fabric, label, quiet):
        return False
    if run.writes:
        task.eval()
        with torch.no_grad():
            x = task.method.deliver(task.network(digits.test))
        run.save_tensors({"image": digits.test[:PICTURES], "x": x[:PICTURES]})
        run.finish(_summary(task, run, x, digits.test))
    return True


def _summary(task: Projecting, run: Run, x: Tensor, test: Tensor) -> dict[str, Any]:
    lines = run.metrics()
    P = task.method.P
    projected = [line["projected_loss"] for line in lines if "projected_loss" in line]
    return {
        **ending(run, run.settings),
        **({"best_projected_loss": min(projected)} if projected else {}),
        "best_val_loss": min(line["val_loss"] for line in lines),
        "last_val_loss": lines[-1]["val_loss"],
        "test_loss": float(torch.nn.functional.mse_loss(x, test)),
        "violation": float(P.violation(x).max()),
        "inside": float(P.contains(x).double().mean()),
        "inside_exactly": float(P.contains_exactly(x[:EXACT]).double().mean()),
        "parameters": sum(p.numel() for p in task.parameters()),
        "seconds": lines[-1]["seconds"],
    }


WHY = (
    "The paper trained for hundreds of epochs on a GPU and shows 10 runs; the settings in the table say how long ours "
    "were trained. The gap is that of the best epoch on the validation set, averaged over the runs, as in the paper. "
    "The optimum is the exact projection onto tiles and box: 0.35555 per pixel."
)


SMALL = (
    "These runs are on the few digits that ship with the repository and end after a few epochs, when the paper's layer "
    "has hardly begun to learn: its curve still falls steeply. Where it ends in full length stands below."
)


def section(groups: Sequence[Group]) -> Section:
    """Figures 3 and 4: convergence of the validation loss, and test images."""
    rows = ranked(groups)
    measured = next((g.spread("best_val_loss") for g in rows if g.method == "optimum"), None)
    optimum = measured.mean if measured else OPTIMUM
    text = [SMALL] if any(g.settings["dataset"] == "mnist-small" for g in rows) else []
    text += [WHY, "Settings of all rows: " + tables.settings_line(rows) + "."]
    made = Section("Learned projection (the paper's figures 3 and 4)", text, tables.projection(rows, optimum))
    curves = figure_3(hard(rows))
    if curves:
        drawing = figures.convergence(curves, "validation loss, mean squared error per pixel", optimum)
        caption = (
            f"Validation loss over epochs, and by how much it is above the optimum{shaded(curves)}: the paper's layer "
            "in its own settings, and the best group of each method. Hard methods only: outside the set a loss below "
            "the optimum means nothing."
        )
        made.figures.append(Figure("projection-convergence", caption, drawing))
    series = swept(rows, optimum)
    if series:
        drawing = figures.by_rate(series, "gap to the optimum, %", paper.PROJECTION_GAP_PERCENT)
        caption = (
            "The paper's layer over its range of learning rates, box after 25 epochs, annealed by 0.1: mean and "
            "standard deviation over the runs."
        )
        made.figures.append(Figure("projection-rates", caption, drawing))
    shown = best_of_each([group for group in rows if {"x", "image"} <= set(group.pictures)])
    if shown:
        columns = {narrow(group.label): group.pictures["x"] for group in shown}
        image = shown[0].pictures["image"]
        drawing = figures.side_by_side({"image": image, **columns}, rows=min(5, len(image)))
        caption = "Test images: the image, then what the best run of each method makes of it (black is -1, white is 1)."
        made.figures.append(Figure("projection-images", caption, drawing, photographs=True))
    return made


def figure_3(groups: Sequence[Group]) -> list[Group]:
    """The paper's layer in its own settings, with the box's delay and without, and the best group of each method."""
    best = {id(group) for group in best_of_each(groups)}
    return [group for group in groups if id(group) in best or _is_the_papers(group)]


def swept(groups: Sequence[Group], optimum: float) -> dict[str, list[tuple[float, float, float]]]:
    """Rate, gap and its deviation of the paper's layer in its own settings but for the rate, by its generators; {}
    where no more than one rate was run.
    """
    series: dict[str, list[tuple[float, float, float]]] = {}
    for group in groups:
        alike = _is_the_papers(group, but=("learning_rate", "generators")) and group.settings["box_delay"]
        found = tables.gap(group, optimum)
        if alike and found:
            name = "our generators" if group.settings["generators"] == "ours" else "cddlib's generators"
            series.setdefault(name, []).append((group.settings["learning_rate"], found.mean, found.std))
    return {name: points for name, points in series.items() if len(points) > 1}


def _is_the_papers(group: Group, but: Sequence[str] = ()) -> bool:
    own = as_dict(ProjectionSettings(method="paper"))
    names = {"method", "learning_rate", "schedule", "epochs", "generators", "dataset"}
    return all(group.settings.get(name) == own[name] for name in names.difference(but))


OURS: dict[str, Any] = {"epochs": 60, "learning_rate": 3e-3, "schedule": "cosine", "box_delay": 0}
SOFT = ("alternating", "lagrangian", "penalty")
BEST: dict[str, dict[str, Any]] = {
    "paper": {"learning_rate": 1e-3},  # the upper end of the paper's range of rates; ends annealed by epoch 150
    "optimum": {"epochs": 1},
    **dict.fromkeys(("constrained", "projection", "leak", "ttp", "unconstrained", *SOFT), OURS),
}


def demo() -> Iterator[Job]:
    """Six methods on the digits that ship with the repository, 12 epochs each."""
    small: dict[str, Any] = {"dataset": "mnist-small", "epochs": 12}
    for method in ("optimum", "ttp", "paper", "constrained", "projection", "penalty"):
        shorter = small | {"paper": {"box_delay": 4}, "optimum": {"epochs": 1}}.get(method, {})
        yield job("projection", ProjectionSettings(**{"method": method, **BEST[method], **shorter}), 4)


ANNEALED = 130  # epochs after which the paper's annealing has usually stopped a run
RATES = (1e-5, 3e-5, 3e-4, 1e-3)  # the paper's range, beside its own 1e-4


def reproduce(runs: int) -> Iterator[Job]:
    """Figure 3 with ``runs`` seeds: the paper's layer with and without the delay, test-time projection, ours and the
    nearest point; with three seeds a sweep of the rates, the halving schedule and the lines of its code, each alone and
    both, and the soft methods.
    """
    yield job("projection", ProjectionSettings(method="optimum", epochs=1), 20)
    for seed in range(runs):
        yield job("projection", ProjectionSettings(method="paper", seed=seed), ANNEALED * 6)
        yield job(
            "projection", ProjectionSettings(method="paper", seed=seed, box_delay=0), ANNEALED * 6, "paper-no-delay"
        )
        yield job("projection", ProjectionSettings(method="ttp", seed=seed), ANNEALED * 3)
        for method in ("constrained", "projection"):
            yield job("projection", ProjectionSettings(method=method, seed=seed, **OURS), 60 * 5)
    for seed in range(min(3, runs)):
        yield from _beside(seed)


def _beside(seed: int) -> Iterator[Job]:
    """What stands beside figure 3, for one seed."""
    for rate in RATES:
        other = ProjectionSettings(method="paper", seed=seed, learning_rate=rate)
        yield job("projection", other, ANNEALED * 6, f"paper-rate-{rate:g}")
    halving = ProjectionSettings(method="paper", seed=seed, schedule="halving")
    yield job("projection", halving, 220 * 6, "paper-halving")
    for rate in (1e-4, 1e-3):
        theirs = ProjectionSettings(method="paper", seed=seed, learning_rate=rate, generators="cddlib")
        yield job("projection", theirs, ANNEALED * 6, f"paper-cddlib-rate-{rate:g}")
    for generators in ("ours", "cddlib"):  # the authors' code trains all of its epochs
        code = ProjectionSettings(method="paper", seed=seed, schedule="halving-all", generators=generators)
        yield job("projection", code, 500 * 6, f"paper-authors-code-{generators}")
    for method in SOFT:
        yield job("projection", ProjectionSettings(method=method, seed=seed, **BEST[method]), 60 * 3)
    for method in ("penalty", "lagrangian"):  # a smaller weight: nearer to the images, further outside
        lighter = ProjectionSettings(method=method, seed=seed, penalty_weight=1.0, **BEST[method])
        yield job("projection", lighter, 60 * 3, f"{method}-weight-1")
    identity = {**OURS, "learning_rate": 1e-4, "epochs": 5, "start": "identity"}
    yield job("projection", ProjectionSettings(method="constrained", seed=seed, **identity), 25, "constrained-identity")


STUDY = Study(ProjectionSettings, run, section, best=BEST, demo=demo, reproduce=reproduce)
