"""Inequalities to generators: ours beside cddlib (floats), PPL, PPLite and Normaliz.

Every engine gets the same rows A (and b) as arrays and gives back rays (or vertices) and lines as arrays; our time
includes splitting, verification and the lift, without any cache. One thread each. A run that takes longer than the
limit is killed and shown as such; a wrong number of rays or lines is shown as wrong. Writes
results/conversion.{json,md,svg}.

    python -m benchmarks.conversion [--rounds 3] [--limit 60] [--cases NAME ...]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import rayhull as rh
from benchmarks import harness, plots
from rayhull.conversion.engines import ENGINES
from tests.zoo import cross_polytope, cyclic_cone, metric_cone

OURS, FLOAT_CDD = "rayhull", "cdd float"
ALL = (OURS, FLOAT_CDD, "ppl", "pplite", "normaliz")


# -- the sets {x : A x <= b}, with the number of lines and of rays (or vertices) where known ---------------------------

Case = tuple[np.ndarray, np.ndarray | None]  # b = None: a cone


def random_cone(m: int, d: int, *, integers: bool, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    point = rng.standard_normal(d)
    A = rng.integers(-9, 10, (m, d)) if integers else rng.standard_normal((m, d))
    return A * -np.sign(A @ point).astype(A.dtype)[:, None]


def redundant() -> np.ndarray:
    rng = np.random.default_rng(0)
    A = random_cone(15, 8, integers=True)
    return np.concatenate([A, rng.integers(0, 4, (40, 15)) @ A])


def hidden_blocks() -> np.ndarray:
    """Six 12x6 cones side by side, then columns added to columns: the sparsity of A shows no block."""
    rng = np.random.default_rng(0)
    A = np.zeros((72, 36), int)
    for i in range(6):
        A[12 * i : 12 * i + 12, 6 * i : 6 * i + 6] = random_cone(12, 6, integers=True, seed=i)
    mix = np.eye(36, dtype=int)
    for _ in range(108):
        i, j = rng.choice(36, 2, replace=False)
        mix[:, i] += rng.choice([-1, 1]) * mix[:, j]
    return A @ mix


def stated(P: rh.Polyhedron) -> Case:
    """A and b of a set of inequalities alone, dense."""
    A = P.A.toarray() if hasattr(P.A, "toarray") else P.A
    return A, None if P.is_cone else P.b


def cube(d: int) -> Case:
    return np.concatenate([np.eye(d, dtype=int), -np.eye(d, dtype=int)]), np.ones(2 * d, int)


CASES: dict[str, tuple[Callable[[], Case], tuple[int, int] | None]] = {
    "checkerboard 16x784": (lambda: stated(rh.checkerboard()), (768, 16)),
    "windows 40x784": (lambda: stated(rh.windows((28, 28), 8, 5)), (760, 250)),
    "monotone 784": (lambda: stated(rh.monotone(784)), (1, 783)),
    "grid 6x6": (lambda: stated(rh.ordered(None, (6, 6))), (1, math.comb(12, 6) - 2)),
    "grid 8x8": (lambda: stated(rh.ordered(None, (8, 8))), (1, math.comb(16, 8) - 2)),
    "cube 10": (lambda: cube(10), (0, 2**10)),
    "cube 14": (lambda: cube(14), (0, 2**14)),
    "metric cone 6": (lambda: stated(metric_cone(6)), (0, 296)),
    "metric cone 7": (lambda: stated(metric_cone(7)), (0, 55226)),
    "gaussian 40x12": (lambda: (random_cone(40, 12, integers=False), None), None),
    "random integers 40x12": (lambda: (random_cone(40, 12, integers=True), None), None),
    "cross-polytope 8": (lambda: stated(cross_polytope(8)), (0, 16)),
    "cross-polytope 10": (lambda: stated(cross_polytope(10)), (0, 20)),
    "cyclic 20,8": (lambda: stated(cyclic_cone(20, 8)), (0, 2275)),
    "cyclic 30,8": (lambda: stated(cyclic_cone(30, 8)), (0, 17250)),
    "redundant 55x8": (lambda: (redundant(), None), None),
    "hidden blocks 72x36": (lambda: (hidden_blocks(), None), None),
}


# -- the engines, array in to arrays out ------------------------------------------------------------------------------


def run_ours(A: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    G = rh.convert(rh.Polyhedron(A, b), cache=False, max_generators=None)
    return G.rays if b is None else np.concatenate([G.vertices, G.rays]), G.lines


def cone_rows(A: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """Rows M of the cone {M y >= 0} that the other engines get: -A, or (b, -A) and t >= 0."""
    if b is None:
        return -A
    return np.concatenate([np.eye(1, A.shape[1] + 1, dtype=A.dtype), np.concatenate([b[:, None], -A], axis=1)])


def run_cdd_float(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import cdd

    matrix = cdd.matrix_from_array([[0, *map(float, row)] for row in rows.tolist()], rep_type=cdd.RepType.INEQUALITY)
    generators = cdd.copy_generators(cdd.polyhedron_from_matrix(matrix))
    table = np.array(generators.array).reshape(-1, rows.shape[1] + 1)
    line = np.isin(np.arange(len(table)), list(generators.lin_set))
    return table[~line & (table[:, 0] == 0), 1:], table[line, 1:]


def run_engine(name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if rows.dtype.kind == "f":  # exact engines get the floats as the dyadic fractions that they are
        rows = np.array([[int(v * 2.0**60) for v in row] for row in rows.tolist()], dtype=object)
    rays, lines = ENGINES[name](rows.astype(object))
    return np.array(rays), np.array(lines)


def run(name: str, A: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if name == OURS:
        return run_ours(A, b)
    rows = cone_rows(A, b)
    return run_cdd_float(rows) if name == FLOAT_CDD else run_engine(name, rows)


def child(engine: str, case: str, repeats: int) -> None:
    """In a process of its own: warm once on a small cone, then time; one JSON line."""
    A, b = CASES[case][0]()
    run(engine, random_cone(8, 4, integers=A.dtype.kind != "f"), None)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        rays, lines = run(engine, A, b)
        seconds.append(time.process_time() - start)
        if seconds[-1] > 1:
            break
    print(json.dumps({"seconds": statistics.median(seconds), "counts": [len(lines), len(rays)]}))


def measure(engine: str, case: str, limit: float) -> dict[str, Any]:
    """CPU seconds of one engine on one case, or why there are none."""
    command = [sys.executable, "-m", "benchmarks.conversion", "--child", engine, case]
    single = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=limit + 20, check=False, env=single)
    except subprocess.TimeoutExpired:
        return {"state": f">{limit:.0f} s"}
    if out.returncode:
        lines = [line for line in out.stderr.strip().splitlines() if line.strip()]
        return {"state": "error", "error": lines[-1] if lines else f"exit code {out.returncode}"}
    return {"state": "fine", **json.loads(out.stdout.splitlines()[-1])}


def compare(names: list[str], rounds: int, limit: float) -> dict[str, dict[str, Any]]:
    """Every engine on every case, round by round; an engine that failed or ran over the limit is not asked again."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {case: {engine: [] for engine in ALL} for case in names}
    for number in range(rounds):
        for case in names:
            for engine in ALL:
                past = found[case][engine]
                if past and (past[0]["state"] != "fine" or past[0]["seconds"] > 15):
                    continue
                print(f"round {number + 1}: {case}, {engine} ...", end=" ", flush=True, file=sys.stderr)
                past.append(measure(engine, case, limit))
                print(past[-1].get("seconds", past[-1]["state"]), file=sys.stderr)
    return {
        case: {e: _summary(case, runs, found[case][OURS]) for e, runs in row.items()} for case, row in found.items()
    }


def _summary(case: str, runs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> dict[str, Any]:
    if runs[0]["state"] != "fine":
        return runs[0]
    seconds = [r["seconds"] for r in runs]
    expected = CASES[case][1] or ours[0].get("counts")
    return {
        "state": "fine" if list(expected or []) == runs[0]["counts"] else "wrong",
        "counts": runs[0]["counts"],
        "seconds": statistics.median(seconds),
        "low": min(seconds),
        "high": max(seconds),
        "runs": len(seconds),
    }


def as_table(results: dict[str, dict[str, Any]]) -> str:
    rows = []
    for case, row in results.items():
        right = {e: r["seconds"] for e, r in row.items() if r["state"] == "fine" and e != OURS}
        best = min(right.values(), default=None)
        ours = row[OURS].get("seconds")
        ratio = f"{best / ours:.2g}x" if best and ours else "only one"
        counts = "+".join(map(str, row[OURS].get("counts", ["?"])))
        rows.append([case, counts, *(cell(row[e]) for e in ALL), ratio])
    return harness.table(rows, ["cone", "lines+rays", *ALL, "best other / ours"])


def cell(result: dict[str, Any]) -> str:
    """Seconds, or why there are none."""
    if result["state"] == "wrong":
        return f"wrong: {'+'.join(map(str, result['counts']))}"
    if "error" in result and "ModuleNotFoundError" in result["error"]:
        return "not installed"
    return f"{result['seconds']:.3g}" if "seconds" in result else result["state"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one run")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child, repeats=5)
        return
    results = compare(options.cases, options.rounds, options.limit)
    path = harness.save("conversion", {"limit": options.limit, "cases": results})
    text = as_table(results)
    path.with_suffix(".md").write_text(text + "\n")
    plots.draw(["conversion"])
    print(text)


if __name__ == "__main__":
    main()
