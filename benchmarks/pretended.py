"""A pretended accelerator in stock torch, with real numbers: what a device would be asked to launch, and what waits.

Tensors say that they are on it; their numbers are kept on the host, out of reach of ``.numpy()``. While :class:`Count`
is on, every operation on them is counted: launches, views, and what would make the host wait for the device.
"""

from __future__ import annotations

import collections
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretended"
_setup_privateuseone_for_python_backend(NAME)  # type: ignore[no-untyped-call]
DEVICE, HOST = torch.device(NAME, 0), torch.device("cpu")
aten = torch.ops.aten
WAITS = {"_local_scalar_dense", "item", "is_nonzero", "equal", "allclose", "nonzero", "nonzero_numpy", "argwhere"}
WAITS |= {"masked_select", "unique_consecutive", "_unique2", "unique_dim", "repeat_interleave", "_linalg_check_errors"}
# views and memory launch nothing
FREE = {"detach", "alias", "view", "_unsafe_view", "reshape", "expand", "t", "transpose", "permute", "unsqueeze", "mT"}
FREE |= {"squeeze", "slice", "select", "split", "unbind", "unfold", "split_with_sizes", "diagonal", "as_strided"}
FREE |= {"movedim", "lift_fresh", "empty", "empty_like", "new_empty", "empty_strided", "chunk", "narrow", "view_as"}
FREE |= {"new_empty_strided", "_reshape_alias", "expand_as", "size", "stride", "sym_size", "is_same_size"}
FREE |= {"resolve_conj", "resolve_neg"}


class Elsewhere(torch.Tensor):
    """A tensor on the pretended device."""

    kept: torch.Tensor

    @staticmethod
    def __new__(cls, kept: torch.Tensor) -> Elsewhere:
        size = {"strides": kept.stride()} if kept.layout == torch.strided else {}
        made: Elsewhere = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, kept.shape, dtype=kept.dtype, device=DEVICE, **size
        )
        made.kept = kept
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Count(TorchDispatchMode):
    """While it is on, the device exists; ``launches`` and ``waits`` count operations by name."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: collections.Counter[str] = collections.Counter()
        self.waits: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        away = any(_is_away(leaf) for leaf in tree_leaves((args, kwargs)))
        if name == "_to_copy" and isinstance(args[0], Elsewhere) and kwargs.get("device") == HOST:
            self.waits["copy to the host"] += 1
            return func(args[0].kept, **kwargs)
        if name == "copy_" and away and len({isinstance(v, Elsewhere) for v in args[:2]}) == 2:
            self.waits["copy to the device" if isinstance(args[0], Elsewhere) else "copy to the host"] += 1
        elif name == "_to_copy" and away and not isinstance(args[0], Elsewhere):
            self.waits["copy to the device"] += 1
        elif away and (name in WAITS or (name.startswith("index") and _has_mask(args))):
            self.waits[name] += 1
        elif away and name not in FREE and not getattr(func, "is_view", False):
            self.launches[name] += 1
        return _run(func, args, kwargs)


def _is_away(value: Any) -> bool:
    return isinstance(value, Elsewhere) or (isinstance(value, torch.device) and value.type == NAME)


def _has_mask(args: Any) -> bool:
    """Whether an index is a mask: what it picks has a size that only the device knows."""
    return any(isinstance(v, torch.Tensor) and v.dtype == torch.bool for v in tree_leaves(args[1:2]))


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    away = any(_is_away(leaf) for leaf in tree_leaves((args, kwargs)))
    args, kwargs = tree_map(_on_host, (args, kwargs))
    out = func(*args, **kwargs)
    return tree_map(lambda v: Elsewhere(v) if away and isinstance(v, torch.Tensor) else v, out)


def _on_host(value: Any) -> Any:
    if isinstance(value, Elsewhere):
        return value.kept
    return HOST if isinstance(value, torch.device) and value.type == NAME else value
