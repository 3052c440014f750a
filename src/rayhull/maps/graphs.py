"""Who looks at a call: an eager one on the CPU may take a compiled kernel, all others the tensor operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

PLAIN, DTYPES = (Tensor, torch.nn.Parameter), (torch.float32, torch.float64)


def is_plain(x: Tensor) -> bool:
    """Whether a call is eager, on the CPU, with nothing that looks inside."""
    return not (
        torch.compiler.is_compiling()
        or not x.is_cpu
        or type(x) not in PLAIN
        or x.dtype not in DTYPES
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or torch.is_autocast_enabled("cpu")
    )


def in_autocast(x: Tensor) -> bool:
    """Whether autocast is on for the device of a tensor."""
    if not torch._C._is_any_autocast_enabled():
        return False
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def in_transform() -> bool:
    """Whether a transform of ``torch.func`` is under way, which hides numbers from everything but operators."""
    return torch._C._are_functorch_transforms_active()


def is_differentiated(x: Tensor) -> bool:
    """Whether a derivative of x is asked for, backwards or forwards."""
    return x.requires_grad or forward_ad._current_level >= 0


def applied(function: Any, *args: Any) -> Any:
    """``function.apply``."""
    return function.apply(*args) if torch.compiler.is_compiling() or in_transform() else eagerly(function, *args)


def eagerly(function: Any, *args: Any) -> Any:
    """The same in an eager call, spared torch's look at the signature, which takes longer than the rest."""
    caller: Any = super(torch.autograd.Function, function)
    return caller.apply(*args)


def in_vmap(value: Tensor) -> bool:
    """Whether one of the transforms around a tensor is a ``vmap``; derivatives alone leave its numbers in sight."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(value):
        if functorch.is_batchedtensor(value):
            return True
        value = functorch.get_unwrapped(value)
    return False


def hides_numbers(value: Tensor) -> bool:
    """Whether a call may not look at numbers: in a graph, in a ``vmap``, and where there are none."""
    return torch.compiler.is_compiling() or in_vmap(value) or type(value) is FakeTensor


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of them broadcast to. At its first call torch's own loads SymPy, which takes a second."""
    if any(type(size) is not int for shape in shapes for size in shape):  # of a graph
        return torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    return np.broadcast_shapes(*shapes)


def is_away(device: torch.device) -> bool:
    """Whether a device is an accelerator: what looks at its numbers waits for it."""
    return device.type not in ("cpu", "meta")


def may_look(value: Tensor) -> bool:
    """Whether a call may look at numbers: it is not hidden, and no device is kept waiting."""
    return not is_away(value.device) and not hides_numbers(value)
