"""A set in words: what a person wants to know before using it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import UnverifiedError
from rayhull.sets.linear_programs import row_rank
from rayhull.sets.rows import Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

MOST = 4  # rows or kinds of blocks listed by name


def describe(P: Polyhedron) -> str:
    """Dimension, rows, hidden equalities, lines, blocks; how a layer gets in, its own ``describe()`` says."""
    bounds = int(np.isfinite(P.lower_bounds).sum() + np.isfinite(P.upper_bounds).sum())
    counts = [count(len(P.inequalities), "inequality"), count(len(P.equalities), "equality"), count(bounds, "bound")]
    return "\n".join(
        [
            repr(P),
            f"dimension     {count(P.dim, 'coordinate')}, event shape {P.shape}",
            *([f"coordinates   {_listed(P.coordinates)}"] if P.coordinate_names is not None else []),
            f"rows          {', '.join(counts)}",
            f"numbers       {'exact' if P.is_exact else 'floats'}",
            f"hidden        {_hidden(P)}",
            f"lines         {lineality(P)}",
            f"blocks        {_blocks(P)}",
            f"kind          {'a cone' if P.is_cone else 'bounded' if P.is_bounded else 'unbounded'}",
        ]
    )


def count(n: int, noun: str) -> str:
    """A number and its noun: '1 inequality', '3 inequalities', '0 bounds'."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n} {noun if n == 1 else plural}"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 2 * MOST} more" if len(names) > 2 * MOST else ""
    return ", ".join(names[: 2 * MOST]) + more


def _hidden(P: Polyhedron) -> str:
    try:
        found = np.flatnonzero(P.centre.implicit)
    except UnverifiedError as error:
        return f"not known: {error}"
    if not len(found):
        return "no inequality is an equality in disguise"
    names = ", ".join(P.rows.names[i] for i in found[:MOST])
    more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
    verb = "holds" if len(found) == 1 else "hold"
    return f"{count(len(found), 'inequality')} {verb} with equality everywhere: {names}{more}"


def lineality(P: Polyhedron) -> int:
    """The number of independent directions along which no row changes."""
    total = 0
    for group in P.block_groups:
        block = group.polyhedron
        total += len(group.index) * (block.dim - row_rank(Rows.stack([block.rows, block.equality_rows])))
    return total


def _blocks(P: Polyhedron) -> str:
    groups = P.block_groups
    parts = [f"{len(g.index)} of {count(g.index.shape[1], 'coordinate')}" for g in groups[:MOST]]
    more = f" and {count(len(groups) - MOST, 'kind')} more" if len(groups) > MOST else ""
    return f"{len(P.blocks)} in {count(len(groups), 'kind')}: {', '.join(parts)}{more}"
