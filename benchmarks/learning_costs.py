"""What a way costs in the learning benchmark: a training step and the inference, for a machine that is quiet.

    python -m benchmarks.learning_costs [--problems NAME ...] [--methods NAME ...]

A step is one network forwards and backwards at batch 64, without the optimizer; inference is the last Linear and the
map into the set, folded where the layer folds. Written beside the losses, to benchmarks/results/learning.json.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.learning import PROBLEMS, load, make, store
from benchmarks.learning_problem import Problem
from benchmarks.learning_training import BATCH, RATES, SEEDS, Stack, points
from benchmarks.learning_ways import METHODS, WIDTH, Head
from benchmarks.peers import NotForThisSet

TIMED = ("auto", "shrink", "nearest", "RAYEN", "HardNet-Aff", "free, then project")


def cost(problem: Problem, method: str) -> dict[str, float] | None:
    """Milliseconds of a training step, microseconds a sample of the inference; None where the way has no answer."""
    try:
        head = METHODS[method](problem)
    except (NotForThisSet, ImportError):
        return None
    stack = Stack(problem.inputs["train"].shape[1], head, RATES[:1], SEEDS[:1])
    x, data = problem.inputs["train"][None, :BATCH], problem.data["train"][None, :BATCH]

    def step() -> None:
        y, _ = points(problem, head.training, stack(x), x)
        problem.loss(y, data).mean().backward()

    sides = {} if problem.sides is None else problem.sides(x[0])
    features = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(0))
    infer = _inference(head, features, sides)
    with torch.no_grad():
        inference = _best_of_five(infer)
    return {"step": 1e3 * _best_of_five(step), "inference": 1e6 * inference / BATCH}


def _inference(head: Head, features: Tensor, sides: dict[str, Tensor]) -> Callable[[], Tensor]:
    """The last Linear and the map, folded where ours is asked; a set that follows the sample does not fold."""
    if head.layer is not None:
        layer = head.layer if sides else head.layer.fold()
        return lambda: layer(features, **sides)
    weight, bias = head.start(SEEDS[0])
    return lambda: head.evaluation(torch.nn.functional.linear(features, weight, bias), **sides)


def _best_of_five(call: Callable[[], Any]) -> float:
    """Seconds of a call: the best of five means of ten, after one that is not counted."""
    call()
    return min(_seconds(call) for _ in range(5))


def _seconds(call: Callable[[], Any], repeats: int = 10) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def measure_costs(problems: Sequence[str], methods: Sequence[str]) -> None:
    """Costs of every pair, for a machine on which nothing else runs."""
    for name in problems:
        problem = make(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {method: cost(problem, method) for method in methods}
        page = load()
        page.setdefault("costs", {}).setdefault(name, {}).update({k: v for k, v in found.items() if v is not None})
        store(page)
        print(name, {k: {n: round(x, 2) for n, x in v.items()} for k, v in found.items() if v}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=PROBLEMS, metavar="NAME")
    parser.add_argument("--methods", nargs="*", default=list(TIMED), choices=METHODS, metavar="NAME")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    measure_costs(chosen.problems, chosen.methods)


if __name__ == "__main__":
    main()
