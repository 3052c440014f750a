"""OnPolyhedron: a distribution on R^k, carried onto the interior of a set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, TransformedDistribution
from torch.distributions.transforms import Transform

from rayhull.distributions.transform import IntoPolyhedron

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STARTS = 64  # points that the search for the mode begins with
STEPS = 200  # of its ascent


class OnPolyhedron(TransformedDistribution):
    """The distribution of x = into(c), c from ``base``: reparametrised samples in the set, and their density.

    The density refers to the volume within the set's affine hull. ``log_prob`` of a sample that was just drawn uses its
    own coefficients, so that it is right to the last digits on the boundary too.

    Args:
        base: a distribution over R^k, k = ``IntoPolyhedron(P).coefficients``; independent scalars
            (``Normal(loc, scale)`` with last axis k) are taken together.
        P: the set, or a transform onto it (:class:`IntoPolyhedron`, :class:`IntoRows`): build it once where the base
            changes at every step.

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
        if not base.event_shape:
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
        """The same distribution with a larger batch."""
        return OnPolyhedron(self.base_dist.expand(torch.Size(batch_shape)), self.into, self._validate_args)

    @property
    def deterministic_sample(self) -> Tensor:
        """The image of the base's mode: the point a policy takes when it does not explore."""
        return self.into(self.base_dist.mode)

    @property
    def mode(self) -> Tensor:
        """A point of greatest density: the best of some samples, improved by gradient ascent (a local maximum)."""
        with torch.no_grad():
            starts = torch.cat([self.base_dist.mode.unsqueeze(0), self.base_dist.sample((STARTS,))])
            best = self._log_density(starts).argmax(0)  # (batch)
            c = starts.gather(0, best[None, ..., None].expand(1, *starts.shape[1:])).squeeze(0)
        return self.into(self._climbed(c))

    def _log_density(self, c: Tensor) -> Tensor:
        """log of the density of x at x = into(c)."""
        return self.base_dist.log_prob(c) - self.into.log_abs_det_jacobian(c, c)

    def _climbed(self, c: Tensor) -> Tensor:
        with torch.enable_grad():
            c = c.clone().requires_grad_()
            optimiser = torch.optim.Adam([c], lr=0.05)
            rate = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.97)
            for _ in range(STEPS):
                optimiser.zero_grad()
                (c.grad,) = torch.autograd.grad(-self._log_density(c).sum(), c)
                optimiser.step()
                rate.step()
        return c.detach()

    def entropy(self, samples: int = 256) -> Tensor:
        """-E log p(x), by Monte Carlo: the base's entropy (closed form) plus the mean log-determinant of ``samples``.

        Differentiable; its standard error is that of the mean of the log-determinants.
        """
        c = self.base_dist.rsample((samples,)) if self.base_dist.has_rsample else self.base_dist.sample((samples,))
        return self.base_dist.entropy() + self.into.log_abs_det_jacobian(c, c).mean(0)
