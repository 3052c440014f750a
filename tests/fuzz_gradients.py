"""Random sets, sides and ways in: the slope of each sample's point in its own side, by autograd and by differences.

Each case is made from one number, which a wrong slope names: ``one_case(number)`` makes it again. Samples near a kink
of the map, where differences ahead and behind or near and far disagree, are counted and not judged.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import torch

import rayhull as rh
from tests import fuzz_projection, fuzz_strict, slopes

METHODS = ("auto", "nearest", "shrink", "steps")
SAMPLES = 256


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Compare slopes of random cases for so long; raises on the first wrong one, with the number of its case."""
    rng, counts, stop = np.random.default_rng(seed), Counter[str](), time.monotonic() + seconds
    while time.monotonic() < stop:
        counts += one_case(int(rng.integers(2**62)))
    return dict(counts)


def one_case(case: int, methods: tuple[str, ...] = METHODS) -> Counter[str]:
    """One random set and way in, and every side that the set states, all from one number."""
    rng, generator = np.random.default_rng(case), torch.Generator().manual_seed(case)
    P = random_set(rng)
    method, size, looser = str(rng.choice(methods)), 10.0 ** rng.uniform(-1, 1.5), 10.0 ** rng.uniform(-2, 0)
    if P is None:
        return Counter({"empty": 1})
    try:
        into = rh.MapInto(P, method=method, infeasible="nan", max_generators=2000, dtype=torch.float64)
    except rh.RayhullError:
        return Counter({"refused": 1})
    counts = Counter({"sets": 1})
    for side in slopes.stated_sides(P):
        c = size * torch.randn(SAMPLES, into.coefficients, generator=generator, dtype=torch.float64)
        try:
            counts += judge(into, c, side, looser, generator)
        except Exception as error:
            error.add_note(f"case {case}: {side} of {P!r}, method={method!r}")
            raise
    return counts


def random_set(rng: np.random.Generator) -> rh.Polyhedron | None:
    """A set of one of the other fuzzes; None where its numbers happened to state an empty one."""
    try:
        return fuzz_strict.random_set(rng) if rng.random() < 0.5 else fuzz_projection.random_set(rng)[1]
    except rh.EmptySetError:
        return None


def judge(into: rh.MapInto, c: torch.Tensor, side: str, looser: float, generator: torch.Generator) -> Counter[str]:
    """The slopes of one map in one side."""
    value = slopes.loosened(into.polyhedron, side, len(c), looser, generator)
    direction = slopes.moved(into.polyhedron, side, len(c), generator)
    try:
        found = slopes.slopes(lambda own: into(c, **{side: own}), value, direction, generator)
    except rh.RayhullError:
        return Counter({f"{side} refused": 1})
    assert not found.wrong.any(), f"{int(found.wrong.sum())} wrong slopes, {found}"
    moving = found.smooth & (found.difference.abs() > found.error)
    seen = {f"slopes in {side}": found.smooth, "of them not 0": moving, "near a kink": ~found.smooth}
    return Counter({outcome: int(which.sum()) for outcome, which in seen.items()})
