"""What a hard constraint costs: our layer over nn.Linear of the same size, and the peers beside it.

    python -m benchmarks.layer [--quick]

Float32, batch 256, forward and training step, interleaved: one thread by processor time, two by the wall clock.
Violations are judged in rational arithmetic. Writes benchmarks/results/layer.json, layer.md and layer.svg. Peers that
cannot be had are left out, with the reason in their row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import rayhull as rh
from benchmarks import by_hand, plots
from benchmarks.by_hand import ByHand
from benchmarks.harness import Timing, interleave, save, table
from benchmarks.peers import AFTER_A_LINEAR, reason

BATCH = 256
CLOCK = {1: time.process_time, 2: time.perf_counter}  # on one thread, processor time: others may share the machine
SLOW = 2.0  # seconds for one forward: slower peers are measured on fewer samples


def checkerboard() -> rh.Polyhedron:
    return rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)


def cone(d: int = 20, m: int = 10) -> rh.Polyhedron:
    return rh.Polyhedron(np.random.default_rng(0).standard_normal((m, d)))


def boxed(d: int = 50, m: int = 30) -> rh.Polyhedron:
    rng = np.random.default_rng(0)
    return rh.Polyhedron(rng.standard_normal((m, d)), np.ones(m), lower=-1, upper=1)


def sparse(n: int) -> rh.Polyhedron:
    """n rows of two entries over n coordinates, in a box: a chain of differences."""
    rng = np.random.default_rng(0)
    rows = sp.diags_array([np.ones(n), -rng.random(n - 1) - 0.5], offsets=[0, 1], format="csr")
    return rh.Polyhedron(rows, 0.5, lower=-1, upper=1)


def forward(module: nn.Module, h: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with torch.inference_mode():
            return module(h)

    return run


def training_step(module: nn.Module, h: Tensor) -> Callable[[], None]:
    parameters = list(module.parameters())  # as an optimiser has them: a walk through the modules is no part of a step

    def run() -> None:
        for p in parameters:
            p.grad = None
        module(h).square().mean().backward()

    return run


def outside(P: rh.Polyhedron, x: Tensor) -> dict[str, float]:
    """The largest violation in float64, and the share of samples that are outside in rational arithmetic."""
    x = x.detach().reshape(len(x), *P.shape)
    share = float((~P.contains_exactly(x[:64])).double().mean())
    return {"violation": float(P.violation(x).max()), "outside": share}


def images(threads: int, rounds: int) -> dict[str, Any]:
    """(a) checkerboard and box, 784 features: inference and training step over nn.Linear(784, 784)."""
    torch.set_num_threads(threads)
    torch.compiler.reset()
    torch.manual_seed(0)
    P, h = checkerboard(), torch.randn(BATCH, 784)
    ours, paper, plain = rh.Constrained(784, P), rh.paper_layer(784, P), nn.Linear(784, 784)
    strict = rh.Constrained(784, P, strict=True)
    cases = {
        "nn.Linear": plain,
        "rayhull": ours.eval(),
        "rayhull, folded": ours.fold(),
        "rayhull, folded and compiled": ours.fold(compile=True),
        "rayhull, strict, folded": strict.fold(),
        "the paper's layer": paper.eval(),
    }
    inference = interleave({name: forward(m, h) for name, m in cases.items()}, rounds=rounds, clock=CLOCK[threads])
    trained = {
        "nn.Linear": plain,
        "rayhull": ours.train(),
        "rayhull, strict": strict,
        "the paper's layer": paper.train(),
    }
    training = interleave(
        {name: training_step(m, h) for name, m in trained.items()}, rounds=rounds, clock=CLOCK[threads]
    )
    return {"inference": inference, "training": training}


def against_peers(P: rh.Polyhedron, threads: int, rounds: int, peers: bool) -> dict[str, Any]:
    """(b), (c): forward and training step over nn.Linear, with violations."""
    torch.set_num_threads(threads)
    torch.compiler.reset()
    torch.manual_seed(0)
    h = torch.randn(BATCH, P.dim)
    layer, strict = rh.Constrained(P.dim, P), rh.Constrained(P.dim, P, strict=True)
    modules: dict[str, nn.Module] = {
        "nn.Linear": nn.Linear(P.dim, P.dim),
        "rayhull": layer,
        "rayhull, folded": layer.fold(),
        "rayhull, strict": strict,
        "rayhull, strict, shrink": rh.Constrained(P.dim, P, strict=True, method="shrink"),
        "rayhull, strict, 10 steps": rh.Constrained(P.dim, P, strict=True, method="steps", steps=10),
        "rayhull, strict, folded": strict.fold(),
        "rayhull, strict, folded and compiled": strict.fold(compile=True),
    }
    skipped: dict[str, str] = {}
    for name, make in AFTER_A_LINEAR.items() if peers else ():
        try:
            peer = make(P).float()
            modules[name] = nn.Sequential(nn.Linear(P.dim, peer.inputs), peer)
            modules[name](h[:2])
        except Exception as error:  # a peer that cannot is a result, not an end
            skipped[name] = reason(error)
            modules.pop(name, None)
    found = {name: outside(P, forward(m, h)()) for name, m in modules.items() if name != "nn.Linear"}
    inference = _measured(modules, h, forward, rounds, CLOCK[threads])
    trainable = {n: m for n, m in modules.items() if any(True for _ in m.parameters()) and _has_backward(m)}
    training = _measured(trainable, h, training_step, max(3, rounds // 2), CLOCK[threads])
    return {"inference": inference, "training": training, "found": found, "skipped": skipped}


def _has_backward(module: nn.Module) -> bool:
    return all(getattr(part, "backward", True) for part in module.modules())


def _measured(
    modules: Mapping[str, nn.Module], h: Tensor, kind: Any, rounds: int, clock: Callable[[], float]
) -> dict[str, Timing]:
    """Interleaved for the quick ones; a slow one once or twice."""
    quick, slow = {}, {}
    for name, module in modules.items():
        start = time.perf_counter()
        kind(module, h)()
        (slow if time.perf_counter() - start > SLOW else quick)[name] = kind(module, h)
    timings = interleave(quick, rounds=rounds, most_seconds=5.0, clock=clock)
    return timings | (interleave(slow, rounds=1, most_seconds=1.0, clock=clock) if slow else {})


def hand_written() -> dict[str, tuple[rh.Polyhedron, ByHand]]:
    """Sets, and what a good user would write for them in plain torch."""
    plants = rh.sum_to(1, 3) & rh.box(0, 0.6)
    return {
        "checkerboard and box": (checkerboard(), by_hand.checkerboard()),
        "cone d=20 m=10": (cone(), by_hand.independent_rows(cone().A)),
        "box d=50 m=30": (boxed(), by_hand.clamp_and_divide(boxed().A, boxed().b, -1.0, 1.0)),
        "three plants, by vertices": (plants, by_hand.vertices(plants.generators().vertices)),
        "probabilities of 10": (rh.simplex(10), by_hand.simplexes(1, 10)),
        "chain of 50": (rh.monotone(50), by_hand.chain(50)),
        "chain of 50 in [0, 1]": (rh.monotone(50) & rh.box(0, 1), by_hand.bounded_chain(50, 0.0, 1.0)),
        "capped shares of 50": (rh.capped_simplex(50, 0.1), by_hand.fixed_sum(50, 0.0, 0.1)),
    }


def beside_hand(P: rh.Polyhedron, hand: ByHand, rounds: int) -> dict[str, Any]:
    """Our layer and the same by hand, each after a Linear, one thread: forward, training step, what is outside."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    h = torch.randn(BATCH, P.dim)
    modules = {"by hand": hand.after_linear(P.dim), "rayhull": rh.Constrained(P.dim, P)}
    return {
        "inference": _measured(modules, h, forward, rounds, CLOCK[1]),
        "training": _measured(modules, h, training_step, rounds, CLOCK[1]),
        "found": {name: outside(P, forward(m, h)()) for name, m in modules.items()},
    }


def one_sample(P: rh.Polyhedron, rounds: int) -> dict[str, Timing]:
    """A batch of one, as a policy is called."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    h = torch.randn(1, P.dim)
    modules = {
        "nn.Linear": nn.Linear(P.dim, P.dim),
        "rayhull": rh.Constrained(P.dim, P),
        "rayhull, strict": rh.Constrained(P.dim, P, strict=True),
        "rayhull, strict, shrink": rh.Constrained(P.dim, P, strict=True, method="shrink"),
    }
    return interleave({name: forward(m, h) for name, m in modules.items()}, rounds=2 * rounds, clock=CLOCK[1])


def set_up(peers: bool) -> dict[str, float]:
    """Seconds to build the layer at d = 200 with 400 rows."""
    P = boxed(200, 400)
    start = time.perf_counter()
    rh.Constrained(8, P, strict=True)
    return {"rayhull, strict": time.perf_counter() - start}


def growth(sizes: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """(d) seconds to build and to run forward, batch 64, sparse rows with d = m."""
    found = {}
    for n in sizes:
        start = time.perf_counter()
        P = sparse(n)
        stated = time.perf_counter()
        into = rh.MapInto(P, method="shrink")
        built = time.perf_counter()
        c = torch.randn(64, n)
        run = interleave({"map": forward(into, c)}, rounds=5)["map"].median
        inside = bool(P.contains(into(c)).all())
        found[str(n)] = {"state": stated - start, "build": built - stated, "forward": run, "inside": float(inside)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no peers")
    quick = parser.parse_args().quick
    rounds = 5 if quick else 11
    results: dict[str, Any] = {"set-up": set_up(not quick)}
    for threads in (1, 2):
        results[f"checkerboard and box, {threads} threads"] = images(threads, rounds)
        for name, P in (("cone d=20 m=10", cone()), ("box d=50 m=30", boxed())):
            results[f"{name}, {threads} threads"] = against_peers(P, threads, rounds, not quick and threads == 1)
    results["one sample"] = {name: one_sample(P, rounds) for name, P in (("cone", cone()), ("box", boxed()))}
    results["by hand"] = {name: beside_hand(P, hand, rounds) for name, (P, hand) in hand_written().items()}
    results["growth"] = growth((10, 100, 1000) if quick else (10, 100, 1000, 10_000))
    text = report(results)
    print(text)
    if not quick:
        path = save("layer", {"batch": BATCH, "results": results})
        path.with_suffix(".md").write_text(text + "\n")
        plots.draw(["layer"])


def hand_table(results: Mapping[str, Any]) -> str:
    """One row a set: forward and training step by hand and by our layer, and how often each is outside exactly."""
    rows = []
    for name, result in results.items():
        row = [name]
        for kind in ("inference", "training"):
            hand, ours = (1e6 * result[kind][way].median for way in ("by hand", "rayhull"))
            row += [f"{hand:.0f}", f"{ours:.0f}", f"{ours / hand:.2f}x"]
        rows.append([*row, *(f"{result['found'][way]['outside']:.0%}" for way in ("by hand", "rayhull"))])
    times = [f"{kind}{way}" for kind in ("forward, ", "step, ") for way in ("by hand", "rayhull", "ratio")]
    return table(rows, ["set", *times, "outside exactly, by hand", "rayhull"])


def report(results: Mapping[str, Any]) -> str:
    parts = []
    for name, result in results.items():
        if "inference" not in result:
            continue
        rows = []
        found = result.get("found", {})
        for way, timing in result["inference"].items():
            floor, step = result["inference"]["nn.Linear"].median, result["training"].get(way)
            row = [way, f"{1e3 * timing.median:.3g}", f"{timing.median / floor:.2f}x"]
            row += [f"{step.median / result['training']['nn.Linear'].median:.2f}x" if step else "–"]
            row += [f"{found[way]['violation']:.1e}", f"{found[way]['outside']:.0%}"] if way in found else ["", ""]
            rows.append(row)
        rows += [[f"{way}, left out: {why}", *5 * ["–"]] for way, why in result.get("skipped", {}).items()]
        header = ("layer", "forward ms", "over Linear", "training step over Linear", "violation", "outside exactly")
        parts.append(f"### {name}\n\n{table(rows, header)}\n")
    ones = [
        [name, way, f"{1e6 * t.median:.1f}", f"{1e6 * (t.median - ways['nn.Linear'].median):+.1f}"]
        for name, ways in results.get("one sample", {}).items()
        for way, t in ways.items()
    ]
    parts.append("### One sample\n\n" + table(ones, ("set", "layer", "forward µs", "over Linear µs")) + "\n")
    parts.append("### The same by hand (µs, one thread)\n\n" + hand_table(results.get("by hand", {})) + "\n")
    rows = [(n, *(f"{v[k]:.3g}" for k in ("state", "build", "forward"))) for n, v in results["growth"].items()]
    parts.append("### Growth (sparse, d = m, batch 64, seconds)\n\n" + table(rows, ("d", "state", "build", "forward")))
    parts.append(f"\nSet-up at d=200, m=400: {results['set-up']['rayhull, strict']:.2f} s (strict).")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
