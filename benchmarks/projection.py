"""Claim: the nearest point at hundreds of times the speed of a solver loop, exact to 1e-9.

``python -m benchmarks.projection`` times every way on every problem, interleaved, and writes results/projection.json,
projection.md and projection.svg. One thread is timed by its processor time, two by the clock. Peers that are not
installed are left out, and those that are slow get fewer samples.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a shared machine, waiting threads must not spin

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks import harness, peers, plots

Array = np.ndarray[Any, Any]
Solve = Callable[[Array], Array]
PAPER = "OSQP, the paper's loop"
OURS = "rayhull"
GOALS = {
    **{"checkerboard": 400, "noisy checkerboard": 450, "monotone 100": 300, "convex 100": 50},
    **{"dense 50x100": 20, "dense 200x500": 80},
}


@dataclass(frozen=True)
class Task:
    """A set, points to project, and right-hand sides of the equalities where each sample has its own."""

    name: str
    polyhedron: rh.Polyhedron
    points: Array  # (n, d)
    b_eq: Array | None = None  # (n, k)

    def take(self, n: int) -> Task:
        pick = np.arange(n) % len(self.points)
        b_eq = None if self.b_eq is None else self.b_eq[pick]
        return replace(self, points=self.points[pick], b_eq=b_eq)

    def exact(self) -> Solve:
        """An independent exact solver: DAQP, for the simplex its sorted threshold."""
        simplex = self.name.startswith("simplex")
        return self.by(peers.sorted_threshold(self.polyhedron) if simplex else peers.loop(self.polyhedron, "daqp"))

    def by(self, module: torch.nn.Module, dtype: torch.dtype = torch.float64) -> Solve:
        """Points to points by a peer, or by ours."""
        layer = self.layer(module)
        return lambda points: layer(torch.from_numpy(points).to(dtype)).detach().numpy()

    def layer(self, module: torch.nn.Module) -> Callable[[Tensor], Tensor]:
        """Points (n, d) to points, differentiable where the module is; the sides are the first n samples'."""
        shape = self.polyhedron.shape if isinstance(module, rh.Projection) else (self.polyhedron.dim,)

        def solve(points: Tensor) -> Tensor:
            sides = {} if self.b_eq is None else {"b_eq": torch.as_tensor(self.b_eq[: len(points)]).to(points.dtype)}
            return module(points.reshape(-1, *shape), **sides).reshape(points.shape)

        return solve


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
WAYS: list[tuple[str, Callable[[rh.Polyhedron], torch.nn.Module], int, set[str]]] = [
    (OURS, rh.Projection, 256, set()),
    (PAPER, partial(peers.loop, solver="osqp"), 16, set()),
    ("OSQP tuned", partial(peers.loop, solver="osqp", eps_abs=1e-4, eps_rel=1e-4, check_termination=5), 16, set()),
    ("DAQP", partial(peers.loop, solver="daqp"), 8, {"noisy checkerboard", "simplex 1000"}),
    ("PIQP", partial(peers.loop, solver="piqp"), 16, {"dense 200x500"}),
    ("ProxQP", peers.proxqp, 8, LARGE),
    ("qpth", peers.Qpth, 8, LARGE),
    ("Moreau", peers.Moreau, 64, set()),
    ("cvxpylayers", peers.CvxpyLayers, 2, LARGE),
    ("cvxpylayers with Moreau", partial(peers.CvxpyLayers, solver="MOREAU"), 16, LARGE),
    ("Pi-net", peers.tuned_pinet, 256, LARGE | {"sample-wise b", "convex 100"}),
]


def measure(task: Task, rounds: int, log: Callable[[str], None]) -> dict[str, Any]:
    """Microseconds a sample and errors of every way on one problem."""
    few = task.points[:4]
    best = task.exact()(few)
    cases, samples, errors = {}, {}, {}
    left_out_here: dict[str, str] = {}

    def add(name: str, solve: Solve, points: Array) -> None:
        got = solve(few)
        errors[name] = float(np.abs(got - best[: len(got)]).max())
        cases[name], samples[name] = partial(solve, points), len(points)

    for name, build, count, left_out in WAYS:
        if task.name in left_out:
            continue
        try:
            solve = task.by(build(task.polyhedron))
            add(name, solve, task.points[:count])
            if name in (OURS, PAPER, "DAQP", "PIQP", "OSQP tuned"):
                alone = f"{name}, batch 1"
                cases[alone] = partial(_one_by_one, solve, task.points[:ALONE])
                samples[alone], errors[alone] = ALONE, errors[name]
        except Exception as error:
            left_out_here[name] = peers.reason(error)
            log(f"  {name} left out: {left_out_here[name]}")
    nearest = rh.Projection(task.polyhedron)
    add(f"{OURS}, float32", task.by(nearest, torch.float32), task.points)
    many = task.take(1000 if task.name in SLOW else 10_000)
    add(f"{OURS}, batch {len(many.points)}", many.by(nearest), many.points)
    timed = harness.interleave(cases, rounds=rounds, least_seconds=0.01, most_seconds=1.0, clock=time.process_time)
    twice = f"{OURS}, 2 threads"
    add(twice, task.by(nearest), task.points)
    torch.set_num_threads(2)
    timed |= harness.interleave({twice: cases[twice]}, rounds=rounds, least_seconds=0.01)
    torch.set_num_threads(1)
    per_sample = {k: {"seconds": t, "samples": samples[k], "error": errors[k]} for k, t in timed.items()}
    for k, t in timed.items():
        log(f"  {k:32s} {t.median / samples[k] * 1e6:11.2f} us   error {errors[k]:.1e}")
    return per_sample | {name: {"left out": why} for name, why in left_out_here.items()}


def _one_by_one(solve: Solve, points: Array) -> None:
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
