"""Inequalities → generators: block by block, put together again, verified."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rayhull.conversion import cache as ray_cache
from rayhull.conversion.block import block_generators, combined
from rayhull.conversion.budget import ALTERNATIVES, Limits, Report, Step, Tell, progress_bar
from rayhull.conversion.double_description import extreme_rays
from rayhull.conversion.generators import ExactGenerators, Generators, hull, polar, unit_of
from rayhull.conversion.verification import prove_complete
from rayhull.errors import BudgetExceededError
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.polyhedron import MAX_GENERATORS, Polyhedron, need_set
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.products import BlockGroup

DIRECTIONS = "rays", "lines"


@one_blas_thread()
def convert(
    P: Polyhedron,
    *,
    max_generators: int | None = MAX_GENERATORS,
    max_pairs: int | None = None,
    max_seconds: float | None = None,
    max_bytes: int | None = 2 * 1024**3,
    progress: None | bool | Callable[[Step], None] = None,
    cache: bool = True,
    verify: bool | str = True,
) -> Generators:
    """The same set as vertices, rays and lines.

    Exact input is converted in integers; floats with a bound on their rounding, or as the fractions that they are
    where rounding could decide. Nothing is returned that is not proved. Blocks are converted alone, identical
    ones once.

    Args:
        P: the set.
        max_generators, max_pairs, max_seconds, max_bytes: budgets; passing one raises ``BudgetExceededError``.
        progress: True draws a bar on standard error; a function receives a :class:`Step` some ten times a second.
        cache: keep results in memory, and on disk those that took longer than half a second.
        verify: every generator is always proved feasible, extreme and single. "full" also proves that none is missing,
            by converting back and checking each inequality with linear programs.

    Examples:
        >>> import rayhull as rh
        >>> rh.convert(rh.monotone(4))
        Generators(1 vertex, 3 rays, 1 line in R^4, exact)
    """
    need_set(P)
    if verify not in (True, "full"):
        raise ValueError(f'verify must be True or "full", got {verify!r}: generators are always verified.')
    budgets = max_generators, max_pairs, max_seconds, max_bytes
    with progress_bar(progress) as report:
        G = _converted(P, Limits(*budgets), cache, report)
    if verify == "full":
        facets = _converted(polar(G), Limits(*budgets), cache)
        prove_complete(P, hull(facets, unit_of(G)))
    return G


def _converted(P: Polyhedron, limits: Limits, cache: bool, report: Report | None = None) -> Generators:
    parts, number = [], 0

    def tell(row: int, rows: int, rays: int, pairs: int) -> None:
        if report is not None:
            report(Step(number, len(P.block_groups), row, rows, rays, pairs, limits.seconds()))

    for number, group in enumerate(P.block_groups, 1):  # noqa: B007  # tell reads it
        parts.append((group, _convert_block(group.polyhedron, limits, cache, tell)))
    return _assemble(P, parts, limits)


def _convert_block(P: Polyhedron, limits: Limits, cache: bool, tell: Tell) -> Generators:
    d, m = P.dim, len(P.rows) + len(P.equality_rows)
    limits.check(rays=0, row=0, rows=m, nbytes=8 * 4 * d * (d + m))  # rows, inverse, lines and rays, all dense

    def found(C: Array) -> Array:
        return extreme_rays(C, limits=limits, report=tell)

    def rays_of(C: Array) -> Array:
        if not len(C):
            return np.eye(C.shape[1], dtype=C.dtype)[::-1]
        rays = ray_cache.remembered(C, found) if cache else found(C)
        limits.check(rays=len(rays), row=len(C), rows=len(C))
        return rays

    return block_generators(P, rays_of, limits)


def _assemble(P: Polyhedron, parts: list[tuple[BlockGroup, Generators]], limits: Limits) -> Generators:
    """The product of the blocks: rays and lines unite, vertices combine."""
    count = math.prod(len(g.vertices) ** len(group.index) for group, g in parts)
    directions = sum((len(g.rays) + len(g.lines)) * len(group.index) for group, g in parts)
    nbytes = (count + directions) * P.dim * 8 * (1 if all(g.exact is None for _, g in parts) else 2)
    if limits.max_generators is not None and count > limits.max_generators:
        raise BudgetExceededError(
            f"The set is a product of {len(P.blocks)} blocks with {_short(count)} vertices in all "
            f"(max_generators={limits.max_generators}). {ALTERNATIVES}"
        )
    m = sum(group.rows.size for group, _ in parts)
    limits.check(rays=count + directions, row=m, rows=m, nbytes=nbytes)
    blocks = [(g, places) for group, g in parts for places in group.index]
    if len(blocks) == 1:
        return blocks[0][0]  # its coordinates are all there are, in order
    known = [(g.exact, places) for g, places in blocks if g.exact is not None]
    if len(known) == len(blocks):
        bottoms, tops = combined(P.dim, [(e.denominators, e.numerators, places) for e, places in known])
        return Generators.from_exact(ExactGenerators(tops, bottoms, *(_all(n, P.dim, known) for n in DIRECTIONS)))
    _, vertices = combined(P.dim, [(np.ones(len(g.vertices)), g.vertices, places) for g, places in blocks])
    return Generators.from_floats(vertices, *(_all(name, P.dim, blocks) for name in DIRECTIONS))


def _all(name: str, dim: int, blocks: Sequence[tuple[Generators | ExactGenerators, Array]]) -> Array:
    """Every ray, or line, of each block in its place, zero elsewhere."""
    tables = [(getattr(g, name), places) for g, places in blocks]
    kind = np.result_type(*(table.dtype for table, _ in tables))
    out, start = np.zeros((sum(len(table) for table, _ in tables), dim), kind), 0
    for table, places in tables:
        out[start : start + len(table), places] = table
        start += len(table)
    return out


def _short(count: int) -> str:
    return str(count) if count < 10**9 else f"about 10^{math.log10(count):.0f}"
