"""A set in words: what a person wants to know before using it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import RayhullError, UnverifiedError
from rayhull.sets.blocks import row_rank
from rayhull.sets.centre import centre
from rayhull.sets.rows import Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

LARGE = 2000  # coordinates of a block from which on its way in is not tried out for a description


def describe(P: Polyhedron) -> str:
    """Dimension, rows, equalities found, lines, blocks, and the way in that suits the set."""
    lines = [repr(P), f"dimension     {P.dim} coordinates, event shape {P.shape}"]
    bounds = int(np.isfinite(P.lower_bounds).sum() + np.isfinite(P.upper_bounds).sum())
    lines.append(f"rows          {len(P.inequalities)} inequalities, {len(P.equalities)} equalities, {bounds} bounds")
    lines.append(f"numbers       {'exact' if P.is_exact else 'floats'}")
    lines.append(f"hidden        {_hidden(P)}")
    lines.append(f"lines         {lineality(P)}")
    lines.append(f"blocks        {_blocks(P)}")
    kind = "a cone" if P.is_cone else "bounded" if P.is_bounded else "unbounded"
    lines.append(f"kind          {kind}")
    lines += [f"way in        {way}" for way in _ways_in(P)]
    return "\n".join(lines)


def _hidden(P: Polyhedron) -> str:
    try:
        found = np.flatnonzero(centre(P).implicit)
    except UnverifiedError as error:
        return f"not known: {error}"
    if not len(found):
        return "no inequality is an equality in disguise"
    names = [P.rows.names[i] for i in found[:5]]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return f"{len(found)} inequalities hold with equality everywhere: {', '.join(names)}{more}"


def lineality(P: Polyhedron) -> int:
    """The number of independent directions along which no row changes."""
    total = 0
    for group in P.block_groups:
        block = group.polyhedron
        rank = (
            row_rank(Rows.stack([block.rows, block.equality_rows])) if len(block.rows) + len(block.equality_rows) else 0
        )
        total += len(group.index) * (block.dim - rank)
    return total


def _blocks(P: Polyhedron) -> str:
    groups = P.block_groups
    parts = [f"{len(g.index)} of {g.index.shape[1]} coordinates" for g in groups[:4]]
    more = f" and {len(groups) - 4} kinds more" if len(groups) > 4 else ""
    return f"{sum(len(g.index) for g in groups)} in {len(groups)} kinds: {', '.join(parts)}{more}"


def _ways_in(P: Polyhedron) -> list[str]:
    """What ``rayhull.Constrained(..., method="auto")`` chooses for each kind of block, and why."""
    from rayhull.nn.choice import Options, choose

    ways = []
    for group in P.block_groups[:4]:
        if group.polyhedron.dim > LARGE:
            ways.append(f"blocks of {group.polyhedron.dim}: decided when the layer is made (rays or shrink)")
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a description is no layer
                choice = choose(group.polyhedron, Options())
            ways.append(f"blocks of {group.polyhedron.dim}: {choice.method} ({choice.reason})")
        except RayhullError as error:
            ways.append(f"blocks of {group.polyhedron.dim}: none ({error})")
    return ways
