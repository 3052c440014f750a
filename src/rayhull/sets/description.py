"""A set in words: what it is, how far each rule is from binding at a point, why a point is outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.errors import UnverifiedError
from rayhull.exact.numbers import Array
from rayhull.sets.linear_programs import row_rank
from rayhull.sets.membership import as_numpy, flatten, joined_columns, slacks
from rayhull.sets.rows import Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


MOST = 4  # rows or kinds of blocks listed by name
SHOWN = 20  # rules in a printed table


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


def summary(P: Polyhedron) -> str:
    """One line: the shape or the few names, how many rows, the range of the bounds."""
    parts = [count(len(r), noun) for r, noun in ((P.inequalities, "inequality"), (P.equalities, "equality")) if len(r)]
    for values, sign in ((P.lower, ">="), (P.upper, "<=")):
        if values is not None:
            low, high = values.min(), values.max()
            parts.append(f"x {sign} {low}" if low == high else f"x {sign} {low} .. {high}")
    few = P.coordinate_names is not None and P.dim <= 6 and "[" not in P.coordinates[0]
    where = ", ".join(P.coordinates) if few else f"shape={P.shape}"
    return f"Polyhedron({where}: {', '.join(parts) or 'the whole space'})"


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


# -- at a point ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Slack:
    """The slack b - a·x of every rule, worst first: negative where it is broken; of an equality, minus its error.

    ``values`` (\\*, m) are NumPy or torch as the points were, and differentiable for a tensor. Reading it as pairs, or
    by a rule's name, gives a column each.
    """

    names: tuple[str, ...]
    values: Any  # (*, m)
    kinds: tuple[str, ...]  # "broken", "binds", "holds" (an equality) or "" for each rule, at the worst point

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return ((name, self.values[..., i]) for i, name in enumerate(self.names))

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(f"no rule is called {name!r}: there are {', '.join(self.names[:6])} ...")
        return self.values[..., self.names.index(name)]

    @property
    def least(self) -> Array:
        """The least slack of each rule over all points, (m,)."""
        return np.asarray(as_numpy(self.values).reshape(-1, len(self)).min(0, initial=np.inf))

    def __repr__(self) -> str:
        width = max((len(name) for name in self.names[:SHOWN]), default=0)
        rows = zip(self.names[:SHOWN], self.least, self.kinds, strict=False)
        lines = [f"{name:<{width}}  {value:>10.6g}  {kind}".rstrip() for name, value, kind in rows]
        return "\n".join(lines + ([f"... {count(len(self) - SHOWN, 'rule')} more"] if len(self) > SHOWN else []))


def slack(P: Polyhedron, x: Any) -> Slack:
    """See :meth:`rayhull.Polyhedron.slack`."""
    points, batch = flatten(P, x)
    parts = [slacks(rows, points) for rows in (P.equality_rows, P.rows)]
    values = joined_columns([0.0 - abs(parts[0][0]), parts[1][0]])  # (n, m)
    plain, margin = as_numpy(values), np.concatenate([as_numpy(tolerance) for _, tolerance in parts], axis=1)
    order = np.argsort(plain.min(0, initial=np.inf), kind="stable")
    names, kinds = [*P.equality_rows.names, *P.rows.names], _kinds(plain, margin, len(P.equality_rows))
    ordered = values[:, order.tolist()].reshape(*batch, len(order))
    return Slack(tuple(names[i] for i in order), ordered, tuple(kinds[i] for i in order))


def _kinds(values: Array, tolerance: Array, equalities: int) -> list[str]:
    broken = np.any(values < -tolerance, axis=0).tolist()
    binds = np.any(values <= tolerance, axis=0).tolist()
    kinds = ["broken" if b else "binds" if t else "" for b, t in zip(broken, binds, strict=True)]
    return ["holds" if i < equalities and kind != "broken" else kind for i, kind in enumerate(kinds)]


def explain(P: Polyhedron, x: Any) -> str:
    """See :meth:`rayhull.Polyhedron.explain`."""
    found = slack(P, x)
    if len(flatten(P, x)[0]) != 1:
        raise ValueError(f"explain takes one point of shape {P.shape}, got {np.shape(x)}: slack(x) takes many.")
    broken, binding, loose = ([i for i, k in enumerate(found.kinds) if k == kind] for kind in ("broken", "binds", ""))
    lines = [f"The point is {_verdict(len(broken), len(found))}."]
    lines += [f"  broken  {found.names[i]}, by {-found.least[i]:.6g}" for i in broken[:SHOWN]]
    lines += [f"  binds   {found.names[i]}" for i in binding[:SHOWN]]
    if loose:
        verb, i = "has" if len(loose) == 1 else "have", loose[0]
        least = f"{found.least[i]:.6g}: {found.names[i]}"
        lines.append(f"  {count(len(loose), 'rule')} {verb} slack, the least {least}")
    return "\n".join(lines)


def _verdict(broken: int, rules: int) -> str:
    if not broken:
        return f"inside: all {count(rules, 'rule')} hold"
    return f"outside: {broken} of {count(rules, 'rule')} {'is' if broken == 1 else 'are'} broken"
