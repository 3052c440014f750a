"""Golden points and gradients of the ways in: what must stay the same while an implementation is replaced or deleted.

For every way in by name and every set of the zoo that it takes, at three scales, in two dtypes, plain and strict: the
points, and up to scale 1e6 the gradients of a fixed weighted sum, one for plain and strict. Where the map keeps
what is inside, the input is the unconstrained point, not its coefficients, and the shrink's base point is given: units
and base points may be chosen anew.
``python -m tests.golden_layers --write`` writes the file anew: a change of what trained layers say. New sets of the zoo
join it by ``python -m tests.golden --write``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from tests.zoo import ZOO

FILE = Path(__file__).parent / "golden_layers.npz"
METHODS = ("rays", "vertices", "shrink", "nearest")
SCALES = (1.0, 1e6, 1e30)
DIFFERENTIATED = 2  # of the scales
SAMPLES = 2
DTYPES = {"float32": torch.float32, "float64": torch.float64}
POINTS = {"float32": 1e-4, "float64": 1e-9}  # tolerance, relative to the largest entry of a sample and to 1
GRADIENTS = {"float32": 2e-3, "float64": 1e-6}  # relative to the largest entry of a sample ...
VANISHED = {"float32": 1e-7, "float64": 1e-12}  # ... and absolute, for weights of size 1
Arrays = dict[str, np.ndarray[Any, Any]]


def maps(name: str, method: str, dtype: torch.dtype) -> Iterator[rh.MapInto]:
    """The plain map and the strict one; none where the way in does not take the set."""
    P = ZOO[name]()
    options: dict[str, Any] = {"base": P.interior_point()} if method == "shrink" else {}
    for strict in (False, True):
        try:
            yield rh.MapInto(P, method=method, strict=strict, max_generators=2000, dtype=dtype, **options)
        except (rh.RayhullError, ValueError):
            return


def golden(name: str, method: str) -> Arrays:
    """Inputs (scales, samples, k), and for each dtype points (strict, scales, samples, d), plain gradients."""
    made = list(maps(name, method, torch.float64))
    if not made:
        return {}
    inputs = inputs_of(made[0])
    found: Arrays = {"inputs": inputs.numpy()}
    for kind, dtype in DTYPES.items():
        answers = [answer(into, inputs.to(dtype)) for into in maps(name, method, dtype)]
        found[f"{kind} points"] = np.stack([points.numpy() for points, _ in answers])
        found[f"{kind} gradients"] = answers[0][1].numpy()
    return found


def inputs_of(into: rh.MapInto) -> Tensor:
    """Unconstrained points or coefficients, in float32 for both dtypes. (scales, samples, \\*)"""
    unit = torch.randn(SAMPLES, into.coefficients, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coefficients = torch.stack([scale * unit for scale in SCALES])
    return (into.unconstrained(coefficients) if into.keeps_inside else coefficients).float()


def answer(into: rh.MapInto, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The points of every scale, and the gradients of their weighted sums in the inputs of the first scales."""
    leaf = inputs.clone().requires_grad_()
    points = into(into.coefficients_of(leaf) if into.keeps_inside else leaf)
    weights = torch.sin(1 + torch.arange(into.polyhedron.dim, dtype=inputs.dtype)).reshape(into.polyhedron.shape)
    (gradient,) = torch.autograd.grad((points[:DIFFERENTIATED] * weights).sum(), leaf)
    return points.detach(), gradient[:DIFFERENTIATED]


def differences(name: str, method: str, known: Arrays) -> Iterator[str]:
    """What differs from the known values by more than rounding, in words."""
    inputs = torch.as_tensor(known["inputs"])
    for kind, dtype in DTYPES.items():
        made = list(maps(name, method, dtype))
        if len(made) != len(known[f"{kind} points"]):
            yield f"{kind}: {len(made)} maps in place of {len(known[f'{kind} points'])}"
        for into, old in zip(made, known[f"{kind} points"], strict=False):
            points, gradients = answer(into, inputs.to(dtype))
            what = f"{kind}{', strict' * into.strict}"
            kept = compared(into, method)
            if not into.polyhedron.contains(points[kept:]).all():
                yield f"{what}: points are outside"
            if not close(points[:kept], old[:kept], POINTS[kind], POINTS[kind]):
                yield f"{what}: points differ"
            if not close(gradients, known[f"{kind} gradients"], GRADIENTS[kind], VANISHED[kind]):
                yield f"{what}: gradients differ"


def compared(into: rh.MapInto, method: str) -> int:
    """How many scales: how far a nearest point without end goes for 1e30, and what strict cuts, depends on units."""
    endless = method == "nearest" and not into.polyhedron.is_bounded
    return DIFFERENTIATED if endless or into.strict else len(SCALES)


def close(new: Tensor, known: np.ndarray[Any, Any], relative: float, absolute: float) -> bool:
    """Whether each sample is where it was, up to a share of its largest entry and an absolute tolerance."""
    now, old = (torch.as_tensor(v).double().reshape(len(v), SAMPLES, -1) for v in (new, known))
    off = (now - old).abs().amax(-1)
    return bool((off <= relative * old.abs().amax(-1) + absolute).all())  # NaN is not


def read() -> dict[tuple[str, str], Arrays]:
    """The golden arrays of each (set, method)."""
    known: dict[tuple[str, str], Arrays] = {}
    with np.load(FILE) as file:
        for key in file.files:
            name, method, what = key.split("|")
            known.setdefault((name, method), {})[what] = file[key]
    return known


def write(known: dict[tuple[str, str], Arrays]) -> None:
    """Write what is known, and work out the rest of the zoo."""
    pairs = [(name, method) for name in ZOO for method in METHODS]
    found = {pair: known[pair] if pair in known else golden(*pair) for pair in pairs}
    arrays = {f"{name}|{method}|{what}": v for (name, method), own in found.items() for what, v in own.items()}
    np.savez_compressed(FILE, **arrays)


def main() -> None:
    """Compare, or write anew."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden_layers", description=main.__doc__)
    parser.add_argument("--write", action="store_true", help=f"replace {FILE.name}")
    if parser.parse_args().write:
        write({})
        return
    for (name, method), known in read().items():
        for line in differences(name, method, known):
            print(f"{name}, {method}: {line}")


if __name__ == "__main__":
    main()
