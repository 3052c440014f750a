"""Sets that applications ask for: what they contain, what they refuse, and that layers take them."""

import numpy as np
import pytest
import torch

import rayhull as rh


def test_a_capped_simplex_keeps_caps_and_groups():
    P = rh.capped_simplex(5, [0.5, 0.5, 0.25, 0.25, 1], groups={"energy": ([0, 1], 0.75), "banks": ([2, 3], 0.25)})
    assert P.is_exact
    assert np.full(5, 0.2) not in P  # banks hold 0.4
    assert [0.25, 0.25, 0.125, 0.125, 0.25] in P
    assert P.slack(np.full(5, 0.2)).names[0] == "banks"
    x = rh.Constrained(4, P)(torch.randn(32, 4))
    assert P.contains(x).all()


@pytest.mark.parametrize("group", [[0, 1], ([0, 9], 0.5), (["a"], 0.5), 0.5])
def test_a_group_without_members_or_cap_is_refused_with_its_name(group):
    with pytest.raises(ValueError, match=r"groups\['energy'\] must be the numbers of its weights, 0 to 3"):
        rh.capped_simplex(4, 0.6, groups={"energy": group})


def test_quantiles_are_monotone_and_named():
    P = rh.quantiles([0.05, 0.5, 0.95])
    assert P.same_set(rh.monotone(3))
    assert P.coordinates == ("q0.05", "q0.5", "q0.95")
    for levels in ([0.5], [0.5, 0.5], [0.9, 0.1], [0.0, 0.5], [0.5, 1.0]):
        with pytest.raises(ValueError, match="between 0 and 1 that increase"):
            rh.quantiles(levels)


def test_conserved_means_hold_exactly_and_may_come_with_the_sample():
    means = np.arange(6.0).reshape(2, 3)
    P = rh.conserves((4, 6), (2, 3), means)
    assert P.is_exact
    assert np.kron(means, np.ones((2, 2))) in P
    x = P.interior_point()
    assert np.allclose(x.reshape(2, 2, 3, 2).mean((1, 3)), means)
    assert rh.conserves((3, 4, 4), (2, 2), 1).shape == (3, 4, 4)
    given = torch.rand(7, 6, dtype=torch.float64)
    y = rh.Projection(rh.conserves((4, 6), (2, 3)) & rh.nonnegative())(
        torch.randn(7, 4, 6, dtype=torch.float64), b_eq=given
    )
    assert torch.allclose(y.reshape(7, 2, 2, 3, 2).mean((2, 4)).flatten(1), given)
    assert (y > -1e-9).all()
    with pytest.raises(ValueError, match="do not divide"):
        rh.conserves((5, 6), (2, 3))


def test_reconciled_series_add_up():
    S = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4, dtype=int)])
    P = rh.reconciled(S)
    y = np.random.default_rng(0).standard_normal((10, 4))
    assert P.contains(y @ S.T).all()
    assert not P.contains(y @ S.T + np.eye(7)[0]).any()
    x = rh.project(P, torch.randn(5, 7, dtype=torch.float64)).numpy()
    assert np.allclose(x[:, :3], x[:, 3:] @ S[:3].T)
    with pytest.raises(ValueError, match="one of them is missing"):
        rh.reconciled([[1, 1], [1, 0]])


def test_a_corridor_follows_its_path():
    t = np.linspace(0, 3, 8)
    path = np.stack([t, np.sin(t)], 1)
    P = rh.corridor(path, width=0.1)
    assert P.is_bounded
    assert path in P
    normal = np.gradient(path, axis=0)[:, ::-1] * [-1, 1]
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    assert path + 0.099 * normal in P
    assert path + 0.101 * normal not in P
    assert len(P.blocks) == 8
    with pytest.raises(ValueError, match="are the same"):
        rh.corridor(path[[0, 0, 1]], 1)
    with pytest.raises(ValueError, match=r"\(n, 2\)"):
        rh.corridor(t, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rh.storage(3, 1, 1, 1.5), r"efficiency must be a share in \(0, 1\]"),
        (lambda: rh.storage(3, 1, 1, (1, 1, 1)), "or a pair"),
        (lambda: rh.flow([("a", "b")], ["a", "b", "a"]), "each once"),
        (lambda: rh.hierarchy({}), "one name or more"),
        (lambda: rh.birkhoff(0), "a shape is one or more positive whole sizes"),
        (lambda: rh.reconciled([[1, 1], [1, 0], [0, 1]], ["a", "b"]), "S has 3 series, 2 of them at the bottom"),
        (lambda: rh.corridor([[0, 0], [1, 0], [0, 0]], 1), "turns back at point 1"),
        (lambda: rh.corridor([[0, 0], [np.nan, 0]], 1), "points holds NaN"),
        (lambda: rh.Polyhedron(np.ma.masked_array(np.eye(2), np.eye(2)), 1), "without a mask"),
        (lambda: rh.simplex(3).is_subset(rh.box(0, 1)), "expected a set, got ShapelessBox"),
    ],
)
def test_what_makes_no_set_is_refused_with_a_next_step(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_a_pair_of_efficiencies_is_any_array_and_demands_may_come_by_name():
    assert rh.storage(3, 1, 1, np.array([0.5, 0.25])) == rh.storage(3, 1, 1, (0.5, 0.25))
    edges, nodes = [("a", "b"), ("b", "c")], ["a", "b", "c"]
    assert rh.flow(edges, nodes, demand={"c": 2, "a": -2}) == rh.flow(edges, nodes, demand=[-2, 0, 2])
