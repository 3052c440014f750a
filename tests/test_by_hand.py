"""What a user would write by hand is inside, and the fresh problems of the learning benchmark run."""

import pytest
import torch

import rayhull as rh
from benchmarks import by_hand, layer, learning, learning_made, summary
from benchmarks.learning_fresh import FRESH

SMALL = {"train": 64, "val": 16, "test": 16}


@pytest.mark.parametrize("name", layer.hand_written())
def test_a_hand_written_layer_is_inside_and_has_a_gradient(name):
    P, hand = layer.hand_written()[name]
    x = (module := hand.after_linear(5))(100 * torch.randn(32, 5, generator=torch.Generator().manual_seed(0)))
    if name != "cone d=20 m=10":  # 100 times as large, so are its errors
        assert P.violation(x.reshape(-1, *P.shape)).max() < 1e-5
    assert P.violation(hand.into(torch.randn(32, hand.inputs)).reshape(-1, *P.shape)).max() < 1e-5
    (x * torch.randn_like(x)).sum().backward()
    assert module.linear.weight.grad.isfinite().all()


def test_the_clipped_shift_is_the_nearest_point():
    u = torch.randn(16, 7, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    P = rh.sum_to(1, 7) & rh.box(0, 0.3)
    near, mine = rh.project(P, u), by_hand.shifted(u, 0.0, 0.3, 1.0, steps=60)
    assert torch.allclose(mine, near, atol=1e-9)
    slopes = [torch.autograd.grad(y.square().sum(), u)[0] for y in (mine, near)]
    assert torch.allclose(*slopes, atol=1e-9)


def test_the_page_compares_a_layer_with_the_same_by_hand(monkeypatch):
    P, hand = layer.hand_written()["probabilities of 10"]
    monkeypatch.setattr(layer, "BATCH", 4)
    found = {"probabilities of 10": layer.beside_hand(P, hand, 1)}
    assert layer.hand_table(found).splitlines()[-1].startswith("| probabilities of 10 |")
    assert "by hand" in layer.report({"growth": {}, "set-up": {"rayhull, strict": 1.0}, "by hand": found})
    medians = {kind: {way: {"median": t.median} for way, t in found["probabilities of 10"][kind].items()}
               for kind in ("inference", "training")}  # fmt: skip
    monkeypatch.setattr(summary, "load", lambda _: {"results": {"by hand": {"one": medians}}})
    assert summary.by_hand().splitlines()[-1].startswith("| one")
    monkeypatch.setattr(summary, "load", lambda _: {"results": {}})  # a file of before
    assert summary.by_hand() == ""


@pytest.fixture
def small(monkeypatch):
    learning.make.cache_clear()
    for part, count in SMALL.items():
        monkeypatch.setitem(learning_made.SIZES, part, count)
    yield
    learning.make.cache_clear()


@pytest.mark.parametrize("name", FRESH)
def test_a_fresh_problem_is_learnt_inside_its_set_and_by_hand(name, small):
    problem = learning.make(name)
    unit = 1.0 if problem.optimum is not None else float(problem.data["test"].abs().max())
    for method in ("auto", "free, then project", "by hand"):
        row = learning.measure(problem, method, 3, (1,))
        if problem.by_hand is None and method == "by hand":
            assert row == {"left out": "nobody writes this by hand in a few lines"}
            continue
        assert (method == "by hand" and problem.partly_by_hand) or row["violation"] < 1e-5 * max(unit, 1.0)
        assert problem.optimum is None or row["loss"] > problem.optimum - 1e-4 * abs(problem.optimum)


@pytest.mark.parametrize("name", learning_made.BY_HAND)
def test_by_hand_serves_the_made_problems_it_names(name, small):
    problem = learning.make(name)
    y = problem.by_hand.into(torch.randn(8, problem.by_hand.inputs))
    assert problem.P.violation(y.reshape(-1, *problem.P.shape)).max() < 1e-5
