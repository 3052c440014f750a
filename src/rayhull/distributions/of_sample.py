"""IntoRows: a bijection onto {A x <= b} for rows that come with each sample, differentiable in all that is given."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.transforms import Transform

from rayhull.distributions.block_maps import radial_factor, radial_inverse_factor, radial_log_det

ROUND = 0.01  # of the mean curvature is added in every direction, so that unbounded ones are at most 10 times as long


class RowsConstraint(constraints.Constraint):
    """A x <= b for each sample, up to rounding."""

    event_dim = 1

    def __init__(self, A: Tensor, b: Tensor) -> None:
        self.A, self.b = A, b
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        """Whether each point keeps its own rows, up to 16 ulp of ‖a‖₁ max|x| + |b|."""
        excess = (self.A @ value.unsqueeze(-1)).squeeze(-1) - self.b
        scale = self.A.abs().sum(-1) * value.abs().amax(-1, keepdim=True) + self.b.abs()
        return (excess <= 16 * torch.finfo(value.dtype).eps * scale).all(-1)


class IntoRows(Transform):
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

    Shape: (\*, d) → (\*, d)

    Examples:
        >>> import torch, rayhull as rh
        >>> A, b = torch.randn(16, 6, 3), torch.rand(16, 6) + 0.1
        >>> into = rh.distributions.IntoRows(A, b)
        >>> x = into(3 * torch.randn(16, 3))
        >>> bool(into.codomain.check(x).all())
        True
    """

    bijective = True
    domain = constraints.real_vector

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
        self.A, self.b = A, b
        self.base = A.new_zeros(A.shape[-1]) if base is None else base
        self.slack = b - (A @ self.base.unsqueeze(-1)).squeeze(-1)
        self.codomain = RowsConstraint(A, b)
        if validate:
            self._refuse_outside()
        self.relative = A / self.slack.unsqueeze(-1)
        self.factor = self._round_factor() if round else None  # T = factor^(-T)

    def _round_factor(self) -> Tensor:
        """The Cholesky factor of the log barrier's Hessian at the base point, with a floor for free directions."""
        metric = self.relative.mT @ self.relative
        floor = ROUND * metric.diagonal(dim1=-2, dim2=-1).mean(-1)
        eye = torch.eye(metric.shape[-1], dtype=metric.dtype, device=metric.device)
        factor: Tensor = torch.linalg.cholesky(metric + floor[..., None, None] * eye)
        return factor

    def _refuse_outside(self) -> None:
        outside = (self.slack <= 0).any(-1)
        if bool(outside.any()):
            raise ValueError(
                f"the base point of {int(outside.sum())} of {outside.numel()} samples has no slack in some row "
                f"(least slack {float(self.slack.detach().min()):.3g}): give base=, a point inside each sample's rows."
            )

    def _stretched(self, c: Tensor) -> Tensor:
        if self.factor is None:
            return c.unsqueeze(-1)
        return torch.linalg.solve_triangular(self.factor.mT, c.unsqueeze(-1), upper=True)

    def _gauge(self, direction: Tensor) -> Tensor:
        return (self.relative @ direction).squeeze(-1).amax(-1).clamp_min(0.0)

    def _call(self, c: Tensor) -> Tensor:
        with torch.autocast(c.device.type, enabled=False):
            direction = self._stretched(c)
            return self.base + direction.squeeze(-1) * radial_factor(self._gauge(direction)).unsqueeze(-1)

    def _inverse(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            inside = ((self.b - (self.A @ x.unsqueeze(-1)).squeeze(-1)) / self.slack).amin(-1)
            direction = (x - self.base) * radial_inverse_factor(inside).unsqueeze(-1)
            return direction if self.factor is None else (self.factor.mT @ direction.unsqueeze(-1)).squeeze(-1)

    def log_abs_det_jacobian(self, c: Tensor, x: Tensor) -> Tensor:  # type: ignore[override]  # our letters
        """log|det J| at c. Shape: (\\*, d) → (\\*)."""
        with torch.autocast(c.device.type, enabled=False):
            found = radial_log_det(self._gauge(self._stretched(c)), c.shape[-1])
        if self.factor is None:
            return found
        return found - self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def with_cache(self, cache_size: int = 1) -> IntoRows:
        """The same map, remembering its last point."""
        if cache_size == self._cache_size:
            return self
        options = {"round": self.factor is not None, "validate": False}
        return IntoRows(self.A, self.b, self.base, **options, cache_size=cache_size)
