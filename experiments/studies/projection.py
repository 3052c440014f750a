"""Learned projection: one FC layer learns to move an image to the nearest point of the set (figures 3 and 4)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.methods.base import Method
from experiments.results import Run
from experiments.settings import ProjectionSettings
from experiments.training import Task, train

OPTIMUM = 0.355553  # mean squared error per pixel of the exact projection of the 1000 validation images
PICTURES = 10
EXACT = 1000  # test images judged in rational arithmetic, which is slow


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
        return {
            "val_loss": float(torch.nn.functional.mse_loss(x, self.validation)),
            "violation": float(self.method.P.violation(x).max()),
        }


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
    return {
        "best_val_loss": min(line["val_loss"] for line in lines),
        "last_val_loss": lines[-1]["val_loss"],
        "test_loss": float(torch.nn.functional.mse_loss(x, test)),
        "violation": float(P.violation(x).max()),
        "inside": float(P.contains(x).double().mean()),
        "inside_exactly": float(P.contains_exactly(x[:EXACT]).double().mean()),
        "parameters": sum(p.numel() for p in task.parameters()),
        "seconds": lines[-1]["seconds"],
    }
