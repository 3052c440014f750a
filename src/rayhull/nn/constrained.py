"""Constrained: features in, points of the set out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rayhull.nn.map_into import MapInto

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Constrained(nn.Module):
    r"""A Linear whose outputs lie in the set: hard, for every input, in training and in evaluation.

    Args:
        in_features: size of each input sample.
        P: the set.
        batch_norm: a BatchNorm of the features in front, as in the paper.
        device, dtype: where and in what precision parameters and geometry are made.
        **options: those of :class:`rayhull.MapInto`: ``method``, ``nonnegative``, ``weights``, ``scaling``, ...

    Shape: (\\*, in_features) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
        >>> head = rh.Constrained(256, P)
        >>> x = head(torch.randn(64, 256))
        >>> x.shape, bool(P.contains(x).all())
        (torch.Size([64, 28, 28]), True)
    """

    def __init__(
        self,
        in_features: int,
        P: Polyhedron,
        *,
        batch_norm: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if in_features < 1:
            raise ValueError(f"in_features must be at least 1, got {in_features}.")
        self.in_features = in_features
        self.map = MapInto(P, device=device, dtype=dtype, **options)
        self.batch_norm = nn.BatchNorm1d(in_features, device=device, dtype=dtype) if batch_norm else None
        self.linear = nn.Linear(in_features, self.map.coefficients, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Coefficients of unit variance for features of unit variance: outputs start at about unit scale."""
        reach = math.sqrt(3 / self.in_features)
        nn.init.uniform_(self.linear.weight, -reach, reach)
        nn.init.zeros_(self.linear.bias)
        if self.batch_norm is not None:
            self.batch_norm.reset_parameters()

    @property
    def polyhedron(self) -> Polyhedron:
        return self.map.polyhedron

    @property
    def shrinking(self) -> bool:
        """The switch of the shrink step."""
        return self.map.shrinking

    @shrinking.setter
    def shrinking(self, on: bool) -> None:
        self.map.shrinking = on

    def forward(self, features: Tensor, **of_sample: Tensor) -> Tensor:
        """Points of the set; ``b``, ``lower`` and ``upper`` may depend on the sample (see :class:`rayhull.MapInto`)."""
        if features.shape[-1] != self.in_features:
            raise ValueError(f"expected {self.in_features} features on the last axis, got {tuple(features.shape)}.")
        coefficients = self.linear(self._normalised(features))
        if self.map.strict:  # finite features may overflow in the Linear; others come out as NaN
            coefficients = coefficients.nan_to_num(0.0) + (features * 0.0).sum(-1, keepdim=True).to(coefficients.dtype)
        return self.map(coefficients, **of_sample)

    def free(self, features: Tensor) -> Tensor:
        """The point before it is moved into the set, inside or not: for a training that begins without the set.

        Ways in that are the identity inside have one; see :meth:`rayhull.MapInto.point_of`.
        """
        return self.map.point_of(self.linear(self._normalised(features)))

    def _normalised(self, features: Tensor) -> Tensor:
        if self.batch_norm is None:
            return features
        flat = features.reshape(-1, self.in_features)
        if self.training and flat.shape[0] == 1:
            raise ValueError(
                "batch_norm=True cannot train on a batch of one sample, whose variance is 0: give more samples, call "
                ".eval(), or use batch_norm=False."
            )
        return self.batch_norm(flat).reshape(features.shape)

    def fold(self, *, compile: bool = False) -> nn.Module:
        """The module for inference: BatchNorm and the lines folded into one Linear (:func:`rayhull.nn.fold.fold`)."""
        from rayhull.nn.fold import fold

        return fold(self, compile=compile)

    def describe(self) -> str:
        """Which way in each kind of block takes and why, and what holds."""
        return self.map.describe()
