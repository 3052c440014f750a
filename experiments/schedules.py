"""Learning-rate schedules: one small class, told of each step and each epoch."""

from __future__ import annotations

import math
from typing import Any

import torch

PATIENCE = 5  # epochs without progress that a plateau schedule bears
PLATEAU = {  # factor, and epochs of rest after a cut in which nothing is counted
    "plateau": (0.1, 0),  # the paper's text on its two studies
    "halving": (0.5, 5),  # the paper's text on all networks
    "halving-all": (0.5, 5),  # its published code: no run ends before its last epoch
}
SMALLEST = 1e-8  # of a cut, as torch has it: the rate of a run that goes on ends at about this size
STOPPED = 1e-7  # a rate below this moves no weight that is of order 1 in float32
WARM_UP = 0.02  # share of all steps in which the cosine schedule rises from 0


class Schedule:
    """Sets the optimizer's learning rate.

    Args:
        optimizer: whose rate is set.
        kind: ``plateau`` (times 0.1 after 5 epochs without progress), ``halving`` (times 0.5, then 5 epochs of rest),
            ``halving-all`` (the same, all epochs trained), ``cosine`` (warm-up, then down to 0) or ``constant``.
        steps: how many optimizer steps the whole run takes.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, kind: str, steps: int) -> None:
        self.optimizer, self.kind, self.steps = optimizer, kind, steps
        self.base = optimizer.param_groups[0]["lr"]
        self.step = 0
        self.best = math.inf
        self.waited = 0
        self.set_rate(self.rate())

    def rate(self) -> float:
        """The learning rate of the next step."""
        if self.kind != "cosine":
            return float(self.optimizer.param_groups[0]["lr"])
        rising = max(1, round(WARM_UP * self.steps))
        if self.step < rising:
            return self.base * (self.step + 1) / rising
        share = (self.step - rising) / max(1, self.steps - rising)
        return self.base * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))

    @property
    def has_stopped(self) -> bool:
        """Whether annealing has brought the rate so low that nothing changes any more."""
        return self.kind in ("plateau", "halving") and self.rate() < STOPPED

    def set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def after_step(self) -> None:
        self.step += 1
        if self.kind == "cosine":
            self.set_rate(self.rate())

    def after_epoch(self, val_loss: float) -> None:
        """Count epochs without progress; torch's rule: better means by a relative 1e-4. Below 0 the count is a rest."""
        if self.kind not in PLATEAU:
            return
        progress = val_loss < self.best * (1 - 1e-4)
        if progress:
            self.best = val_loss
        self.waited = self.waited + 1 if self.waited < 0 or not progress else 0
        if self.waited > PATIENCE:
            factor, rest = PLATEAU[self.kind]
            if self.kind != "halving-all" or self.rate() * (1 - factor) > SMALLEST:
                self.set_rate(self.rate() * factor)
            self.waited = -rest

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "best": self.best, "waited": self.waited, "rate": self.rate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.best, self.waited = state["step"], state["best"], state["waited"]
        self.set_rate(state["rate"])
