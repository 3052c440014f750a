"""The training loop. It knows a task (a module that gives the loss of a batch) and nothing of constraints."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from experiments.errors import ResultsError
from experiments.progress import Progress
from experiments.results import Run
from experiments.schedules import Schedule

Data = tuple[Tensor, ...]


class Task(nn.Module):
    """What the loop trains: ``task(*batch)`` is the mean loss of a batch."""

    def epoch_begins(self, epoch: int) -> None:
        """Called before each epoch, counted from 1: the place for a study's own schedule."""

    def step_ended(self) -> None:
        """Called after each step of the optimizer."""

    def evaluate(self) -> dict[str, float]:
        """Measures on the validation set, ``val_loss`` among them. Called in evaluation mode, without gradients."""
        raise NotImplementedError


@dataclass
class Stop:
    """Set by Ctrl-C or SIGTERM: the loop ends after the step under way."""

    asked: bool = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def train(task: Task, data: Data, settings: Any, run: Run, fabric: Any, label: str = "", quiet: bool = False) -> bool:
    """Train for ``settings.epochs``, from the run's last checkpoint on; False if it was asked to stop before the end.

    A run whose learning rate has been annealed below 1e-7 changes nothing any more and ends there (see ``ending``).

    Every epoch draws its order and noise from (seed, epoch) alone, so a run that was broken off gives the same numbers
    as one that was not.
    """
    steps = -(-len(data[0]) // settings.batch_size)
    optimizer = torch.optim.Adam(task.parameters(), lr=settings.learning_rate, fused=True)
    schedule = Schedule(optimizer, settings.schedule, steps * settings.epochs)
    state = run.restore()
    if state is not None:
        try:
            task.load_state_dict(state["task"])
        except RuntimeError as error:
            raise ResultsError(
                f"the checkpoint in {run.folder} is of another network, perhaps of another version of this code: move "
                f"it away, or give --name another folder. ({str(error).splitlines()[-1].strip()})"
            ) from error
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
    done = 0 if state is None else state["epoch"]
    spent = 0.0 if state is None else state["seconds"]
    wrapped, optimizer = fabric.setup(task, optimizer)
    schedule.optimizer = optimizer
    progress = Progress(settings.epochs * steps, label, quiet, done * steps)
    with _stop_politely(fabric.world_size) as stop:
        for epoch in range(done + 1, settings.epochs + 1):
            if schedule.has_stopped:
                break
            began = time.perf_counter()
            loss = _epoch(wrapped, task, optimizer, schedule, data, settings, epoch, fabric, progress, stop)
            if stop.asked:
                return False
            measures = fabric.broadcast(_evaluate(task))
            spent += time.perf_counter() - began
            rate = schedule.rate()
            schedule.after_epoch(measures["val_loss"])
            run.record({"epoch": epoch, "train_loss": loss, **measures, "learning_rate": rate, "seconds": spent})
            run.save(_state(task, optimizer, schedule, epoch, spent))
            progress.advance(0, note=_note(measures))
    return True


def ending(run: Run, settings: Any) -> dict[str, Any]:
    """How many epochs were trained, and why no more: for the summary of a run."""
    done = len(run.metrics())
    return {"epochs_done": done, "ended": "all epochs" if done == settings.epochs else "annealed below 1e-7"}


def _epoch(
    wrapped: Any, task: Task, optimizer: Any, schedule: Schedule, data: Data, settings: Any, epoch: int, fabric: Any,
    progress: Progress, stop: Stop,
) -> float:  # fmt: skip
    """One pass over the data; the mean training loss over all processes."""
    seed_everything(settings.seed, epoch, fabric.global_rank)
    task.train()
    task.epoch_begins(epoch)
    total = torch.zeros(2, device=data[0].device)
    for places, share in batches(len(data[0]), settings.batch_size, settings.seed, epoch, fabric):
        loss = wrapped(*(part[places] for part in data))
        fabric.backward(loss * share)  # share: makes the mean over processes the mean over the whole batch
        optimizer.step()
        optimizer.zero_grad()
        task.step_ended()
        schedule.after_step()
        total += torch.stack([loss.detach() * len(places), loss.new_tensor(float(len(places)))])
        progress.advance(1)
        if stop.asked:
            return float("nan")
    total = fabric.all_reduce(total, reduce_op="sum")
    return float(total[0] / total[1])


def batches(n: int, size: int, seed: int, epoch: int, fabric: Any) -> Iterator[tuple[Tensor, float]]:
    """This process's part of each batch, and its size over the mean size of a part."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(_mixed(seed, epoch)))
    rank, world = fabric.global_rank, fabric.world_size
    for first in range(0, n, size):
        whole = order[first : first + size]
        mine = whole[rank::world]
        if len(whole) >= world:  # every process has a part
            yield mine, len(mine) * world / len(whole)


def seed_everything(seed: int, epoch: int, rank: int = 0) -> None:
    """Noise of an epoch: from (seed, epoch, rank), whatever ran before."""
    torch.manual_seed(_mixed(seed, epoch) + rank)


def _mixed(seed: int, epoch: int) -> int:
    return (seed * 1_000_003 + epoch) * 1009 % (2**62)


def _evaluate(task: Task) -> dict[str, float]:
    task.eval()
    with torch.no_grad():
        return task.evaluate()


def _state(task: Task, optimizer: Any, schedule: Schedule, epoch: int, seconds: float) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "seconds": seconds,
        "task": task.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
    }


def _note(measures: dict[str, float]) -> str:
    return " ".join(f"{name} {measures[name]:.3g}" for name in ("val_loss", "violation") if name in measures)


class _stop_politely:
    """Ctrl-C and SIGTERM end the loop after the step under way; a second Ctrl-C ends it at once.

    Several processes wait for each other in every step, so there the signal ends them at once.
    """

    def __init__(self, processes: int) -> None:
        self.signals = (signal.SIGINT, signal.SIGTERM) if processes == 1 else ()

    def __enter__(self) -> Stop:
        self.stop = Stop()
        self.before: dict[int, Any] = {}
        for number in self.signals:
            try:
                self.before[number] = signal.signal(number, self.stop)
            except ValueError:  # not the main thread: nothing to catch
                break
        return self.stop

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
