"""Claim: a network is trained through the nearest point at the cost of a second, cheaper pass.

``python -m benchmarks.projection_backward`` times forward passes and forward passes with their backward on the problems
of ``benchmarks.projection``, beside the differentiable layers of others, and writes results/projection_backward.json
and .md. Processor time of one thread, batch 256; layers that are slow get fewer samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import rayhull as rh
from benchmarks import harness, peers
from benchmarks.projection import LARGE, OURS, Task, tasks

GOALS = {"sample-wise b": 150}  # DC3's set: 100 variables, 50 equalities of the sample, 50 inequalities
Layer = Callable[[torch.Tensor], torch.Tensor]  # differentiable, points (n, d) to points
WAYS: list[tuple[str, Callable[[rh.Polyhedron], torch.nn.Module], int, set[str]]] = [
    (OURS, rh.Projection, 256, set()),
    ("qpth", peers.Qpth, 8, LARGE),
    ("Moreau", peers.Moreau, 64, set()),
    ("cvxpylayers", peers.CvxpyLayers, 2, LARGE),
    ("cvxpylayers with Moreau", partial(peers.CvxpyLayers, solver="MOREAU"), 16, LARGE),
]


def measure(task: Task, rounds: int) -> dict[str, Any]:
    """Seconds of a forward pass, and of one with its backward, for every differentiable way on one problem."""
    cases: dict[str, Callable[[], object]] = {}
    samples, gradients = {}, {}
    left_out: dict[str, str] = {}
    for name, build, count, too_slow in WAYS:
        if task.name in too_slow:
            continue
        try:
            layer, x = task.layer(build(task.polyhedron)), torch.tensor(task.points[:count])
            gradients[name] = forward_and_back(layer, x)[:2]
        except Exception as error:  # a peer that cannot is a result, not an end
            left_out[name] = peers.reason(error)
            continue
        cases[f"{name}, forward"], cases[f"{name}, both"] = partial(layer, x), partial(forward_and_back, layer, x)
        samples[name] = count
    timed = harness.interleave(cases, rounds=rounds, least_seconds=0.01, most_seconds=1.0, clock=time.process_time)
    return {
        name: {
            "forward": timed[f"{name}, forward"],
            "both": timed[f"{name}, both"],
            "samples": count,
            "difference": float((gradients[name] - gradients[OURS]).abs().max()),
        }
        for name, count in samples.items()
    } | {name: {"left out": why} for name, why in left_out.items()}


def forward_and_back(layer: Layer, points: torch.Tensor) -> torch.Tensor:
    """The gradient of half the squared length of the nearest points."""
    x = points.clone().requires_grad_()
    z = layer(x)
    (gradient,) = torch.autograd.grad(z, x, z.detach())
    return gradient


def table(results: dict[str, dict[str, Any]]) -> str:
    """One row a problem: microseconds a sample forwards, with the backward, and of the best peer."""
    rows = []
    for problem, ways in results.items():
        cost = {
            k: [1e6 * r[part].median / r["samples"] for part in ("forward", "both")]
            for k, r in ways.items()
            if "both" in r
        }
        forward, both = cost.pop(OURS)
        row = [problem, f"{forward:.3g}", f"{both:.3g}", f"{GOALS[problem]}" if problem in GOALS else ""]
        peer = min(cost, key=lambda k: cost[k][1], default="")
        row += [f"{cost[peer][1]:.0f} ({peer})", f"{cost[peer][1] / both:.0f}x"] if peer else ["", ""]
        rows.append(row)
    header = ["problem", "forward, us", "forward and backward, us", "goal", "best other layer, both, us", "gain"]
    return harness.table(rows, header)


def main() -> None:
    options = harness.options(__doc__)
    torch.set_num_threads(1)
    results = {}
    for task in tasks():
        if not options.only or task.name in options.only:
            results[task.name] = measure(task, options.rounds)
            print(
                task.name,
                {k: r.get("difference", r.get("left out")) for k, r in results[task.name].items()},
                flush=True,
            )
    text = table(results)
    print(text)
    if not options.only:
        path = harness.save("projection_backward", {"goals": GOALS, "results": results})
        path.with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
