"""Every set of the zoo, every side that it states, four ways in: gradients in the side are those of differences."""

from __future__ import annotations

import functools

import pytest
import torch

import rayhull as rh
from tests import fuzz_gradients, slopes
from tests.zoo import ZOO

METHODS = ("auto", "nearest", "steps", "shrink")
PAIRS = [(name, side) for name, make in ZOO.items() for side in slopes.stated_sides(make())]
N, FAR, LOOSER = 24, 6.0, 0.02  # samples; the size of features; by how much a side is looser than stated


@functools.cache
def layer_of(name: str, method: str) -> rh.Constrained:
    torch.manual_seed(0)
    return rh.Constrained(4, ZOO[name](), method=method, dtype=torch.float64).eval()


@pytest.mark.filterwarnings("ignore:20 steps leave")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "side"), PAIRS, ids=lambda value: str(value))
def test_a_layer_has_the_gradient_of_differences_in_every_side(name: str, side: str, method: str) -> None:
    layer, generator = layer_of(name, method), torch.Generator().manual_seed(1)
    P = layer.polyhedron
    h = FAR * torch.randn(N, 4, generator=generator, dtype=torch.float64)
    value = slopes.loosened(P, side, N, LOOSER, generator)
    direction = slopes.moved(P, side, N, generator)
    found = slopes.slopes(lambda own: layer(h, **{side: own}), value, direction, generator)
    assert not found.wrong.any(), str(found)
    assert int(found.smooth.sum()) >= N // 2
    if method == "nearest":
        assert (found.smooth & (found.difference.abs() > found.error)).any(), "the side moves no point"


def test_every_side_counts() -> None:
    """The pairs above are what the zoo states: a set that lost a side would pass unseen."""
    assert len(PAIRS) >= 59
    assert {side for _, side in PAIRS} == {"b", "b_eq", "lower", "upper"}


def test_a_clipped_shift_has_gradients_in_the_bounds_of_the_sample() -> None:
    torch.manual_seed(0)
    P = rh.Polyhedron([[1.0, 2.0, -1.0]], [1.0], lower=-1, upper=1)
    layer = rh.Constrained(4, P, dtype=torch.float64)
    upper = torch.full((6, 3), 1.1, dtype=torch.float64, requires_grad=True)
    layer(9 * torch.randn(6, 4, dtype=torch.float64), upper=upper).sum().backward()
    assert upper.grad is not None
    assert upper.grad.any()


def test_a_wrong_gradient_and_a_kink_are_seen() -> None:
    generator = torch.Generator().manual_seed(0)
    side, direction = torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2, dtype=torch.float64)
    right = slopes.slopes(lambda s: s**2, side, direction, generator)
    wrong = slopes.slopes(lambda s: s * s.detach(), side, direction, generator)
    kink = slopes.slopes(lambda s: (s - 1).relu(), side, direction, generator)
    assert (right.wrong.any(), wrong.wrong.all(), kink.smooth.any()) == (False, True, False)


# -- what the fuzz of gradients found ----------------------------------------------------------------------------------


def test_the_first_cases_of_the_fuzz_have_no_wrong_slope() -> None:
    assert sum(fuzz_gradients.one_case(case)["of them not 0"] for case in range(9)) > 1000


@pytest.mark.parametrize("method", METHODS)
def test_a_coordinate_that_no_row_names_stays_free_when_the_row_moves(method: str) -> None:
    P, c = rh.Polyhedron([[1.0, 0.0]], 1.0), torch.tensor([[9.0, 9.0]], dtype=torch.float64)
    into = rh.MapInto(P, method=method, dtype=torch.float64)
    b = torch.full((1, 1), 1.5, dtype=torch.float64)
    x = into(c, b=b)
    assert P.contains(x, b=b).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_single_point_takes_bounds_of_the_sample_and_refuses_empty_ones(method: str) -> None:
    P = rh.Polyhedron(lower=[1.0, 2.0], upper=[1.0, 2.0])
    into = rh.MapInto(P, method=method, dtype=torch.float64)
    lower, c = torch.tensor([[0.9, 1.9], [1.0, 2.0]], dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64)
    assert P.contains(into(c, lower=lower), lower=lower).all()
    with pytest.raises(rh.EmptySetError):
        into(c, lower=lower + 0.5)
