"""``alternating``: Pathak, Krähenbühl and Darrell (2015) in the paper's reading, for regression.

Two blocks of variables, the network's output f and a point z of the set for each sample:
minimise fit(z, y) + ρ |f - z|². The z-step projects a mean of f and y onto the set; the network then takes one
optimizer step towards z. Nothing forces f itself inside, so the violation that is left is reported as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

import rayhull as rh
from experiments.methods.base import Fit
from experiments.methods.unconstrained import Unconstrained

RHO = 1.0  # z = project((y + ρ f) / (1 + ρ))


class Alternating(Unconstrained):
    """fit(f, z) with z = the projection of (y + ρ f) / (1 + ρ), held fixed in the network's step."""

    name = "alternating"

    def training_loss(self, x: Tensor, target: Tensor, fit: Fit) -> Tensor:
        with torch.no_grad():
            z = rh.project(self.P, (target + RHO * x) / (1 + RHO))
        return fit(x, z)
