"""General A x <= b: convex weights of vertices, the paper's extension, against shrinking and projecting.

The task is the learned projection onto a polytope: a cube of dimension d cut by a few random halfspaces, which has
about 2^d vertices. What was found stands in ``studies/__init__.py``, over the table of the report.
"""

from __future__ import annotations

from typing import Any

import torch

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.errors import choose
from experiments.methods.base import Method
from experiments.results import Run
from experiments.settings import VerticesSettings
from experiments.studies.regression import WIDTH, Regression, fit, generator, trunk

TRAIN, VALIDATION = 8192, 1024
WEIGHTS = ("softmax", "sparsemax", "entmax", "abs", "softplus")


class Weighted(Method):
    """FC to one coefficient a vertex, a map onto the simplex, the vertices."""

    name = "weighted"

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        weights = settings.method.removeprefix("vertices-")
        self.layer = rh.Constrained(in_features, P, method="vertices", weights=weights)
        self.layer.linear.reset_parameters()  # small: every vertex begins with about the same weight


class Shrunk(Method):
    """FC to a free y, shrunk towards the centre of the set: no vertices."""

    name = "shrink"

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = rh.Constrained(in_features, P, method="shrink")
        self.layer.linear.reset_parameters()  # small: the point begins inside, unshrunk


def polytope(dimension: int, cuts: int = 4) -> rh.Polyhedron:
    """The cube [-1, 1]^d, cut by random halfspaces at distance 0.8 from its centre."""
    normals = torch.randn(cuts, dimension, generator=generator(1))
    normals = (normals / normals.norm(dim=1, keepdim=True)).double()
    return rh.Polyhedron(normals.numpy(), 0.8, lower=-1, upper=1, shape=(dimension,))


def run(settings: VerticesSettings, digits: Digits | None, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """Methods: vertices-softmax, vertices-sparsemax, …, shrink, and those of the learned projection."""
    P = polytope(settings.dimension)
    special: dict[str, type[Method]] = {f"vertices-{name}": Weighted for name in WEIGHTS} | {"shrink": Shrunk}
    choose("method", settings.method, [*special, *methods.METHODS])
    points = 1.5 * torch.randn(TRAIN + VALIDATION, settings.dimension, generator=generator(0))
    torch.manual_seed(settings.seed)
    kind = special.get(settings.method) or methods.method_class(settings.method)
    validation = (points[TRAIN:], points[TRAIN:])
    task = Regression(kind(WIDTH, P, settings), trunk(settings.dimension), validation)
    return fit(task, (points[:TRAIN], points[:TRAIN]), settings, run, fabric, quiet)
