"""Four problems of the learning benchmark in hundreds of coordinates, on which nothing was tuned.

Targets are the nearest points of smooth functions that leave the set, so that many rows and bounds are active.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import scale
from benchmarks.learning_made import nearest, regression, smooth
from benchmarks.learning_problem import Problem


def around(task: scale.Task, seed: int) -> Problem:
    s = smooth(np.random.default_rng(seed), task.polyhedron.dim)
    return regression(task.polyhedron, nearest(task.polyhedron, lambda X: task.around + 2 * task.spread * s(X)), seed)


LARGE: dict[str, Callable[[], Problem]] = {
    "storage over a week": lambda: around(scale.storage(168), 50),
    "ramps over a month": lambda: around(scale.ramps(672), 51),
    "flow of 600 edges": lambda: around(scale.flow(200, 600), 52),
    "dispatch, 300 buses": lambda: around(scale.dispatch("case300_ieee"), 53),
}
