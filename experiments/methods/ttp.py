"""``ttp``: unconstrained training, then test-time projection: the nearest point, at evaluation only."""

from __future__ import annotations

from torch import Tensor

import rayhull as rh
from experiments.methods.unconstrained import Unconstrained


class Ttp(Unconstrained):
    """Our nearest point here; the paper's OSQP loop gives the same points and is timed in the study ``timing``."""

    name = "ttp"
    hard = True

    def deliver(self, x: Tensor) -> Tensor:
        return rh.project(self.P, x)
