"""In which coordinates a layer learns best: the free point is u = x0 + g T c, and c is what the last Linear gives.

    python -m benchmarks.learning_coordinates [--problems NAME ...] [--settings NAME ...] [--again]

What is varied, one at a time: the map (what auto takes, or the nearest point), the matrix T (units of the set
coordinate by coordinate as in the layer, round, or one unit for all), and the gain g, by which the first weights are
divided. Networks, rates and steps are those of benchmarks/learning.py, with three seeds. Only validation losses are
looked at, and written to the results file under "coordinates": settings may be chosen by them.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks.learning import PROBLEMS, load, make, store
from benchmarks.learning_data import SPLITS
from benchmarks.learning_problem import Problem
from benchmarks.learning_training import RATES, Stack, points, train
from benchmarks.learning_ways import WIDTH, Head, after_linear
from rayhull.nn.base_point import coordinates_at, seen_from_inside
from rayhull.nn.directions import Direction
from rayhull.sets.rows import Array

SEEDS = (1, 2, 3)
NEAREST = (("method", "projection"),)


def one_unit(matrix: Array) -> Array:
    """s I, s the root mean square of the round coordinates' singular values: one unit for all directions."""
    return np.asarray(np.eye(len(matrix)) * np.sqrt(np.square(matrix).sum() / len(matrix)))


@dataclass(frozen=True)
class Setting:
    """T from the matrix of the round coordinates (None: as the layer has it), the gain g, and the way."""

    shape: Callable[[Array], Array] | None = None
    gain: float = 1.0
    options: tuple[tuple[str, Any], ...] = ()

    def head(self, problem: Problem) -> Head:
        varies = None if "method" in dict(self.options) else problem.varies
        layer = rh.Constrained(WIDTH, problem.P, varies=varies, **dict(self.options))
        turn = torch.as_tensor(self._turn(layer), dtype=torch.float32)
        training, evaluation = after_linear(layer), after_linear(layer.eval())
        return Head(
            self._start(layer),
            lambda c, **sides: training(c @ turn, **sides),
            lambda c, **sides: evaluation(c @ turn, **sides),
        )

    def _turn(self, layer: rh.Constrained) -> Array:
        """g T over the units that the layer itself has: what c is multiplied with in front of it."""
        (part,) = layer.map.parts
        if self.shape is None:
            return self.gain * np.eye(part.size)
        P = part.polyhedron
        wanted = self.shape(_dense(coordinates_at(P, seen_from_inside(P), 1.0)))
        return np.asarray(self.gain * wanted @ np.linalg.pinv(_own(part.direction)))

    def _start(self, layer: rh.Constrained) -> Callable[[int], tuple[Tensor, Tensor]]:
        def start(seed: int) -> tuple[Tensor, Tensor]:
            torch.manual_seed(seed)
            layer.reset_parameters()
            return layer.linear.weight.detach() / self.gain, layer.linear.bias.detach().clone()

        return start


def _own(direction: Direction) -> Array:
    """The matrix (n, n) of a direction's own coordinates."""
    return _dense(direction.exact["units" if "units" in direction.exact else "matrix"])


def _dense(matrix: Array) -> Array:
    return np.diag(matrix) if matrix.ndim == 1 else matrix


SETTINGS: dict[str, Setting] = {
    "as it is": Setting(),
    "round": Setting(np.asarray),
    "one unit": Setting(one_unit),
    "gain 10": Setting(gain=10),
    "10 steps": Setting(options=(("approach", 10),)),
    "80 steps": Setting(options=(("approach", 80),)),
    "nearest": Setting(options=NEAREST),
    "nearest, round": Setting(np.asarray, options=NEAREST),
    "nearest, one unit": Setting(one_unit, options=NEAREST),
    "nearest, round, gain 10": Setting(np.asarray, gain=10, options=NEAREST),
}


def validation(problem: Problem, setting: Setting) -> dict[str, float]:
    """The median over seeds of the validation loss, at the best rate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head = setting.head(problem)
    losses = _losses(problem, head, train(problem, head, problem.steps, SEEDS))
    medians = {rate: statistics.median(losses[rate]) for rate in RATES}
    rate = min(medians, key=lambda r: medians[r])
    return {"loss": medians[rate], "rate": rate, "spread": max(losses[rate]) - min(losses[rate])}


@torch.no_grad()
def _losses(problem: Problem, head: Head, stack: Stack) -> dict[float, list[float]]:
    x = problem.inputs["val"].expand(len(stack.each), -1, -1)
    y, _ = points(problem, head.evaluation, stack(x), x)
    found = problem.loss(y, problem.data["val"]).mean(-1).nan_to_num(torch.inf, torch.inf)
    return {rate: [float(v) for v, (own, _) in zip(found, stack.each, strict=True) if own == rate] for rate in RATES}


def over_splits(name: str, setting: Setting) -> dict[str, float]:
    """The median over the splits of a data set."""
    rows = [validation(make(name, split), setting) for split in range(SPLITS.get(name, 1))]
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=PROBLEMS, metavar="NAME")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), choices=SETTINGS, metavar="NAME")
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for name in chosen.problems:
        for label in chosen.settings:
            if label in load().get("coordinates", {}).get(name, {}) and not chosen.again:
                continue
            begun = time.process_time()
            row = over_splits(name, SETTINGS[label])
            page = load()
            page.setdefault("coordinates", {}).setdefault(name, {})[label] = row
            store(page)
            print(f"{name:18} {label:28} {row['loss']:.6g} ± {row['spread']:.2g} at {row['rate']:g}", flush=True)
            print(f"   {time.process_time() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
