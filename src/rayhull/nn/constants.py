"""Geometry as buffers that keep their precision, under casts and in checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rayhull.maps.steps import Plane
from rayhull.sets.rows import Array

SAME = 1e-6  # geometry that a checkpoint carries may differ by this share of its largest number, and by its own dtype


class Factory(NamedTuple):
    """Where and in what precision a layer's constants are made."""

    device: torch.device | str | None = None
    dtype: torch.dtype | None = None


def fresh(values: Array, device: Any = None, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor with memory and strides of its own: DDP refuses the strides that NumPy gives empty and flat arrays."""
    tensor = torch.as_tensor(values)
    return torch.empty(tensor.shape, device=device, dtype=dtype or tensor.dtype).copy_(tensor)


class Constants(nn.Module):
    """A module whose constants are buffers, backed by float64 arrays that were derived from the set.

    ``layer.double()`` after a life in float32 gives float64 geometry, not float32 geometry in wider boxes, and so does
    a checkpoint that was saved in a shorter dtype. Numbers that carry a proof stay in float64 (``wide``).

    Indices are plain attributes, not buffers: whoever averages buffers (``AveragedModel(use_buffers=True)``) leaves
    them alone.
    """

    equal: Tensor | Plane

    if TYPE_CHECKING:  # what is registered below is a tensor

        def __getattr__(self, name: str) -> Tensor: ...

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self.device = torch.empty((), device=factory.device).device
        self.dtype = torch.get_default_dtype() if factory.dtype is None else factory.dtype
        self.exact: dict[str, Array] = {}  # the float64 array behind each constant
        self._wide: set[str] = set()  # those that stay float64
        self._index: dict[str, Array] = {}

    @property
    def factory(self) -> Factory:
        return Factory(self.device, self.dtype)

    def constant(self, name: str, values: Array, *, persistent: bool = False, wide: bool = False) -> None:
        """Register ``values`` as the buffer ``name``, in the layer's dtype (float32 at least), or always in float64.

        ``persistent`` is for what the meaning of the coefficients depends on (base point, rays, vertices): it goes into
        the state_dict, in float64, and a checkpoint with another one is refused.
        """
        self.exact[name] = np.asarray(values, np.float64)
        self._wide |= {name} if wide else set()
        if np.isfinite(self.exact[name]).all():
            self.register_buffer(name, self._made(name), persistent=persistent)
        else:  # no buffer: an average of infinite ones is none
            setattr(self, name, self._made(name))

    def keep_equalities(self, basis: Array | sp.sparray, *, wide: bool = False) -> None:
        """Register :func:`rayhull.sets.frame.equality_basis` as ``equal``: a constant, or a plane if it is sparse."""
        self.has_equalities = basis.shape[1] > 0
        if sp.issparse(basis):
            self.equal = Plane(sp.csr_array(basis.T))
        else:
            self.constant("equal", basis, wide=wide)

    def index(self, name: str, values: Array) -> None:
        """Keep integers or booleans as the tensor ``name``, which follows the module's device."""
        self._index[name] = values
        setattr(self, name, fresh(values, self.device))

    def _made(self, name: str) -> Tensor:
        single = torch.promote_types(self.dtype, torch.float32)  # halves are too coarse for geometry
        return fresh(self.exact[name], self.device, torch.float64 if name in self._wide else single)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        like = fn(torch.zeros((), dtype=self.dtype, device=self.device))
        changed = like.device != self.device or like.dtype != self.dtype
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.device, self.dtype = like.device, like.dtype
        if changed or self._wide or self.dtype not in (torch.float32, torch.float64):  # or from the meta device
            for name in self.exact:
                setattr(self, name, self._made(name))
            for name, values in self._index.items():
                setattr(self, name, fresh(values, self.device))
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in self.exact:
            if prefix + name in destination:
                destination[prefix + name] = fresh(self.exact[name], self.device, torch.float64)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Compare a checkpoint's geometry with what the set gave, and keep the latter."""
        saved = {prefix + name: name for name in self.exact if prefix + name in state_dict}
        errors: list[str] = args[-1]
        for key, name in saved.items():
            if not _agree(state_dict[key], self.exact[name]):
                errors.append(
                    f"{key} is not what this version of rayhull derives from the set, so the weights beside it mean "
                    "other points: load it with the options and the version that it was saved with."
                )
        own = {key: getattr(self, name) for key, name in saved.items()}
        super()._load_from_state_dict({**state_dict, **own}, prefix, *args)


def _agree(theirs: Tensor, ours: Array) -> bool:
    """Whether a saved constant is ours, up to the rounding of the dtype that it was saved in."""
    if theirs.is_meta:
        return True
    if tuple(theirs.shape) != ours.shape:
        return False
    rounded = torch.as_tensor(ours).to(theirs.dtype).double()
    share = max(SAME, 4 * torch.finfo(theirs.dtype).eps) if theirs.is_floating_point() else SAME
    apart = (theirs.detach().cpu().double() - rounded).abs()
    close = apart <= share * float(np.abs(ours).max(initial=0.0))
    return bool((close | (theirs.detach().cpu().double() == rounded)).all())
