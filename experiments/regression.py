"""A small regression with outputs in a set: what the small studies share. Network FC-ReLU-method, squared error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from experiments.methods.base import Method
from experiments.results import Run
from experiments.training import Data, Task, ending, train

WIDTH = 128


class Regression(Task):
    """Inputs (n, k) to points of the set near the targets (n, event shape)."""

    def __init__(self, method: Method, trunk: nn.Module, validation: Data) -> None:
        super().__init__()
        self.trunk, self.method, self.validation = trunk, method, validation

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.method.training_loss(self.method(self.trunk(inputs)), targets, nn.functional.mse_loss)

    def epoch_begins(self, epoch: int) -> None:
        self.method.epoch_begins(epoch)

    def evaluate(self) -> dict[str, float]:
        inputs, targets = self.validation
        x = self.method.deliver(self.method(self.trunk(inputs)))
        return {
            "val_loss": float(nn.functional.mse_loss(x, targets)),
            "violation": float(self.method.P.violation(x).max()),
        }


def trunk(inputs: int, width: int = WIDTH) -> nn.Sequential:
    """FC-ReLU."""
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU())


def fit(
    task: Regression,
    data: Data,
    settings: Any,
    run: Run,
    fabric: Any,
    quiet: bool,
    beside: Mapping[str, float] | None = None,
) -> bool:
    """Train and save the measures of the last epoch, and what was measured ``beside``. False if it was stopped."""
    if not train(task, data, settings, run, fabric, f"{run.study}/{settings.method} seed {settings.seed}", quiet):
        return False
    if run.writes:
        last = run.metrics()[-1]
        parameters = sum(p.numel() for p in task.parameters())
        run.finish(
            {**last, **ending(run, settings), "parameters": parameters, "optimum": optimum(task), **(beside or {})}
        )
    return True


def optimum(task: Regression) -> float:
    """The loss of the nearest points of the targets themselves: no method can do better on every sample."""
    import rayhull as rh

    targets = task.validation[1]
    return float(nn.functional.mse_loss(rh.project(task.method.P, targets), targets))


def generator(seed: int) -> torch.Generator:
    """For a study's data: the same for every method and every seed of training."""
    return torch.Generator().manual_seed(seed)
