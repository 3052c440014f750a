"""The networks that the timing study times: trained a little, folded, with nothing left but the forward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from experiments.digits import Digits
from experiments.studies import projection, vae
from experiments.training import Task, batches, seed_everything

RATE = 1e-3


class _OneProcess:
    """What ``batches`` asks of an engine, for one process."""

    global_rank, world_size = 0, 1


def trained(model: str, method: str, settings: Any, digits: Digits) -> Task:
    """The study's network after ``training_epochs``, so that its outputs look like images."""
    common: dict[str, Any] = {"method": method, "seed": settings.seed, "dataset": settings.dataset, "box_delay": 0}
    task: Task
    if model == "projection":
        task = projection.build(projection.ProjectionSettings(**common), digits.validation)
    else:
        task = vae.build(vae.VaeSettings(**common), digits.validation)
    optimizer = torch.optim.Adam(task.parameters(), lr=RATE)
    for epoch in range(1, settings.training_epochs + 1):
        seed_everything(settings.seed, epoch)
        for places, _ in batches(len(digits.train), settings.batch_size, settings.seed, epoch, _OneProcess):
            optimizer.zero_grad()
            task(digits.train[places]).backward()
            optimizer.step()
    return task.eval()


def forward_pass(task: Any) -> nn.Sequential:
    """Image or latent point in, image out: the layers alone; ours folded, the paper's as the paper has it."""
    method, last = task.method, task.method.layer
    if method.name == "constrained":
        last.strict = False  # the paper's table compares the ordinary layer
        last = last.fold()
    first = task.trunk if hasattr(task, "trunk") else nn.Flatten()
    return nn.Sequential(first, last).eval()
