"""A peer is what its paper or its package says; those that find the nearest point find ours."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import rayhull as rh
from benchmarks import peers

P = rh.Polyhedron([[1.0, 2.0, -1.0, 0.0]], [0.5], [[1.0, 1.0, 1.0, 1.0]], [0.3], lower=-1, upper=1)
U = 3 * torch.randn(20, 4, generator=torch.Generator().manual_seed(0)).double()
NEAREST: dict[str, tuple[str, Callable[[rh.Polyhedron], peers.Peer], float]] = {
    "Pi-net": ("torch", lambda P: peers.PiNet(P, more_steps=2000).eval(), 1e-8),
    "OSQP": ("osqp", lambda P: peers.loop(P, "osqp"), 1e-3),
    "DAQP": ("daqp", lambda P: peers.loop(P, "daqp"), 1e-8),
    "ProxQP": ("proxsuite", peers.proxqp, 1e-6),
    "qpth": ("qpth", peers.Qpth, 1e-4),
    "Moreau": ("moreau", peers.Moreau, 1e-8),
    "cvxpylayers": ("cvxpylayers", peers.CvxpyLayers, 1e-3),
    "cvxpylayers with Moreau": ("cvxpylayers", peers.AFTER_A_LINEAR["cvxpylayers with Moreau"], 1e-6),
    "Pi-net, tuned": ("pinet", peers.tuned_pinet, 1e-4),
}


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("name", NEAREST)
@pytest.mark.parametrize("of_the_sample", [False, True])
def test_a_solver_finds_the_nearest_point_and_its_gradient(name, of_the_sample):
    package, make, close = NEAREST[name]
    pytest.importorskip(package)
    if name == "Pi-net, tuned" and of_the_sample:
        pytest.skip("its right-hand sides are fixed when it is tuned")
    sides = {"b_eq": torch.linspace(-1, 1, 20).double()[:, None]} if of_the_sample else {}
    u, v = (U.clone().requires_grad_() for _ in range(2))
    peer = make(P)
    theirs = peer(u, **sides)
    ours = rh.project(P, v, **sides)
    assert torch.allclose(theirs, ours, atol=close)
    if peer.backward:
        theirs.square().sum().backward()
        ours.square().sum().backward()
        assert torch.allclose(u.grad, v.grad, atol=10 * close)


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.parametrize("name", ["qpth", "Moreau"])
def test_a_solver_takes_b_and_bounds_of_the_sample(name):
    package, make, close = NEAREST[name]
    pytest.importorskip(package)
    sides = {
        "b": torch.linspace(0, 1, 20).double()[:, None],
        "upper": torch.linspace(0.5, 2, 80).double().reshape(20, 4),
    }
    assert torch.allclose(make(P)(U, **sides), rh.project(P, U, **sides), atol=close)
    assert float(make(P).excess(rh.project(P, U, **sides), sides).max()) < 1e-9


def test_fewer_steps_of_pi_net_end_outside():
    peer = peers.PiNet(P, more_steps=5).eval()
    assert float(peer.excess(peer(U), {}).max()) > 1e-4


def test_hardnet_clamps_a_box_and_refuses_dependent_rows():
    assert torch.allclose(peers.HardNetAff(rh.box(-1, 1, 4)).check()(U), U.clamp(-1, 1))
    with pytest.raises(peers.NotForThisSet, match="5 rows and bounds in 4 coordinates"):
        peers.HardNetAff(rh.box(-1, 1, 4) & rh.sum_to(1, 4)).check()


def test_hardnet_takes_rows_of_the_sample():
    rows = rh.Polyhedron([[1.0, 0, 0, 0], [0, 1.0, 0, 0]], [1.0, 1.0])
    A, b = torch.randn(20, 2, 4, generator=torch.Generator().manual_seed(1)).double(), torch.ones(20, 2).double()
    y = peers.HardNetAff(rows)(U, A=A, b=b)
    assert float(((A @ y[..., None])[..., 0] - b).max()) < 1e-9


@pytest.mark.filterwarnings("ignore")  # theirs
def test_rayens_points_are_inside():
    pytest.importorskip("rayen")
    peer = peers.Rayen(P).float()
    assert peer.inputs == 3
    assert P.violation(peer(U[:, :3].float())).max() < 1e-6


def test_a_coordinate_of_one_value_is_no_equality_of_the_sample():
    fixed = rh.Polyhedron(A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0], lower=[0, 0, 0.0], upper=[9, 9, 0.0])
    y, sides = torch.tensor([[1.0, 2.0, 0.0]]).double(), {"b_eq": torch.tensor([[3.0]]).double()}
    assert float(peers.Peer(fixed).excess(y, sides).max()) == 0.0


def test_dc3_without_equalities_says_why_it_is_left_out():
    with pytest.raises(peers.NotForThisSet) as caught:
        peers.DC3(rh.box(-1, 1, 4))
    assert peers.reason(caught.value).startswith("without equalities")
    assert peers.reason(ImportError("no qpth")) == "ImportError: no qpth"


def test_the_sorted_threshold_is_the_nearest_point_of_the_simplex():
    x = np.random.default_rng(0).standard_normal((8, 5))
    near = peers.sorted_threshold(rh.simplex(5))(torch.as_tensor(x))
    assert torch.allclose(near, rh.project(rh.simplex(5), torch.as_tensor(x)), atol=1e-12)
