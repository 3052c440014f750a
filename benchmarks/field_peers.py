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
        penalised: whether training adds what is broken to the loss.
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

    def penalty(self, y: Tensor, sides: dict[str, Tensor]) -> Tensor:
        """What training adds to the loss of each sample, times the recipe's weight. Shape: (n,)"""
        return self.excess(y, sides).square().sum(-1)

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

    def penalty(self, y: Tensor, sides: dict[str, Tensor]) -> Tensor:
        """Half the norm, as published: unlike its square it does not fade out near the set."""
        return 0.5 * self.excess(y, sides).norm(dim=-1)

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
    """Douglas-Rachford steps between {E y = e, A y = s} and lower <= y <= upper, s <= b.

    The equalities hold; what inequalities and bounds are broken by falls with the steps. The scaling of rows that
    Pi-net tunes changes neither of the two projections. Differentiated through the steps; its authors solve for the
    derivative at the fixed point.

    Args:
        steps, more_steps: in training and in evaluation. A network that is trained through steps which have not
            converged fits that number of steps.
        sigma: the weight of the point that is projected.
    """

    penalised = False
    relaxed = 1.7

    def __init__(
        self, features: int, P: rh.Polyhedron, steps: int = 50, more_steps: int = 50, sigma: float = 0.068
    ) -> None:
        super().__init__(features, P)
        self.steps, self.more_steps, m = steps, more_steps, len(self.A)
        lifted = torch.cat([self.A, -torch.eye(m, dtype=self.A.dtype)], 1)
        affine = torch.cat([torch.nn.functional.pad(self.A_eq, (0, m)), lifted])
        inverse = torch.linalg.pinv(affine)
        self.register_buffer("onto", torch.eye(P.dim + m, dtype=self.A.dtype) - inverse @ affine)
        self.register_buffer("point", inverse[:, : len(self.A_eq)])
        self.register_buffer("low", torch.cat([self.lower, self.b.new_full((m,), -torch.inf)]))
        self.register_buffer("high", torch.cat([self.upper, self.b]))
        self.register_buffer("pull", torch.cat([self.lower.new_full((P.dim,), 2 * sigma), self.b.new_zeros(m)]))

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        target = torch.nn.functional.pad(self.linear(h), (0, len(self.A)))
        pulled, share, point = self.pull * target, 1 / (1 + self.pull), sides["b_eq"] @ self.point.mT
        state = torch.zeros_like(target)
        for _ in range(self.steps if self.training else self.more_steps):
            on = torch.addmm(point, state, self.onto.mT)
            near = ((2 * on - state + pulled) * share).clamp(self.low, self.high)
            state = state + self.relaxed * (near - on)
        return torch.addmm(point, state, self.onto.mT)[:, : self.polyhedron.dim]


PEERS: dict[str, type[Head]] = {
    "penalty": Penalty,
    "projected after training": ProjectedAfter,
    "HardNet-Aff": HardNetAff,
    "DC3": DC3,
    "Pi-net": PiNet,
}
