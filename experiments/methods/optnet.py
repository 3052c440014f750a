"""``optnet``: training through a quadratic program, with qpth's layer (Amos and Kolter 2017). Small sets only."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.errors import SettingsError
from experiments.methods.base import Method, free_layer
from experiments.methods.constrained import calm
from rayhull import Polyhedron

LARGEST = 100  # coordinates: qpth factorises a dense system for each sample, which grows with the cube


class QuadraticProgram(nn.Module):
    """The nearest point of the set by qpth, batched. Shape: (n, event shape) → (n, event shape)."""

    def __init__(self, P: Polyhedron) -> None:
        super().__init__()
        try:
            from qpth.qp import QPFunction
        except ImportError as error:
            raise SettingsError("method optnet needs qpth: pip install --no-deps qpth.") from error
        self.solve = QPFunction(verbose=-1, check_Q_spd=False)
        self.register_buffer("Q", torch.eye(P.dim, dtype=torch.float64))
        self.register_buffer("G", torch.as_tensor(np.asarray(P.rows.matrix.todense(), np.float64)))
        self.register_buffer("h", torch.as_tensor(np.asarray(P.rows.rhs, np.float64)))

    def forward(self, u: Tensor) -> Tensor:
        none = self.Q.new_empty(0)
        flat = u.flatten(1).double()
        return self.solve(self.Q, -flat, self.G, self.h, none, none).to(u.dtype).reshape(u.shape)


class Optnet(Method):
    """BatchNorm, FC, quadratic program: what ``projection`` does, by a generic solver."""

    name = "optnet"

    def __init__(self, in_features: int, P: Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        if P.dim > LARGEST:
            raise SettingsError(
                f"optnet takes seconds a sample in {P.dim} dimensions: run the study optnet (8 x 8 digits) instead."
            )
        free = free_layer(in_features, P, squash, batch_norm=True)
        calm(free[0])
        self.layer = nn.Sequential(free, QuadraticProgram(P))
