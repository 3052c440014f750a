"""A block's rows and bounds in standard form: rows of unit length, as a linear map that all samples share.

Rows that each sample brings are another such map. The metric is absorbed, and equalities that are nearly dependent are
replaced by rows at right angles, in rational arithmetic: floats would lose what tells them apart.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from rayhull.core import operators
from rayhull.exact.elimination import reduction
from rayhull.exact.numbers import largest, others
from rayhull.projection.intervals import intervals
from rayhull.sets.rows import DEPENDENT, Array, Rows, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

SPARSE = 0.05  # the share of entries below which products with a sparse matrix are faster
DENSE = 0.25  # the share of entries from which the compiled kernels take rows densely
SPARSER = 0.2  # of the products of a dense factor, where a sparse one takes its place
MOST_PRODUCTS = 2000  # rows up to this many have all their products kept
NEARLY = 1e-5  # singular values below this, relative to the largest: floats would lose five digits of the point
ENTRIES, WORK = 1_000_000, 400_000  # entries looked at, and steps of rational elimination that are worth their time


# -- the rows as a linear map ----------------------------------------------------------------------------------------


class Kept:
    """Numbers as a tensor on each device, in each dtype that was asked for: nothing is copied there twice."""

    def __init__(self, values: Array | sp.csr_array | Tensor) -> None:
        self._made: dict[tuple[torch.device, torch.dtype | None], Tensor] = {}
        with torch.inference_mode(False):  # they serve calls that are differentiated, too
            self.values = values if isinstance(values, Tensor) else _tensor(values)

    def like(self, y: Tensor) -> Tensor:
        """On the device of y; real numbers in its dtype."""
        key = y.device, y.dtype if self.values.is_floating_point() else None
        found = self._made.get(key)
        if found is not None:
            return found
        if torch.compiler.is_compiling():
            return self.values.to(*key)
        with torch.inference_mode(False):
            self._made[key] = self.values.to(*key)
        return self._made[key]


class Matrix:
    """Rows that all samples share, dense or sparse; what is derived from them is kept, for each device."""

    def __init__(self, rows: sp.csr_array, m: int | None = None) -> None:
        self.rows, self.count = rows, int(rows.shape[0])
        self.m = self.count if m is None else m  # inequalities come first
        self.sparse = rows.nnz < SPARSE * rows.shape[0] * rows.shape[1]
        self._kept: dict[str, Kept] = {}

    @cached_property
    def dense_array(self) -> Array:
        return np.ascontiguousarray(self.rows.toarray())

    @cached_property
    def is_dense(self) -> bool:
        """Whether the compiled kernels take the rows densely."""
        return bool(self.rows.nnz > DENSE * self.rows.shape[0] * self.rows.shape[1])

    @cached_property
    def compiled(self) -> operators.Rows:
        """The rows as the compiled kernels want them."""
        products = self.products if self.count <= MOST_PRODUCTS else np.zeros((0, 0))
        products = products if isinstance(products, np.ndarray) else products.toarray()
        rows = self.sparsely._replace(products=torch.from_numpy(products))
        if not self.is_dense:
            return rows
        return rows._replace(data=torch.from_numpy(self.dense_array), columns=rows.columns[:0], begin=rows.begin[:0])

    @cached_property
    def sparsely(self) -> operators.Rows:
        """The rows by their entries, as the kernels for sparse ones want them."""
        rows = self.rows
        stored = rows.data.astype(np.float64), rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
        lengths = np.asarray(abs(self.rows).sum(1)).ravel()
        return operators.Rows(*(torch.from_numpy(v) for v in (*stored, np.zeros((0, 0)), lengths)))

    @cached_property
    def intervals(self) -> operators.Intervals | None:
        """The rows as the sparse solver takes them, None where they are not sparse enough to gain by it."""
        if not self.few_products:
            return None
        found, work = intervals(self.rows, self.m)
        return found if work < self.few_products else None

    @property
    def few_products(self) -> float:
        """Fewer products than this make a sparse factor worth while; 0 where none is."""
        small, large = sorted(self.rows.shape)
        return 0.0 if self.is_dense or small < 2 else SPARSER * small * small * (large + small / 3)

    @cached_property
    def products(self) -> Array | sp.csr_array:
        """G Gᵀ (M, M), dense where the rows are: a sparse product of filled rows takes a hundred times as long."""
        return self.dense_array @ self.dense_array.T if self.is_dense else self.rows @ self.rows.T

    @cached_property
    def largest_eigenvalue(self) -> float:
        if self.count <= 200:
            return float(np.linalg.norm(self.dense_array, 2) ** 2) if self.count else 1.0
        return float(eigsh(self.products, 1, return_eigenvectors=False, tol=1e-3)[0]) * 1.01

    @cached_property
    def pseudo_inverse(self) -> Array:
        """G⁺ (d, M), by singular values: those of G G^T would lose half of the digits."""
        return np.linalg.pinv(self.dense_array, rcond=DEPENDENT)

    @cached_property
    def columns(self) -> sp.csr_array:
        return self.rows.T.tocsr()

    @cached_property
    def transposed(self) -> Array:
        """Gᵀ (d, M), a copy: the product is then the same, bit by bit, however its points lie in memory."""
        return np.ascontiguousarray(self.dense_array.T)

    def dense(self, like: Tensor) -> Tensor:
        """G (M, d), or (N, M, d) of each sample, on the device of ``like``."""
        return self.on("dense_array", like)

    def on(self, name: str, like: Tensor) -> Tensor:
        """One of the matrices above on the device of ``like``, kept there."""
        if name not in self._kept:
            self._kept[name] = Kept(getattr(self, name))
        return self._kept[name].like(like)

    def times(self, v: Tensor) -> Tensor:
        """G v for each sample. Shape: (N, d) → (N, M)."""
        return (self.on("rows", v) @ v.mT).mT if self.sparse else v @ self.on("transposed", v)

    def transposed_times(self, w: Tensor) -> Tensor:
        """G^T w for each sample. Shape: (N, M) → (N, d)."""
        return (self.on("columns", w) @ w.mT).mT if self.sparse else w @ self.dense(w)

    @cached_property
    def long_columns(self) -> sp.csr_array:
        return self.columns.astype(np.longdouble)

    def long_transposed_times(self, w: Array) -> Array:
        """G^T w for each sample, in the longest floats that there are. Shape: (N, M) → (N, d)."""
        return (self.long_columns @ w.T).T

    def solve_active(self, q: Tensor, active: Tensor, at_bound: Tensor) -> Tensor:
        """w with (G D G^T) w = q over the active rows, 0 elsewhere; D keeps the coordinates at no bound. (N, M)."""
        if self.count == 1:  # a number instead of a system
            slope = ((at_bound == 0) * self.dense(q)[..., 0, :].square()).sum(1)
            holds = active[:, 0] & (slope > 0)
            return torch.where(holds, q[:, 0] / slope.clamp_min(torch.finfo(q.dtype).tiny), 0.0)[:, None]
        if q.device.type == "cpu" and operators.available():
            if self.intervals is not None:
                return operators.interval_system(self.intervals, q, active, at_bound)
            return operators.active_system(self.compiled, q, active, at_bound)
        return regularised_solve(self.dense(q), q, active, at_bound == 0)

    def take(self, samples: Tensor) -> Matrix:
        """The rows of some of the samples."""
        return self

    def array(self, sample: int) -> Array:
        """G (M, d) of one sample in NumPy."""
        return self.dense_array

    def by_entries(self, sample: int) -> sp.csr_array:
        """The same by its entries."""
        return self.rows

    def step(self, like: Tensor) -> Tensor:
        """1 / the largest eigenvalue of G G^T, the step length of gradients on the dual. Shape: (1 or N, 1)."""
        return torch.full((1, 1), 1 / self.largest_eigenvalue, dtype=like.dtype, device=like.device)


class SampleMatrix(Matrix):
    """Dense rows of each sample: a tensor (N, M, d)."""

    intervals = None

    def __init__(self, rows: Tensor) -> None:
        self.rows, self.count = rows, int(rows.shape[1])

    @property
    def compiled(self) -> operators.Rows:
        return operators.Rows.of_samples(self.rows)

    def times(self, v: Tensor) -> Tensor:
        return (self.rows.to(v.dtype) @ v[..., None])[..., 0]

    def transposed_times(self, w: Tensor) -> Tensor:
        return (w[:, None, :] @ self.rows.to(w.dtype))[:, 0]

    def long_transposed_times(self, w: Array) -> Array:
        return (w[:, None, :] @ self.rows.cpu().numpy().astype(w.dtype))[:, 0]

    def dense(self, like: Tensor) -> Tensor:
        return self.rows

    def take(self, samples: Tensor) -> SampleMatrix:
        return SampleMatrix(self.rows[samples])

    def array(self, sample: int) -> Array:
        return self.rows[sample].detach().cpu().numpy()

    def by_entries(self, sample: int) -> sp.csr_array:
        return sp.csr_array(self.array(sample))

    def step(self, like: Tensor) -> Tensor:
        norms = torch.linalg.matrix_norm(self.rows, 2) if self.rows.numel() else self.rows.new_ones(len(self.rows))
        return (1 / norms.square().clamp_min(1e-280))[:, None].to(like.dtype)


def regularised_solve(G: Tensor, q: Tensor, active: Tensor, free: Tensor) -> Tensor:
    """w with (G D G^T) w = q over the active rows, by a batched Cholesky factor with a trace of regularisation."""
    rows = active.to(q.dtype)
    H = (G * free[:, None, :].to(q.dtype)) @ G.mT
    H = H * rows[:, :, None] * rows[:, None, :]
    H.diagonal(dim1=1, dim2=2).add_(1 - rows + 1e-13)
    factor, _ = torch.linalg.cholesky_ex(H)
    right = (q * rows)[..., None]
    w = torch.cholesky_solve(right, factor)
    w = w + torch.cholesky_solve(right - H @ w, factor)
    return w[..., 0] * rows


def _tensor(values: Array | sp.csr_array) -> Tensor:
    if isinstance(values, np.ndarray):
        return torch.from_numpy(np.array(values))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse rows a beta
        begin, columns = (torch.from_numpy(v.astype(np.int64)) for v in (values.indptr, values.indices))
        return torch.sparse_csr_tensor(begin, columns, torch.from_numpy(values.data), values.shape)


# -- the standard form -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StandardForm:
    """min ½‖z − y‖² subject to G z <= c for the first ``m`` rows, = c for the others, lower <= z <= upper.

    Weights w are absorbed: z = √w x. Each row is scaled to unit length, so that a violation is a distance.
    """

    matrix: Matrix  # G (M, d), rows of unit length
    m: int  # inequalities come first
    c: Array  # (M,)
    lower: Array  # (d,)
    upper: Array  # (d,)
    norms: Array  # (M,): stated row = norms * unit row, in scaled coordinates
    root: Array | None  # (d,): √w, or None for the plain metric
    compiled: bool  # whether the compiled kernels serve the device
    equalities: Rows  # as stated
    combination: Array | None = None  # (k, k_stated): c of the equalities = combination @ b_eq; None: b_eq / norms

    @staticmethod
    def of(P: Polyhedron, weights: Array | None = None, *, compiled: bool = True) -> StandardForm:
        root = None if weights is None or (weights == 1).all() else np.sqrt(weights)
        scale = 1.0 if root is None else root
        inequalities, equalities = P.inequalities.without_zeros(), P.equalities.without_zeros()
        stated, m = Rows.stack([inequalities, equalities]), len(inequalities)
        scaled = stated.matrix if root is None else sp.csr_array(stated.matrix @ sp.diags_array(1 / root))
        unit, c, norms = unit_rows(scaled, stated.rhs)
        replaced = orthonormal_equalities(equalities, scale) if stated is not inequalities else None
        if replaced is not None:
            basis, combination = replaced
            unit = sp.vstack([unit[:m], sp.csr_array(basis)], format="csr")
            norms[m:], c[m:] = 1.0, combination @ equalities.rhs
        rows = sp.csr_array(unit)
        rows.sort_indices()
        lower, upper = P.lower_bounds * scale, P.upper_bounds * scale
        kept = None if replaced is None else replaced[1]
        return StandardForm(Matrix(rows, m), m, c, lower, upper, norms, root, compiled, equalities, kept)

    @property
    def d(self) -> int:
        return len(self.lower)

    @property
    def roots(self) -> Array:
        """√w, ones for the plain metric. Shape: (d,)"""
        return np.ones(self.d) if self.root is None else self.root

    @cached_property
    def bounded(self) -> bool:
        """Whether some coordinate has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @cached_property
    def differences(self) -> tuple[Array, Array] | None:
        """(small, large) with every row x[small] − x[large] <= something, up to its scale; None for other rows."""
        rows = self.matrix.rows
        if self.m != self.matrix.count or not self.m or (np.diff(rows.indptr) != 2).any():
            return None
        ends = rows.indices.reshape(-1, 2)
        values = rows.data.reshape(-1, 2) * self.roots[ends]  # in plain coordinates, up to the row's scale
        if not np.allclose(values[:, 0], -values[:, 1], rtol=1e-14, atol=0):
            return None
        first = values[:, 0] > 0
        return np.where(first, ends[:, 0], ends[:, 1]), np.where(first, ends[:, 1], ends[:, 0])


def orthonormal_equalities(equalities: Rows, scale: Array | float) -> tuple[Array, Array] | None:
    """Rows Q and a matrix T with {z : Q z = T b_eq} the same plane in scaled coordinates; None where no need is.

    Q has rows at right angles, then a zero row for each dependent equality, whose T b_eq is 0 as long as the
    right-hand sides agree.
    """
    k, d = len(equalities), equalities.dim
    if k < 2 or k * d > ENTRIES or not _is_nearly_dependent(equalities):
        return None
    matrix, times = equalities.dense_integers()[0].astype(object), _times_stated(equalities)
    chosen, pivots, weights, common = reduction(matrix)
    rank, rest = len(chosen), others(chosen, k)
    echelon = (weights.dot(matrix[chosen]) / common).astype(float)
    Q, T = np.zeros((k, d)), np.zeros((k, k))
    q, upper = np.linalg.qr((echelon / scale).T)  # the echelon form = upper^T q^T
    Q[:rank], T[:rank, chosen] = q.T, np.linalg.solve(upper.T, (weights / common).astype(float) * times[chosen])
    T[np.arange(rank, k), rest] = 1.0
    T[rank:, chosen] = -(matrix[np.ix_(rest, pivots)].dot(weights) / common).astype(float) * times[chosen]
    T[rank:, chosen] /= times[rest, None]
    return Q, T


def _times_stated(equalities: Rows) -> Array:
    """By how much each row of the exact integers is longer than the stated one."""
    first = equalities.indptr[:-1]
    stated = zip(equalities.exact[0][first].tolist(), equalities.data[first].tolist(), strict=True)
    return np.array([float(Fraction(whole) / Fraction(value)) for whole, value in stated])


def _is_nearly_dependent(equalities: Rows) -> bool:
    k, d = len(equalities), equalities.dim
    if k * k * d > WORK:
        return False
    values = np.linalg.svd(equalities.unit[0].toarray(), compute_uv=False)
    values = np.append(values, np.zeros(max(0, k - d))) / values[0]
    if equalities.integers is None:
        return bool(NEARLY > values[-1] > DEPENDENT)  # floats that depend up to rounding are taken as dependent
    large = largest(equalities.integers[0]) > 2**26  # rows which look dependent in floats may not be
    return bool(values[-1] < NEARLY and (large or (values[values > DEPENDENT] < NEARLY).any()))
