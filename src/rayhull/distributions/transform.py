"""Bijections of torch from R^k onto the interior of a set, and the set as a constraint of torch.

IntoPolyhedron takes a set that is stated once, block by block; IntoRows the rows that come with each sample.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to
from torch.distributions.transforms import Transform

from rayhull.distributions.block_maps import BlockMap, Radial, block_map, hull_of
from rayhull.maps.graphs import broadcast
from rayhull.sets.polyhedron import Polyhedron, need_set
from rayhull.sets.reading import misshapen

ROUND = 0.01  # of the mean curvature is added in every direction, so that unbounded ones are at most 10 times as long


class PolyhedronConstraint(constraints.Constraint):
    """The constraint "x lies in P" of torch.distributions: ``check``, ``transform_to`` and ``biject_to`` know it.

    Also called ``polyhedron``. It holds up to the tolerance of ``P.contains``.

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

    def __init__(self, P: Polyhedron) -> None:
        self.polyhedron = P
        super().__init__()

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """How many axes a point has."""
        return len(self.polyhedron.shape)

    def check(self, value: Tensor) -> Tensor:
        """Whether each point of ``value`` is inside. Shape: (\\*, event shape) → booleans (\\*)."""
        return self.polyhedron.contains(value)

    def __repr__(self) -> str:
        return f"polyhedron({self.polyhedron})"


polyhedron = PolyhedronConstraint  # lower case, as torch calls its constraints


class Onto(Transform):
    """A bijection from R^k onto the interior of a set."""

    bijective = True
    domain = constraints.real_vector

    def with_cache(self, cache_size: int = 1) -> Self:
        """The same map, remembering its last point if ``cache_size`` is 1; the geometry is shared."""
        if cache_size == self._cache_size:
            return self
        made = copy.copy(self)
        Transform.__init__(made, cache_size)
        return made


class IntoPolyhedron(Onto):
    r"""A bijection from R^k onto the (relative) interior of the set, with its log-determinant and exact inverse.

    k is the dimension of the set's affine hull: equalities take part of the coordinates away, and densities refer to
    the k-dimensional volume within the hull (Lebesgue measure where the set has an interior). Each block takes the map
    that suits it:

    ==========  ============================================  ==============================================
    map         for                                           log abs det J, up to a constant
    ==========  ============================================  ==============================================
    softmax     simplices                                     Σ log wᵢ
    softplus    independent rows: bounds, orders, cones       Σ log σ(cᵢ)
    radial      everything else: q + T c (1 + g⁴)^(-1/4)      -(k + 4)/4 log(1 + g⁴), g the gauge of T c
    ==========  ============================================  ==============================================

    Args:
        P: the set.
        method: "auto", or "radial" for the radial map in every block.
        cache_size: 1 keeps the last point and its coefficients, as for every torch transform.

    Shape: (\*, k) → (\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.monotone(5) & rh.box(-1, 1)
        >>> into = rh.distributions.IntoPolyhedron(P)
        >>> c = torch.randn(8, into.coefficients, dtype=torch.float64)
        >>> x = into(c)
        >>> bool(P.contains(x).all()), bool(torch.allclose(into.inv(x), c)), into.log_abs_det_jacobian(c, x).shape
        (True, True, torch.Size([8]))
    """

    def __init__(self, P: Polyhedron, method: str = "auto", cache_size: int = 0) -> None:
        if method not in ("auto", "radial"):
            raise ValueError(f"method must be 'auto' or 'radial', got {method!r}.")
        need_set(P)
        super().__init__(cache_size)
        self.polyhedron, self.method = P, method
        self.codomain = polyhedron(P)
        groups = P.block_groups
        self.blocks: list[tuple[BlockMap, int, int]] = [
            (block_map(hull_of(group.polyhedron), method), *group.index.shape) for group in groups
        ]  # (map, count, size)
        self.coefficients = sum(block.coefficients * count for block, count, _ in self.blocks)
        order = np.concatenate([group.index.ravel() for group in groups])
        self._order, self._back = torch.as_tensor(order), torch.as_tensor(np.argsort(order))
        self._cast: dict[tuple[torch.dtype, torch.device], list[dict[str, Tensor]]] = {}

    def _call(self, c: Tensor) -> Tensor:
        with torch.autocast(c.device.type, enabled=False):
            parts = [block.forward(own, k).flatten(-2) for block, own, k in self._split_coefficients(c)]
        flat = torch.cat(parts, -1)[..., self._back.to(c.device)]
        return flat.reshape(*c.shape[:-1], *self.polyhedron.shape)

    def _inverse(self, x: Tensor) -> Tensor:
        if x.shape[x.ndim - len(self.polyhedron.shape) :] != self.polyhedron.shape:
            raise misshapen("a point", x, self.polyhedron.shape)
        flat = x.flatten(x.ndim - len(self.polyhedron.shape))[..., self._order.to(x.device)]
        widths = [size for _, _, size in self.blocks]
        with torch.autocast(x.device.type, enabled=False):
            return torch.cat([block.inverse(own, k).flatten(-2) for block, own, k in self._split(flat, widths)], -1)

    def log_abs_det_jacobian(self, c: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]  # our letters
        """log|det J| at c, (\\*, k) → (\\*); x, the image of c, is not needed."""
        total = c.new_zeros(c.shape[:-1])
        with torch.autocast(c.device.type, enabled=False):
            for block, own, k in self._split_coefficients(c):
                total = total + block.log_det(own, k).sum(-1)
        return total

    def _split_coefficients(self, c: Tensor) -> Iterator[tuple[BlockMap, Tensor, dict[str, Tensor]]]:
        if c.shape[-1] != self.coefficients:
            raise ValueError(f"expected {self.coefficients} coefficients on the last axis, got shape {tuple(c.shape)}.")
        return self._split(c, [block.coefficients for block, _, _ in self.blocks])

    def _split(self, flat: Tensor, widths: list[int]) -> Iterator[tuple[BlockMap, Tensor, dict[str, Tensor]]]:
        """Each kind of block with its part, (\\*, count, width), and its constants."""
        shapes = [(count, width) for (_, count, _), width in zip(self.blocks, widths, strict=True)]
        parts = torch.split_with_sizes(flat, [count * width for count, width in shapes], -1)
        for (block, _, _), own, shape, k in zip(self.blocks, parts, shapes, self._constants(flat), strict=True):
            yield block, own.reshape(*own.shape[:-1], *shape), k

    def _constants(self, like: Tensor) -> list[dict[str, Tensor]]:
        """The blocks' constants in the dtype and on the device of a tensor, cast once."""
        key = like.dtype, like.device
        if key not in self._cast:
            with torch.inference_mode(False):  # what is made in inference would serve no gradient later
                self._cast[key] = [
                    {name: torch.as_tensor(v, dtype=key[0], device=key[1]) for name, v in block.constants.items()}
                    for block, _, _ in self.blocks
                ]
        return self._cast[key]

    def forward_shape(self, shape: Any) -> torch.Size:
        return torch.Size([*shape[:-1], *self.polyhedron.shape])

    def inverse_shape(self, shape: Any) -> torch.Size:
        return torch.Size([*shape[: len(shape) - len(self.polyhedron.shape)], self.coefficients])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntoPolyhedron):
            return False
        return other.method == self.method and other.polyhedron.fingerprint == self.polyhedron.fingerprint

    __hash__ = Transform.__hash__


for registry in (biject_to, transform_to):
    registry.register(PolyhedronConstraint, lambda inside: IntoPolyhedron(inside.polyhedron))  # type: ignore[no-untyped-call]


# -- rows of the sample ------------------------------------------------------------------------------------------------


class RowsConstraint(constraints.Constraint):
    """A x <= b for each sample, up to what ``contains`` grants."""

    event_dim = 1

    def __init__(self, A: Tensor, b: Tensor) -> None:
        self.A, self.b = A, b
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether each point keeps its own rows. Shape: (\\*, d) → booleans (\\*)."""
        parts = (value, 1), (self.A, 2), (self.b, 1)  # each with the axes of its own
        batch = broadcast(*(v.shape[: v.ndim - own] for v, own in parts))
        x, A, b = (v.detach().expand(*batch, *v.shape[v.ndim - own :]) for v, own in parts)
        return Polyhedron(np.zeros((0, x.shape[-1]))).contains(x, A=A, b=b)


class IntoRows(Onto):
    r"""The radial map onto the interior of {x : A x <= b}, with rows of the sample.

    .. math:: x = q + T c\,(1 + g^4)^{-1/4},\quad \log|\det J| = -\tfrac{d + 4}{4}\log(1 + g^4) + \log|\det T|

    g is the gauge of T c seen from q. T = 1 by default, so that c is the point that is wanted, seen from q, and means
    the same for every sample; with ``round=True`` c is measured in the sample's own set, in the round coordinates of
    the log barrier at q. Gradients reach A, b and q.

    Args:
        A: rows (\*, m, d).
        b: right-hand sides (\*, m).
        base: q (\*, d), inside every row; default 0.
        round: measure c in the units of each sample's set, for sets of very different sizes.
        validate: whether to refuse a base point outside its rows (switch it off under ``vmap`` and ``compile``).
        cache_size: as for :class:`IntoPolyhedron`.

    Shape: (\*, d) → (\*, d)

    Examples:
        >>> import torch, rayhull as rh
        >>> A, b = torch.randn(16, 6, 3), torch.rand(16, 6) + 0.1
        >>> into = rh.distributions.IntoRows(A, b)
        >>> x = into(3 * torch.randn(16, 3))
        >>> bool(into.codomain.check(x).all())
        True
    """

    def __init__(
        self,
        A: Tensor,
        b: Tensor,
        base: Tensor | None = None,
        *,
        round: bool = False,
        validate: bool = True,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        if b.shape[-1:] != A.shape[-2:-1]:
            raise misshapen("b", b, tuple(A.shape[-2:-1]))
        base = A.new_zeros(A.shape[-1]) if base is None else base
        slack = b - (A @ base.unsqueeze(-1)).squeeze(-1)
        if validate:
            self._refuse_outside(slack)
        self.codomain = RowsConstraint(A, b)
        self.map = self._radial(A / slack.unsqueeze(-1), (b / slack).unsqueeze(-2), base.unsqueeze(-2), round)

    def _radial(self, relative: Tensor, rhs: Tensor, base: Tensor, round: bool) -> Radial:
        """The map of a sample with an axis of length 1 in front of its coefficients."""
        d = relative.shape[-1]
        out = back = torch.eye(d, dtype=relative.dtype, device=relative.device)
        log_volume = relative.new_zeros(1)
        if round:  # T^-T is the Cholesky factor of the barrier's Hessian, with a floor for free directions
            metric = relative.mT @ relative
            floor = ROUND * metric.diagonal(dim1=-2, dim2=-1).mean(-1)
            back = torch.linalg.cholesky(metric + floor[..., None, None] * out)
            out = torch.linalg.solve_triangular(back, out, upper=False)
            log_volume = -back.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        rows = {"A": relative, "b": rhs, "base": base, "out": out, "gauge": out @ relative.mT, "back": back}
        return Radial(d, rows, log_volume)

    def _refuse_outside(self, slack: Tensor) -> None:
        outside = ~(slack > 0).all(-1)
        if bool(outside.any()):
            raise ValueError(
                f"the base point of {int(outside.sum())} of {outside.numel()} samples has no slack in some row "
                f"(least slack {float(slack.detach().min()):.3g}): give base=, a point inside each sample's rows."
            )

    def _call(self, c: Tensor) -> Tensor:
        with torch.autocast(c.device.type, enabled=False):
            return self.map.forward(c.unsqueeze(-2), self.map.constants).squeeze(-2)

    def _inverse(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return self.map.inverse(x.unsqueeze(-2), self.map.constants).squeeze(-2)

    def log_abs_det_jacobian(self, c: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]  # our letters
        """log|det J| at c; x, the image of c, is not needed. Shape: (\\*, d) → (\\*)."""
        with torch.autocast(c.device.type, enabled=False):
            return self.map.log_det(c.unsqueeze(-2), self.map.constants).squeeze(-1)
