"""Claim: closed forms, then gradient steps, block pivots and an exact active-set method are the right order.

``python -m benchmarks.projection_choices`` times our own solvers against each other on the problems of
``benchmarks.projection`` and writes results/projection_choices.json and .md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch

import rayhull as rh
from benchmarks import harness
from benchmarks.projection import Task, tasks
from rayhull.projection.solvers import any_rows

BATCH = 64


def variant(task: Task, solver: str = "auto", **constants: int) -> tuple[Callable[[], object], float]:
    """One way of solving the task's first samples, and its mean number of steps."""
    module = rh.Projection(task.polyhedron, solver=solver)
    for block in module.projector.plan():
        if isinstance(block.solver, any_rows.ActiveSet):
            most = block.solver.gradient_steps
            block.solver.gradient_steps = min(most, constants.get("gradient", most))
    x = torch.tensor(task.points[:BATCH]).reshape(-1, *task.polyhedron.shape)
    sides = {} if task.b_eq is None else {"b_eq": torch.tensor(task.b_eq[:BATCH])}

    def run() -> Any:
        with mock.patch.object(any_rows, "PIVOTS", constants.get("pivots", any_rows.PIVOTS)):
            return module(x, return_info=True, **sides)[1]

    return run, float(run().steps.double().mean())


VARIANTS: dict[str, Callable[[Task], tuple[Callable[[], object], float]]] = {
    "auto": variant,
    "active set": partial(variant, solver="active set"),
    "active set, no first guess": partial(variant, solver="active set", gradient=0),
    "exact method alone": partial(variant, solver="active set", gradient=0, pivots=0),
    "batched dual Newton": partial(variant, solver="dual"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for task in tasks():
        made = {name: build(task) for name, build in VARIANTS.items()}
        timed = harness.interleave({k: run for k, (run, _) in made.items()}, rounds=rounds, most_seconds=2.0)
        results[task.name] = {k: {"seconds": t, "samples": BATCH, "steps": made[k][1]} for k, t in timed.items()}
        print(task.name, {k: f"{t.median / BATCH * 1e6:.1f} us" for k, t in timed.items()}, flush=True)
    rows = [
        [name, *(f"{ways[k]['seconds'].median / BATCH * 1e6:.1f} ({ways[k]['steps']:.0f})" for k in VARIANTS)]
        for name, ways in results.items()
    ]
    text = harness.table(rows, ["us a sample (steps)", *VARIANTS])
    print(text)
    harness.save("projection_choices", {"results": results}).with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
