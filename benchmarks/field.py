"""The field's own benchmarks: python -m benchmarks.field [--only NAME ...] [--methods METHOD ...] [--seeds 3].

Trains every method on every problem of ``field_problems`` by the problem's recipe and writes each finished run to
benchmarks/results/field.json, so that a stopped benchmark goes on where it was; what was learned is kept beside it,
for ``python -m benchmarks.field_times``. ``python -m benchmarks.field_page`` writes docs/field.md.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks import harness
from benchmarks.field_problems import FieldProblem, field_problems
from benchmarks.field_training import HIDDEN, METHODS, NO_PULL, Network, best_rate, measure, train

PATH = harness.RESULTS / "field.json"
WEIGHTS = harness.RESULTS / "field_weights"  # of one seed; not published
CASES = ("DC dispatch, case9", "DC dispatch, case30")
UNFIT = {  # what a method cannot do, from its own paper
    **{(name, "DC3"): "no equalities to complete" for name in ("HardNet pwc", "HardNet cbf")},
    **{(name, "Pi-net"): "rows of the sample" for name in ("HardNet pwc", "HardNet cbf")},
    ("toy MPC", "HardNet-Aff"): "more rows than coordinates",
    ("toy MPC", "DC3"): "published for quadratic programs without bounds",
    **{(case, "HardNet-Aff"): "more rows than coordinates" for case in CASES},
    **{(case, "DC3"): "not published for it" for case in CASES},
    **{(case, "Pi-net"): "right-hand sides of inequalities of the sample" for case in CASES},
    ("HardNet cbf", "projected after training"): "trained through the episode, see nearest point",
}


@dataclass(frozen=True)
class Run:
    """One training: what it was and what came out."""

    problem: str
    method: str
    seed: int
    epochs: int
    rate: float
    seconds: float  # of training, of one processor
    measures: dict[str, dict[str, float]]  # by split


def load(part: str = "runs") -> list:
    """The runs that are finished; or another part of the file as it is."""
    stored = json.loads(PATH.read_text()) if PATH.exists() else {}
    return [Run(**run) for run in stored.get("runs", [])] if part == "runs" else stored.get(part, [])


def save(part: str, rows: list, *, anew: bool = False) -> None:
    """Add rows to a part of the file, or replace it; another process may have added its own meanwhile."""
    with PATH.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stored = json.loads(PATH.read_text()) if PATH.exists() else {}
        stored.pop("machine", None)
        stored[part] = rows if anew else [*stored.get(part, []), *rows]
        harness.save("field", stored)


def weights_of(problem: str, method: str) -> Path:
    """Where the parameters of one seed are kept."""
    return WEIGHTS / f"{problem} {method}.pt".replace(" ", "_").replace(",", "")


def learned(name: str, problem: FieldProblem, method: str) -> Network:
    """The trained network of one seed; a fresh one where there is none."""
    network = Network(problem, METHODS[method](HIDDEN, problem)).eval()
    if weights_of(name, method).exists():
        network.load_state_dict(torch.load(weights_of(name, method), weights_only=True))
    return network


def run_all(names: list[str], methods: list[str], seeds: int, *, quick: bool = False) -> None:
    """Every run that is not there yet, saved as it finishes; ``quick`` runs trains for two epochs and saves nothing."""
    for name in names:
        problem = field_problems()[name]()
        for method in methods:
            known = {r.seed: r.rate for r in load() if (r.problem, r.method) == (name, method)}
            todo = [seed for seed in range(seeds) if quick or seed not in known]
            if (name, method) in UNFIT or not todo or (method == NO_PULL and not problem.recipe.pull):
                continue
            rate = 1e-3 if quick else next(iter(known.values()), None) or best_rate(problem, method)
            for seed in todo:
                run = run_one(name, problem, method, seed, rate, quick)
                print(f"{name:14} {method:26} seed {seed} rate {rate:g} {_text(run)} {run.seconds:.0f} s", flush=True)


def run_one(name: str, problem: FieldProblem, method: str, seed: int, rate: float, quick: bool) -> Run:
    """Train, judge, save."""
    recipe = problem.recipe.shortened(problem.recipe.epochs // 2) if quick else problem.recipe
    network, seconds = train(problem, method, seed, recipe, rate)
    measures = {split: measure(problem, network, split) for split in problem.splits if "test" in split}
    run = Run(name, method, seed, recipe.epochs, rate, seconds, measures)
    if not quick:
        save("runs", [asdict(run)])
    if not quick and not weights_of(name, method).exists():
        WEIGHTS.mkdir(exist_ok=True)
        torch.save(network.state_dict(), weights_of(name, method))
    return run


def _text(run: Run) -> str:
    first = next(iter(run.measures.values()))
    return ", ".join(f"{name} {value:.5g}" for name, value in first.items())


def medians(runs: list[Run]) -> dict[tuple[str, str, str], dict[str, tuple[float, float, float]]]:
    """For each problem, method and split: median, least and largest over the seeds of each measure."""
    found: dict[tuple[str, str, str], dict[str, tuple[float, float, float]]] = {}
    for problem, method in dict.fromkeys((r.problem, r.method) for r in runs):
        group = [r for r in runs if (r.problem, r.method) == (problem, method)]
        for split in group[0].measures:
            values = {name: [r.measures[split][name] for r in group] for name in group[0].measures[split]}
            values["training, s"] = [r.seconds for r in group]
            found[problem, method, split] = {n: (statistics.median(v), min(v), max(v)) for n, v in values.items()}
    return found


def main() -> None:
    names = list(field_problems())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed and two epochs, not saved: does everything run?")
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    run_all(options.only, options.methods, 1 if options.quick else options.seeds, quick=options.quick)


if __name__ == "__main__":
    main()
