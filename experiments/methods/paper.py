"""``paper``: the paper's layer, exactly: BatchNorm, FC to one coefficient a ray, abs, rays, one global scaling.

A half-space ``sum of a tile <= 0`` has many sets of generators. In ours every line runs through the tile's last pixel
and the ray is the tile's normal; in those of cddlib, with which the authors' code converts, every line runs through the
first pixel and the ray is that pixel. ``--generators cddlib`` takes theirs.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

import rayhull as rh
from experiments.methods.base import Method


class Paper(Method):
    """The box is off in training for the first ``box_delay`` epochs; at evaluation it always holds, as in their code.

    So the validation loss of every epoch is that of points inside the set, and the plateau schedule compares like with
    like.
    """

    name = "paper"
    needs_stem = True

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.theirs = getattr(settings, "generators", "ours") == "cddlib"
        self.layer = rh.paper_layer(in_features, mirrored(P) if self.theirs else P, orthogonal=not self.theirs)
        self.box_delay = settings.box_delay
        self.box_in_training = True

    def epoch_begins(self, epoch: int) -> None:
        self.box_in_training = epoch > self.box_delay

    def forward(self, features: Tensor) -> Tensor:
        self.layer.shrinking = self.box_in_training or not self.training
        x = self.layer(features)
        return x.flip(-2, -1) if self.theirs else x


def mirrored(P: rh.Polyhedron) -> rh.Polyhedron:
    """``P`` with its coordinates in reverse order: our conversion takes the last pixel where cddlib takes the first."""
    lower, upper = (bound.ravel()[::-1].reshape(P.shape) for bound in (P.lower, P.upper))
    return rh.Polyhedron(P.A[:, ::-1], P.b, lower=lower, upper=upper, shape=P.shape)
