"""The nearest point as a module, and inside a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.graphs import hides_numbers, in_transform, is_away
from rayhull.maps.leak import Leak, block_of_each, check_leak, damped, leaking
from rayhull.projection.conic import ConicProjector
from rayhull.projection.formulas import formula_of
from rayhull.projection.operators import NAMES, Transformed, nearest, packed, register
from rayhull.projection.project import Projector, projector_of, refuse_hidden
from rayhull.sets.reading import event_last

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

VERSION = 3  # of the layout of state_dict


class OfSet(nn.Module):
    """A module that belongs to a set: its state_dict says to which one, and another set's is refused.

    The mark is extra state (``_extra_state``: 2 bytes of version, 32 of fingerprint) and is computed from the set, so
    that no cast, average or empty allocation of buffers can spoil it.
    """

    polyhedron: Polyhedron

    def get_extra_state(self) -> Tensor:
        digest = VERSION.to_bytes(2) + bytes.fromhex(self.polyhedron.fingerprint)
        return torch.tensor(np.frombuffer(digest, np.uint8), device="cpu")

    def set_extra_state(self, state: Any) -> None:
        """Nothing to set from ``state``: ``_load_from_state_dict`` has compared it."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        mark = state_dict.get(prefix + "_extra_state")
        if mark is not None and not mark.is_meta:
            self._refuse_another(bytes(mark.cpu().to(torch.uint8).tolist()))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _refuse_another(self, mark: bytes) -> None:
        if int.from_bytes(mark[:2]) > VERSION:
            raise RuntimeError(
                f"this state_dict has version {int.from_bytes(mark[:2])}; this rayhull reads up to {VERSION}: upgrade."
            )
        if mark[2:].hex() != self.polyhedron.fingerprint:
            raise RuntimeError(
                f"this state_dict was saved for another set than {self.polyhedron}: build the module with the set that "
                "it was trained for."
            )


class NearestPoint(nn.Module):
    """:class:`Projection` within a layer, whose own checkpoint names the set already.

    ``later``: solvers, whose factors of many rows take long, are made when they are first needed.
    """

    solvers: tuple[str, ...] = ()

    def __init__(
        self,
        P: Polyhedron,
        *,
        solver: str = "auto",
        weights: Any = None,
        infeasible: str = "raise",
        later: bool = False,
    ) -> None:
        super().__init__()
        self.projector = projector_of(P, solver=solver, weights=weights, infeasible=infeasible)
        self.has_cones = isinstance(self.projector, ConicProjector)
        if self.has_cones:
            return
        self._stated = packed(self.projector)  # for programs that are exported; no buffer, so that nothing changes it
        self._name = register(self.projector)
        blocks = () if self.projector.is_dense else self.projector.plan()
        self._rows = sum(block.count * block.form.matrix.count for block in blocks)
        if not later:
            self.solvers = tuple(dict.fromkeys(block.solver.name for block in blocks))
        formula_of(self.projector)  # makes its constants

    @property
    def polyhedron(self) -> Polyhedron:
        return self.projector.polyhedron

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if is_away(device := fn(torch.empty(0)).device):
            formula_of(self.projector, device=device)  # makes its constants: a graph cannot
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor, **sides: Any) -> Tensor:
        if x.is_meta:
            return torch.empty_like(x)
        if self.has_cones:
            refuse_hidden(x)
            found: Tensor = self.projector(x, **sides)[0]
            return found
        if is_away(x.device) and not sides and (formula := formula_of(self.projector, device=x.device)) is not None:
            return formula(x, sides)
        has_rows = "A" in sides or "A_eq" in sides or self.projector.is_dense
        if not has_rows and (hides_numbers(x) or in_transform()):
            return self._in_graph(x, sides)
        return self.projector(x, **sides)[0]

    def _in_graph(self, x: Tensor, sides: dict[str, Any]) -> Tensor:
        """By formulas where every block has one and the graph is to run elsewhere, else by an operator of ours."""
        if torch.compiler.is_exporting() and (formula := formula_of(self.projector, sides, x.device)) is not None:
            return formula(x, sides)
        operator: Any = Transformed.apply if in_transform() and not torch.compiler.is_compiling() else nearest
        P, given = self.polyhedron, (sides.get(name) for name in NAMES)
        size, projector = (self._rows, P.dim, len(P.shape)), self.projector
        return operator(x, *given, self._stated, *size, self._name, projector.solver, projector.infeasible)[0]


class Projection(OfSet):
    r"""The nearest point of a set, as a layer without parameters.

    .. math:: \arg\min_z \sum_i w_i (z_i - x_i)^2 \quad\text{over the set}

    Identity inside the set; differentiable in x and in the right-hand sides. Every answer carries a KKT residual, and
    a sample that cannot be certified raises. The set's rows are constants of the module: its state_dict holds the
    set's fingerprint, so that a checkpoint of another set is refused.

    Args:
        P: the set.
        solver, weights, infeasible, axis: as for :func:`rayhull.project`.
        warm_start: start each call from the active rows of the call before; pays when the same samples come again.
        leak: in training mode, the share of the gradient that passes to x as if the layer were not there, the less
            across the set the further x is away (:mod:`rayhull.maps.leak`). Coordinates that the projection ties
            together get one gradient for all of them, and a network may never learn to tell them apart; a leak of 0.1
            lets it. 0: the derivative alone.

    Shape: x (\*, event shape) → (\*, event shape); sides as for :func:`rayhull.project`.

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.simplex(3)
        >>> nearest = rh.Projection(P)
        >>> z = nearest(torch.tensor([[2.0, 0.0, 0.0], [0.5, 0.5, 0.3]]))
        >>> z
        tensor([[1.0000, 0.0000, 0.0000],
                [0.4000, 0.4000, 0.2000]])
        >>> bool(P.contains(z).all())
        True
    """

    block: Tensor

    def __init__(
        self,
        P: Polyhedron,
        *,
        solver: str = "auto",
        weights: Any = None,
        infeasible: str = "raise",
        axis: int = -1,
        warm_start: bool = False,
        leak: float = 0.0,
    ) -> None:
        super().__init__()
        self.polyhedron, self.leak, self.axis = P, check_leak(leak), axis
        self.register_buffer("block", block_of_each(P) if leak else torch.empty(0).long(), persistent=False)
        self.nearest = NearestPoint(P, solver=solver, weights=weights, infeasible=infeasible)
        if warm_start and self.nearest.has_cones:
            raise ValueError("nearest points of cones start from no call before: leave out warm_start.")
        self.warm_start = warm_start
        self._last: list[Tensor] | None = None

    @property
    def projector(self) -> Projector:
        """What finds the points, without a module around it."""
        return self.nearest.projector

    def forward(
        self,
        x: Tensor,
        *,
        b: Any = None,
        b_eq: Any = None,
        lower: Any = None,
        upper: Any = None,
        A: Any = None,
        A_eq: Any = None,
        h: Any = None,
        centre: Any = None,
        return_info: bool = False,
    ) -> Any:
        """Nearest points of x; with ``return_info`` also residuals, multipliers, steps and solvers.

        ``b``, ``b_eq``, ``lower``, ``upper``, ``A``, ``A_eq``, ``h`` and ``centre`` are as for :func:`rayhull.project`.
        """
        if not isinstance(x, Tensor):
            raise TypeError(f"the module takes a tensor, got {type(x).__name__}: rayhull.project takes arrays, too.")
        share = self.leak if self.training else 0.0
        given = {"b": b, "b_eq": b_eq, "lower": lower, "upper": upper, "A": A, "A_eq": A_eq, "h": h, "centre": centre}
        x, sides = event_last(self.polyhedron, x, self.axis, **{k: v for k, v in given.items() if v is not None})
        if not return_info and not self.warm_start:
            return self._leaking(self.nearest(damped(x, share), **sides), x, share)
        z, done = self.projector(damped(x, share), guess=self._last, **sides)
        if self.warm_start:
            self._last = done.multipliers
        z = self._leaking(z, x, share)
        return (z, self.projector.info(done, x)) if return_info else z

    def _leaking(self, z: Tensor, x: Tensor, share: float) -> Tensor:
        """z, to which x adds nothing but a share of the gradient, the event where it was."""
        if share:
            first = z.ndim - len(self.polyhedron.shape)
            leak = Leak(share, None, self.block)
            z = leaking(z.flatten(first), x.expand_as(z).flatten(first), leak).reshape(z.shape)
        return z if self.axis == -1 else z.movedim(-1, self.axis)

    def _repr_html_(self) -> str:
        from rayhull.sets.plotting import as_html

        return as_html(repr(self), self.polyhedron, self.polyhedron.plot)

    def extra_repr(self) -> str:
        solvers = ", ".join(self.nearest.solvers) or getattr(self.projector, "label", "dual Newton")
        leak = f", leak={self.leak}" if self.leak else ""
        return f"{self.polyhedron}, solver={self.projector.solver!r} ({solvers}){leak}"
