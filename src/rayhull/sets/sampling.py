"""Random points of the set by hit-and-run, every block and every point its own chain, all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from rayhull.exact.numbers import Array
from rayhull.sets.centre import loose_rows
from rayhull.sets.equalities import affine_hull, onto_equalities

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STEPS = 40  # per chain, and one more for each coordinate up to 100
REACH = 10.0  # unbounded directions are followed this many times the set's own size


def hit_and_run(P: Polyhedron, n: int, rng: np.random.Generator) -> Array:
    """n points (n, d). Uniform in the limit of many steps on a bounded set; a spread of points on any other."""
    points = np.empty((n, P.dim))
    for group in P.block_groups:
        count, size = group.index.shape
        chains = _chains(group.polyhedron, n * count, rng)
        points[:, group.index.ravel()] = chains.reshape(n, count * size)
    return points


def _chains(P: Polyhedron, n: int, rng: np.random.Generator) -> Array:
    middle = P.centre
    x = np.tile(middle.point, (n, 1))
    A, b = loose_rows(P, middle.implicit)
    spread = _directions(P, middle.point, middle.implicit)
    if not spread.shape[1]:
        return x
    reach = REACH * max(1.0, float(np.abs(middle.point).max()))
    for _ in range(STEPS + min(P.dim, 100)):
        step = rng.standard_normal((n, spread.shape[1])) @ spread.T
        step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300)
        rate, slack = (A @ step.T).T, np.maximum(b - (A @ x.T).T, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = slack / rate
        forward = np.where(rate > 0, ratio, reach).min(1, initial=reach)
        backward = np.where(rate < 0, ratio, -reach).max(1, initial=-reach)
        x = x + step * (backward + (forward - backward) * rng.random(n))[:, None]
    # pulled a hair towards the centre, so that rounding leaves no point outside
    return onto_equalities(*affine_hull(P, middle.implicit), x + 1e-12 * (middle.point - x))


def _directions(P: Polyhedron, x: Array, implicit: Array) -> Array:
    """A basis (d, k) of the affine hull's directions, stretched to the shape of the set around its centre."""
    equal = affine_hull(P, implicit)[0].toarray()
    basis = scipy.linalg.null_space(equal) if len(equal) else np.eye(P.dim)
    A, b = loose_rows(P, implicit)
    weighted = (A @ basis) / (b - A @ x)[:, None]
    size = max(1.0, float(np.abs(x).max()))
    _, values, vectors = np.linalg.svd(np.concatenate([weighted, np.eye(basis.shape[1]) / size]), full_matrices=False)
    return np.asarray(basis @ (vectors.T / values))
