"""The field's own benchmarks: python -m benchmarks.field [--only NAME ...] [--seeds 3] [--quick].

Trains every method on every problem of ``field_problems`` with the same network, the same number of epochs and the same
choice of learning rates (by the validation split, on the first seed), and writes each finished run to
benchmarks/results/field.json, so that a stopped benchmark goes on where it was. ``--time`` measures the forward passes
of one sample and of the whole test set, interleaved; ``--page`` fills docs/field.md.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

import rayhull as rh
from benchmarks import harness
from benchmarks.field_control import episode_violation
from benchmarks.field_peers import PEERS, Head
from benchmarks.field_problems import FieldProblem, field_problems

HIDDEN = 200
RATES = (3e-4, 1e-3, 3e-3)
PUBLISHED_RATE = {"HardNet pwc": 1e-4}  # no data to validate on: the paper's rate for every method
PATH = harness.RESULTS / "field.json"


@dataclass(frozen=True)
class Run:
    """One training: what it was and what came out."""

    problem: str
    method: str
    seed: int
    epochs: int
    rate: float
    seconds: float  # of training, of one processor
    measures: dict[str, dict[str, float]]  # by split

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.problem, self.method, self.seed, self.epochs


class Network(nn.Module):
    """Two hidden layers of 200 and a head that is told the set of each sample."""

    def __init__(self, problem: FieldProblem, head: nn.Module) -> None:
        super().__init__()
        self.problem, self.head = problem, head
        layers: list[nn.Module] = []
        for width in (problem.width, HIDDEN):
            layers += [nn.Linear(width, HIDDEN), *([nn.BatchNorm1d(HIDDEN)] if problem.normalise else []), nn.ReLU()]
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.problem.features(x)), **self.problem.sides(x))


def ours(**options: Any) -> Callable[[int, FieldProblem], nn.Module]:
    """A rayhull layer with the given options."""

    def build(features: int, problem: FieldProblem) -> nn.Module:
        varies = {"varies": problem.varies} if problem.varies and options.get("method") != "projection" else {}
        return rh.Constrained(features, problem.P, **varies, **options)

    return build


METHODS: dict[str, Callable[[int, FieldProblem], nn.Module]] = {
    "rayhull": ours(strict=True),
    "rayhull, nearest point": ours(method="projection"),
    **{name: (lambda kind: lambda features, p: kind(features, p.P))(kind) for name, kind in PEERS.items()},
}
UNFIT = {  # what a method cannot do, from its own paper
    ("HardNet pwc", "DC3"): "no equalities to complete",
    ("HardNet cbf", "DC3"): "no equalities to complete",
    ("toy MPC", "HardNet-Aff"): "more rows than coordinates",
    **{
        (name, "HardNet-Aff"): "its published training (soft at first, 1000 epochs) is not rebuilt here"
        for name in ("DC3 convex", "DC3 nonconvex", "HardNet opt")
    },
    ("toy MPC", "DC3"): "published for quadratic programs without bounds",
    ("HardNet cbf", "projected after training"): "trained through the episode, see nearest point",
}
EPOCHS = {"HardNet pwc": 1000, "HardNet cbf": 20, "toy MPC": 60}  # others: --epochs


def train(problem: FieldProblem, method: str, seed: int, epochs: int, rate: float) -> tuple[Network, float]:
    """The trained network and the seconds it took: Adam, cosine to 0, batches of 200."""
    torch.manual_seed(seed)
    network = Network(problem, METHODS[method](HIDDEN, problem))
    x = problem.splits["train"]
    optimizer = torch.optim.Adam(network.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    begin = time.process_time()
    network.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(200):
            optimizer.zero_grad()
            soft_loss(problem, network, x[batch]).backward()
            optimizer.step()
        schedule.step()
    return network.eval(), time.process_time() - begin


def soft_loss(problem: FieldProblem, network: Network, x: Tensor) -> Tensor:
    """The loss, and for the heads that ask for it the squared violation of every answer on the way."""
    head, answers = network.head, []

    def policy(inputs: Tensor) -> Tensor:
        answers.append((inputs, network(inputs)))
        return answers[-1][1]

    loss = problem.loss(policy, x).mean()
    if not isinstance(head, Head) or not head.soft:
        return loss
    excess = [head.excess(y, problem.sides(inputs)).square().sum(-1).mean() for inputs, y in answers]
    return loss + head.soft * torch.stack(excess).mean()


@torch.no_grad()
def measure(problem: FieldProblem, network: Network, split: str) -> dict[str, float]:
    """Loss, gap to the optimum, and what is violated, over one split."""
    x = problem.splits[split]
    found = {"loss": float(problem.loss(network, x).mean())}
    if problem.optimum is not None:
        best = problem.optimum(x)
        found["gap"] = float(((problem.loss(network, x) - best) / best.abs()).mean())
    if problem.name == "cbf":
        return found | {"inequality": float(episode_violation(network, x).max())}
    y, sides = network(x), problem.sides(x)
    limits = Head(1, problem.P)
    excess = limits.excess(y, sides)
    m, equalities = sides["b"].shape[-1] if "b" in sides else len(problem.P.inequalities), len(problem.P.equalities)
    equal = excess[:, m : m + equalities]
    unequal = torch.cat([excess[:, :m], excess[:, m + equalities :]], 1)
    return found | {
        "inequality": float(unequal.amax()),
        "equality": float(equal.amax()) if equalities else 0.0,
        "outside": float((unequal > 0).any(1).double().mean()),  # judged in float64, with no tolerance
    }


def best_rate(problem: FieldProblem, method: str, epochs: int) -> float:
    """The learning rate with the least loss on the validation split after a tenth of the epochs, first seed."""

    def tried(rate: float) -> float:
        network, _ = train(problem, method, 0, max(1, epochs // 10), rate)
        measures = measure(problem, network, "valid")
        return measures["loss"] if measures["loss"] == measures["loss"] else float("inf")

    return min(RATES, key=tried)


def load() -> list[Run]:
    """The runs that are finished."""
    if not PATH.exists():
        return []
    return [Run(**run) for run in json.loads(PATH.read_text())["runs"]]


def save(run: Run) -> None:
    """Add a run to the file; another process may have added its own."""
    with PATH.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        harness.save("field", {"runs": [asdict(r) for r in [*load(), run]]})


def run_all(names: list[str], methods: list[str], seeds: int, epochs: int) -> None:
    """Every run that is not there yet, saved as it finishes."""
    runs = load()
    done = {run.key for run in runs}
    for name in names:
        problem, length = field_problems()[name](), EPOCHS.get(name, epochs) if epochs > 5 else epochs
        for method in methods:
            todo = [seed for seed in range(seeds) if (name, method, seed, length) not in done]
            if (name, method) in UNFIT or not todo:
                continue
            known = [r.rate for r in runs if r.key[:2] == (name, method) and r.epochs == length]
            known = known or [PUBLISHED_RATE[name]] if name in PUBLISHED_RATE else known
            rate = known[0] if known else best_rate(problem, method, length)
            for seed in todo:
                network, seconds = train(problem, method, seed, length, rate)
                splits = [split for split in problem.splits if "test" in split]
                measures = {split: measure(problem, network, split) for split in splits}
                runs.append(Run(name, method, seed, length, rate, seconds, measures))
                save(runs[-1])
                print(f"{name:16} {method:26} seed {seed} {_text(measures[splits[0]])} {seconds:.0f} s", flush=True)


def _text(measures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.5g}" for name, value in measures.items())


def medians(runs: list[Run]) -> dict[tuple[str, str, str], dict[str, tuple[float, float, float]]]:
    """For each problem, method and split: median, least and largest over the seeds of each measure."""
    found: dict[tuple[str, str, str], dict[str, tuple[float, float, float]]] = {}
    for problem, method in dict.fromkeys((r.problem, r.method) for r in runs):
        group = [r for r in runs if (r.problem, r.method) == (problem, method)]
        for split in group[0].measures:
            values = {name: [r.measures[split][name] for r in group] for name in group[0].measures[split]}
            values["training, s"] = [r.seconds for r in group]
            found[problem, method, split] = {n: (statistics.median(v), min(v), max(v)) for n, v in values.items()}
    return found


def main() -> None:
    names = list(field_problems())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=100, help="of the quadratic programs (default 100)")
    parser.add_argument("--quick", action="store_true", help="one seed and two epochs: does everything run?")
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    if options.quick:
        options.seeds, options.epochs = 1, 2
    run_all(options.only, options.methods, options.seeds, options.epochs)


if __name__ == "__main__":
    main()
