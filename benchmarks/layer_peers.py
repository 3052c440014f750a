"""The peers of the layer benchmark: each a Linear of the same size, then the peer's own way into the set."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import rayhull as rh

Make = Callable[[int, rh.Polyhedron], nn.Module]


class HardNet(nn.Module):
    """HardNet-Aff: y - A⁺ relu(A y - b), exact only for independent rows (bounds count as rows)."""

    def __init__(self, in_features: int, P: rh.Polyhedron) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, P.dim)
        A = torch.tensor(P.rows.matrix.toarray(), dtype=torch.float32)
        self.register_buffer("A", A)
        self.register_buffer("b", torch.tensor(P.rows.rhs, dtype=torch.float32))
        self.register_buffer("inverse", torch.linalg.pinv(A))

    def forward(self, h: Tensor) -> Tensor:
        y = self.linear(h)
        return y - torch.relu(y @ self.A.mT - self.b) @ self.inverse.mT


class Rayen(nn.Module):
    """RAYEN with its own Linear: rays from an interior point, which it looks for after a linear program for each row.

    Where a point inside is given, rows are taken as they are, as its authors do for their timing grid.
    """

    def __init__(self, in_features: int, P: rh.Polyhedron, inside: np.ndarray[Any, Any] | None = None) -> None:
        super().__init__()
        from rayen import constraint_module, constraints

        rows = constraints.LinearConstraint(P.rows.matrix.toarray(), P.rows.rhs[:, None], None, None)
        known = {} if inside is None else {"y0": inside[:, None], "do_preprocessing_linear": False}
        made = constraints.ConvexConstraints(lc=rows, qcs=[], socs=[], lmic=None, **known)
        self.layer = constraint_module.ConstraintModule(made, input_dim=in_features, method="RAYEN", create_map=True)
        self.layer.float()

    def forward(self, h: Tensor) -> Tensor:
        return self.layer(h.unsqueeze(-1)).squeeze(-1)


class Qpth(nn.Module):
    """OptNet: the nearest point by a batched interior-point method."""

    def __init__(self, in_features: int, P: rh.Polyhedron) -> None:
        super().__init__()
        from qpth.qp import QPFunction

        self.linear = nn.Linear(in_features, P.dim)
        self.rows = torch.tensor(P.rows.matrix.toarray(), dtype=torch.float32)
        self.rhs = torch.tensor(P.rows.rhs, dtype=torch.float32)
        self.eye, self.none = torch.eye(P.dim), torch.empty(0)
        self.solve = QPFunction(verbose=-1, check_Q_spd=False)

    def forward(self, h: Tensor) -> Tensor:
        return self.solve(self.eye, -self.linear(h), self.rows, self.rhs, self.none, self.none)


class CvxpyLayers(nn.Module):
    """cvxpylayers at its defaults."""

    def __init__(self, in_features: int, P: rh.Polyhedron) -> None:
        super().__init__()
        import cvxpy as cp
        from cvxpylayers.torch import CvxpyLayer

        self.linear = nn.Linear(in_features, P.dim)
        x, y = cp.Variable(P.dim), cp.Parameter(P.dim)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(x - y)), [P.rows.matrix.toarray() @ x <= P.rows.rhs])
        self.solve = CvxpyLayer(problem, parameters=[y], variables=[x])

    def forward(self, h: Tensor) -> Tensor:
        return self.solve(self.linear(h))[0]


class OneByOne(nn.Module):
    """A projection that is no torch operation, after a Linear: forward only."""

    def __init__(self, in_features: int, P: rh.Polyhedron, solve: Callable[[Any], Any]) -> None:
        super().__init__()
        self.linear, self.solve = nn.Linear(in_features, P.dim), solve

    def forward(self, h: Tensor) -> Tensor:
        with torch.no_grad():
            points = self.linear(h).double().numpy()
        return torch.as_tensor(np.asarray(self.solve(points))).float()


def osqp(in_features: int, P: rh.Polyhedron) -> nn.Module:
    """OSQP as the paper runs it, sample by sample."""
    from benchmarks import projection_peers as peers

    return OneByOne(in_features, P, peers.loop(_task(P), solver="osqp"))


def pinet(in_features: int, P: rh.Polyhedron) -> nn.Module:
    """Pi-net tuned by hand to a violation of 1e-6."""
    from benchmarks import projection_peers as peers

    return OneByOne(in_features, P, peers.pinet(_task(P)))


def _task(P: rh.Polyhedron) -> Any:
    from benchmarks import projection_peers as peers

    return peers.Task("layer", P, np.random.default_rng(0).standard_normal((64, P.dim)))


PEERS: dict[str, tuple[str, Make]] = {
    "RAYEN": ("rayen", Rayen),
    "HardNet-Aff": ("torch", HardNet),
    "Pi-net, tuned": ("pinet", pinet),
    "qpth": ("qpth", Qpth),
    "cvxpylayers": ("cvxpylayers", CvxpyLayers),
    "OSQP, one by one": ("osqp", osqp),
}


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
