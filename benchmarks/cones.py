"""Quadratic rows and second-order cones beside RAYEN: its kind of timing grid, violations, and three problems to learn.

python -m benchmarks.cones [--only grid optimisation portfolio "P-Q limits"] [--rounds N] writes results/cones.json and
results/cones.md. With --rounds 0 nothing is timed, which a busy machine may do: losses and violations do not depend on
it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import rayhull as rh
from benchmarks import harness
from benchmarks.peers import installed

SIZES = ((10, 1), (10, 10), (100, 1), (100, 10))  # coordinates, rules
SAMPLES, BATCH, TRAINED, SEEDS, RATES = 500, 128, 600, (0, 1, 2), (1e-3, 3e-3, 1e-2)
COMPARED = 50  # samples whose least loss is worked out
Array = np.ndarray[Any, Any]


# -- the layers --------------------------------------------------------------------------------------------------------


class Rayen(nn.Module):
    """RAYEN on the rows and cones of a set; quadratic forms as quadratic rows, the others as second-order rows."""

    def __init__(self, S: rh.ConvexSet) -> None:
        super().__init__()
        from rayen import constraint_module, constraints

        stated = [(r.matrix.toarray(), r.rhs[:, None]) if len(r) else (None, None) for r in (S.rows, S.equality_rows)]
        rows = constraints.LinearConstraint(*stated[0], *stated[1]) if len(S.rows) + len(S.equality_rows) else None
        forms, cones = [], []
        for cone in S.cones:
            wide = np.zeros((len(cone.E), S.dim)), np.zeros((S.dim, 1))
            wide[0][:, cone.index], wide[1][cone.index, 0] = cone.E, cone.g
            if cone.form is not None:
                Q, q, r = cone.form
                c = np.zeros(S.dim) if cone.centre is None else cone.centre
                p, constant = q - Q @ c, c @ Q @ c / 2 - q @ c + r - cone.radius**2 / 2
                forms.append(constraints.ConvexQuadraticConstraint(Q, p[:, None], np.array([[constant]])))
            elif cone.is_ball:  # RAYEN refuses a second-order row whose right-hand side is a number
                P, p = 2 * wide[0].T @ wide[0], 2 * wide[0].T @ cone.f[:, None]
                forms.append(constraints.ConvexQuadraticConstraint(P, p, np.array([[cone.f @ cone.f - cone.h**2]])))
            else:
                cones.append(constraints.SOCConstraint(wide[0], cone.f[:, None], wide[1], np.array([[cone.h]])))
        # Its preprocessing takes equalities for pairs of rows where its solver misses 1e-5, as on the P-Q limits: the
        # equalities then do not hold. Ours are stated as such and are independent, so that it needs none.
        options = {"y0": S.interior_point().reshape(-1, 1), "do_preprocessing_linear": False}
        made = constraints.ConvexConstraints(lc=rows, qcs=forms, socs=cones, lmic=None, **options)
        self.layer = constraint_module.ConstraintModule(made, input_dim=None, method="RAYEN", create_map=False)
        self.inputs, self.event = self.layer.n, S.shape

    def forward(self, u: Tensor) -> Tensor:
        return self.layer(u.unsqueeze(-1)).squeeze(-1).reshape(len(u), *self.event)


def heads(S: rh.ConvexSet, features: int, names: tuple[str, ...]) -> dict[str, nn.Module]:
    made: dict[str, nn.Module] = {}
    for name in names:
        if name == "RAYEN":
            if installed("rayen"):
                try:
                    theirs = Rayen(S).float()
                except RuntimeError as error:
                    print(f"refused by RAYEN: {error}", flush=True)
                    continue
                made[name] = nn.Sequential(nn.Linear(features, theirs.inputs), theirs)
        else:
            method, _, more = name.partition(", ")
            made[name] = rh.Constrained(features, S, method=method, strict=more == "strict")
    return made


# -- the grid ----------------------------------------------------------------------------------------------------------


def quadratic_set(d: int, m: int, rng: np.random.Generator) -> rh.ConvexSet:
    """½ xᵀP x + q·x + r <= 0 with P = M Mᵀ and r < 0, so that 0 is inside: RAYEN's kind of grid."""
    found = None
    for _ in range(m):
        M = rng.uniform(-1, 1, (d, d))
        P = M @ M.T
        row = rh.quadratic((P + P.T) / 2, rng.uniform(-1, 1, d), -float(rng.uniform(0.5, 1)))
        found = row if found is None else found & row
    assert found is not None
    return found


def cone_set(d: int, m: int, rng: np.random.Generator) -> rh.ConvexSet:
    """|M x + s| <= c·x + e with 0 inside, and a ball."""
    x = rh.variables("x", shape=d)
    rules = [rh.norm(x) <= 3]
    for _ in range(m):
        s = rng.uniform(-1, 1, d)
        rules.append(
            rh.norm(rng.uniform(-1, 1, (d, d)) @ x + s) <= rng.uniform(-1, 1, d) @ x + float(np.linalg.norm(s) + 1)
        )
    return rh.rules(rules)


def grid(rounds: int) -> list[dict[str, Any]]:
    found = []
    for kind, make in (("quadratic", quadratic_set), ("second-order", cone_set)):
        for d, m in SIZES:
            S = make(d, m, np.random.default_rng(0))
            layers = heads(S, d, ("shrink", "steps", "steps, strict", "RAYEN"))
            features = torch.randn(SAMPLES, d) * 3
            times = {}
            if rounds:
                for what, run in (("forward", _forward), ("training", _training)):
                    times[what] = harness.interleave({n: run(h, features) for n, h in layers.items()}, rounds=rounds)
            for name, layer in layers.items():
                with torch.no_grad():
                    x = layer(features)
                row = {"kind": kind, "d": d, "rules": m, "layer": name} | _outside(S, x)
                found.append(row | {what: each[name] for what, each in times.items()})
                print(row, flush=True)
    return found


def _outside(S: rh.ConvexSet, x: Tensor) -> dict[str, float]:
    rules = rh.ConvexSet(rh.Polyhedron.from_rows(S.inequalities, None, S.lower, S.upper, S.shape, check=False), S.cones)
    exact = float((~rules.contains_exactly(x)).double().mean())
    return {"violation": float(S.violation(x).max()), "outside exactly": exact}


def _forward(layer: nn.Module, features: Tensor) -> Callable[[], object]:
    def run() -> Tensor:
        with torch.no_grad():
            found: Tensor = layer(features)
            return found

    return run


def _training(layer: nn.Module, features: Tensor) -> Callable[[], object]:
    def run() -> None:
        layer.zero_grad()
        layer(features).square().mean().backward()

    return run


# -- learning ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """A set, features in R^k, and a loss (n,) of features and points."""

    name: str
    S: rh.ConvexSet
    features: int
    loss: Callable[[Tensor, Tensor], Tensor]


def problems() -> list[Problem]:
    return [_optimisation(), _portfolio(), _dispatch()]


def _optimisation() -> Problem:
    """RAYEN's: a linear and quadratic cost that the features set, over rows, a quadratic row and a cone."""
    x = rh.variables("x", shape=3)
    rows = [x[0] + x[1] + x[2] <= 1.5, x >= -1.5]
    S = rh.rules(rows, rh.norm([x[0], x[1]]) <= 0.8 * x[2] + 1.2) & rh.ellipsoid(np.diag([1.0, 2.0, 0.5]), 1.6)
    return Problem("optimisation", S, 3, lambda f, x: (f * x).sum(-1) + 0.25 * x.square().sum(-1))


def _portfolio() -> Problem:
    """Expected returns that follow the features; long only, fully invested, a variance of at most 0.02."""
    rng = np.random.default_rng(1)
    n, factors = 20, rng.standard_normal((20, 4)) * 0.15
    covariance = factors @ factors.T + np.diag(rng.uniform(0.01, 0.05, n))
    S = rh.simplex(n) & rh.ellipsoid((covariance + covariance.T) / 2, np.sqrt(0.02))
    mix = torch.as_tensor(rng.standard_normal((5, n)) * 0.1, dtype=torch.float32)
    return Problem("portfolio", S, 5, lambda f, w: -((torch.tanh(f) @ mix) * w).sum(-1))


def _dispatch() -> Problem:
    """Active and reactive power at ten inverters, P² + Q² <= S², P between bounds, the sum of P given."""
    rng = np.random.default_rng(2)
    pq, n = rh.variables("pq", shape=(10, 2)), 10
    limits = rng.uniform(0.8, 1.5, n)
    S = rh.rules(rh.norm(pq, axis=1) <= limits, pq[:, 0] >= 0, pq[:, 0].sum() == 6)
    price, want = (torch.as_tensor(rng.standard_normal((4, n)), dtype=torch.float32) for _ in range(2))

    def loss(f: Tensor, x: Tensor) -> Tensor:
        return (0.3 * (f @ price) * x[..., 0] + 0.5 * x[..., 0].square() + (x[..., 1] - f @ want).square()).sum(-1)

    return Problem("P-Q limits", S, 4, loss)


def learned(problem: Problem, head: nn.Module, rate: float, seed: int) -> nn.Module:
    """The network after training, with a rate that falls to 0."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(problem.features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), copy.deepcopy(head))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.reset_parameters()  # from the seed, the last one, too
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for step in range(TRAINED):
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - step / TRAINED)
        f = torch.randn(BATCH, problem.features)
        optimiser.zero_grad()
        problem.loss(f, model(f)).mean().backward()
        optimiser.step()
    return model.eval()


@torch.no_grad()
def judged(problem: Problem, model: nn.Module, f: Tensor) -> tuple[float, Tensor]:
    """The mean loss on features, and the points there."""
    x = model(f)
    return float(problem.loss(f, x).mean()), x


def fresh(problem: Problem, seed: int = 99) -> Tensor:
    """Features that no network was trained on: seed 98 for validation, 99 for the test."""
    return torch.randn(2000, problem.features, generator=torch.Generator().manual_seed(seed))


def tuned(problem: Problem, head: nn.Module) -> tuple[float, list[nn.Module], int]:
    """The rate with the least validation loss for the first seed, the networks of all seeds, and how many runs failed.

    RAYEN's root has no derivative at 0, and it asserts afterwards that nothing is NaN.
    """
    tried, failed = {}, 0
    for rate in RATES:
        try:
            tried[rate] = learned(problem, head, rate, SEEDS[0])
        except AssertionError:
            failed += 1
    rate = min(tried, key=lambda r: judged(problem, tried[r], fresh(problem, 98))[0])
    models = [tried[rate]]
    for seed in SEEDS[1:]:
        try:
            models.append(learned(problem, head, rate, seed))
        except AssertionError:
            failed += 1
    return rate, models, failed


def best(problem: Problem, samples: int = COMPARED) -> float:
    """The least loss, by many gradient steps and exact nearest points for each of a few features."""
    f = fresh(problem)[:samples]
    x = torch.as_tensor(problem.S.interior_point(), dtype=torch.float32).expand(samples, *problem.S.shape).clone()
    for step in range(60):
        x.requires_grad_()
        (slope,) = torch.autograd.grad(problem.loss(f, x).sum(), x)
        x = rh.project(problem.S, (x.detach() - 0.5 / (1 + step / 15) * slope).double()).float()
    return float(problem.loss(f, x).mean())


def learning(problem: Problem) -> list[dict[str, Any]]:
    found, least, some = [], best(problem), fresh(problem)[:COMPARED]
    for name, head in heads(problem.S, 64, ("auto", "shrink", "RAYEN")).items():
        rate, models, failed = tuned(problem, head)
        runs = [judged(problem, model, fresh(problem)) for model in models]
        gaps = [float(problem.loss(some, x[:COMPARED]).mean()) - least for _, x in runs]
        row = {"problem": problem.name, "layer": name, "rate": rate, "losses": [loss for loss, _ in runs]}
        row |= {"gap to the least": float(np.median(gaps)), "failed": failed}
        found.append(row | _outside(problem.S, torch.cat([x for _, x in runs])))
        print(found[-1], flush=True)
    return found


def page(payload: dict[str, Any]) -> str:
    parts = [
        "# Cones beside RAYEN\n\nWritten by `python -m benchmarks.cones`. Times are medians of one interleaved run.\n"
    ]
    if "grid" in payload:
        each = [
            (r["kind"], r["d"], r["rules"], r["layer"], _micros(r, "forward"), _micros(r, "training"),
             f"{r['violation']:.1e}", f"{r['outside exactly']:.0%}")
            for r in payload["grid"]
        ]  # fmt: skip
        header = ("rules", "d", "how many", "layer", "forward, µs", "training step, µs", "violation", "outside exactly")
        parts.append(f"{SAMPLES} samples, float32, microseconds a sample.\n\n" + harness.table(each, header) + "\n")
    if "learning" in payload:
        each = [
            (r["problem"], r["layer"], f"{np.median(r['losses']):.4f}", _range(r["losses"]),
             f"{r['gap to the least']:.4f}", f"{r['violation']:.1e}", f"{r['outside exactly']:.0%}", r["failed"])
            for r in payload["learning"]
        ]  # fmt: skip
        header = (
            "problem",
            "layer",
            "loss",
            "three seeds",
            "gap to the least",
            "violation",
            "outside exactly",
            "runs that failed",
        )
        parts.append(
            "The same network and 600 steps for all layers, each with the best of three rates by a validation set.\n\n"
            + harness.table(each, header)
            + "\n"
        )
    return "\n".join(parts)


def _range(losses: list[float]) -> str:
    return f"{min(losses):.4f} .. {max(losses):.4f}"


def _micros(row: dict[str, Any], what: str) -> str:
    """The median of a sample in microseconds, where it was timed."""
    return f"{row[what]['median'] / SAMPLES * 1e6:.2f}" if what in row else "–"


def main() -> None:
    options = harness.options(__doc__)
    torch.set_num_threads(1)
    path = harness.RESULTS / "cones.json"
    payload = json.loads(path.read_text()) if path.exists() else {}
    if not options.only or "grid" in options.only:
        payload["grid"] = grid(options.rounds)
    for problem in problems():
        if not options.only or problem.name in options.only:
            others = [row for row in payload.get("learning", []) if row["problem"] != problem.name]
            payload["learning"] = others + learning(problem)
            _write(payload)
    _write(payload)


def _write(payload: dict[str, Any]) -> None:
    path = harness.save("cones", {k: v for k, v in payload.items() if k != "machine"})
    path.with_suffix(".md").write_text(page(json.loads(path.read_text())))


if __name__ == "__main__":
    main()
