"""Calls that newcomers get wrong: each is refused at once, in words that say what to write."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import rayhull as rh

P = rh.monotone(6) & rh.box(0, 1)
GRID = rh.sum_to(1, (2, 3))
x, y, z = rh.variables("x", "y", "z")


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 6))


CALLS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "features as an array": (
        lambda: rh.Constrained(8, P)(np.ones((2, 8))),
        TypeError,
        "expected a tensor first, got ndarray: torch.as_tensor",
    ),
    "features as one number": (
        lambda: rh.Constrained(8, P)(torch.tensor(1.0)),
        ValueError,
        r"expected 8 features on axis -1, got \(\)",
    ),
    "integers as coefficients": (
        lambda: rh.MapInto(P)(torch.ones(2, 6, dtype=torch.int64)),
        TypeError,
        "must be floating-point numbers, got torch.int64: call .float",
    ),
    "coefficients in the event shape": (
        lambda: rh.MapInto(GRID)(torch.ones(5, 2, 3)),
        ValueError,
        r"expected 6 coefficients, flat on axis -1, got shape \(5, 2, 3\): c.flatten\(-2\)",
    ),
    "an array for a projection": (
        lambda: rh.Projection(P)(np.ones(6)),
        TypeError,
        "takes a tensor, got ndarray: rayhull.project takes arrays",
    ),
    "a dtype by its name": (
        lambda: rh.Constrained(8, P, dtype="float32"),
        TypeError,
        "such as torch.float32, got 'float32'",
    ),
    "complex numbers": (lambda: rh.Constrained(8, P, dtype=torch.complex64), TypeError, "got torch.complex64"),
    "an axis by its name": (
        lambda: rh.Constrained(8, P, axis="c"),
        TypeError,
        "axis must be a whole number, such as 1",
    ),
    "a leak by its name": (
        lambda: rh.Constrained(8, P, leak="some"),
        ValueError,
        "leak is a share of the gradient.*got 'some'",
    ),
    "the set before the model": (
        lambda: rh.constrain(P, "1", model()),
        TypeError,
        r"the model first, constrain\(model, name, P\), got Polyhedron",
    ),
    "a model that is the Linear": (
        lambda: rh.constrain(nn.Linear(8, 6), "", P),
        ValueError,
        "no Linear called '': it has none",
    ),
    "constrained twice": (
        lambda: rh.constrain(rh.constrain(model(), "1", P), "1", P),
        ValueError,
        "it has 0, 1.linear. It is constrained already",
    ),
    "a set of a row for a whole weight": (
        lambda: nn.utils.parametrize.register_parametrization(nn.Linear(6, 3), "weight", rh.Parametrization(P)),
        ValueError,
        r"shape \(6,\), the weight \(3, 6\): both must be the same.*rayhull.along",
    ),
    "an example in place of the number of features": (
        lambda: rh.nn.export.to_onnx(model(), torch.ones(2, 4), "m.onnx"),
        TypeError,
        r"the number of features second, to_onnx\(model, 8, 'file.onnx'\), got Tensor",
    ),
    "a cone where rows are needed": (
        lambda: rh.convert(rh.ball(1, d=2)),
        TypeError,
        "expected a set without cones, got ConvexSet: give the rows alone, S.polyhedron",
    ),
    "norm of two things": (lambda: rh.norm(x, y), TypeError, r"norm takes one list .*norm\(\[x, y\]\)"),
    "a norm that equals": (lambda: rh.norm([x, y]) == 1, TypeError, r"norm\(e\) == c are not convex"),
    "a size in place of a name": (lambda: rh.variables("x", 3), ValueError, "Sizes go into shape="),
    "a modulus in a text": (lambda: rh.parse("|x| <= 1"), ValueError, r"For \|e\| <= c write two rules"),
    "abs in a text": (lambda: rh.parse("abs(x) <= 1"), ValueError, r"For \|e\| <= c write two rules"),
    "a number of levels": (lambda: rh.quantiles(3), ValueError, "levels must be two or more numbers"),
    "groups without names": (
        lambda: rh.capped_simplex(4, 0.5, groups=[[0, 1]]),
        TypeError,
        "groups must be a dict of names",
    ),
    "a range of rows that are not there": (
        lambda: rh.Constrained(4, P, varies={"b_eq": (0, 1)}),
        ValueError,
        "the set states no b_eq, which varies= names",
    ),
    "names for a set that has none": (lambda: {"x": 1.0} in P, TypeError, "no names: give the numbers alone, or"),
    "two variables in one name": (
        lambda: list(rh.variables("a b")),
        TypeError,
        r'a b is a single expression, without length: several variables are variables\("a", "b"\)',
    ),
    "boxes without a shape": (lambda: rh.box(0, 1) & rh.box(0.2, 2), TypeError, "neither .* has a shape"),
    "a scale in words": (lambda: rh.Constrained(4, P, scale="auto"), TypeError, "scale must hold numbers"),
    "steps of another way": (
        lambda: rh.Constrained(4, P, method="nearest", steps=3),
        ValueError,
        r"""steps= go with method="steps" \(or "auto"\), got method='nearest'""",
    ),
    "a budget below 0": (lambda: rh.Constrained(4, P, max_generators=-1), ValueError, "0 or more, or None .* got -1"),
    "strict in words": (lambda: rh.Constrained(4, P, strict="yes"), TypeError, "must be True or False, got 'yes'"),
    "a switch in words": (
        lambda: setattr(rh.Constrained(4, P), "strict", "off"),
        TypeError,
        "strict must be True or False, got 'off'",
    ),
    "a column of text": (
        lambda: rh.parse("x + y <= 1").contains({"y": [1.0, 2.0], "x": [0.5, "a"]}),
        TypeError,
        "the column x must hold numbers, got 'a' of type str",
    ),
    "a strict point of a sample that leaves no room for it": (
        lambda: rh.Constrained(4, rh.rules(x + y <= 1, x + y >= 0), method="nearest", strict=True)(
            torch.randn(3, 4), b=torch.tensor([[1.0, 0.0], [1.0, 1e-8 - 1], [1.0, 0.0]])
        ),
        rh.RayhullError,
        "strict=True cannot certify sample 1: their sets are too thin for torch.float32. Give base points",
    ),
    "a base point in words": (lambda: rh.Constrained(4, P, base="centre"), TypeError, "base must hold numbers"),
    "the wrong place of to_onnx": (lambda: rh.to_onnx, AttributeError, "it is rayhull.nn.export.to_onnx"),
    "an edge to nowhere": (lambda: rh.flow([("a", "b")], ["a"]), ValueError, r"in the edge \('a', 'b'\)"),
    "rules on one variable that contradict": (
        lambda: rh.rules(x >= 5, (y >= 4).named("least"), (y <= 3).named("most")),
        rh.EmptySetError,
        r"lower > upper in 1 coordinate, first at y: 4 > 3 \(least and most\)",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_told_what_to_write(name: str) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message):
        call()


def test_a_contradiction_of_many_rows_names_a_few() -> None:
    t = rh.variables("t", shape=50)
    with pytest.raises(rh.EmptySetError, match=r"These 51 rows .* - t\[6\] >= 1, .* and 43 others contradict") as error:
        rh.rules(t[1:] - t[:-1] >= 1, t[0] >= 0, t[49] <= 48)
    assert len(error.value.rows) == 51
    assert "x + y >= 4, x <= 1 and y <= 2" in str(pytest.raises(rh.EmptySetError, rh.parse, "x+y>=4; x<=1; y<=2").value)


def test_a_set_says_how_many_coordinates_have_a_bound() -> None:
    assert repr(rh.parse("x >= 0; y >= 1; x + z <= 3")) == "Polyhedron(x, y, z: 1 inequality, x >= 0 .. 1 for 2 of 3)"
    assert repr(rh.box(0, 1, 3)) == "Polyhedron(shape=(3,): x >= 0, x <= 1)"


def test_text_may_have_a_minus_from_a_page_and_expressions_are_flattened() -> None:
    assert rh.parse("x − y <= 1") == rh.parse("x - y <= 1")
    t = rh.variables("t", shape=(2, 3))
    assert rh.rules(np.ones((1, 6)) @ t.flatten() <= 1) == rh.rules(t.sum() <= 1)
