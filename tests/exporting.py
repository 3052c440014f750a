"""What the tests of exports share: layers that a graph holds, their features and sides, and the judge of strict."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rayhull as rh

KINDS = {
    "one row and bounds": lambda: rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1),
    "vertices": lambda: rh.simplex((2, 3)),
    "steps": lambda: rh.Polyhedron([[1, 2, 0], [0, -1, 1], [-1, 0, -1]], 1, lower=-2, upper=2),
    "several kinds": lambda: rh.product(rh.simplex(3), rh.box(-1, 1, 2), rh.monotone(4)),
    "equalities": lambda: rh.Polyhedron(A_eq=[[1, 2, 3, 4]], b_eq=5, lower=0, upper=2),
}


def exportable(P: rh.Polyhedron, **options: Any) -> rh.Constrained:
    """A layer of four features by the way that is asked for, by steps where a graph does not hold that way."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*may learn badly")  # steps along long chains and curves
        layer = rh.Constrained(4, P, **options)
        if not all(part.way.fits_graphs(()) for part in layer.map.parts):
            layer = rh.Constrained(4, P, **options | {"method": "steps"})
    return layer


def features(n: int = 40, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Some that land inside, and some far outside."""
    random = torch.Generator().manual_seed(1)
    return (torch.randn(n, 4, generator=random) * torch.logspace(-1, 2, n)[:, None]).to(dtype)


def inequalities(P: rh.Polyhedron) -> rh.Polyhedron:
    """What strict holds exactly: the set without its equalities."""
    rows = (P.A, P.b) if len(P.inequalities) else (None, None)
    return rh.Polyhedron(*rows, lower=P.lower, upper=P.upper, shape=P.shape)


def dispatch(**options: Any) -> rh.Constrained:
    """Three generators that meet a demand of the sample, from a base rule; limits may come with the sample, too."""
    P = rh.Polyhedron([[1, -2, 0]], 0, A_eq=[[1, 1, 1]], b_eq=3, lower=0, upper=[4, 3, 2])
    varies = {"b_eq": (2.0, 5.0), "upper": ([3.6, 2.7, 1.8], [4.8, 3.6, 2.4])}
    torch.manual_seed(0)
    return rh.Constrained(4, P, method="steps", varies=varies, infeasible="nan", **options).eval()


def a_day(n: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Demand and limits of n samples within the ranges of :func:`dispatch`; the first asks for more than there is."""
    random = torch.Generator().manual_seed(0)
    demand = 2 + 3 * torch.rand(n, 1, generator=random)
    upper = torch.tensor([4.0, 3.0, 2.0]) * (0.9 + 0.3 * torch.rand(n, 3, generator=random))
    demand[0] = 50.0
    return {"b_eq": demand.to(dtype), "upper": upper.to(dtype)}


def near(found: Any, expected: torch.Tensor, tolerance: float = 2e-5) -> bool:
    """Whether points agree up to rounding, for their size."""
    expected = expected.detach().double().numpy()
    return bool(np.allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance, equal_nan=True))


def snippet(word: str) -> dict[str, Any]:
    """The names that the page's first block and its block with a word leave: one that no other test runs."""
    text = (Path(__file__).parent.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    (block,) = [block for block in re.findall(r"```py\n(.*?)```", text, re.DOTALL) if word in block]
    for code in (re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], block):
        exec(compile(code, "deploy.md", "exec"), names)
    return names
