"""Claim: ready at once. What the first call costs in a new process with empty caches.

``python -m benchmarks.cold`` starts a process for each case and counts its CPU seconds beyond those of a process that
only imports what everybody has (torch, NumPy): imports of the library, conversion, building, the first answer. Caches
on disk (ours, torch's) are in an empty folder. Bytecode is there, ours as the peers': pip writes it when it installs,
here a process does that is not counted. Peers that are not installed say so. Writes results/cold.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import harness

BEFORE = "import torch, numpy as np, time; torch.set_num_threads(1); t = time.process_time()\n"
AFTER = "\nimport json; print(json.dumps(time.process_time() - t))"

DENSE = "rh.Polyhedron(np.random.default_rng(0).standard_normal((50, 100)), np.ones(50), lower=-1, upper=1)"
SETS = {
    "checkerboard": "rh.checkerboard((28, 28), (4, 4)) & rh.box(-1, 1)",
    "monotone 100": "rh.monotone(100)",
    "convex 100": "rh.convex(100)",
    "dense 50x100": DENSE,
    "simplex 1000": "rh.simplex(1000)",
    "two rows in the plane": "rh.Polyhedron([[1, 2], [3, -1]], [1, 1])",
}
CONES = {
    "grid 8x8": "rh.ordered(None, (8, 8))",
    "checkerboard": "rh.checkerboard()",
    "cube 10": "rh.box(-1, 1, shape=10)",
}

LAYER = "import rayhull as rh\nP = {}\nrh.Constrained(256, P)(torch.randn(64, 256))"
PROJECT = "import rayhull as rh\nP, x = {}, torch.randn(64, 20).double()\nrh.project(P, x)"
FIRST_PROJECT = """import rayhull as rh
P = {}
x = torch.randn(1, *P.shape).double()
t = time.process_time()
rh.project(P, x)"""
FIRST_CONVERT = "import rayhull as rh\nP = {}\nt = time.process_time()\nrh.convert(P, cache=False)"
ROWS = "np.random.default_rng(0).standard_normal((10, 20))"
RAYEN = f"""from rayen import constraints, constraint_module
rows = constraints.LinearConstraint({ROWS}, np.ones((10, 1)), None, None)
cs = constraints.ConvexConstraints(rows, print_debug_info=False)
constraint_module.ConstraintModule(cs, input_dim=256, create_map=True)(torch.randn(64, 256, 1))"""
CVXPYLAYERS = f"""import cvxpy as cp
from cvxpylayers.torch import CvxpyLayer
x, y = cp.Variable(20), cp.Parameter(20)
problem = cp.Problem(cp.Minimize(cp.sum_squares(x - y)), [{ROWS} @ x <= 1])
CvxpyLayer(problem, parameters=[y], variables=[x])(torch.randn(64, 20).double())"""
QPTH = f"""from qpth.qp import QPFunction
I, y, none = torch.eye(20).double(), torch.randn(64, 20).double(), torch.Tensor().double()
QPFunction(verbose=-1)(I, -y, torch.tensor({ROWS}), torch.ones(10).double(), none, none)"""
POLYTOPE = f"rh.Polyhedron({ROWS}, np.ones(10))"

CASES = {
    "set, layer, forward: checkerboard and box": LAYER.format(SETS["checkerboard"]),
    "set, layer, forward: 10 rows in R^20": LAYER.format(POLYTOPE),
    "set, layer, forward: 10 rows in R^20, RAYEN": RAYEN,
    "set, nearest points: 10 rows in R^20": PROJECT.format(POLYTOPE),
    "set, nearest points: 10 rows in R^20, cvxpylayers": CVXPYLAYERS,
    "set, nearest points: 10 rows in R^20, qpth": QPTH,
    **{f"first project: {name}": FIRST_PROJECT.format(text) for name, text in SETS.items()},
    **{f"first convert: {name}": FIRST_CONVERT.format(text) for name, text in CONES.items()},
}


def seconds(program: str, rounds: int, bytecode: str) -> float | str:
    """The median over some processes after one that writes the bytecode of its modules, or why there is none."""
    found = []
    for _ in range(1 + rounds):
        with tempfile.TemporaryDirectory() as empty:
            caches = dict.fromkeys(("RAYHULL_CACHE", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR"), empty)
            compiled = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
            environment = {**os.environ, **caches, **compiled, "OMP_NUM_THREADS": "1"}
            command = [sys.executable, "-c", BEFORE + program + AFTER]
            out = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if out.returncode:
            lines = out.stderr.strip().splitlines()
            return "not installed" if "ModuleNotFoundError" in out.stderr else f"error: {lines[-1] if lines else '?'}"
        found.append(float(json.loads(out.stdout.splitlines()[-1])))
    return statistics.median(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as bytecode:
        for name, program in CASES.items():
            results[name] = {"seconds": seconds(program, rounds, bytecode)}
            print(name, results[name]["seconds"], flush=True)
    rows = [
        [name, f"{r['seconds']:.3f}" if isinstance(r["seconds"], float) else r["seconds"]]
        for name, r in results.items()
    ]
    text = harness.table(rows, ["new process, empty caches", "CPU seconds beyond `import torch`"])
    print(text)
    harness.save("cold", {"results": results}).with_suffix(".md").write_text(text + "\n")


if __name__ == "__main__":
    main()
