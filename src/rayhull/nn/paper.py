"""The paper's layer, exactly, for reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from rayhull.nn.constrained import Constrained

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class PaperLayer(Constrained):
    """BatchNorm, a Linear to one coefficient for each ray, lines as two opposite rays, abs, one global scaling."""

    def reset_parameters(self) -> None:
        reach = 1 / self.polyhedron.dim
        nn.init.uniform_(self.linear.weight, -reach, reach)
        nn.init.zeros_(self.linear.bias)


def paper_layer(in_features: int, P: Polyhedron, **factory: Any) -> PaperLayer:
    """The layer of *Homogeneous Linear Inequality Constraints for Neural Network Activations* (2020), section 3.

    x = R |β| with β = Linear(BatchNorm(features)), rays at unit length and every line doubled into two opposite rays;
    a box around 0 is met by one division by max(1, |x|_inf), which ``layer.shrinking`` switches. Weights start uniform
    in ±1/d, biases at 0.

    Args:
        in_features: size of each input sample.
        P: a cone, or a cone and a box around 0.
        **factory: ``device`` and ``dtype``.

    Shape: (\\*, in_features) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
        >>> layer = rh.paper_layer(784, P)
        >>> layer.linear.out_features                    # 768 lines, twice, and 16 rays
        1552
        >>> bool(P.contains(layer(torch.randn(64, 784))).all())
        True
    """
    chosen: dict[str, Any] = {"method": "rays", "nonnegative": "abs", "scaling": "global", "opposite_rays": True}
    return PaperLayer(in_features, P, batch_norm=True, **chosen, **factory)
