"""Geometry as buffers that keep their precision: a cast rounds anew from float64, not from what was there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.sets.rows import Array


def fresh(values: Array, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor with memory and strides of its own: DDP refuses the strides that NumPy gives empty and flat arrays."""
    tensor = torch.as_tensor(values)
    return torch.empty(tensor.shape, device=device, dtype=dtype or tensor.dtype).copy_(tensor)


class Constants(nn.Module):
    """A module whose constants are buffers, backed by float64 arrays.

    ``layer.double()`` after a life in float32 gives float64 geometry, not float32 geometry in wider boxes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._exact: dict[str, Array] = {}
        self._stays_wide = False

    def constant(
        self,
        name: str,
        values: Array,
        device: Any = None,
        dtype: torch.dtype | None = None,
        stays_wide: bool = False,
        persistent: bool = True,
    ) -> None:
        """Register ``values`` (float64) as the buffer ``name``; ``stays_wide`` keeps it in float64 under every cast."""
        self._exact[name] = values
        self._stays_wide = stays_wide
        dtype = torch.get_default_dtype() if dtype is None else dtype
        tensor = fresh(np.asarray(values, np.float64), device, dtype)
        self.register_buffer(name, tensor, persistent=persistent)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = {name: getattr(self, name) for name in self._exact}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, values in self._exact.items():
            old, new = before[name], getattr(self, name)
            dtype = torch.float64 if self._stays_wide else new.dtype
            if (old.dtype != dtype or new.dtype != dtype or old.is_meta) and not new.is_meta:
                setattr(self, name, fresh(np.asarray(values, np.float64), new.device, dtype))
        return self
