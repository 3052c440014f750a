"""Distributions on a set: one of R^k carried onto its interior, and equal density everywhere in a bounded set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, TransformedDistribution, constraints
from torch.distributions.transforms import Transform

from rayhull.conversion.generators import Triangulation, refuse_unbounded, triangulate
from rayhull.distributions.transform import IntoPolyhedron, polyhedron
from rayhull.errors import BudgetExceededError
from rayhull.sets.polyhedron import Polyhedron, need_set


class OnPolyhedron(TransformedDistribution):
    """The distribution of x = into(c), c from ``base``: reparametrised samples in the set, and their density.

    The density refers to the volume within the set's affine hull. ``log_prob`` of a sample that was just drawn uses its
    own coefficients, so that it is right to the last digits on the boundary too.

    Args:
        base: a distribution over R^k, k = ``IntoPolyhedron(P).coefficients``; independent scalars
            (``Normal(loc, scale)`` with last axis k) are taken together.
        P: the set, or a transform onto it (:class:`IntoPolyhedron`, :class:`IntoRows`): build it once where the base
            changes at every step.
        validate_args: as for every torch distribution.

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.Polyhedron([[1, 1]], 1, lower=0, upper=[0.5, 1])
        >>> normal = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
        >>> q = rh.distributions.OnPolyhedron(normal, P)
        >>> x = q.rsample((1000,))
        >>> bool(P.contains(x).all()), q.log_prob(x).shape
        (True, torch.Size([1000]))
    """

    def __init__(self, base: Distribution, P: Polyhedron | Transform, validate_args: bool | None = None) -> None:
        into = P if isinstance(P, Transform) else IntoPolyhedron(P)
        if base.batch_shape and not base.event_shape:
            base = Independent(base, 1)
        size = into.coefficients if isinstance(into, IntoPolyhedron) else base.event_shape[-1]
        if base.event_shape != (size,):
            raise ValueError(
                f"the base must be a distribution over {size} coefficients, the dimension of the set, got event shape "
                f"{tuple(base.event_shape)}."
            )
        self.into = into.with_cache(1)  # type: ignore[no-untyped-call]
        super().__init__(base, [self.into], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> OnPolyhedron:
        """The same distribution with a larger batch, ``batch_shape``."""
        return OnPolyhedron(self.base_dist.expand(torch.Size(batch_shape)), self.into, self._validate_args)

    @property
    def mode(self) -> Tensor:
        """The image of the base's mode: where c is likeliest, and the action of a policy that does not explore.

        It is not where the density of x is greatest: that density is the base's divided by the determinant, which
        falls to 0 towards the boundary. Under a wide base it peaks near the boundary, in several places or without end.
        """
        return self.into(self.base_dist.mode)

    deterministic_sample = mode  # TorchRL's name

    def entropy(self, samples: int = 256) -> Tensor:
        """-E log p(x), by Monte Carlo: the base's entropy (closed form) plus the mean log-determinant of ``samples``.

        Differentiable; its standard error is that of the mean of the log-determinants.
        """
        c = self.base_dist.rsample((samples,)) if self.base_dist.has_rsample else self.base_dist.sample((samples,))
        return self.base_dist.entropy() + self.into.log_abs_det_jacobian(c, c).mean(0)


class Uniform(Distribution):
    """The uniform distribution on a bounded set, with respect to the volume within its affine hull.

    Small sets are triangulated block by block from their own generators: samples are exact and independent, and the
    density is 1 / volume. Where that takes too many simplices, samples come from hit-and-run chains (uniform in the
    limit of many steps) and there is no ``log_prob``. ``method`` says which it is.

    Args:
        P: a bounded set.
        method: "auto", "triangulation" or "hit-and-run".
        dtype, device: of the samples.
        validate_args: as for every torch distribution.

    Examples:
        >>> import torch, rayhull as rh
        >>> u = rh.distributions.Uniform(rh.Polyhedron([[1, 1]], 1, lower=0))
        >>> u
        Uniform(Polyhedron(shape=(2,): 1 inequality, x >= 0), by triangulation)
        >>> u.sample((3,)).shape, u.log_prob(torch.tensor([[0.2, 0.2], [0.8, 0.8]])).exp()
        (torch.Size([3, 2]), tensor([2., 0.]))
    """

    has_rsample = False
    arg_constraints: dict[str, Any] = {}  # noqa: RUF012

    def __init__(
        self,
        P: Polyhedron,
        method: str = "auto",
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if method not in ("auto", "triangulation", "hit-and-run"):
            raise ValueError(f"method must be 'auto', 'triangulation' or 'hit-and-run', got {method!r}.")
        need_set(P)
        self.polyhedron = P
        self._like = torch.zeros((), dtype=torch.get_default_dtype() if dtype is None else dtype, device=device)
        self._parts = self._triangulated(method)
        self.method = "hit-and-run" if self._parts is None else "triangulation"
        super().__init__(torch.Size(), torch.Size(P.shape), validate_args=validate_args)

    def _triangulated(self, method: str) -> list[_BlockSampler] | None:
        refuse_unbounded(self.polyhedron)
        if method == "hit-and-run":
            return None
        try:
            return [
                _BlockSampler(triangulate(g.polyhedron), len(g.index), self._like) for g in self.polyhedron.block_groups
            ]
        except BudgetExceededError:
            if method == "triangulation":
                raise
            return None

    @property
    def support(self) -> constraints.Constraint:
        """The set, as a constraint of torch."""
        return polyhedron(self.polyhedron)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Points of the set. Shape: sample_shape + event shape."""
        n = math.prod(sample_shape)
        points = self._by_chains(n) if self._parts is None else self._by_simplices(self._parts, n)
        return points.reshape(*sample_shape, *self.polyhedron.shape)

    def _by_simplices(self, parts: list[_BlockSampler], n: int) -> Tensor:
        drawn = torch.cat([part.sample(n).flatten(1) for part in parts], 1)
        order = np.concatenate([group.index.ravel() for group in self.polyhedron.block_groups])
        return drawn[:, torch.as_tensor(np.argsort(order), device=drawn.device)]

    def _by_chains(self, n: int) -> Tensor:
        seed = int(torch.randint(2**62, ()))  # torch's generator decides, as for every distribution
        return torch.as_tensor(self.polyhedron.sample(n, seed)).to(self._like)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log volume where ``value`` is inside, -inf outside. Shape: (\\*, event shape) → (\\*)."""
        inside = self.polyhedron.contains(value)
        outside = value.new_full((), -math.inf)
        return torch.where(inside, -self.log_volume.to(value), outside)

    @property
    def log_volume(self) -> Tensor:
        """The logarithm of the set's volume within its affine hull."""
        if self._parts is None:
            raise BudgetExceededError(
                "hit-and-run draws points without knowing the volume, so this uniform distribution has no density: "
                "method='triangulation' computes it for smaller sets."
            )
        return torch.tensor(math.fsum(part.count * math.log(part.volume) for part in self._parts), dtype=torch.float64)

    def entropy(self) -> Tensor:
        """log volume."""
        return self.log_volume.to(self._like)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        raise NotImplementedError("a uniform distribution has no batch: sample((n,)) draws n points.")

    def __repr__(self) -> str:
        return f"Uniform({self.polyhedron}, by {self.method})"


class _BlockSampler:
    """Uniform points of ``count`` copies of a triangulated block."""

    def __init__(self, triangulation: Triangulation, count: int, like: Tensor) -> None:
        self.count, self.volume = count, float(triangulation.volumes.sum())
        self.chances = torch.as_tensor(triangulation.volumes / self.volume, device=like.device)
        self.simplices = torch.as_tensor(triangulation.simplices, device=like.device)
        self.vertices = torch.as_tensor(triangulation.vertices, dtype=like.dtype, device=like.device)

    def sample(self, n: int) -> Tensor:
        """Points (n, count, size): a simplex by its volume, then weights that are uniform on it."""
        chosen = self.simplices[torch.multinomial(self.chances, n * self.count, replacement=True)]  # (n count, k + 1)
        weights = torch.empty(chosen.shape, dtype=self.vertices.dtype, device=chosen.device).exponential_()
        weights = weights / weights.sum(-1, keepdim=True)
        points = (weights.unsqueeze(-1) * self.vertices[chosen]).sum(-2)
        return points.reshape(n, self.count, -1)
