"""Geometry as buffers that keep their precision, under casts and in checkpoints: arrays, products with rows, gauges."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from rayhull.maps.steps import Plane
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

SAME = 1e-6  # geometry that a checkpoint carries may differ by this share of its largest number, and by its own dtype

GATHER_COST = 16  # one gathered entry costs about as much as this many entries of a dense product (batch 256, float32)


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
        if not isinstance(self.dtype, torch.dtype) or not self.dtype.is_floating_point:
            raise TypeError(f"dtype must be one of floating-point numbers, such as torch.float32, got {self.dtype!r}.")
        self.exact: dict[str, Array] = {}  # the float64 array behind each constant
        self._wide: set[str] = set()  # those that stay float64
        self._index: dict[str, Array] = {}

    @property
    def factory(self) -> Factory:
        """Where and in what precision constants are made."""
        return Factory(self.device, self.dtype)

    def constant(self, name: str, values: Array, *, persistent: bool = False, wide: bool = False) -> None:
        """Register ``values`` as the buffer ``name``, in the layer's dtype (float32 at least).

        With ``wide`` it is always float64.
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
        """Register the ``basis`` of :func:`rayhull.sets.frame.equality_basis` as ``equal``: a plane if it is sparse.

        Else it is a constant, ``wide`` as others are.
        """
        self.has_equalities = basis.shape[1] > 0
        if sp.issparse(basis):
            self.equal = Plane(sp.csr_array(basis.T))
        else:
            self.constant("equal", basis, wide=wide)

    def index(self, name: str, values: Array) -> None:
        """Keep ``values``, integers or booleans, as the tensor ``name``, which follows the module's device."""
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


class Product(Constants):
    """v = A y for a constant A: short rows by gathering their entries, long rows by a dense product.

    Shape: y (\\*, n) → (\\*, m), first the short rows, then the long ones; ``order`` says which row each was.
    """

    def __init__(self, matrix: sp.csr_array, factory: Factory, *, wide: bool = False) -> None:
        super().__init__(factory)
        counts = np.diff(matrix.indptr)
        short = _short_rows(counts, matrix.shape[1])
        width = int(counts[short].max(initial=1))
        long = np.setdiff1d(np.arange(len(counts)), short)
        self.order = np.concatenate([short, long])
        self.has_short, self.has_long = len(short) > 0, len(long) > 0
        if self.has_short:
            columns, entries = _padded(sp.csr_array(matrix[short]), width)
            self.constant("entries", entries, wide=wide)
            self.index("columns", columns.ravel())
        if self.has_long:
            self.constant("dense", matrix[long].toarray(), wide=wide)

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.has_short:
            gathered = y.index_select(-1, self.columns).reshape(*y.shape[:-1], *self.entries.shape)  # (*, m, width)
            parts.append((gathered * self.entries).sum(-1))
        if self.has_long:
            parts.append(y @ self.dense.mT)
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _short_rows(counts: Array, n: int) -> Array:
    """The rows that are cheaper to gather: the split at a width with the least total cost."""
    by_length = np.argsort(counts, kind="stable")
    number = np.arange(len(counts) + 1)
    widest = np.concatenate([[0], counts[by_length]])
    cost = GATHER_COST * number * widest + (len(counts) - number) * n
    return np.sort(by_length[: int(cost.argmin())])


def _padded(matrix: sp.csr_array, width: int) -> tuple[Array, Array]:
    """Columns and entries of every row, (m, width) each, with zeros after the last one."""
    taken = np.arange(width) < np.diff(matrix.indptr)[:, None]
    columns, entries = np.zeros(taken.shape, np.int64), np.zeros(taken.shape)
    columns[taken], entries[taken] = matrix.indices, matrix.data
    return columns, entries


class Gauge(Constants):
    """max_i a_i·y / h_i over rows with slack h, bounds taken coordinate by coordinate; negative well inside.

    With ``offset`` it is max_i (a_i·y - b_i) / h_i, by how much y exceeds a row, in units of the slack.

    Args:
        numbers: which of ``P.rows``.
        slack: h for each of them.
        wide: whether it stays in float64 under every cast.

    Shape: y (\\*, n) → (\\*)
    """

    product: Product | None

    def __init__(
        self, P: Polyhedron, numbers: Array, slack: Array, factory: Factory, *, offset: bool = False, wide: bool = False
    ) -> None:
        super().__init__(factory)
        is_row = P.layout.is_stated(numbers)
        self.offset, self.bounded, self.product = offset, bool((~is_row).any()), None
        if is_row.any():
            stated, own = numbers[is_row], slack[is_row]
            self.product = Product(_divided(P.rows.matrix[stated], own), factory, wide=wide)
            order = self.product.order
            self.index("stated", stated[order])  # positions among the block's stated rows
            self.constant("inverse_slack", 1 / own[order], wide=wide)
            self.constant("row_offset", P.rows.rhs[stated[order]] / own[order], wide=wide)
        if self.bounded:
            self._take_bounds(P, numbers[~is_row], slack[~is_row], wide)

    def _take_bounds(self, P: Polyhedron, numbers: Array, slack: Array, wide: bool) -> None:
        matrix = P.rows.matrix[numbers]
        inverses = np.zeros((2, P.dim))  # 1 / h for each coordinate's upper and lower bound, 0 where there is none
        offsets = np.full((2, P.dim), np.inf)  # b / h, with the sign of the row ±x <= b
        for k, sign in enumerate((1.0, -1.0)):
            pick = matrix.data == sign
            inverses[k, matrix.indices[pick]] = 1 / slack[pick]
            offsets[k, matrix.indices[pick]] = P.rows.rhs[numbers][pick] / slack[pick]
        self.inverse = float(inverses[0, 0])
        self.symmetric = bool((inverses == self.inverse).all()) and not self.offset
        for k, name in enumerate(("upper", "lower")):
            self.constant(name, inverses[k], wide=wide)
            self.constant(f"{name}_offset", offsets[k], wide=wide)

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.product is not None:
            values = self.product.forward(y)
            parts.append((values - self.row_offset if self.offset else values).amax(-1))
        if self.bounded:
            parts.append(self._of_bounds(y))
        if not parts:
            return torch.zeros_like(y[..., 0])
        return parts[0] if len(parts) == 1 else torch.maximum(*parts)

    def _of_bounds(self, y: Tensor) -> Tensor:
        if self.symmetric:
            largest = y.abs().amax(-1)
            return largest if self.inverse == 1.0 else largest * self.inverse
        above, below = y * self.upper, -y * self.lower
        if self.offset:
            above, below = above - self.upper_offset, below - self.lower_offset
        return torch.maximum(above, below).amax(-1)


def _divided(matrix: sp.csr_array, slack: Array) -> sp.csr_array:
    """a_i / h_i for every row, entry by entry: 1 / h alone may overflow."""
    entries = matrix.data / np.repeat(slack, np.diff(matrix.indptr))
    return sp.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)
