"""Layers on an accelerator: what they launch, what waits for the device, and times on a real one.

``python -m benchmarks.device`` counts on a pretended device (:mod:`benchmarks.pretended`), which every machine has, and
the kernels that torch.compile makes of the same operations, fused ones and calls of a library.
``--device cuda`` (or cpu) prints times over that of the Linear inside, with the peers that are installed beside.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

import rayhull as rh
from benchmarks import harness

BATCH, FEATURES = 256, 64


def birkhoff(n: int) -> rh.Polyhedron:
    """Doubly stochastic matrices."""
    rows = np.concatenate([np.kron(np.eye(n), np.ones((1, n))), np.kron(np.ones((1, n)), np.eye(n))])
    return rh.Polyhedron(A_eq=rows, b_eq=1, lower=0)


def storage(hours: int) -> rh.Polyhedron:
    """Power in and out of a battery, whose charge stays between 0 and 4."""
    charge = np.tril(np.ones((hours, hours)))
    return rh.Polyhedron(np.concatenate([charge, -charge]), np.repeat([2, 2], hours), lower=-1, upper=1)


def flow(nodes: int, edges: int) -> rh.Polyhedron:
    """Flows on a ring with chords: what enters a node leaves it."""
    rng, ends = np.random.default_rng(0), np.zeros((nodes, edges))
    for k in range(edges):
        i = k % nodes
        j = (i + 1) % nodes if k < nodes else (i + int(rng.integers(2, nodes - 1))) % nodes
        ends[i, k], ends[j, k] = -1, 1
    return rh.Polyhedron(A_eq=ends[:-1], b_eq=0, lower=-1, upper=1)


def dense(m: int, d: int) -> rh.Polyhedron:
    """Random rows around 0 in a box."""
    rng = np.random.default_rng(0)
    return rh.Polyhedron(rng.standard_normal((m, d)), rng.random(m) + 0.1, lower=-1, upper=1)


SETS: dict[str, Callable[[], rh.Polyhedron]] = {
    "simplex(10)": lambda: rh.simplex(10),
    "checkerboard in a box": lambda: rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1),
    "monotone(40)": lambda: rh.monotone(40),
    "monotone(200)": lambda: rh.monotone(200),
    "convex(50)": lambda: rh.convex(50),
    "30 rows in a box of 50": lambda: dense(30, 50),
    "Birkhoff 20": lambda: birkhoff(20),
    "flow of 120 on 50": lambda: flow(50, 120),
    "storage of 24 hours": lambda: storage(24),
}


def counted(names: Iterable[str]) -> list[dict[str, Any]]:
    """Launches and waits of a forward and a backward pass in training, for every set, plain and strict."""
    from benchmarks.pretended import DEVICE, Count, Elsewhere

    rows = []
    for name in names:
        for strict in (False, True):
            torch.manual_seed(0)
            with Count() as forward:
                layer = rh.Constrained(FEATURES, SETS[name](), strict=strict).to(DEVICE)
                features = Elsewhere(torch.randn(BATCH, FEATURES))
                layer(features)  # constants of the first call
                forward.launches.clear()
                forward.waits.clear()
                x = layer(features)
            with Count() as backward:
                x.sum().backward()
            said = [part.way.elsewhere for part in layer.map.parts if part.way.elsewhere]
            counts = {"forward": forward.launches.total(), "backward": backward.launches.total()}
            waits = (forward.waits + backward.waits).total()
            rows.append(
                {
                    "set": name,
                    "strict": strict,
                    **counts,
                    "waits": waits,
                    "compiled": fused(name, strict),
                    "how": said[0] if said else "closed form",
                }
            )
    return rows


@torch.no_grad()
def fused(name: str, strict: bool) -> str:
    """How many kernels the forward pass in evaluation is, once compiled: fused + calls of a library. Nothing is run."""
    from torch._inductor import config
    from torch._inductor.utils import get_code

    layer = rh.Constrained(FEATURES, SETS[name](), strict=strict).eval()
    layer.map.prepare()
    features = torch.randn(BATCH, FEATURES)
    graph = torch.export.export(layer, (features,)).module()  # what a device would run
    with config.patch(force_disable_caches=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, that its caches are off
        found = get_code(torch.compile(graph, fullgraph=True), features)
    (code,) = (text for text in found if "def call(" in text)
    calls = re.findall(r"(cpp_fused|extern_kernels)[\w.]*\(", code[code.index("def call(") :])
    return f"{calls.count('cpp_fused')} + {calls.count('extern_kernels')}"


def timed(names: Iterable[str], device: str, rounds: int) -> list[dict[str, Any]]:
    """Times of training passes over that of the Linear inside; and of the nearest point and peers, where they are."""
    rows = []
    for name in names:
        P, h = SETS[name](), torch.randn(BATCH, FEATURES, device=device)
        layer = rh.Constrained(FEATURES, P, device=device)
        cases = {"linear": _training(layer.linear, h, device), "layer": _training(layer, h, device)}
        cases |= {who: _training(module, h, device) for who, module in peers(P, device).items()}
        found = harness.interleave(cases, rounds=rounds)
        base = found["linear"].median
        rows.append({"set": name, **{who: round(t.median / base, 2) for who, t in found.items() if who != "linear"}})
    return rows


def peers(P: rh.Polyhedron, device: str) -> dict[str, torch.nn.Module]:
    """A Linear, and then the nearest point itself, RAYEN, HardNet-Aff or Moreau, as far as they are installed."""
    from benchmarks import peers as others

    makers = {
        "nearest point": rh.Projection,
        "RAYEN": others.Rayen,
        "HardNet-Aff": others.HardNetAff,
        "Moreau": others.Moreau,
    }
    found: dict[str, torch.nn.Module] = {}
    for who, make in makers.items():
        try:
            way = make(P).to(device=device, dtype=torch.float32)
            linear = torch.nn.Linear(FEATURES, getattr(way, "inputs", P.dim), device=device)
            shape = torch.nn.Unflatten(-1, P.shape) if who == "nearest point" else torch.nn.Identity()
            found[who] = torch.nn.Sequential(linear, shape, way)
            found[who](torch.randn(2, FEATURES, device=device))
        except Exception as error:
            found.pop(who, None)
            print(f"{who} is left out: {others.reason(error)}")
    return found


def _training(module: torch.nn.Module, h: torch.Tensor, device: str) -> Callable[[], None]:
    def run() -> None:
        module(h).sum().backward()
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="pretended", help="pretended, cpu, cuda, ...")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", default=list(SETS), help="names of sets")
    given = parser.parse_args()
    pretended = given.device == "pretended"
    rows = counted(given.only) if pretended else timed(given.only, given.device, given.rounds)
    head = list(dict.fromkeys(key for row in rows for key in row))
    text = harness.table([[row.get(key, "–") for key in head] for row in rows], head)
    print(text)
    if given.only == list(SETS):
        name = f"device_{given.device.replace(':', '_')}"
        harness.save(name, {"rows": rows})
        (harness.RESULTS / f"{name}.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
