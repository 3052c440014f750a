"""The ways to a point of the set that the learning benchmark compares: ours, and those of the peers.

Each is a head: how the last Linear starts, and a map from its outputs to points. Peers get PyTorch's own start.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import torch
from torch import Tensor, nn

import rayhull as rh
from benchmarks.learning_problem import Problem

WIDTH = 64
Map = Callable[..., Tensor]
SMALL = 20  # rows and bounds up to which a peer that solves a quadratic program for each sample takes part
ENTRIES = 20_000  # of rows up to which dual steps take part: they multiply with all of them
PINET = (
    "polytope",
    "portfolio",
)  # the problems on which Pi-net runs: one with rows and bounds, one with an equality too


@dataclass(frozen=True, eq=False)
class Head:
    """``start(seed)`` gives weight (k, WIDTH) and bias (k,) of the last Linear; maps take (n, k) and sides.

    ``penalty(y, c, **sides)`` is added to the training loss, for points y (n, d) of coefficients c (n, k).
    """

    start: Callable[[int], tuple[Tensor, Tensor]]
    training: Map
    evaluation: Map
    penalty: Callable[..., Tensor] | None = None
    note: str = ""
    layer: rh.Constrained | None = None  # of ours: what folds for inference


class NotForThisSet(Exception):
    """The way has no answer for the set; the message is the reason."""


def plain_start(k: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    def start(seed: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed)
        linear = nn.Linear(WIDTH, k)
        return linear.weight.detach(), linear.bias.detach()

    return start


def ours(**options: object) -> Callable[[Problem], Head]:
    """rh.Constrained with these options."""

    def make(problem: Problem) -> Head:
        entries = len(problem.P.inequalities) * problem.P.dim
        if options.get("method") == "approach" and entries > ENTRIES:
            raise NotForThisSet(f"left out beyond {ENTRIES} entries of rows: a quarter of an hour for {entries}")
        try:
            varies = None if options.get("method") == "projection" else problem.varies
            layer = rh.Constrained(WIDTH, problem.P, varies=varies, **options)  # type: ignore[arg-type]
            if problem.sides is not None:
                layer(torch.zeros(2, WIDTH), **problem.sides(problem.inputs["val"][:2]))
        except (rh.RayhullError, ValueError) as error:
            raise NotForThisSet(str(error)) from None

        def start(seed: int) -> tuple[Tensor, Tensor]:
            torch.manual_seed(seed)
            layer.reset_parameters()
            return layer.linear.weight.detach().clone(), layer.linear.bias.detach().clone()

        return Head(start, after_linear(layer), after_linear(layer.eval()), note=layer.describe(), layer=layer)

    return make


def after_linear(layer: rh.Constrained) -> Map:
    """The layer as it stands, in training or in evaluation, from the coefficients that its Linear would give."""
    rest = copy.deepcopy(layer)
    rest.linear, rest.in_features = nn.Identity(), layer.map.coefficients  # type: ignore[assignment]
    return lambda c, **sides: rest(c, **sides).flatten(1)


def kept_near(problem: Problem, weight: float = 0.01) -> Head:
    """The nearest point, and a hundredth of the free point's squared distance from the set in the training loss."""
    head = METHODS["projection"](problem)
    layer = head.layer
    assert layer is not None

    def distance(y: Tensor, c: Tensor, **sides: Tensor) -> Tensor:
        return weight * (layer.map.unconstrained(c).flatten(1) - y.detach()).square().sum(-1)

    return replace(head, penalty=distance)


def leaking(problem: Problem, leak: float = 0.1) -> Head:
    """A Linear and the nearest point, past which a tenth of the gradient leaks in training."""

    def into(nearest: rh.Projection) -> Map:
        return lambda y, **sides: nearest(y.reshape(-1, *problem.P.shape), **sides).flatten(1)

    made = rh.Projection(problem.P, leak=leak)
    return Head(plain_start(problem.P.dim), into(made), into(copy.deepcopy(made).eval()))


def after_training(problem: Problem) -> Head:
    """Train free of the inequalities, project afterwards. Equalities, which a matrix meets, hold in training too."""
    nearest, rows = rh.Projection(problem.P), Dense.of(problem.P)
    inverse = torch.linalg.pinv(rows.E.double()).float()

    def free(y: Tensor, b_eq: Tensor | None = None) -> Tensor:
        return y - (y @ rows.E.mT - (rows.e if b_eq is None else b_eq)) @ inverse.mT

    def project(y: Tensor, **sides: Tensor) -> Tensor:
        return nearest(free(y, **sides).reshape(-1, *problem.P.shape), **sides).flatten(1)

    return Head(plain_start(problem.P.dim), free, project)


@dataclass(frozen=True, eq=False)
class Dense:
    """All rows of a set as float32 tensors."""

    A: Tensor
    b: Tensor
    E: Tensor
    e: Tensor

    @classmethod
    def of(cls, P: rh.Polyhedron) -> Dense:
        parts = (P.rows.matrix.toarray(), P.rows.rhs, P.equality_rows.matrix.toarray(), P.equality_rows.rhs)
        return cls(*(torch.as_tensor(np.asarray(v), dtype=torch.float32) for v in parts))


def penalty(problem: Problem, weight: float = 10.0) -> Head:
    """Free outputs, and ten times the squared violations in the training loss: not hard."""
    rows = Dense.of(problem.P)

    def violations(y: Tensor, c: Tensor, b_eq: Tensor | None = None) -> Tensor:
        e = rows.e if b_eq is None else b_eq
        return weight * (torch.relu(y @ rows.A.mT - rows.b).square().sum(-1) + (y @ rows.E.mT - e).square().sum(-1))

    def same(y: Tensor, **sides: Tensor) -> Tensor:
        return y

    return Head(plain_start(problem.P.dim), same, same, violations)


def hardnet(problem: Problem) -> Head:
    """HardNet-Aff, written from its paper: y - M⁺(relu(M y - u) - relu(l - M y)), M all rows, independent."""
    rows = Dense.of(problem.P)
    M = torch.cat([rows.A, rows.E])
    if len(M) > problem.P.dim or int(torch.linalg.matrix_rank(M.double())) < len(M):
        raise NotForThisSet(f"needs independent rows; {len(M)} rows and bounds in {problem.P.dim} coordinates are not")
    inverse = torch.linalg.pinv(M.double()).float()

    def into(y: Tensor, b_eq: Tensor | None = None) -> Tensor:
        e = (rows.e if b_eq is None else b_eq).expand(len(y), -1)
        excess = y @ M.mT - torch.cat([rows.b.expand(len(y), -1), e], -1)
        moved = torch.cat([torch.relu(excess[:, : len(rows.b)]), excess[:, len(rows.b) :]], -1)
        return y - moved @ inverse.mT

    return Head(plain_start(problem.P.dim), into, into)


def rayen(problem: Problem) -> Head:
    """RAYEN's own package: rays from its interior point."""
    if problem.sides is not None:
        raise NotForThisSet("its set is fixed, and here a right-hand side follows the sample")
    from rayen import constraint_module, constraints

    P = problem.P
    both = (P.rows, P.equality_rows)
    stated = [(r.matrix.toarray(), r.rhs[:, None]) if len(r) else (None, None) for r in both]
    rows = constraints.LinearConstraint(*stated[0], *stated[1])
    try:
        made = constraints.ConvexConstraints(lc=rows, qcs=[], socs=[], lmic=None)
        layer = constraint_module.ConstraintModule(made, input_dim=None, method="RAYEN", create_map=False).float()
    except RuntimeError as error:
        raise NotForThisSet(f"refused by RAYEN: {error}") from None

    def into(c: Tensor) -> Tensor:
        return layer(c.unsqueeze(-1)).squeeze(-1)

    return Head(plain_start(layer.n), into, into)


def qpth(problem: Problem) -> Head:
    """OptNet's batched interior points for the nearest point, float64 inside as its authors advise."""
    rows, count = Dense.of(problem.P), len(problem.P.rows)
    if count > SMALL or problem.sides is not None:
        raise NotForThisSet(f"left out beyond {SMALL} rows and bounds: twenty minutes for 46 of them, and here {count}")
    from qpth.qp import QPFunction

    A, b, E, e = (v.double() for v in (rows.A, rows.b, rows.E, rows.e))
    E, e = (E, e) if len(e) else (torch.empty(0), torch.empty(0))
    solve, eye = QPFunction(verbose=-1, check_Q_spd=False), torch.eye(problem.P.dim, dtype=torch.float64)

    def into(y: Tensor) -> Tensor:
        return solve(eye, -y.double(), A, b, E, e).float()

    return Head(plain_start(problem.P.dim), into, into)


def dc3(problem: Problem, steps: int = 10, rate: float = 1e-4) -> Head:
    """DC3, written from its paper: equalities by completion, then gradient steps on the violation; not hard."""
    rows = Dense.of(problem.P)
    if not len(rows.e):
        raise NotForThisSet("without equalities it is a penalty with a few gradient steps")
    E = rows.E.double().numpy()
    _, _, order = scipy.linalg.qr(E, pivoting=True)
    solved, given = (np.asarray(v, np.int64) for v in (order[: len(E)], np.sort(order[len(E) :])))
    inverse = torch.as_tensor(np.linalg.inv(E[:, solved]), dtype=torch.float32)
    given_rows = rows.E[:, given]
    reduced = rows.A[:, given] - rows.A[:, solved] @ (inverse @ given_rows)

    def completed(z: Tensor, e: Tensor) -> Tensor:
        y = z.new_zeros(len(z), problem.P.dim)
        y = y.index_copy(1, torch.as_tensor(given), z)
        return y.index_copy(1, torch.as_tensor(solved), (e - z @ given_rows.mT) @ inverse.mT)

    def into(z: Tensor, b_eq: Tensor | None = None) -> Tensor:
        e, moved = rows.e if b_eq is None else b_eq, torch.zeros_like(z)
        for _ in range(steps):
            excess = torch.relu(completed(z, e) @ rows.A.mT - rows.b)
            moved = rate * 2 * excess @ reduced + 0.5 * moved
            z = z - moved
        return completed(z, e)

    def violations(y: Tensor, c: Tensor, **sides: Tensor) -> Tensor:
        return 10.0 * torch.relu(y @ rows.A.mT - rows.b).square().sum(-1)

    return Head(plain_start(problem.P.dim - len(E)), into, into, violations)


def pinet(problem: Problem, steps: int = 50, sigma: float = 1.0, relaxed: float = 1.7) -> Head:
    """Pi-net, written from its paper: Douglas-Rachford steps between {A y = b, C y = s} and bounds on (y, s).

    Differentiated through the steps; the affine part holds, what inequalities are broken by falls with the steps.
    """
    if problem.name not in PINET:
        raise NotForThisSet(f"run on {' and '.join(PINET)} only")
    P, d = problem.P, problem.P.dim
    C, E = (torch.as_tensor(r.matrix.toarray(), dtype=torch.float32) for r in (P.inequalities, P.equality_rows))
    affine = torch.cat([torch.cat([E, E.new_zeros(len(E), len(C))], 1), torch.cat([C, -torch.eye(len(C))], 1)])
    rhs = torch.cat([torch.as_tensor(P.equality_rows.rhs), torch.zeros(len(C))]).float()
    inverse = torch.linalg.pinv(affine.double()).float()
    low = torch.cat([torch.as_tensor(P.lower_bounds).float(), torch.full((len(C),), -torch.inf)])
    high = torch.cat([torch.as_tensor(P.upper_bounds), torch.as_tensor(P.inequalities.rhs)]).float()
    weight = torch.cat([torch.full((d,), 2 * sigma), torch.zeros(len(C))])

    def onto_affine(s: Tensor) -> Tensor:
        return s - (s @ affine.mT - rhs) @ inverse.mT

    def into(y: Tensor) -> Tensor:
        target = torch.nn.functional.pad(y, (0, len(C)))
        s = torch.cat([y, y @ C.mT], -1)
        for _ in range(steps):
            z = onto_affine(s)
            near = torch.minimum(torch.maximum((2 * z - s + weight * target) / (1 + weight), low), high)
            s = s + relaxed * (near - z)
        return onto_affine(s)[:, :d]

    return Head(plain_start(d), into, into)


METHODS: dict[str, Callable[[Problem], Head]] = {
    "auto": ours(),
    "shrink": ours(method="shrink", leak=0.0),
    "approach": ours(method="steps", leak=0.0),
    "projection": ours(method="nearest", leak=0.0),
    "projection, kept near": kept_near,
    "projection, leak": leaking,
    "free, then project": after_training,
    "penalty": penalty,
    "RAYEN": rayen,
    "HardNet-Aff": hardnet,
    "DC3": dc3,
    "qpth": qpth,
    "Pi-net": pinet,
}
SOFT = ("penalty", "DC3", "Pi-net")  # may leave the set
