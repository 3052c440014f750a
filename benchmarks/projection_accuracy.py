"""Claim: every projection agrees with an independent exact solver to 1e-9 in float64.

``python -m benchmarks.projection_accuracy`` compares with DAQP, sample by sample (the simplex with its sorted
threshold), and writes results/projection_accuracy.json. It measures no time.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch

import rayhull as rh
from benchmarks import harness
from benchmarks.projection import Task, tasks

Array = np.ndarray[Any, Any]
FEWER = {"dense 200x500": 2}  # the exact solver needs 15 ms for each


def fresh(task: Task, n: int) -> Task:
    """n samples like those of the task: its points, each with new noise of the same size."""
    rng = np.random.default_rng(1)
    many = task.take(n)
    return Task(task.name, task.polyhedron, many.points + rng.standard_normal(many.points.shape), many.b_eq)


def compare(task: Task, n: int) -> dict[str, Any]:
    """The largest difference, the largest KKT residual and the largest violation over n samples."""
    task = fresh(task, n)
    sides = {} if task.b_eq is None else {"b_eq": torch.tensor(task.b_eq)}
    x = torch.tensor(task.points).reshape(n, *task.polyhedron.shape)
    z, info = rh.project(task.polyhedron, x, return_info=True, **sides)
    return {
        "samples": n,
        "difference": float(np.abs(z.reshape(n, -1).numpy() - task.exact()(task.points)).max()),
        "residual": float(info.residual.max()),
        "fallback": int(info.fallback.sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    samples = parser.parse_args().samples
    results = {}
    for task in tasks():
        results[task.name] = compare(task, max(1, samples // FEWER.get(task.name, 1)))
        print(task.name, results[task.name], flush=True)
    harness.save("projection_accuracy", {"results": results})


if __name__ == "__main__":
    main()
