"""How the field's other methods get into the set of a sample, written from their papers, behind one interface.

Each is a head: the last hidden layer of the network → an answer, given what the set of the sample is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import rayhull as rh


class Head(nn.Module):
    """A Linear and a way into the set.

    Attributes:
        open: whether training is without the way into the set, as HardNet's authors begin.
        penalised: whether training adds the squared violation to the loss.
    """

    open = False
    penalised = True

    def __init__(self, features: int, P: rh.Polyhedron, out: int | None = None) -> None:
        super().__init__()
        self.polyhedron = P
        self.linear = nn.Linear(features, P.dim if out is None else out)
        self.register_buffer("A", torch.as_tensor(P.inequalities.matrix.toarray()))
        self.register_buffer("b", torch.as_tensor(P.inequalities.rhs))
        self.register_buffer("A_eq", torch.as_tensor(P.equalities.matrix.toarray()))
        self.register_buffer("lower", torch.as_tensor(P.lower_bounds))
        self.register_buffer("upper", torch.as_tensor(P.upper_bounds))

    def excess(self, y: Tensor, sides: dict[str, Tensor]) -> Tensor:
        """By how much each row and bound is broken, equalities by their absolute value. Shape: (n, rows)."""
        A, b = sides.get("A", self.A), sides.get("b", self.b)
        parts = [((A @ y[..., None])[..., 0] - b).relu()]
        if len(self.A_eq):
            parts.append((y @ self.A_eq.mT - sides["b_eq"]).abs())
        parts += [(y - self.upper).relu(), (self.lower - y).relu()]
        return torch.cat(parts, -1)

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        raise NotImplementedError


class Penalty(Head):
    """The answer as it is; what is outside costs."""

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        return self.linear(h)


class ProjectedAfter(Head):
    """Trained with the penalty, moved to the nearest point of the set in evaluation."""

    def __init__(self, features: int, P: rh.Polyhedron) -> None:
        super().__init__(features, P)
        self.nearest = rh.Projection(P)

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        y = self.linear(h)
        return y if self.training else self.nearest(y, **sides)


class HardNetAff(Head):
    """u + A⁺(relu(lower - A u) - relu(A u - upper)) over all rows, two-sided: exact for independent rows."""

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        u = self.linear(h)
        if self.training and self.open:
            return u
        A, upper, lower = self._rows(sides, u)
        over = (A @ u[..., None])[..., 0]
        step = (lower - over).relu() - (over - upper).relu()
        if A.ndim == 2:
            return u + step @ self._pseudo_inverse(A).mT
        return u + torch.linalg.lstsq(A, step[..., None]).solution[..., 0]

    def _rows(self, sides: dict[str, Tensor], like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        A, b = sides.get("A", self.A), sides.get("b", self.b).expand(len(like), -1)
        if not len(self.A_eq):
            return A, b, torch.full_like(b, -torch.inf)
        value = sides["b_eq"]
        below = torch.cat([torch.full_like(b, -torch.inf), value], 1)
        return torch.cat([A, self.A_eq]), torch.cat([b, value], 1), below

    def _pseudo_inverse(self, A: Tensor) -> Tensor:
        if not hasattr(self, "_inverse"):
            self._inverse = torch.linalg.pinv(A)
        return self._inverse


class DC3(Head):
    """Completion and correction: some variables are predicted, the equalities give the others, then gradient steps
    on the squared violation of the inequalities, along the equalities."""

    rate, momentum, steps = 1e-7, 0.5, 10  # as published for the quadratic programs

    def __init__(self, features: int, P: rh.Polyhedron) -> None:
        equalities = len(P.equalities)
        super().__init__(features, P, P.dim - equalities)
        free = P.dim - equalities  # random rows: any choice of columns is invertible
        C = self.A_eq
        self.register_buffer("complete", -torch.linalg.solve(C[:, free:], C[:, :free]))  # d others / d chosen
        self.register_buffer("inverse", torch.linalg.inv(C[:, free:]))
        both = torch.cat([torch.eye(free, dtype=C.dtype), self.complete])  # (d, free): moves along the equalities
        self.register_buffer("along", both)

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        z = self.linear(h)
        y = torch.cat([z, z @ self.complete.mT + sides["b_eq"] @ self.inverse.mT], 1)
        last = torch.zeros_like(z)
        for _ in range(self.steps):
            excess = (y @ self.A.mT - self.b).relu()
            slope = 2 * (excess @ self.A) @ self.along
            last = self.rate * slope + self.momentum * last
            y = y - last @ self.along.mT
        return y


class PiNet(Head):
    """Douglas-Rachford steps between {E y = e, A y = s} and s <= b, differentiated through the steps.

    The equalities hold; what inequalities are broken by falls with the steps. The scaling of rows that Pi-net tunes
    changes neither of the two projections.
    """

    steps, more_steps, sigma, relaxed = 50, 100, 0.068, 1.7  # the published ones; more in evaluation
    penalised = False

    def __init__(self, features: int, P: rh.Polyhedron) -> None:
        super().__init__(features, P)
        m = len(self.A)
        lifted = torch.cat([self.A, -torch.eye(m, dtype=self.A.dtype)], 1)
        affine = torch.cat([torch.nn.functional.pad(self.A_eq, (0, m)), lifted])
        inverse = torch.linalg.pinv(affine)
        self.register_buffer("onto", torch.eye(P.dim + m, dtype=self.A.dtype) - inverse @ affine)
        self.register_buffer("point", inverse[:, : len(self.A_eq)])

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        y, point, d = self.linear(h), sides["b_eq"] @ self.point.mT, self.polyhedron.dim
        state = torch.cat([y, y @ self.A.mT], 1)
        for _ in range(self.steps if self.training else self.more_steps):
            on = state @ self.onto.mT + point
            mirrored = 2 * on - state
            near = (mirrored[:, :d] + 2 * self.sigma * y) / (1 + 2 * self.sigma)
            state = state + self.relaxed * (torch.cat([near, torch.minimum(mirrored[:, d:], self.b)], 1) - on)
        return (state @ self.onto.mT + point)[:, :d]


PEERS: dict[str, type[Head]] = {
    "penalty": Penalty,
    "projected after training": ProjectedAfter,
    "HardNet-Aff": HardNetAff,
    "DC3": DC3,
    "Pi-net": PiNet,
}
