"""General A x <= b: convex weights of vertices, the paper's extension, against shrinking and projecting.

The task is the learned projection onto a polytope: a cube of dimension d cut by a few random halfspaces, whose
vertices grow exponentially with d. What was found stands in ``TEXT``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.errors import choose
from experiments.methods.base import Method
from experiments.regression import WIDTH, Regression, fit, generator, trunk
from experiments.report.groups import Group
from experiments.report.pages import Section
from experiments.report.sections import small
from experiments.report.tables import spread
from experiments.results import Run
from experiments.settings import SmallSettings, option
from experiments.studies import Job, Study, job

TRAIN, VALIDATION = 8192, 1024
SOLVED = 1e-4  # of a distance: such a sample has nothing left to learn
WEIGHTS = ("softmax", "sparsemax", "entmax", "abs", "softplus")


@dataclass(frozen=True)
class VerticesSettings(SmallSettings):
    """General A x <= b: convex weights of vertices against shrinking and projecting."""

    dimension: int = option(8, "of the polytope, a cut cube: 36 vertices for 4, 928 for 8")


class Weighted(Method):
    """FC to one coefficient a vertex, a map onto the simplex, the vertices."""

    name = "weighted"

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        weights = settings.method.removeprefix("vertices-")
        self.layer = rh.Constrained(in_features, P, method="vertices", simplex=weights)
        self.layer.linear.reset_parameters()  # small: every vertex begins with about the same weight


class Shrunk(Method):
    """FC to a free y, shrunk towards the centre of the set: no vertices."""

    name = "shrink"

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = rh.Constrained(in_features, P, method="shrink", leak=0.0)
        self.layer.linear.reset_parameters()  # small: the point begins inside, unshrunk


class Probed(Regression):
    """As any regression, and how much of the error that is left reaches the coefficients through the map."""

    def evaluate(self) -> dict[str, float]:
        return super().evaluate() | {"passed": self.passed()}

    @torch.enable_grad()
    def passed(self) -> float:
        """The median over the validation samples of |Jᵀe| / |e|, e the way from the right answer to the point."""
        inputs, targets = self.validation
        layer = self.method.layer
        linear, into = (layer.linear, layer.map) if isinstance(layer, rh.Constrained) else layer
        c = linear(self.trunk(inputs)).detach().requires_grad_()
        x = into(c)
        error = (x - rh.project(self.method.P, targets)).detach()
        (reached,) = torch.autograd.grad(x, c, error)
        left = error.norm(dim=-1)
        return float((reached.norm(dim=-1) / left)[left > SOLVED].median())


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
    task = Probed(kind(WIDTH, P, settings), trunk(settings.dimension), validation)
    start = {"passed_at_start": task.eval().passed(), "vertices": float(len(P.generators().vertices))}
    return fit(task, (points[:TRAIN], points[:TRAIN]), settings, run, fabric, quiet, start)


TEXT = (
    "The learned projection onto a cut cube of dimension d, which has 36 vertices for d = 4 and 928 for d = 8. "
    "The paper reports slow convergence with a softmax over the vertices, and names its vanishing gradients, "
    "where one weight is far above the others. They are measured here: of the error e that a point still has, the "
    "size of Jᵀe over that of e, J the derivative of the map, the median over validation samples. Through a "
    "softmax little of it arrives, the less the more vertices there are: each gets its own weight's share. But "
    "that alone does not decide. A normalised softplus passes on even less at the start and ends nearer, since "
    "Adam scales small gradients up; sparsemax and entmax pass on most and end worst, since a vertex at zero gets "
    "no gradient and does not come back. What a softmax cannot do is an answer on a face: it needs exact zeros "
    "for all other vertices, which it approaches and never reaches. Shrinking needs no vertices and is the "
    "cheapest, but one scale for the whole point costs more the more coordinates share it; the nearest point is "
    "best, and does not need the vertices either."
)
COMPARED = ("vertices-softmax", "vertices-sparsemax", "vertices-entmax", "vertices-softplus", "shrink", "projection")


def section(groups: Sequence[Group]) -> Section:
    """One table, and the curves."""
    made = small("vertices", "General A x <= b: convex weights of vertices", TEXT, groups)
    by_label = {group.label: group for group in groups}
    for row in made.table:
        group = by_label[row["way"]]
        first, last = (spread(group.summary(key), ".3f") for key in ("passed_at_start", "passed"))
        row["error that reaches the coefficients: at the start"], row["at the end"] = first, last
    return made


def reproduce(runs: int) -> Iterator[Job]:
    """Every way in at two dimensions, three seeds."""
    for method, d, seed in product(COMPARED, (4, 8), range(min(3, runs))):
        yield job("vertices", VerticesSettings(method=method, dimension=d, seed=seed), 30, f"{method}-{d}")


STUDY = Study(VerticesSettings, run, section, needs_digits=False, reproduce=reproduce)
