"""The field's problems are the published ones, and each method is what its paper says."""

import pytest
import torch
from torch import Tensor

import rayhull as rh
from benchmarks.field_page import faster
from benchmarks.field_problems import control_plan_problem, dc3_data, fingerprint, hardnet_data, quadratic_problem
from benchmarks.field_training import Head, Ours
from benchmarks.peers import DC3, HardNetAff, Peer, PiNet


def test_the_data_are_drawn_as_published():
    """The first digest was compared with the file that Pi-net ships of DC3's data."""
    for data, digest in ((dc3_data(), "a4b8bc086a4e"), (hardnet_data(), "57a6c0013689")):
        assert fingerprint(data.Q, data.p, data.C, data.G, data.X) == digest


@pytest.mark.parametrize(("convex", "published"), [(True, -15.047), (False, -11.592)])
def test_the_optimum_is_the_published_one(convex, published):
    problem = quadratic_problem("DC3", dc3_data(), convex=convex)
    assert problem.optimum is not None
    assert float(problem.optimum(problem.splits["test"]).mean()) == pytest.approx(published, abs=5e-4)


# -- peers -------------------------------------------------------------------------------------------------------------


def test_a_plan_of_pi_net_obeys_the_dynamics_at_any_number_of_steps():
    problem = control_plan_problem(count=40, horizon=5)
    x, peer = problem.splits["train"], PiNet(problem.P, more_steps=3).eval()
    y = peer(torch.randn(len(x), problem.P.dim).double(), **problem.sides(x))
    assert torch.allclose(y @ peer.E.mT, problem.sides(x)["b_eq"], atol=1e-9)


def test_dc3_completes_the_equalities_and_corrects_along_them():
    problem = quadratic_problem("DC3", dc3_data(), convex=True)
    x, peer = problem.splits["valid"][:20], DC3(problem.P)
    u = 5 * torch.randn(20, peer.inputs, generator=torch.Generator().manual_seed(0)).double()
    before, sides = torch.zeros(0), problem.sides(x)
    for peer.steps in (0, 10):
        y = peer(u, **sides)
        assert torch.allclose(y @ peer.E.mT, x, atol=1e-9)
        before, last = peer.excess(y, sides).square().sum(-1), before
    assert bool((before < last).all())


def test_hardnets_step_meets_independent_rows():
    problem = quadratic_problem("opt", hardnet_data(), convex=False)
    x, peer = problem.splits["valid"][:20], HardNetAff(problem.P).check()
    y = peer(5 * torch.randn(20, problem.P.dim).double(), **problem.sides(x))
    assert float(peer.excess(y, problem.sides(x)).max()) < 1e-9


def test_penalties_grow_with_what_is_broken():
    P = rh.Polyhedron([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [[1.0, 1.0]], [0.0])
    y, sides = torch.tensor([[-1.0, 1.0], [3.0, 4.0]]).double(), {"b_eq": torch.tensor([[0.0], [7.0]]).double()}
    assert Peer(P).penalty(y, sides).tolist() == [1.0, 25.0]
    assert DC3(P).penalty(y, sides).tolist() == [0.5, 2.5]


def test_a_head_that_starts_open_leaves_its_numbers_as_they_are_in_training_alone():
    head = Head(2, HardNetAff(rh.box(-1, 1, 2))).double()
    h, head.open = 9 * torch.randn(8, 2).double(), True
    assert torch.equal(head(h), head.linear(h))
    assert torch.allclose(head.eval()(h), head.linear(h).clamp(-1, 1))


# -- ours --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pull", "end"), [(0.0, 1.0), (0.1, 0.0)])
def test_a_pull_leads_back_from_a_row_that_holds_every_sample(pull: float, end: float):
    """All free points start beyond x <= 1, the aim is x = 0: the nearest point has no gradient across its row."""
    layer = Ours(1, rh.Polyhedron([[1.0]], [1.0]), method="nearest", leak=0.0, dtype=torch.float64)
    layer.pull = pull
    h = torch.ones(8, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.linear.bias += 3.0 - layer.unconstrained(h)[0]
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(400):
        optimizer.zero_grad()
        x: Tensor = layer(h)
        (x.square().mean() + pull * layer.moved).backward()
        optimizer.step()
    assert float(layer(h).detach().mean()) == pytest.approx(end, abs=1e-2)


def test_the_page_names_who_is_faster():
    times = {"rayhull": (2.0, 1.0), "rayhull, nearest point": (1.0, 0.5), "DC3": (1.5, 1.5), "Pi-net": (9.0, 0.9)}
    text = faster([{"problem": "toy", "method": m, "all": whole, "one": one} for m, (whole, one) in times.items()])
    assert "Faster than `rayhull` for the whole test set: DC3 on toy." in text
    assert "For one sample: Pi-net on toy." in text
