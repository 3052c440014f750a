"""A pretended device: tensors that say they are elsewhere, and a record of what was asked back to the host."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

DEVICE = torch.device("meta")  # the one name that needs no driver
HOST = torch.device("cpu")


class Elsewhere(torch.Tensor):
    """A tensor on the pretended device; its numbers are kept on the host, out of reach of ``.numpy()``."""

    kept: torch.Tensor

    @staticmethod
    def __new__(cls, kept: torch.Tensor) -> Elsewhere:
        size = {"strides": kept.stride()} if kept.layout == torch.strided else {}
        made = torch.Tensor._make_wrapper_subclass(cls, kept.shape, dtype=kept.dtype, device=DEVICE, **size)
        made.kept = kept
        return made

    __torch_dispatch__ = classmethod(lambda cls, func, types, args=(), kwargs=None: _run(func, args, kwargs or {}))


class OnDevice(TorchDispatchMode):
    """While it is on, the pretended device exists; ``to_host`` lists the tensors that were copied from it."""

    def __init__(self) -> None:
        super().__init__()
        self.to_host: list[torch.Size] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        copied = func.overloadpacket is torch.ops.aten._to_copy and isinstance(args[0], Elsewhere)
        if copied and kwargs.get("device") == HOST:
            self.to_host.append(args[0].shape)
            return func(args[0].kept, **kwargs)
        return _run(func, args, kwargs)


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    away = []

    def unwrapped(v: Any) -> Any:
        if isinstance(v, Elsewhere):
            away.append(v)
            return v.kept
        if isinstance(v, torch.device) and v == DEVICE:
            away.append(v)
            return HOST
        return v

    args, kwargs = tree_map(unwrapped, (args, kwargs))
    out = func(*args, **kwargs)
    return tree_map(lambda v: Elsewhere(v) if away and isinstance(v, torch.Tensor) else v, out)
