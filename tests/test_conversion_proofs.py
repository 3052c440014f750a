"""What conversion proves: emptiness to the last digit, and planted faults of our own, each of them seen."""

import importlib
from fractions import Fraction

import numpy as np
import pytest

import rayhull as rh
from rayhull.conversion.slack_form import SlackForm
from rayhull.conversion.slack_form_floats import FloatSlackForm
from rayhull.conversion.verification import prove_complete
from rayhull.sets.reading import read_rows
from tests import fuzz_conversion
from tests.brute_force import vertices_and_rays
from tests.zoo import counts, cross_polytope


def unchecked(A=None, b=None, A_eq=None, b_eq=None, lower=None):
    """The set, empty or not: the constructor refuses an empty one before conversion sees it."""
    rows = None if A is None else read_rows(A, b, None, ("A", "b"))
    equalities = None if A_eq is None else read_rows(A_eq, b_eq, None, ("A_eq", "b_eq"))
    dim = (rows or equalities).dim
    low = None if lower is None else np.full(dim, lower)
    return rh.Polyhedron.from_rows(rows, equalities, low, None, (dim,), check=False)


TINY = Fraction(1, 10**20)


@pytest.mark.parametrize("gap", [TINY, 0, -TINY], ids=["room", "touching", "empty"])
@pytest.mark.parametrize(
    ("stated", "room", "touching", "said"),
    [
        (lambda gap: dict(A=[[1, 1], [-1, -1]], b=[1, gap - 1]), (2, 0, 1), (1, 0, 1), "no common point"),
        (lambda gap: dict(A=[[-1, 0], [0, -1], [1, 1]], b=[0, 0, gap]), (3, 0, 0), (1, 0, 0), "no common point"),
        (
            lambda gap: dict(A=[[1, 0], [-1, 0], [0, 1], [0, -1]], b=[1, gap - 1, 5, 5]),
            (4, 0, 0),
            (2, 0, 0),
            "no common",
        ),
        (
            lambda gap: dict(A=[[1, 1]], b=[1 + gap], A_eq=[[1, 1]], b_eq=[1]),
            (1, 0, 1),
            (1, 0, 1),
            "add up to 0 <= a neg",
        ),
    ],
    ids=["strip", "triangle", "box", "along an equality"],
)
def test_emptiness_is_decided_by_the_last_digit(stated, room, touching, said, gap):
    P = unchecked(**stated(gap))
    if gap < 0:
        with pytest.raises(rh.EmptySetError, match=said):
            rh.convert(P, cache=False)
    else:
        assert counts(P) == (room if gap else touching)


@pytest.mark.parametrize("gap", [0, TINY])
def test_equalities_agree_to_the_last_digit_or_contradict_each_other(gap):
    P = unchecked(A_eq=[[1, 1], [2, 2]], b_eq=[1, 2 + gap], lower=0)
    if gap:
        with pytest.raises(rh.EmptySetError, match=r"A_eq\[1\] contradicts those before it"):
            rh.convert(P, cache=False)
    else:
        assert counts(P) == (2, 0, 0)


def test_rows_that_are_dependent_modulo_one_prime_are_independent():
    for prime in (2**31 - 1, 67108859):
        assert counts(rh.Polyhedron([[1, 1], [1, 1 + prime]])) == (1, 2, 0)
        point = rh.convert(rh.Polyhedron([[0, 1]], [5], A_eq=[[1, 1], [1, 1 + prime]], b_eq=[0, prime]), cache=False)
        assert point.exact_vertices.tolist() == [[-1, 1]]
        P = rh.Polyhedron([[-prime, 1, 0], [0, -prime, 1], [-1, -1, prime]], lower=0)
        found = {tuple(int(x) for x in r) for r in rh.convert(P, cache=False).exact.rays}
        assert found == vertices_and_rays(P)[1]


# -- faults of our own, planted: the verification sees each of them --------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "floats"])
@pytest.mark.parametrize("fault", ["points", "simplicial_rays"])
def test_a_generator_outside_the_set_is_never_returned(monkeypatch, never_in_fractions, kind, fault):
    form = SlackForm if kind == "exact" else FloatSlackForm
    original = form.points

    def shifted(self, t, y):
        tops, bottoms = original(self, t, y)
        return tops + 1, bottoms

    turned = shifted if fault == "points" else lambda self: -self.edges[self.equalities :]
    monkeypatch.setattr(form, fault, turned)
    row = [1, 1] if kind == "exact" else [0.1, 0.1]
    P = rh.Polyhedron([row], 1, lower=0) if fault == "points" else rh.Polyhedron([row, [0, 1]])
    with pytest.raises(rh.UnverifiedError, match="A generator breaks a row"):
        rh.convert(P, cache=False)


def test_a_row_that_was_thought_dependent_and_is_not_is_noticed(monkeypatch):
    module = importlib.import_module("rayhull.conversion.slack_form")
    original = module.independent_rows
    monkeypatch.setattr(module, "independent_rows", lambda A: tuple(part[:-1] for part in original(A)))
    with pytest.raises(rh.UnverifiedError, match="A row changes along a line"):
        rh.convert(rh.Polyhedron([[1, 1], [1, -1]]), cache=False)


@pytest.mark.parametrize(
    "P",
    [cross_polytope(3), rh.Polyhedron([[1, 1, 1]], 2, lower=0, upper=1), rh.Polyhedron(cross_polytope(3).A * 0.1, 0.3)],
    ids=["degenerate", "cut cube", "floats"],
)
def test_the_full_proof_notices_a_missing_generator(monkeypatch, P):
    module = importlib.import_module("rayhull.conversion.convert")
    original, calls = module.extreme_rays, []

    def one_less(C, **rest):
        calls.append(C)
        rays = original(C, **rest)
        return rays[1:] if len(calls) == 1 else rays  # the proof itself works right

    monkeypatch.setattr(module, "extreme_rays", one_less)
    with pytest.raises(rh.UnverifiedError, match="A generator is missing"):
        rh.convert(P, cache=False, verify="full")
    monkeypatch.undo()
    rh.convert(P, cache=False, verify="full")


@pytest.mark.parametrize("low", [-1, 0])
def test_an_equality_of_the_hull_is_not_proved_by_an_inequality_of_the_set(low):
    square = rh.Polyhedron(lower=[low, 0], upper=[low + 1, 1])
    side = rh.Generators(vertices=[[0, 0], [0, 1]]).to_polyhedron()  # x0 = 0, and the square says x0 <= 0 or x0 >= 0
    with pytest.raises(rh.UnverifiedError, match="A generator is missing"):
        prove_complete(square, side)


def test_the_full_proof_keeps_to_the_budget():
    P = cross_polytope(5)
    assert counts(P, max_generators=30) == (10, 0, 0)
    with pytest.raises(rh.BudgetExceededError, match="max_generators=30"):
        counts(P, max_generators=30, verify="full")  # its 32 facets


def test_the_full_proof_says_where_it_cannot_decide():
    big = 10**24
    P = rh.Polyhedron([[-big, -1], [big, 1], [1, -big], [-1, big]], [0, 0, 0, 0])  # {0}, in four inequalities
    assert counts(P) == (1, 0, 0)
    with pytest.raises(rh.UnverifiedError, match="cannot decide this set"):
        counts(P, verify="full")


def test_the_fuzz_finds_nothing_and_finds_a_missing_ray(monkeypatch):
    assert fuzz_conversion.run(seconds=2.0, seed=0)
    module = importlib.import_module("rayhull.conversion.convert")
    original = module.extreme_rays
    monkeypatch.setattr(module, "extreme_rays", lambda C, **rest: original(C, **rest)[1:])
    with pytest.raises(AssertionError, match="wrong on numpy"):
        fuzz_conversion.run(seconds=20.0, seed=0)
