"""The set as a constraint of torch.distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.distributions import constraints

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class PolyhedronConstraint(constraints.Constraint):
    """x lies in the set P, up to the tolerance of ``P.contains``; made by :func:`polyhedron`."""

    def __init__(self, P: Polyhedron) -> None:
        self.polyhedron = P
        super().__init__()

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return len(self.polyhedron.shape)

    def check(self, value: Tensor) -> Tensor:
        """Whether each point is inside. Shape: (\\*, event shape) → booleans (\\*)."""
        inside: Tensor = self.polyhedron.contains(value)
        return inside

    def __repr__(self) -> str:
        return f"polyhedron({self.polyhedron})"


def polyhedron(P: Polyhedron) -> PolyhedronConstraint:
    """The constraint "x lies in P" of torch.distributions: ``check``, ``transform_to`` and ``biject_to`` know it.

    Examples:
        >>> import torch, rayhull as rh
        >>> from torch.distributions import biject_to
        >>> P = rh.Polyhedron([[1, 1]], 1, lower=0)
        >>> inside = rh.distributions.polyhedron(P)
        >>> inside.check(torch.tensor([[0.2, 0.3], [0.9, 0.9]]))
        tensor([ True, False])
        >>> bool(inside.check(biject_to(inside)(torch.randn(100, 2))).all())
        True
    """
    return PolyhedronConstraint(P)
