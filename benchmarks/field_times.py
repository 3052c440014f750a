"""Times of sets that follow the sample: python -m benchmarks.field_times [overhead] [grid] [test-sets].

Writes to benchmarks/results/field.json, cases interleaved, one processor, milliseconds:

- ``overhead``: a layer with sides of the sample beside the same layer with constant ones, forward and backward;
- ``grid``: RAYEN's grid of dimensions and rows, forward passes of 2000 samples beside RAYEN itself (a minute or two);
- ``test-sets``: each method's forward pass on the whole test set and on one sample, with the weights that
  ``python -m benchmarks.field`` left, or untrained where the time is the same; the others are named and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks.field import UNFIT, WEIGHTS, learned, load, save, weights_of
from benchmarks.field_problems import field_problems
from benchmarks.field_training import METHODS, NO_PULL
from benchmarks.harness import interleave
from benchmarks.peers import Rayen, installed

FEATURES = 64
GRID = [(d, m) for d in (1, 10, 100, 1000) for m in (1, 10, 100, 1000, 3000) if d * m <= 1_000_000]
AS_LONG = ("rayhull", "HardNet-Aff", "DC3", "Pi-net")  # what they compute does not depend on the weights
Rows = list[dict[str, Any]]


def overhead(d: int = 50, m: int = 30, equalities: int = 10, batch: int = 256, rounds: int = 15) -> Rows:
    """Milliseconds of forward and backward for each side that the sample may bring."""
    random, torch_random = np.random.default_rng(0), torch.Generator().manual_seed(0)
    G, E = random.standard_normal((m, d)), random.standard_normal((equalities, d))
    rows, both = rh.Polyhedron(G, 1.0), rh.Polyhedron(G, 5.0, E, np.zeros(equalities))
    b = 1 + 0.1 * torch.rand(batch, m, generator=torch_random)
    b_eq = 0.1 * torch.randn(batch, equalities, generator=torch_random)
    A = torch.as_tensor(G).float() + 0.01 * torch.randn(batch, m, d, generator=torch_random)
    base = torch.zeros(batch, d)
    found = []
    for way, options in {
        "shrink": {"method": "shrink"},
        "10 steps": {"method": "steps", "steps": 10},
    }.items():
        plain, hull = rh.Constrained(FEATURES, rows, **options), rh.Constrained(FEATURES, both, **options)
        ruled = rh.Constrained(FEATURES, both, varies={"b_eq": (-1.0, 1.0)}, **options)
        cases = {
            "constant": step(plain, batch),
            "b": step(plain, batch, b=b),
            "A and b, base point given": step(plain, batch, A=A, b=b, base=base),
            "floor: the products with A alone": products(A, 0 if way == "shrink" else 10),
            "constant, with equalities": step(hull, batch),
            "b_eq": step(ruled, batch, b_eq=b_eq),
        }
        times = interleave(cases, rounds=rounds)
        found += [{"way": way, "side": side, "ms": 1e3 * time.median} for side, time in times.items()]
    return found


def step(layer: torch.nn.Module, batch: int, **sides: Tensor) -> Callable[[], object]:
    """One forward and backward pass."""
    h = torch.randn(batch, FEATURES, requires_grad=True)

    def run() -> None:
        layer(h, **sides).sum().backward()

    return run


def products(A: Tensor, steps: int) -> Callable[[], object]:
    """A v and Aᵀ w of every sample once, and once more for each step, with gradients: what steps by points need."""
    v = torch.randn(A.shape[0], A.shape[2], 1, requires_grad=True)

    def run() -> None:
        y = v
        for _ in range(1 + steps):
            y = A.mT @ (A @ y)
        y.sum().backward()

    return run


def grid(samples: int = 2000, rounds: int = 5) -> Rows:
    """Microseconds a sample for RAYEN's sets: A ~ U(-1, 1), b ~ U(0.1, 1), so that 0 is inside, and known to be."""
    found = []
    for d, m in GRID:
        random, inside = np.random.default_rng(d * 10_000 + m), np.zeros(d)
        P = rh.Polyhedron(random.uniform(-1, 1, (m, d)), random.uniform(0.1, 1, m))
        layers: dict[str, torch.nn.Module] = {"rayhull": rh.Constrained(FEATURES, P, method="shrink", base=inside)}
        layers["rayhull, strict"] = rh.Constrained(FEATURES, P, method="shrink", strict=True, base=inside)
        if installed("rayen"):
            theirs = Rayen(P, inside).float()
            layers["RAYEN"] = torch.nn.Sequential(torch.nn.Linear(FEATURES, theirs.inputs), theirs)
        h = torch.randn(samples, FEATURES)
        with torch.no_grad():
            cases = {name: partial(layer, h) for name, layer in layers.items()}
            times = interleave(cases, rounds=rounds, most_seconds=2)
        found.append({"d": d, "rows": m} | {name: 1e6 * time.median / samples for name, time in times.items()})
        print(found[-1], flush=True)
    return found


def on_test_sets(rounds: int = 7) -> Rows:
    """Milliseconds for the first test split and for one of its samples, all methods of a problem interleaved."""
    found = []
    torch.set_default_dtype(torch.float64)
    for name, make in field_problems().items():
        problem, methods = make(), timed(name)
        x = problem.splits["test"]
        networks = {method: learned(name, problem, method) for method in methods}
        cases = {f"{m}|all": partial(network, x) for m, network in networks.items()}
        cases |= {f"{m}|one": partial(network, x[:1]) for m, network in networks.items()}
        with torch.no_grad():
            times = interleave(cases, rounds=rounds, most_seconds=2)
        found += [
            {"problem": name, "method": m, "trained": weights_of(name, m).exists(), "samples": len(x)}
            | {part: 1e3 * times[f"{m}|{part}"].median for part in ("all", "one")}
            for m in methods
        ]
    torch.set_default_dtype(torch.float32)
    return found


def timed(problem: str) -> list[str]:
    """The methods whose trained network is kept, and those that take as long untrained; others are named."""
    missing = {run.method for run in load() if run.problem == problem and not weights_of(problem, run.method).exists()}
    for method in sorted(missing - set(AS_LONG) - {NO_PULL}):
        print(f"left out: {problem}, {method}: no {weights_of(problem, method).name} in {WEIGHTS.name}", flush=True)
    fresh = [method for method in AS_LONG if (problem, method) not in UNFIT]
    return [m for m in METHODS if m != NO_PULL and (m in fresh or weights_of(problem, m).exists())]


PARTS: dict[str, Callable[[], Rows]] = {"overhead": overhead, "grid": grid, "test-sets": on_test_sets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    torch.set_num_threads(1)
    WEIGHTS.mkdir(exist_ok=True)
    for part in parser.parse_args().parts or PARTS:
        rows = PARTS[part]()
        save(part, rows, anew=True)
        for row in rows:
            print(part, row, flush=True)


if __name__ == "__main__":
    main()
