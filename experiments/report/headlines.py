"""The three lines that matter: what the demo ends with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from experiments.report import paper
from experiments.report.groups import Group
from experiments.report.style import full_name
from experiments.report.tables import gap, percent, spread


def headlines(studies: Mapping[str, Sequence[Group]]) -> list[str]:
    """One line for each of the paper's studies that was run."""
    lines = {"projection": _projection, "vae": _vae, "timing": _timing}
    return [line for study, of in lines.items() if study in studies for line in of(studies[study])]


def _projection(groups: Sequence[Group]) -> Iterator[str]:
    """The gap of each hard method."""
    best = {g.method: g.spread("best_val_loss") for g in groups}
    optimum = best.get("optimum")
    if optimum is None:
        return
    hard = [g for g in groups if g.method in ("ttp", "paper", "constrained", "projection")]
    gaps = [f"{full_name(g.method)} {spread(gap(g, optimum.mean), '.1f')} %" for g in hard]
    yield f"Learned projection, gap to the optimum: {', '.join(gaps)}. (The paper, trained in full: {_paper_gaps()}.)"


def _paper_gaps() -> str:
    return ", ".join(f"{full_name(name.partition(',')[0])} {value}" for name, value in paper.PROJECTION_GAP.items())


def _vae(groups: Sequence[Group]) -> Iterator[str]:
    """The share of samples inside, exactly."""
    shares = [f"{full_name(g.method)} {percent(g.summary('inside_exactly'))}" for g in groups]
    yield f"VAE, samples that obey every rule in exact arithmetic: {', '.join(shares)}."


def _timing(groups: Sequence[Group]) -> Iterator[str]:
    """What the constraint costs at inference."""
    cases = {
        case["label"]: case for group in groups for case in group.numbers["cases"] if case["model"] == "projection"
    }
    if not {"constrained", "ttp, OSQP loop"} <= set(cases):
        return
    ours, loop = (cases[name]["times_the_unconstrained_network"] for name in ("constrained", "ttp, OSQP loop"))
    times = f"{full_name('constrained')} takes {ours:.2f} times as long, an OSQP loop {loop:.0f} times"
    yield f"Inference, beside the unconstrained network: {times}."
