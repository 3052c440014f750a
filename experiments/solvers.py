"""Other people's solvers for the nearest point, one sample at a time: what the paper did, and what we compare with.

Each is set up once for a set's rows, with the settings that give right answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

import rayhull as rh
from rayhull.projection.standard_form import StandardForm

Array = np.ndarray[Any, Any]
# A solver, set up once for the rows, maps (y, c, lower, upper) to (point, multipliers of the rows, solved).
Solve = Callable[[Array, Array, Array, Array], tuple[Array, Array, bool]]


class OneByOne(nn.Module):
    """The nearest points that a solver finds, in the dtype of x; a sample that it leaves open is left as it ended.

    Args:
        P: the set.
        solver: ``"osqp"``, ``"daqp"``, ``"piqp"`` or ``"clarabel"``.
        weights: positive weights of the squared distances (event shape), or None.

    Shape:
        x (\\*, event shape) → (\\*, event shape); b (n, m), lower and upper (n, event shape) for n samples.
    """

    def __init__(self, P: rh.Polyhedron, solver: str, weights: Any = None) -> None:
        super().__init__()
        self.form = StandardForm.of(P, None if weights is None else np.asarray(weights, float).ravel())
        self.root = np.ones(P.dim) if self.form.root is None else self.form.root
        self.solve = EXTERNAL[solver](self.form)

    def forward(self, x: Tensor, **sides: Tensor) -> Tensor:
        y = x.detach().double().numpy().reshape(-1, len(self.root)) * self.root
        limits = zip(*self._limits(len(y), sides), strict=True)
        z = [self.solve(point, *own)[0] for point, own in zip(y, limits, strict=True)]
        return torch.as_tensor(np.array(z) / self.root, dtype=x.dtype).reshape(x.shape)

    def _limits(self, n: int, sides: dict[str, Tensor]) -> list[Array]:
        """c, lower and upper of each sample in standard form."""
        form = self.form
        c, lower, upper = (np.tile(v, (n, 1)) for v in (form.c, form.lower, form.upper))
        if "b" in sides:
            c[:, : form.m] = sides["b"].numpy() / form.norms[: form.m]
        bounds = [sides[k].numpy().reshape(n, -1) * self.root if k in sides else None for k in ("lower", "upper")]
        return [c, *(old if new is None else new for old, new in zip((lower, upper), bounds, strict=True))]


def _stacked(form: StandardForm) -> tuple[sp.csc_array, Array]:
    """Rows and then an identity row for each bounded coordinate; and which those are."""
    bounded = np.flatnonzero(np.isfinite(form.lower) | np.isfinite(form.upper))
    eye = sp.csr_array(sp.eye_array(form.d, format="csr")[bounded])
    return sp.csc_array(sp.vstack([form.matrix.rows, eye], format="csc")), bounded


def osqp(form: StandardForm, **settings: Any) -> Solve:
    """The paper's loop: eps 1e-6, polish, warm start."""
    import osqp as package

    matrix, bounded = _stacked(form)
    chosen = {"eps_abs": 1e-6, "eps_rel": 1e-6, "polishing": True, "warm_starting": True, "verbose": False, **settings}
    solver = package.OSQP()
    fixed = list(_two_sided(form, form.c, form.lower[bounded], form.upper[bounded]))
    as_matrix = sp.csc_matrix(sp.eye(form.d)), sp.csc_matrix(matrix)
    solver.setup(as_matrix[0], np.zeros(form.d), as_matrix[1], *fixed, **chosen)

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        new = _two_sided(form, c, lower[bounded], upper[bounded])
        if all(np.array_equal(a, b) for a, b in zip(new, fixed, strict=True)):
            solver.update(q=-y)
        else:
            solver.update(q=-y, l=new[0], u=new[1])
            fixed[:] = new
        result = solver.solve(raise_error=False)
        lam = np.asarray(result.y)[: len(c)].copy()
        lam[: form.m] = np.maximum(lam[: form.m], 0)
        return np.asarray(result.x), lam, result.info.status == "solved"

    return solve


def daqp(form: StandardForm) -> Solve:
    """A dual active-set method in C, set up once; exact. Its bounds come first, for all coordinates or none."""
    import daqp as package

    d, count = form.d, len(form.c)
    bounded = np.arange(d) if form.bounded else np.zeros(0, np.int64)
    sense = np.zeros(len(bounded) + count, np.int32)
    sense[len(bounded) + form.m :] = 5  # DAQP's code for an equality
    model = package.Model()
    model.settings = {"primal_tol": 1e-12, "dual_tol": 1e-14}
    started = False

    def limits(c: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        least = np.concatenate([lower[bounded], np.full(form.m, -1e30), c[form.m :]])
        return np.maximum(least, -1e30), np.minimum(np.concatenate([upper[bounded], c]), 1e30)

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        nonlocal started
        least, most = limits(c, lower, upper)
        if started:
            model.update(f=-y, bupper=most, blower=least, sense=sense)
        else:
            model.setup(np.eye(d), -y, form.matrix.dense_array, most, least, sense)
            started = True
        x, _, flag, info = model.solve()
        return np.array(x), np.array(info["lam"])[len(bounded) :], flag > 0

    return solve


def piqp(form: StandardForm) -> Solve:
    """A sparse interior-point method; its tolerance must be 1e-12, for at 1e-8 points err by 1e-4."""
    import piqp as package

    m = form.m
    G, A = (sp.csc_matrix(v) for v in (form.matrix.rows[:m], form.matrix.rows[m:]))
    eye = sp.csc_matrix(sp.eye(form.d))
    solver = package.SparseSolver()
    for name, value in (("eps_abs", 1e-12), ("eps_rel", 1e-12), ("eps_duality_gap_abs", 1e-12)):
        setattr(solver.settings, name, value)
    started = False

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        nonlocal started
        if not started:
            solver.setup(eye, -y, A, c[m:], G, None, c[:m], lower, upper)
            started = True
        else:
            solver.update(c=-y, b=c[m:], h_u=c[:m], x_l=lower, x_u=upper)
        status = solver.solve()
        r = solver.result
        return np.array(r.x), np.concatenate([r.z_u[:m], r.y]), status == package.PIQP_SOLVED

    return solve


def clarabel(form: StandardForm) -> Solve:
    """A conic interior-point method."""
    import clarabel as package

    m, k = form.m, len(form.c) - form.m
    high, low = (np.flatnonzero(np.isfinite(v)) for v in (form.upper, form.lower))
    eye = sp.csr_array(sp.eye_array(form.d, format="csr"))
    matrix = sp.csc_matrix(sp.vstack([form.matrix.rows[m:], form.matrix.rows[:m], eye[high], -eye[low]]))
    cones = [package.ZeroConeT(k), package.NonnegativeConeT(m + len(high) + len(low))]
    settings = package.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, 1e-12)
    P = sp.csc_matrix(sp.eye(form.d))

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        b = np.concatenate([c[m:], c[:m], upper[high], -lower[low]])
        result = package.DefaultSolver(P, -y, matrix, b, cones, settings).solve()
        lam = np.asarray(result.z)
        ok = "Solved" in str(result.status)
        return np.asarray(result.x), np.concatenate([lam[k : k + m], lam[:k]]), ok

    return solve


def _two_sided(form: StandardForm, c: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Limits of [G; I] z from below and above."""
    return np.concatenate([np.full(form.m, -np.inf), c[form.m :], lower]), np.concatenate([c, upper])


EXTERNAL: dict[str, Callable[..., Solve]] = {"osqp": osqp, "daqp": daqp, "piqp": piqp, "clarabel": clarabel}
