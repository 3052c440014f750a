"""The solver is chosen by the device of the points: nothing of a batch goes to the host and back."""

from __future__ import annotations

import torch

import rayhull as rh
from benchmarks.pretended import Count, Elsewhere
from rayhull.projection.plan import plan
from tests.test_projection import every_set, points
from tests.test_projection_rows import case


@every_set
def test_a_forward_pass_moves_nothing_to_the_host(P: rh.Polyhedron) -> None:
    x = points(P)
    with Count() as device:
        z = rh.project(P, Elsewhere(x))
    assert isinstance(z, Elsewhere)
    assert "copy to the host" not in device.waits
    torch.testing.assert_close(z.kept, rh.project(P, x), atol=1e-9, rtol=1e-9)


def test_rows_of_the_sample_stay_on_their_device() -> None:
    P, x, sides = case()
    with Count() as device:
        z = rh.project(P, Elsewhere(x), **{name: Elsewhere(v) for name, v in sides.items()})
    assert "copy to the host" not in device.waits
    torch.testing.assert_close(z.kept, rh.project(P, x, **sides), atol=1e-9, rtol=0)


def test_other_devices_have_no_compiled_solver() -> None:
    solvers = {
        block.solver.name for P in (rh.convex(5), rh.monotone(4)) for block in plan(P, device=torch.device("meta"))
    }
    assert solvers == {"dual Newton"}
