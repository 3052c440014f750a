"""What users meet again in checkpoints, caches and answers has not changed by accident."""

import numpy as np
import pytest
import torch

import rayhull as rh
from tests import golden, golden_layers
from tests.zoo import ZOO

KNOWN, LAYERS = golden.read(), golden_layers.read()
ROUNDING = 1e-12  # the order of the sums decides digits below; the promise is 1e-10


def test_every_set_of_the_zoo_has_golden_values():
    assert set(KNOWN) == set(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_a_set_has_its_fingerprint_and_its_generators(name):
    P = ZOO[name]()
    assert P.fingerprint == KNOWN[name]["fingerprint"]
    assert golden.generators(P) == KNOWN[name]["generators"]


@pytest.mark.parametrize("name", ZOO)
def test_a_nearest_point_is_where_it_was_and_as_well_certified(name):
    now, known = golden.nearest(ZOO[name]()), KNOWN[name]["nearest"]
    assert np.allclose(now["point"], known["point"], rtol=1e-9, atol=1e-9)
    assert now["residual_below"] <= max(known["residual_below"], ROUNDING)


@pytest.mark.parametrize("name", ZOO)
def test_a_checkpoint_has_its_names_and_shapes(name):
    P = ZOO[name]()
    assert golden.parameters(rh.Constrained(4, P, method="shrink")) == KNOWN[name]["state_dict"]["Constrained"]
    assert golden.parameters(rh.Projection(P)) == KNOWN[name]["state_dict"]["Projection"]


@pytest.mark.parametrize(("name", "method"), LAYERS, ids=lambda value: str(value))
def test_points_and_gradients_of_a_way_in_are_what_they_were(name, method):
    assert list(golden_layers.differences(name, method, LAYERS[name, method])) == []


def test_every_way_in_that_takes_a_set_has_golden_points():
    assert {name for name, method in LAYERS if method in ("shrink", "nearest")} == set(ZOO)
    assert len(LAYERS) >= 119
    for known in LAYERS.values():
        assert all(np.isfinite(values).all() for values in known.values())


def test_golden_values_notice_a_change():
    P, Q = rh.Polyhedron([[1, 1]], 1, lower=0), rh.Polyhedron([[1, 2]], 1, lower=0)
    assert golden.generators(P)["exact"] != golden.generators(Q)["exact"]
    assert golden.nearest(P)["point"] != golden.nearest(Q)["point"]
    assert golden.parameters(torch.nn.Linear(2, 3)) == {"weight": "float32 (3, 2)", "bias": "float32 (3,)"}
    known = LAYERS["box", "shrink"]
    for kind in ("points", "gradients"):
        other = known | {f"float64 {kind}": known[f"float64 {kind}"] * (1 + 1e-5)}
        assert list(golden_layers.differences("box", "shrink", other)) == [
            f"float64: {kind} differ",
            f"float64, strict: {kind} differ",
        ]
