"""Claim: the nearest point at hundreds of times the speed of a solver loop, exact to 1e-9.

``python -m benchmarks.projection`` times every way on every problem, interleaved, and writes results/projection.json,
projection.md and projection.svg. One thread is timed by its processor time, two by the clock. Peers that are not
installed are left out, and those that are slow get fewer samples.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a shared machine, waiting threads must not spin

import numpy as np
import torch

import rayhull as rh
from benchmarks import harness, plots
from benchmarks import projection_peers as peers
from benchmarks.projection_peers import Task

Array = np.ndarray[Any, Any]
PAPER = "OSQP, the paper's loop"
OURS = "rayhull"
GOALS = {
    **{"checkerboard": 400, "noisy checkerboard": 450, "monotone 100": 300, "convex 100": 50},
    **{"dense 50x100": 20, "dense 200x500": 80},
}


def tasks() -> Iterator[Task]:
    rng = np.random.default_rng(0)
    board = rh.checkerboard((28, 28), (4, 4)) & rh.box(-1, 1)
    images = digits(256)
    yield Task("checkerboard", board, images)
    yield Task("noisy checkerboard", board, images + rng.standard_normal(images.shape))
    yield Task("monotone 100", rh.monotone(100), rng.standard_normal((256, 100)))
    curve = np.linspace(-1, 1, 100) ** 2
    yield Task("convex 100", rh.convex(100), curve + 0.3 * rng.standard_normal((256, 100)))
    for m, d in ((50, 100), (200, 500)):
        P = rh.Polyhedron(rng.standard_normal((m, d)), np.ones(m), lower=-1, upper=1)
        yield Task(f"dense {m}x{d}", P, 1.5 * rng.standard_normal((256, d)))
    yield Task("simplex 1000", rh.simplex(1000), rng.standard_normal((256, 1000)))
    edges = np.sort(rng.integers(0, 100, (150, 2)), axis=1)
    edges = np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)
    yield Task("partial order 100", rh.ordered(edges.tolist(), 100), rng.standard_normal((256, 100)))
    A, E = rng.standard_normal((50, 100)), rng.standard_normal((50, 100))
    b_eq = rng.standard_normal((256, 50))
    yield Task("sample-wise b", rh.Polyhedron(A, np.ones(50), E, np.zeros(50)), rng.standard_normal((256, 100)), b_eq)
    grid = rh.ordered(None, (12, 12)) & rh.box(0, 1)
    yield Task("grid order in a box", grid, 0.5 + 0.5 * rng.standard_normal((256, 144)))


def digits(n: int) -> Array:
    """The first MNIST images, pixels in [-1, 1]; blurred noise where the files are not at hand."""
    for folder in (os.environ.get("MNIST", ""), "data/mnist", "../shared/mnist"):
        for path in sorted(Path(folder).glob("train-images*")) if folder else ():
            import gzip

            raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            return np.frombuffer(raw, np.uint8, n * 784, 16).reshape(n, 784) / 127.5 - 1
    return np.clip(np.random.default_rng(0).standard_normal((n, 784)), -1, 1)


# name, builder, samples in a call at batch 256, problems left out (too slow, or cannot)
IMAGES = {"checkerboard", "noisy checkerboard"}
SLOW = {"dense 200x500", "grid order in a box"}  # a thousand samples are many
LARGE = IMAGES | SLOW | {"simplex 1000"}
ALONE = 16  # samples at batch 1, the same for every way: some take longer than others
WAYS: list[tuple[str, Callable[[Task], peers.Solve], int, set[str]]] = [
    (OURS, peers.ours, 256, set()),
    (PAPER, partial(peers.loop, solver="osqp"), 16, set()),
    ("OSQP tuned", partial(peers.loop, solver="osqp", eps_abs=1e-4, eps_rel=1e-4, check_termination=5), 16, set()),
    ("DAQP", partial(peers.loop, solver="daqp"), 8, {"noisy checkerboard", "simplex 1000"}),
    ("PIQP", partial(peers.loop, solver="piqp"), 16, {"dense 200x500"}),
    ("ProxQP", peers.proxqp, 8, LARGE),
    ("qpth", peers.qpth, 8, LARGE),
    ("cvxpylayers", peers.cvxpylayer, 2, LARGE | {"sample-wise b"}),
    ("Pi-net", peers.pinet, 256, LARGE | {"sample-wise b", "convex 100"}),
]


def measure(task: Task, rounds: int, log: Callable[[str], None]) -> dict[str, Any]:
    """Microseconds a sample and errors of every way on one problem."""
    exact = peers.sorted_threshold if task.name.startswith("simplex") else peers.loop(task, "daqp")
    few = task.points[:4]
    best = exact(few)
    cases, samples, errors = {}, {}, {}
    left_out_here: dict[str, str] = {}

    def add(name: str, solve: peers.Solve, points: Array) -> None:
        got = solve(few)
        errors[name] = float(np.abs(got - best[: len(got)]).max())
        cases[name], samples[name] = partial(solve, points), len(points)

    for name, build, count, left_out in WAYS:
        if task.name in left_out:
            continue
        try:
            solve = build(task)
            add(name, solve, task.points[:count])
            if name in (OURS, PAPER, "DAQP", "PIQP", "OSQP tuned"):
                alone = f"{name}, batch 1"
                cases[alone] = partial(_one_by_one, solve, task.points[:ALONE])
                samples[alone], errors[alone] = ALONE, errors[name]
        except Exception as error:
            left_out_here[name] = f"{type(error).__name__}: {str(error)[:100]}"
            log(f"  {name} left out: {left_out_here[name]}")
    add(f"{OURS}, float32", peers.ours(task, torch.float32), task.points)
    many = task.take(1000 if task.name in SLOW else 10_000)
    add(f"{OURS}, batch {len(many.points)}", peers.ours(many), many.points)
    timed = harness.interleave(cases, rounds=rounds, least_seconds=0.01, most_seconds=1.0, clock=time.process_time)
    twice = f"{OURS}, 2 threads"
    add(twice, peers.ours(task), task.points)
    torch.set_num_threads(2)
    timed |= harness.interleave({twice: cases[twice]}, rounds=rounds, least_seconds=0.01)
    torch.set_num_threads(1)
    per_sample = {k: {"seconds": t, "samples": samples[k], "error": errors[k]} for k, t in timed.items()}
    for k, t in timed.items():
        log(f"  {k:32s} {t.median / samples[k] * 1e6:11.2f} us   error {errors[k]:.1e}")
    return per_sample | {name: {"left out": why} for name, why in left_out_here.items()}


def _one_by_one(solve: peers.Solve, points: Array) -> None:
    """Each point in a call of its own: the same one again would be a gift to whoever starts from the last answer."""
    for n in range(len(points)):
        solve(points[n : n + 1])


def microseconds(entry: dict[str, Any]) -> float:
    return float(entry["seconds"].median) / entry["samples"] * 1e6 if "seconds" in entry else float("nan")


def summary(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """One row a problem: times, the gain over the paper's loop, the goal, the best peer at batch 1."""
    rows = []
    for name, ways in results.items():
        mine, paper = microseconds(ways[OURS]), microseconds(ways[PAPER])
        twice = microseconds(ways[f"{OURS}, 2 threads"])
        alone = microseconds(ways[f"{OURS}, batch 1"])
        others = {k: v for k, v in ways.items() if k.endswith("batch 1") and not k.startswith(OURS)}
        rivals = {k: microseconds(v) for k, v in others.items() if "seconds" in v}
        rival = min(rivals, key=rivals.__getitem__)
        rows.append(
            [
                name,
                f"{paper:.0f}",
                f"{mine:.2f}",
                f"{paper / mine:.0f}x",
                f"{paper / twice:.0f}x",
                f"{GOALS[name]}x" if name in GOALS else "",
                f"{ways[OURS]['error']:.0e}",
                f"{alone:.0f}",
                f"{rivals[rival]:.0f} ({rival.removesuffix(', batch 1')})",
            ]
        )
    return rows


HEADER = [
    *("problem", "paper's loop, us", "rayhull, us", "gain", "gain, 2 threads", "goal", "error", "batch 1, us"),
    "best solver, batch 1, us",
]


def _cell(entry: dict[str, Any]) -> str:
    return f"left out: {entry['left out']}" if "left out" in entry else f"{microseconds(entry):.2f}"


def everything(results: dict[str, dict[str, Any]]) -> str:
    """Microseconds a sample of every way."""
    names = list(dict.fromkeys(k for ways in results.values() for k in ways))
    rows = [[k, *(_cell(w[k]) if k in w else "" for w in results.values())] for k in names]
    return harness.table(rows, ["us a sample", *results])


def main() -> None:
    options = harness.options(__doc__)
    torch.set_num_threads(1)
    results = {}
    for task in tasks():
        if options.only and task.name not in options.only:
            continue
        print(task.name, flush=True)
        results[task.name] = measure(task, options.rounds, partial(print, flush=True))
    text = harness.table(summary(results), HEADER) + "\n\n" + everything(results) + "\n"
    print(text)
    if not options.only:
        path = harness.save("projection", {"goals": GOALS, "results": results})
        path.with_suffix(".md").write_text(text)
        plots.draw(["projection"])


if __name__ == "__main__":
    main()
