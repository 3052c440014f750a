"""Golden values: what must stay the same while the code moves. ``python -m tests.golden --write`` writes them anew.

For every set of the zoo: its fingerprint, its generators (exact integers as a digest), the nearest point of one fixed
point with a ceiling for its KKT residual, and the names and shapes in the state_dict of its layers. A change here is a
change that users see in checkpoints, caches or answers: it is written on purpose, and its difference is read in review.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rayhull as rh
from tests import golden_layers
from tests.zoo import ZOO

FILE = Path(__file__).parent / "golden.json"
COORDINATES = 6  # of a nearest point are kept
MANY = 2000  # generators: more are not written out


def golden(name: str) -> dict[str, Any]:
    """The golden values of one set of the zoo."""
    P = ZOO[name]()
    return {
        "fingerprint": P.fingerprint,
        "generators": generators(P),
        "nearest": nearest(P),
        "state_dict": {
            "Constrained": parameters(rh.Constrained(4, P, method="shrink")),
            "Projection": parameters(rh.Projection(P)),
        },
    }


def generators(P: rh.Polyhedron) -> dict[str, Any] | str:
    """How many of each kind, and a digest of the exact integers in a fixed order; None where the set is in floats."""
    try:
        G = rh.convert(P, cache=False, max_generators=MANY)
    except rh.BudgetExceededError:
        return f"more than {MANY}"
    counts = {kind: len(getattr(G, kind)) for kind in ("vertices", "rays", "lines")}
    return counts | {"exact": None if G.exact is None else _digest(G.exact)}


def _digest(exact: Any) -> str:
    vertices = [
        [*top, bottom] for top, bottom in zip(exact.numerators.tolist(), exact.denominators.tolist(), strict=True)
    ]
    lines = [_turned(line) for line in exact.lines.tolist()]
    return hashlib.sha256(repr([sorted(vertices), sorted(exact.rays.tolist()), sorted(lines)]).encode()).hexdigest()[
        :16
    ]


def _turned(line: list[int]) -> list[int]:
    """A line and its opposite are the same line: the first entry that is not 0 is positive."""
    first = next(v for v in line if v)
    return line if first > 0 else [-v for v in line]


def nearest(P: rh.Polyhedron) -> dict[str, Any]:
    """The first coordinates of a projected point, and a power of ten above its KKT residual."""
    point = 3 * np.sin(1 + np.arange(P.dim)).reshape(P.shape)
    z, info = rh.project(P, point, return_info=True)
    residual = max(float(torch.as_tensor(info.residual).max()), 1e-16)
    return {
        "point": [float(f"{v:.12g}") for v in z.ravel()[:COORDINATES]],
        "residual_below": 10.0 ** (math.ceil(math.log10(residual)) + 1),
    }


def parameters(module: torch.nn.Module) -> dict[str, str]:
    """The state_dict: each name with its dtype and shape."""
    return {name: f"{str(v.dtype)[6:]} {tuple(v.shape)}" for name, v in module.state_dict().items()}


def read() -> dict[str, Any]:
    """The golden file."""
    return json.loads(FILE.read_text())


def main() -> None:
    """Compare, or write anew."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=main.__doc__)
    parser.add_argument("--write", action="store_true", help=f"replace {FILE.name}")
    found = {name: golden(name) for name in ZOO}
    if parser.parse_args().write:
        FILE.write_text(json.dumps(found, indent=1) + "\n")
        golden_layers.write(golden_layers.read())
        return
    old = read()
    changed = [f"{name}: {part}" for name in found for part in found[name] if found[name][part] != old[name][part]]
    print("\n".join(changed) or f"{len(found)} sets as before")


if __name__ == "__main__":
    main()
