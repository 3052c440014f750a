"""Inequalities to generators: ours beside cddlib (floats), PPL, PPLite and Normaliz.

    python -m benchmarks.conversion [--rounds 2] [--limit 40] [--cases NAME ...] [--quick] [--fresh]

Two times of each engine, in a process of its own: its own time, from rows stated in its own objects to its answer, and
the time to arrays, in which our Python loops state the rows and read the answer. All of ours is our own time: arrays to
arrays, with splitting, verification and the lift, without any cache. The environment is a user's: threads as they come,
by the wall clock; a second table has one thread and its processor time. A run that takes longer than the limit is
killed and shown as such; a wrong number of rays or lines is shown as wrong.

Every run is kept in results/conversion_runs.json: a benchmark that was stopped goes on where it stood, as long as the
kernels are the same. Once every set has its first round, results/conversion.{json,md,svg} are written after each set.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import harness, plots
from benchmarks.conversion_cases import ALL, CASES, OURS, random_cone, run
from rayhull.core import build

ALONE = ", one thread"  # after an engine's name
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SLOW = ("metric cone 7", "gaussian 40x12", "random integers 40x12", "monotone 784", "windows 40x784", "cyclic 30,8")
ENOUGH, MOST = 0.4, 30  # seconds and repetitions of one run
ONCE = 3.0  # what takes longer is not asked again in later rounds
KEPT = harness.RESULTS / "conversion_runs.json"

Run = dict[str, Any]
Runs = dict[str, dict[str, list[Run]]]  # of each case and engine


def child(engine: str, case: str) -> None:
    """In a process of its own: warm once on a small cone, then time; one JSON line."""
    A, b = CASES[case][0]()
    name, clock = engine.removesuffix(ALONE), time.process_time if engine.endswith(ALONE) else time.perf_counter
    run(name, random_cone(8, 4, integers=A.dtype.kind != "f"), None, clock)
    own: list[float] = []
    arrays: list[float] = []
    while not own or (sum(arrays) < ENOUGH and len(own) < MOST):
        seconds, total, (rays, lines) = run(name, A, b, clock)
        own.append(seconds)
        arrays.append(total)
    found = {"seconds": statistics.median(own), "arrays": statistics.median(arrays)}
    print(json.dumps({**found, "counts": [len(lines), len(rays)]}))


def environment(engine: str) -> dict[str, str]:
    """A user's: no word on threads; or one thread for all."""
    users = {name: value for name, value in os.environ.items() if name not in THREADS}
    return users | (dict.fromkeys(THREADS, "1") if engine.endswith(ALONE) else {})


def measure(engine: str, case: str, limit: float) -> Run:
    """Seconds of one engine on one case, or why there are none."""
    command = [sys.executable, "-m", "benchmarks.conversion", "--child", engine, case]
    try:
        out = subprocess.run(
            command, capture_output=True, text=True, timeout=limit + 4, check=False, env=environment(engine)
        )
    except subprocess.TimeoutExpired:
        return {"state": f">{limit:.0f} s"}
    if out.returncode:
        lines = [line for line in out.stderr.strip().splitlines() if line.strip()]
        return {"state": "error", "error": lines[-1] if lines else f"exit code {out.returncode}"}
    return {"state": "fine", **json.loads(out.stdout.splitlines()[-1])}


def compare(names: Sequence[str], rounds: int, limit: float, runs: Runs) -> Iterator[str]:
    """Every engine on every case, round by round, written into ``runs``; yields a case when it has a new round."""
    for number in range(rounds):
        for case in names:
            engines = runs.setdefault(case, {})
            both = [name + threads for threads in ("", ALONE) for name in ALL]
            asked = [engine for engine in both if _is_open(engines.setdefault(engine, []), number)]
            for engine in asked:
                print(f"round {number + 1}: {case}, {engine} ...", end=" ", flush=True, file=sys.stderr)
                engines[engine].append(measure(engine, case, limit))
                print(engines[engine][-1].get("seconds", engines[engine][-1]["state"]), file=sys.stderr)
            if asked:
                yield case


def _is_open(past: Sequence[Run], number: int) -> bool:
    """Whether an engine has this round to run: one that failed, or is slow, is not asked again."""
    return len(past) <= number and (not past or past[0].get("arrays", ONCE) < ONCE)


def summary(case: str, runs: Sequence[Run], ours: Sequence[Run]) -> dict[str, Any]:
    """The median of the rounds, or why there is none."""
    if runs[0]["state"] != "fine":
        return runs[0]
    seconds = [r["seconds"] for r in runs]
    expected = CASES[case][1] or ours[0].get("counts")
    return {
        "state": "fine" if list(expected or []) == runs[0]["counts"] else "wrong",
        "counts": runs[0]["counts"],
        "seconds": statistics.median(seconds),
        "arrays": statistics.median(r["arrays"] for r in runs),
        "low": min(seconds),
        "high": max(seconds),
        "runs": len(seconds),
    }


def summaries(runs: Runs, threads: str = "") -> dict[str, dict[str, Any]]:
    """Of the cases that every engine has run, in the order of the list; ``threads``: as they come, or ``ALONE``."""
    known = [case for case in CASES if all(runs.get(case, {}).get(engine + threads) for engine in ALL)]
    return {
        case: {e: summary(case, runs[case][e + threads], runs[case][OURS + threads]) for e in ALL} for case in known
    }


def as_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for case, row in results.items():
        gains = [gain(row, kind) for kind in ("seconds", "arrays")]
        counts = "+".join(map(str, row[OURS].get("counts", ["?"])))
        rows.append([case, counts, *(cell(row[e]) for e in ALL), *gains])
    return harness.table(rows, ["cone", "lines+rays", *ALL, "best other / ours", "to arrays"])


def gain(row: Mapping[str, Any], kind: str) -> str:
    """The best other engine's time over ours: its own ("seconds"), or that to arrays."""
    best = min((r[kind] for e, r in row.items() if r["state"] == "fine" and e != OURS), default=None)
    ours = row[OURS].get(kind)
    return f"{best / ours:.2g}x" if best and ours else "only one"


def cell(result: Mapping[str, Any]) -> str:
    """Seconds, the engine's own and to arrays, or why there are none."""
    if result["state"] == "wrong":
        return f"wrong: {'+'.join(map(str, result['counts']))}"
    if "error" in result and "ModuleNotFoundError" in result["error"]:
        return "not installed"
    if "seconds" not in result:
        return result["state"]
    own, arrays = f"{result['seconds']:.3g}", f"{result['arrays']:.3g}"
    return own if own == arrays else f"{own} · {arrays}"


def text_of(runs: Runs) -> str:
    """Both tables: threads as they come, and one thread."""
    return "\n\n".join(as_table(summaries(runs, threads)) for threads in ("", ALONE))


def load_runs() -> Runs:
    """The runs of a benchmark that was stopped, if the kernels are the same."""
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    return known["runs"] if known.get("core") == build.digest("conversion") else {}


def publish(runs: Runs, limit: float) -> None:
    """The results files, from all runs so far."""
    payload = {"limit": limit, "cases": summaries(runs), "one thread": summaries(runs, ALONE)}
    harness.save("conversion", payload).with_suffix(".md").write_text(text_of(runs) + "\n")
    plots.draw(["conversion"])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=40.0, help="seconds for one run")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one round of the cases of milliseconds, not published")
    parser.add_argument("--fresh", action="store_true", help="forget the runs so far")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    asked = options()
    if asked.child:
        child(*asked.child)
        return
    names, rounds = asked.cases, asked.rounds
    if asked.quick:
        names, rounds = [name for name in names if name not in SLOW], 1
    runs = {} if asked.fresh else load_runs()
    for _ in compare(names, rounds, asked.limit, runs):
        KEPT.write_text(json.dumps({"core": build.digest("conversion"), "runs": runs}, indent=1) + "\n")
        if all(len(summaries(runs, threads)) == len(CASES) for threads in ("", ALONE)):
            publish(runs, asked.limit)
    print(text_of(runs))


if __name__ == "__main__":
    main()
