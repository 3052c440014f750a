r"""A fixed number of steps towards the nearest point, with a factor that is worked out once. Pure functions of tensors.

The nearest point of {x : E x = 0, low <= G x <= high} to y minimises ½|x - y|². G stacks the coordinates themselves,
where they have bounds, on the inequalities' rows, all times the root of the penalty. Splitting on s = G x (ADMM, with
over-relaxation α) has one vector t for the copy of s and its multipliers together. It starts at t = G y, so that points
of the set stay where they are:

.. math:: w = \mathrm{clamp}(t), \qquad t \leftarrow t + α\,(F y + T\,(2 w - t) - w), \qquad x = K y + C\,(2 w - t)

with :math:`K = N (N^T (I + G^T G) N)^{-1} N^T` for a basis N of the equalities' null space, F = G K, C = K Gᵀ and
T = G K Gᵀ: one product a step, no solver, no branch. It compiles, exports and runs on any device. Sparse rows of many
coordinates stay sparse: K is then applied by a sparse factor, on the CPU. What comes out meets the equalities and is
near the set, not in it: a shrink has to follow.

Points a hundred times as far away as the set is wide need larger penalties than points near it: tensor operations
sweep over several. Rows along a band (curves) are as ill-conditioned as differences of their order are. They take rows
that follow from them, too, sums over 3, 7, 15, ... neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor
from torch._compile import _disable_dynamo  # torch.compiler.disable, which would load its compiler: a second

from rayhull.core import operators
from rayhull.maps.graphs import is_plain
from rayhull.sets.rows import Array
from rayhull.sets.systems import System

# Chosen on ten sets (dense rows, flows, storage, ramps, Birkhoff, cones): fewest steps to 2 % of the way.
RELAXATION, PENALTY = 1.8, 2.0
ROOT = math.sqrt(PENALTY)  # limits of G x are those of the rows and bounds times this
SWEEP, SWEEPS = (0.5, 1.5, 5.0, 15.0), 2  # penalties of tensor operations, as multiples, and how often they come


class Factor(NamedTuple):
    """The constants of the steps, as arrays or tensors.

    Shape: rows G, first F (k, n); turn T (k, k), or B (k, r) with T = B Bᵀ where that is less; last C (n, k);
        onto K (n, n)
    """

    rows: Any
    first: Any
    turn: Any
    last: Any
    onto: Any


def factor(rows: Array, null: Array | None, *, bounded: bool, penalty: float = 1.0, square: bool = False) -> Factor:
    """The factor of {E x = 0, G x within limits}.

    Args:
        rows: the inequalities' rows (m, n), of about unit length.
        null: an orthonormal basis (n, q) of the equalities' null space; None without equalities.
        bounded: whether the coordinates have bounds, which come before the rows.
        penalty: a multiple of the usual one, for steps that sweep.
        square: whether T is wanted, whatever is less work.

    Examples:
        >>> import numpy as np, torch
        >>> from rayhull.maps.steps import ROOT, Factor, factor, splitting
        >>> found = Factor(*map(torch.as_tensor, factor(np.array([[0.6, 0.8]]), None, bounded=False)))
        >>> low, high = torch.tensor([-torch.inf]), torch.tensor([ROOT])
        >>> splitting(torch.tensor([[3.0, 4.0]], dtype=torch.float64), found, low, high, steps=40).round(decimals=6)
        tensor([[0.6000, 0.8000]], dtype=torch.float64)
    """
    n = rows.shape[1]
    basis, along = (np.eye(n), rows) if null is None else (null, rows @ null)
    inside = PENALTY * penalty * (along.T @ along)
    inside.flat[:: len(inside) + 1] += 1 + PENALTY * penalty * bounded
    half = scipy.linalg.solve_triangular(np.linalg.cholesky(inside), basis.T, lower=True).T  # K = half halfᵀ
    onto = half @ half.T
    moved = onto @ rows.T  # bounds are the identity, whose products are there already
    first = ROOT * (np.vstack([onto, moved.T]) if bounded else moved.T)
    if len(first) > 2 * half.shape[1] and not square:
        turn = math.sqrt(PENALTY * penalty) * (np.vstack([half, rows @ half]) if bounded else rows @ half)
    else:
        across = rows @ moved
        turn = PENALTY * penalty * (np.block([[onto, moved], [moved.T, across]]) if bounded else across)
    return Factor(ROOT * (np.vstack([np.eye(n), rows]) if bounded else rows), first, turn, penalty * first.T, onto)


def sums_of_neighbours(m: int) -> Array:
    """Weights (k, m) of m rows along a band, and of 3, 7, 15, ... neighbours together, most in their middle.

    Examples:
        >>> from rayhull.maps.steps import sums_of_neighbours
        >>> sums_of_neighbours(4)[4:]
        array([[1., 2., 1., 0.],
               [0., 1., 2., 1.]])
    """
    found, width = [np.eye(m)], 2
    while 2 * width - 1 <= m:
        hat = width - np.abs(np.arange(1 - width, width, dtype=float))
        found.append(np.stack([np.pad(hat, (i, m - len(hat) - i)) for i in range(m - len(hat) + 1)]))
        width *= 2
    return np.concatenate(found)


def splitting(
    y: Tensor,
    factor: Factor | SparseFactor,
    low: Tensor,
    high: Tensor,
    steps: int,
    *,
    wide: Factor | None = None,
    sweep: Sequence[Factor] = (),
    onto: Callable[..., Tensor] | None = None,
    equal: bool = True,
) -> Tensor:
    """y moved by ``steps`` steps towards the nearest point.

    Args:
        y: the points.
        factor: the constants as tensors.
        low, high: limits (k,) of G x, or of each sample (\\*, k); infinite where there is none.
        wide: the constants in float64, for the compiled kernel; None: tensor operations.
        sweep: the constants of the other penalties of ``SWEEP``, if they are gone over.
        onto: in place of the clamp of t between low and high, such as one onto cones, too.
        equal: whether there may be equalities; without, tensor operations are fewer, but for the backward pass of y
            alone, whose derivative would pass through the limits, too.

    Shape: (\\*, n) → (\\*, n)
    """
    flat = y.reshape(-1, y.shape[-1])
    low, high = (v.expand(*y.shape[:-1], -1).flatten(0, -2) if v.ndim > 1 else v for v in (low, high))
    if wide is not None and is_plain(y) and operators.available():
        return _compiled(flat, wide, low, high, steps).reshape(y.shape)
    alone = torch.is_grad_enabled() and y.requires_grad and not (low.requires_grad or high.requires_grad)
    short = onto is None and not (equal or alone)
    if short and isinstance(factor, Factor) and factor.turn.shape[0] == factor.turn.shape[1]:
        return _from_start(flat, (factor, *sweep), low, high, steps).reshape(y.shape)
    return in_tensor_operations(flat, factor, low, high, steps, sweep, onto)[0].reshape(y.shape)


def in_tensor_operations(
    y: Tensor,
    factor: Factor | SparseFactor,
    low: Tensor,
    high: Tensor,
    steps: int,
    sweep: Sequence[Factor] = (),
    onto: Callable[..., Tensor] | None = None,
    t: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The definition, in four operations a step: t + α (F y + T r - w) = α F y + (t - 2 w) (1 - α T) + (2 - α) w.

    Args:
        t: where earlier steps of one penalty ended, to go on from there; G y if None.

    Shape: y (N, n), limits (k,) or (N, k) → (N, n), and t (N, k)
    """
    onto = clamped if onto is None else onto
    if isinstance(factor, SparseFactor):
        return factor.moved(y, low, high, steps, onto, t)
    factors = (factor, *sweep)
    starts = [RELAXATION * (y @ own.first.mT) for own in factors]
    t = y @ factors[0].rows.mT if t is None else t
    turns = [_relaxed(own.turn) for own in factors]

    def step(now: int, t: Tensor, w: Tensor) -> Tensor:
        return torch.add(_turned(starts[now], torch.sub(t, w, alpha=2), turns[now]), w, alpha=2 - RELAXATION)

    t, left, last = _stepped(t, lambda t: onto(t, low, high), step, steps, len(factors))
    return torch.addmm(y @ factors[last].onto, left, factors[last].last.mT, alpha=-1), t


def _stepped(
    t: Tensor, onto: Callable[[Tensor], Tensor], step: Callable[[int, Tensor, Tensor], Tensor], steps: int, many: int
) -> tuple[Tensor, Tensor, int]:
    """t and t - 2 w after all steps over the penalties, and the number of the last penalty."""
    last = 0
    for k in range(steps):
        now, w = k * SWEEPS * many // steps % many, onto(t)
        if now != last:  # multipliers keep their size
            t, last = torch.lerp(w, t, SWEEP[last] / SWEEP[now]), now
        t = step(now, t, w)
    return t, torch.sub(t, onto(t), alpha=2), last


def _from_start(y: Tensor, factors: Sequence[Factor], low: Tensor, high: Tensor, steps: int) -> Tensor:
    """The same in three operations a step, for s = t - G y, which starts at 0: without equalities F y = (1 - T) G y.

    s ← (1 - α/2) s + α (s - 2 w) (1/2 - T) with w = clamp(s) between limits seen from G y, and x = y - C (s - 2 w).
    """
    start = y @ factors[0].rows.mT
    low, high = low - start, high - start
    half = torch.eye(len(factors[0].turn), dtype=y.dtype, device=y.device) / 2
    turns = [half - own.turn for own in factors]

    def step(now: int, s: Tensor, w: Tensor) -> Tensor:
        away = torch.sub(s, w, alpha=2)
        return torch.addmm(s, away, turns[now], beta=1 - RELAXATION / 2, alpha=RELAXATION)

    _, left, last = _stepped(torch.zeros_like(start), lambda s: clamped(s, low, high), step, steps, len(factors))
    return torch.addmm(y, left, factors[last].last.mT, alpha=-1)


def _relaxed(turn: Tensor) -> Tensor:
    """1 - α T, or B as it is where T = B Bᵀ."""
    if turn.shape[0] != turn.shape[1]:
        return turn
    return torch.eye(len(turn), dtype=turn.dtype, device=turn.device) - RELAXATION * turn


def _turned(start: Tensor, q: Tensor, turn: Tensor) -> Tensor:
    if turn.shape[0] == turn.shape[1]:
        return torch.addmm(start, q, turn)
    return torch.addmm(start + q, q @ turn, turn.mT, alpha=-RELAXATION)


def clamped(x: Tensor, lower: Tensor | None, upper: Tensor | None) -> Tensor:
    """min(max(x, lower), upper); a side that is None is open.

    Shape: x (\\*, d), lower and upper (d,) or (\\*, d) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.steps import clamped
        >>> clamped(torch.tensor([-2.0, 0.5]), torch.zeros(2), None)
        tensor([0.0000, 0.5000])
    """
    if lower is not None and upper is not None and not torch.compiler.is_compiling():
        return torch.clamp(x, lower, upper)
    x = x if lower is None else torch.maximum(x, lower)  # ONNX has no clamp between tensors
    return x if upper is None else torch.minimum(x, upper)


def _compiled(y: Tensor, factor: Factor, low: Tensor, high: Tensor, steps: int) -> Tensor:
    """One operator for all steps of all samples."""
    low, high = (v if v.ndim > 1 else v[None] for v in (low, high))
    if torch.is_grad_enabled() and (y.requires_grad or low.requires_grad or high.requires_grad):
        x: Tensor = Splitting.apply(y, low, high, factor, steps)  # type: ignore[no-untyped-call]
        return x
    return operators.splitting(y, *factor, low.double(), high.double(), steps, RELAXATION, False)[0]


class Splitting(torch.autograd.Function):
    """The operator with its own backward pass; second derivatives are those of the tensor operations."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, low: Tensor, high: Tensor, factor: Factor, steps: int) -> Tensor:
        x, states = operators.splitting(y, *factor, low.double(), high.double(), steps, RELAXATION, True)
        ctx.save_for_backward(y, low, high, states)
        ctx.factor, ctx.steps = factor, steps
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, low, high, states = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            own = Factor(*(v.to(y.dtype) for v in ctx.factor))
            x, _ = in_tensor_operations(y, own, low.to(y.dtype), high.to(y.dtype), ctx.steps)
            wanted = [v for v in (y, low, high) if v.requires_grad]
            found = iter(torch.autograd.grad(x, wanted, g, create_graph=True, allow_unused=True))
            return *(next(found) if v.requires_grad else None for v in (y, low, high)), None, None
        constants: Any = (*ctx.factor, ctx.steps, RELAXATION)
        gy, *bounds = operators.splitting_backward(g.to(y.dtype), states, *constants)
        sides = (b.sum_to_size(v.shape).to(v.dtype) for b, v in zip(bounds, (low, high), strict=True))
        return gy, *sides, None, None


# -- sparse rows -------------------------------------------------------------------------------------------------------


class Plane:
    """{x : E x = 0} for sparse independent rows E (k, n): the nearest point of it, and the least x with E x = q."""

    def __init__(self, rows: sp.csr_array) -> None:
        self.count, n = rows.shape
        self.system = System(np.ones(n), rows, np.zeros(self.count))

    def __call__(self, y: Tensor) -> Tensor:
        """y less its part in the span of the rows. Shape: (\\*, n) → (\\*, n)"""
        return mapped(y, self.nearest, self.nearest) if self.count else y

    def moved(self, q: Tensor) -> Tensor:
        """E⁺ q. Shape: (\\*, k) → (\\*, n)"""
        return mapped(q, lambda v: self.system.solve(q=v)[0], lambda v: self.system.solve(v)[1])

    def nearest(self, v: Array) -> Array:
        """Twice: the second time removes what rounding left. Shape: (n, N) → (n, N)"""
        return self.system(self.system(v)) if self.count and v.any() else v


class SparseFactor:
    """The constants of the steps for sparse rows: about as many numbers as the rows have. In float64, on the CPU.

    Args:
        rows: the inequalities' rows (m, n), of about unit length along the plane.
        plane: the equalities.
        bounded: whether the coordinates have bounds, which come before the rows.
    """

    def __init__(self, rows: sp.csr_array, plane: Plane, *, bounded: bool) -> None:
        n = rows.shape[1]
        self.plane, self.bounds = plane, n * bounded  # how many rows of G are coordinates
        self.rows = sp.csr_array(ROOT * (sp.vstack([sp.eye_array(n), rows]) if bounded else rows))
        self.back = sp.csr_array(self.rows.T)
        soft = np.repeat([0.0, 1.0], [plane.count, rows.shape[0]])
        stacked = sp.csr_array(sp.vstack([plane.system.rows, ROOT * rows]))
        self.onto = System(np.full(n, 1 + PENALTY * bounded), stacked, soft)

    def moved(
        self, y: Tensor, low: Tensor, high: Tensor, steps: int, onto: Callable[..., Tensor], t: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The steps, with G y of rows seen along the plane."""
        start = mapped(y, self._first, self._last)
        t = mapped(y, self._image, self._image_back) if t is None else t
        for _ in range(steps):
            w = onto(t, low, high)
            t = t + RELAXATION * (start + mapped(2 * w - t, self._turn, self._turn) - w)
        q = 2 * onto(t, low, high) - t
        return mapped(y + mapped(q, self.back.__matmul__, self.rows.__matmul__), self.onto, self.onto), t

    def _image(self, v: Array) -> Array:
        return np.concatenate([ROOT * v[: self.bounds], self.rows[self.bounds :] @ self.plane.nearest(v)])

    def _image_back(self, w: Array) -> Array:
        found = self.plane.nearest(self.back[:, self.bounds :] @ w[self.bounds :])
        return found + ROOT * w[: self.bounds] if self.bounds else found

    def _first(self, v: Array) -> Array:
        return np.asarray(self.rows @ self.onto(v))

    def _last(self, v: Array) -> Array:
        return self.onto(self.back @ v)

    def _turn(self, v: Array) -> Array:
        return np.asarray(self.rows @ self.onto(self.back @ v))


Linear = Callable[[Array], Array]


def mapped(x: Tensor, times: Linear, back: Linear) -> Tensor:
    """A linear map of arrays (n, N) → (k, N) for tensors, ``back`` its transpose. Shape: (\\*, n) → (\\*, k)"""
    run: Any = _outside_graphs if torch.compiler.is_compiling() else Mapped.apply
    found: Tensor = run(x, times, back)
    return found


class Mapped(torch.autograd.Function):
    """The map and its derivatives of any order."""

    @staticmethod
    def forward(x: Tensor, times: Linear, back: Linear) -> Tensor:
        flat = x.detach().reshape(-1, x.shape[-1]).to("cpu", torch.float64)
        found = torch.from_numpy(np.ascontiguousarray(times(flat.numpy().T).T))
        return found.to(x).reshape(*x.shape[:-1], found.shape[-1])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.maps = inputs[1:]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        times, back = ctx.maps
        return mapped(g, back, times), None, None

    @staticmethod
    def jvp(ctx: Any, dx: Tensor, *_: None) -> Tensor:
        return mapped(dx, *ctx.maps)

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], x: Tensor, times: Linear, back: Linear) -> tuple[Tensor, int]:
        return mapped(x.movedim(dims[0] or 0, 0), times, back), 0


@_disable_dynamo  # torch.compile breaks its graph there
def _outside_graphs(x: Tensor, times: Linear, back: Linear) -> Any:
    return Mapped.apply(x, times, back)  # type: ignore[no-untyped-call]
