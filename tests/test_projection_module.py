"""The nearest point as a user calls it: shapes, dtypes, graphs, copies, threads, warm starts, and bad input."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.projection.formulas import formula_of
from rayhull.projection.plan import plan
from tests.compiled import needs_core
from tests.test_projection import SETS, every_set, points


@needs_core
def test_a_batch_is_freed_with_its_graph_and_waits_for_no_garbage_collector() -> None:
    P = rh.monotone(6)
    x = torch.randn(4, 6, requires_grad=True)
    gc.disable()
    try:
        for find in (lambda: rh.project(P, x), lambda: rh.Projection(P)(x), lambda: rh.Constrained(6, P)(x)):
            watched = weakref.ref(find())
            assert watched() is None
    finally:
        gc.enable()


@every_set
def test_any_batch_shape_is_kept(P: rh.Polyhedron) -> None:
    x = points(P, 6)
    z = rh.project(P, x)
    assert torch.equal(rh.project(P, x.reshape(2, 3, *P.shape)), z.reshape(2, 3, *P.shape))
    assert rh.project(P, x[0]).shape == P.shape
    assert rh.project(P, x[:0]).shape == (0, *P.shape)
    torch.testing.assert_close(torch.as_tensor(rh.project(P, x.numpy())), z, atol=0, rtol=0)


@every_set
def test_points_and_gradients_may_lie_in_memory_as_they_like(P: rh.Polyhedron) -> None:
    into = rh.MapInto(P, method="nearest", dtype=torch.float64)
    c, g = (torch.randn(into.coefficients, 8, dtype=torch.float64).T for _ in range(2))
    packed = c.contiguous().requires_grad_()
    x = into(packed)
    x.backward(g.reshape(x.shape).contiguous())
    assert torch.equal(into(c), x)
    strided = c.clone(memory_format=torch.preserve_format).requires_grad_()
    into(strided).backward(g.reshape(x.shape))
    torch.testing.assert_close(strided.grad, packed.grad, atol=0, rtol=0)


@every_set
def test_float32_in_gives_float32_out_and_inside(P: rh.Polyhedron) -> None:
    x = points(P, dtype=torch.float32)
    z = rh.project(P, x)
    assert z.dtype == torch.float32
    assert P.contains(z).all()
    torch.testing.assert_close(z.double(), rh.project(P, x.double()), atol=1e-6, rtol=1e-6)
    assert rh.project(P, x.bfloat16()).dtype == torch.bfloat16


def test_a_second_call_of_project_takes_the_plan_of_the_first() -> None:
    P = rh.convex(6)
    assert plan(P) is plan(P)
    assert plan(P, solver="dual") is not plan(P)


@every_set
def test_the_module_compiles_copies_pickles_and_names_its_solvers(P: rh.Polyhedron) -> None:
    module, x = rh.Projection(P), points(P, 3).requires_grad_()
    z = module(x)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other.load_state_dict(module.state_dict())
        assert torch.equal(other(x), z)
    assert module.projector.plan()[0].solver.name in repr(module)


def test_torch_compile_goes_around_it_without_a_break() -> None:
    P = rh.Polyhedron([[1, 1, 0], [0, 1, 1]], [1, 1], lower=-1)
    module = rh.Projection(P)
    compiled_module = torch.compile(lambda x, b: 2 * module(x, b=b), fullgraph=True, backend="aot_eager")
    x, b = points(P).requires_grad_(), torch.rand(6, 2, dtype=torch.float64).requires_grad_()
    z = compiled_module(x, b)
    torch.testing.assert_close(z, 2 * module(x, b=b))
    got = torch.autograd.grad(z.sum(), (x, b))
    for a, e in zip(got, torch.autograd.grad(2 * module(x, b=b).sum(), (x, b)), strict=True):
        torch.testing.assert_close(a, e)


def test_an_exported_program_runs_in_another_process(tmp_path: Path) -> None:
    module, x = rh.Projection(rh.convex(5) & rh.box(-1, 1), weights=[1.0, 2, 3, 4, 5]), torch.randn(3, 5)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    torch.export.save(program, tmp_path / "program.pt2")
    torch.save((x, module(x)), tmp_path / "points.pt")
    code = (
        "import sys, torch, rayhull.projection.module\n"
        "x, z = torch.load(sys.argv[2])\n"
        "run = torch.export.load(sys.argv[1]).module()\n"
        "assert torch.equal(run(x), z) and run(x[:2]).shape == (2, 5)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "program.pt2", tmp_path / "points.pt"], check=True)


def test_a_checkpoint_of_another_set_is_refused() -> None:
    with pytest.raises(RuntimeError, match="another set"):
        rh.Projection(rh.monotone(3)).load_state_dict(rh.Projection(rh.convex(3)).state_dict())


@needs_core
def test_a_warm_start_gives_the_same_points_in_fewer_steps() -> None:
    P = rh.convex(40)
    module, x = rh.Projection(P, warm_start=True), points(P, 20)
    _, first = module(x, return_info=True)
    again, second = module(x + 1e-6, return_info=True)
    torch.testing.assert_close(again, rh.project(P, x + 1e-6), atol=1e-12, rtol=0)
    assert second.steps.sum() < first.steps.sum() / 3
    assert module(x[:3]).shape == (3, 40)  # other samples: no warm start, no error


@pytest.mark.parametrize(("name", "n"), [("dense", 64), ("increasing", 6000), ("tiles", 9000)])
def test_threads_give_the_same_points(name: str, n: int) -> None:
    P, before = SETS[name], torch.get_num_threads()
    x = points(P, n)
    try:
        torch.set_num_threads(1)
        z = rh.project(P, x)
        torch.set_num_threads(2)
        torch.testing.assert_close(rh.project(P, x), z, atol=0, rtol=0)
    finally:
        torch.set_num_threads(before)


def test_bad_input_is_refused_with_what_came() -> None:
    P = rh.monotone(3)
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="sample 1"):
            rh.project(P, torch.tensor([[0.0, 1, 2], [0, value, 2]]))
    with pytest.raises(ValueError, match=r"\(\*, 3\), got \(2, 4\)"):
        rh.project(P, torch.zeros(2, 4))
    with pytest.raises(TypeError, match="int64"):
        rh.project(P, torch.zeros(2, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="solver must be one of auto"):
        rh.project(P, torch.zeros(3), solver="osqp")
    with pytest.raises(ValueError, match="weights"):
        rh.project(P, torch.zeros(3), weights=[1, 0, 1])
    with pytest.raises(ValueError, match="b must have shape"):
        rh.project(P, torch.zeros(4, 3), b=torch.zeros(3, 2))
    with pytest.raises(ValueError, match="b must hold numbers"):
        rh.project(P, torch.zeros(4, 3), b=torch.full((2,), torch.nan))
    with pytest.raises(ValueError, match="infeasible"):
        rh.project(P, torch.zeros(3), infeasible="ignore")


def test_a_block_of_the_first_coordinates_is_exported() -> None:
    """Its formula takes and writes these coordinates alone, in the order in which they stand."""
    module, x = rh.Projection(rh.Polyhedron([[1, 1, 0, 0], [0, 0, 1, 2]], [1, 1])), 3 * torch.randn(5, 4)
    torch.testing.assert_close(torch.export.export(module, (x,)).module()(x), module(x))


@pytest.mark.parametrize("P", [rh.Polyhedron(A_eq=[[1, 2, 3]], b_eq=[1]), rh.monotone(4)], ids=str)
def test_constants_made_in_inference_serve_training(P: rh.Polyhedron) -> None:
    x = torch.randn(3, *P.shape)
    with torch.inference_mode():
        formula = formula_of(rh.Projection(P).projector)
        assert formula is not None
        z = formula(x, {})
    x.requires_grad_()
    again = formula(x, {})
    assert torch.equal(again, z)
    again.sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(rh.project(P, x).sum(), x)[0])
