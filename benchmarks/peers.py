"""The field's other methods, each once: its package where there is one, else written from its paper.

A peer is a module made from a set: what a Linear gives (n, inputs), and the sides of the sample by name, become points
(n, d). A package that is not installed, or a set that a method does not take, is an exception with the reason: the
benchmark leaves the peer out and shows why.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import rayhull as rh
from experiments.solvers import EXTERNAL
from rayhull.projection.standard_form import StandardForm

Array = np.ndarray[Any, Any]


class NotForThisSet(Exception):
    """The method has no answer for the set; the message is the reason."""


class Peer(nn.Module):
    """The numbers as they are: a penalty alone leads into the set.

    Attributes:
        inputs: how many numbers a sample has.
        penalised: whether training adds what is broken to the loss.
        starts_open: whether its authors train without the way into the set at first.
        backward: whether it can be trained through.
        takes: the sides that may be of the sample.
    """

    penalised, starts_open, backward = True, False, True
    takes: ClassVar[set[str]] = {"A", "b", "b_eq", "lower", "upper"}

    def __init__(self, P: rh.Polyhedron) -> None:
        super().__init__()
        self.P, self.inputs = P, P.dim
        for names, rows in ((("A", "b"), P.inequalities), (("E", "e"), P.equality_rows)):
            self.register_buffer(names[0], torch.as_tensor(rows.matrix.toarray()))
            self.register_buffer(names[1], torch.as_tensor(rows.rhs))
        self.register_buffer("lower", torch.as_tensor(P.lower_bounds))
        self.register_buffer("upper", torch.as_tensor(P.upper_bounds))
        self.above, self.below = (v.isfinite().nonzero()[:, 0] for v in (self.upper, self.lower))
        eye = torch.eye(P.dim, dtype=self.A.dtype)
        self.register_buffer("G", torch.cat([self.A, eye[self.above], -eye[self.below]]))

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        return u

    def rhs(self, sides: dict[str, Tensor]) -> Tensor:
        """h of G x <= h: inequalities, upper bounds, lower bounds. Shape: (m,) or (n, m)"""
        b, upper, lower = (sides.get(name, getattr(self, name)) for name in ("b", "upper", "lower"))
        parts = [b, upper[..., self.above], -lower[..., self.below]]
        batch = torch.broadcast_shapes(*(v.shape[:-1] for v in parts))
        return torch.cat([v.expand(*batch, v.shape[-1]) for v in parts], -1)

    def excess(self, y: Tensor, sides: dict[str, Tensor]) -> Tensor:
        """By how much each row and bound is broken, equalities by their absolute value. Shape: (n, rows)."""
        A, b = sides.get("A", self.A), sides.get("b", self.b)
        stated = len(self.P.layout.equalities)  # coordinates of one value follow them, and are among the bounds, too
        equal = y @ self.E[:stated].mT - sides.get("b_eq", self.e[:stated])
        parts = [((A @ y[..., None])[..., 0] - b).relu(), equal.abs()]
        parts += [(y - sides.get("upper", self.upper)).relu(), (sides.get("lower", self.lower) - y).relu()]
        return torch.cat(parts, -1)

    def penalty(self, y: Tensor, sides: dict[str, Tensor]) -> Tensor:
        """What training adds to the loss of each sample, times a weight. Shape: (n,)"""
        return self.excess(y, sides).square().sum(-1)


class ProjectedAfter(Peer):
    """Trained with the penalty, moved to the nearest point of the set in evaluation."""

    def __init__(self, P: rh.Polyhedron) -> None:
        super().__init__(P)
        self.nearest = rh.Projection(P)

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        return u if self.training else self.nearest(u, **sides)


# -- written from their papers -----------------------------------------------------------------------------------------


class HardNetAff(Peer):
    """u + M⁺(relu(low - M u) - relu(M u - high)), M all rows, two-sided, bounds too: exact for independent rows."""

    starts_open = True

    def __init__(self, P: rh.Polyhedron) -> None:
        super().__init__(P)
        bounded = (self.lower.isfinite() | self.upper.isfinite()) & (self.lower < self.upper)
        self.register_buffer("bounded", bounded.nonzero()[:, 0])
        for name, value in zip(("M", "low", "high"), self.rows({}), strict=True):
            self.register_buffer(name, value)
        self.register_buffer("inverse", torch.linalg.pinv(self.M))

    def rows(self, sides: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """M, low, high of inequalities, bounds, equalities. Shape: (m, d) or (n, m, d), then (m,) or (n, m)."""
        A, b, e = (sides.get(name, stated) for name, stated in (("A", self.A), ("b", self.b), ("b_eq", self.e)))
        low, high = (sides.get(name, getattr(self, name))[..., self.bounded] for name in ("lower", "upper"))
        fixed = torch.cat([torch.eye(self.P.dim).to(A)[self.bounded], self.E])
        batch = torch.broadcast_shapes(*(v.shape[:-1] for v in (b, e, low, high)))
        b, e, low, high = (v.expand(*batch, v.shape[-1]) for v in (b, e, low, high))
        M = torch.cat([A, fixed.expand(*A.shape[:-2], *fixed.shape)], -2)
        return M, torch.cat([torch.full_like(b, -torch.inf), low, e], -1), torch.cat([b, high, e], -1)

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        M, low, high = self.rows(sides) if sides else (self.M, self.low, self.high)
        reached = (M @ u[..., None])[..., 0] if M.ndim > 2 else u @ M.mT
        step = (low - reached).relu() - (reached - high).relu()
        return u + (torch.linalg.lstsq(M, step[..., None]).solution[..., 0] if M.ndim > 2 else step @ self.inverse.mT)

    def check(self) -> HardNetAff:
        """Itself, where its theorem holds."""
        if int(torch.linalg.matrix_rank(self.M)) < len(self.M):
            count = f"{len(self.M)} rows and bounds in {self.P.dim} coordinates"
            raise NotForThisSet(f"needs independent rows; {count} are not")
        return self


class DC3(Peer):
    """Completion and correction: some variables are predicted, the equalities give the others, then gradient steps
    on the squared violation of the inequalities, along the equalities."""

    momentum, takes = 0.5, {"b", "b_eq", "lower", "upper"}

    def __init__(self, P: rh.Polyhedron, rate: float = 1e-7, steps: int = 10) -> None:
        super().__init__(P)  # rate and steps: as published for the quadratic programs
        self.rate, self.steps, count = rate, steps, len(self.e)
        if not count:
            raise NotForThisSet("without equalities it is a penalty with a few gradient steps")
        E = self.E.numpy()
        order = scipy.linalg.qr(E, pivoting=True)[2]
        solved, given = order[:count], np.sort(order[count:])
        inverse = np.linalg.inv(E[:, solved])
        along, point = np.zeros((P.dim, P.dim - count)), np.zeros((P.dim, count))
        along[given], along[solved], point[solved] = np.eye(P.dim - count), -inverse @ E[:, given], inverse
        self.inputs = P.dim - count
        self.register_buffer("along", torch.as_tensor(along))
        self.register_buffer("point", torch.as_tensor(point))

    def penalty(self, y: Tensor, sides: dict[str, Tensor]) -> Tensor:
        """Half the norm, as published: unlike its square it does not fade out near the set."""
        return 0.5 * self.excess(y, sides).norm(dim=-1)

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        y, h = u @ self.along.mT + sides.get("b_eq", self.e) @ self.point.mT, self.rhs(sides)
        last = torch.zeros_like(u)
        for _ in range(self.steps):
            last = self.rate * 2 * ((y @ self.G.mT - h).relu() @ self.G) @ self.along + self.momentum * last
            y = y - last @ self.along.mT
        return y


class PiNet(Peer):
    """Douglas-Rachford steps between {E y = e, A y = s} and lower <= y <= upper, s <= b.

    The equalities hold; what inequalities and bounds are broken by falls with the steps. The scaling of rows that
    Pi-net tunes changes neither of the two projections. Differentiated through the steps; its authors solve for the
    derivative at the fixed point.

    Args:
        steps, more_steps: in training and in evaluation. A network that is trained through steps which have not
            converged fits that number of steps.
        sigma: the weight of the point that is projected.
    """

    penalised, relaxed, takes = False, 1.7, {"b_eq"}

    def __init__(self, P: rh.Polyhedron, steps: int = 50, more_steps: int = 50, sigma: float = 0.068) -> None:
        super().__init__(P)
        self.steps, self.more_steps, m = steps, more_steps, len(self.A)
        lifted = torch.cat([self.A, -torch.eye(m, dtype=self.A.dtype)], 1)
        affine = torch.cat([nn.functional.pad(self.E, (0, m)), lifted])
        inverse = torch.linalg.pinv(affine)
        self.register_buffer("onto", torch.eye(P.dim + m, dtype=self.A.dtype) - inverse @ affine)
        self.register_buffer("point", inverse[:, : len(self.E)])
        self.register_buffer("low", torch.cat([self.lower, self.b.new_full((m,), -torch.inf)]))
        self.register_buffer("high", torch.cat([self.upper, self.b]))
        self.register_buffer("pull", torch.cat([self.lower.new_full((P.dim,), 2 * sigma), self.b.new_zeros(m)]))

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        target = nn.functional.pad(u, (0, len(self.A)))
        pulled, share = self.pull * target, 1 / (1 + self.pull)
        point, state = sides.get("b_eq", self.e) @ self.point.mT, torch.zeros_like(target)
        for _ in range(self.steps if self.training else self.more_steps):
            on = state @ self.onto.mT + point
            near = ((2 * on - state + pulled) * share).clamp(self.low, self.high)
            state = state + self.relaxed * (near - on)
        return (state @ self.onto.mT + point)[:, : self.P.dim]


# -- packages ----------------------------------------------------------------------------------------------------------


class Rayen(Peer):
    """RAYEN: rays from an interior point, which it looks for after a linear program for each row.

    Where a point inside is given, rows are taken as they are, as its authors do for their timing grid.
    """

    penalised, takes = False, set[str]()

    def __init__(self, P: rh.Polyhedron, inside: Array | None = None) -> None:
        super().__init__(P)
        from rayen import constraint_module, constraints

        stated = [(r.matrix.toarray(), r.rhs[:, None]) if len(r) else (None, None) for r in (P.rows, P.equality_rows)]
        known = {} if inside is None else {"y0": inside[:, None], "do_preprocessing_linear": False}
        try:
            rows = constraints.LinearConstraint(*stated[0], *stated[1])
            made = constraints.ConvexConstraints(lc=rows, qcs=[], socs=[], lmic=None, **known)
            self.layer = constraint_module.ConstraintModule(made, input_dim=None, method="RAYEN", create_map=False)
        except RuntimeError as error:
            raise NotForThisSet(f"refused by RAYEN: {error}") from None
        self.inputs = self.layer.n

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        return self.layer(u.unsqueeze(-1)).squeeze(-1)


class Solver(Peer):
    """The nearest point by a differentiable solver, in float64, which their authors advise or ask for."""

    penalised, takes = False, {"b", "b_eq", "lower", "upper"}

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        h, e = (v.double().expand(len(u), -1) for v in (self.rhs(sides), sides.get("b_eq", self.e)))
        return self.solve(u.double(), h, e).to(u.dtype)

    def solve(self, u: Tensor, h: Tensor, e: Tensor) -> Tensor:
        """The nearest point with G x <= h, E x = e. Shape: (n, d), (n, m), (n, k) → (n, d)"""
        raise NotImplementedError


class Qpth(Solver):
    """OptNet: a batched interior-point method."""

    def __init__(self, P: rh.Polyhedron) -> None:
        super().__init__(P)
        from qpth.qp import QPFunction

        self.function, self.eye = QPFunction(verbose=-1, check_Q_spd=False), torch.eye(P.dim, dtype=torch.float64)
        self.rows = self.G.clone(), self.E.clone()  # float64, also where the buffers are not

    def solve(self, u: Tensor, h: Tensor, e: Tensor) -> Tensor:
        G, E = self.rows
        equal = (E, e) if len(E) else (u.new_empty(0), u.new_empty(0))
        return self.function(self.eye, -u, G, h, *equal)


class Moreau(Solver):
    """Moreau: batched, an active set up to 500 coordinates, an interior-point method beyond."""

    def __init__(self, P: rh.Polyhedron) -> None:
        super().__init__(P)
        import moreau
        from moreau.torch import Solver as Batched

        A, eye = sp.csr_matrix(torch.cat([self.E, self.G]).numpy()), sp.eye_array(P.dim, format="csr")
        places = (torch.as_tensor(v, dtype=torch.int64) for v in (eye.indptr, eye.indices, A.indptr, A.indices))
        cones = moreau.Cones(num_zero_cones=len(self.E), num_nonneg_cones=len(self.G))
        kind = "active_set" if P.dim <= 500 and A.shape[0] <= max(500, 2 * P.dim) else "ipm"  # what its "auto" takes
        settings = moreau.Settings(device="cpu", solver=kind, enable_grad=True)
        self.batched = Batched(P.dim, A.shape[0], *places, cones, settings)
        self.values = torch.ones(P.dim, dtype=torch.float64), torch.as_tensor(A.data, dtype=torch.float64)

    def solve(self, u: Tensor, h: Tensor, e: Tensor) -> Tensor:
        return self.batched.solve(*self.values, -u, torch.cat([e, h], 1)).x


class CvxpyLayers(Solver):
    """cvxpylayers, with the solver that it takes by itself or another."""

    takes: ClassVar[set[str]] = {"b_eq"}

    def __init__(self, P: rh.Polyhedron, solver: str | None = None) -> None:
        super().__init__(P)
        import cvxpy as cp
        from cvxpylayers.torch import CvxpyLayer

        x, y, e = cp.Variable(P.dim), cp.Parameter(P.dim), cp.Parameter(max(1, len(self.e)))
        rules = [sp.csr_array(self.G.numpy()) @ x <= self.rhs({}).numpy()] if len(self.G) else []
        rules += [sp.csr_array(self.E.numpy()) @ x == e] if len(self.e) else []
        problem = cp.Problem(cp.Minimize(cp.sum_squares(x - y)), rules)
        self.layer = CvxpyLayer(problem, [y, e] if len(self.e) else [y], [x], solver=solver)

    def solve(self, u: Tensor, h: Tensor, e: Tensor) -> Tensor:
        return self.layer(*((u, e) if len(self.e) else (u,)))[0]


# -- packages that cannot be trained through ---------------------------------------------------------------------------


class Forward(Peer):
    """Points in NumPy, by ``solve(points, b_eq)``: (n, d), (n, k) or None → (n, d)."""

    penalised = backward = False
    takes: ClassVar[set[str]] = {"b_eq"}

    def __init__(self, P: rh.Polyhedron, solve: Callable[[Array, Array | None], Array]) -> None:
        super().__init__(P)
        self.solve = solve

    def forward(self, u: Tensor, **sides: Tensor) -> Tensor:
        b_eq = sides["b_eq"].detach().double().numpy() if sides else None
        return torch.as_tensor(self.solve(u.detach().double().numpy(), b_eq)).to(u.dtype)


def loop(P: rh.Polyhedron, solver: str, **settings: Any) -> Peer:
    """A solver, sample by sample, with its rows set up once: nothing of ours but the interface."""
    form = StandardForm.of(P)
    one = EXTERNAL[solver](form, **settings)

    def solve(points: Array, b_eq: Array | None) -> Array:
        c = np.tile(form.c, (len(points), 1))
        if b_eq is not None:
            c[:, form.m :] = b_eq / form.norms[form.m :]
        return np.stack([one(y, c[n], form.lower, form.upper)[0] for n, y in enumerate(points)])

    return Forward(P, solve)


def proxqp(P: rh.Polyhedron) -> Peer:
    """ProxQP, dense, sample by sample, from the last answer."""
    import proxsuite

    form = StandardForm.of(P)
    m, rows = form.m, form.matrix.dense_array
    qp = proxsuite.proxqp.dense.QP(form.d, len(rows) - m, m, form.bounded)
    qp.settings.eps_abs = 1e-9
    box = (form.lower, form.upper) if form.bounded else ()
    qp.init(np.eye(form.d), np.zeros(form.d), rows[m:], form.c[m:], rows[:m], np.full(m, -1e30), form.c[:m], *box)

    def one(y: Array, b: Array) -> Array:
        qp.update(g=-y, b=b)
        qp.solve()
        return np.asarray(qp.results.x.copy())

    def solve(points: Array, b_eq: Array | None) -> Array:
        b = np.broadcast_to(form.c[m:] if b_eq is None else b_eq / form.norms[m:], (len(points), len(rows) - m))
        return np.stack([one(y, b[n]) for n, y in enumerate(points)])

    return Forward(P, solve)


def tuned_pinet(P: rh.Polyhedron, points: Array | None = None, violation: float = 1e-6) -> Peer:
    """Pi-net's package tuned by hand: the fewest steps, over a few step sizes, that reach this violation."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax import numpy as jnp
    from pinet import (
        AffineInequalityConstraint,
        BoxConstraint,
        BoxConstraintSpecification,
        EqualityConstraint,
        ProjectionInstance,
    )
    from pinet.project import Project

    form, parts = StandardForm.of(P), dict[str, Any]()
    m, rows = form.m, jnp.asarray(form.matrix.dense_array)[None]
    c, lower, upper = (jnp.asarray(v)[None, :, None] for v in (form.c, form.lower, form.upper))
    if m:
        parts["ineq_constraint"] = AffineInequalityConstraint(rows[:, :m], jnp.full((1, m, 1), -jnp.inf), c[:, :m])
    if m < len(form.c):
        parts["eq_constraint"] = EqualityConstraint(rows[:, m:], c[:, m:])
    if form.bounded:
        parts["box_constraint"] = BoxConstraint(BoxConstraintSpecification(lb=lower, ub=upper))
    layer = Project(**parts)

    def run(points: Array, sigma: float, steps: int) -> Array:
        raw = ProjectionInstance(x=jnp.asarray(points)[..., None])
        return np.asarray(layer.call(y_raw=raw, sigma=sigma, omega=1.7, n_iter=steps)[0].x[..., 0])

    some = np.random.default_rng(0).standard_normal((64, P.dim)) if points is None else points[:64]
    for steps in (50, 200, 800, 3200):
        for sigma in (0.1, 1.0, 10.0):
            if P.violation(run(some, sigma, steps).reshape(-1, *P.shape)).max() <= violation:
                return Forward(P, lambda points, _, s=sigma, k=steps: run(points, s, k))
    raise NotForThisSet(f"no tried setting reached a violation of {violation:g}")


def sorted_threshold(P: rh.Polyhedron) -> Peer:
    """The projection onto the simplex, by sorting."""

    def solve(x: Array, _: Array | None) -> Array:
        u = -np.sort(-x, axis=1)
        mean = (np.cumsum(u, axis=1) - 1) / np.arange(1, x.shape[1] + 1)
        last = (u > mean).sum(1) - 1
        return np.maximum(x - mean[np.arange(len(x)), last, None], 0)

    return Forward(P, solve)


Make = Callable[[rh.Polyhedron], Peer]
AFTER_A_LINEAR: dict[str, Make] = {  # what stands beside our layer
    "RAYEN": Rayen,
    "HardNet-Aff": HardNetAff,
    "Pi-net, tuned": tuned_pinet,
    "qpth": Qpth,
    "Moreau": Moreau,
    "cvxpylayers": CvxpyLayers,
    "cvxpylayers with Moreau": lambda P: CvxpyLayers(P, solver="MOREAU"),
    "OSQP, one by one": lambda P: loop(P, "osqp"),
}


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def reason(error: Exception) -> str:
    """Why a peer is left out, for its row."""
    return str(error) if isinstance(error, NotForThisSet) else f"{type(error).__name__}: {str(error)[:120]}"
