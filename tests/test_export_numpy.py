"""Layers and whole networks by NumPy alone: what torch gives, strict where the layer is, and messages that help."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rayhull as rh
from rayhull.nn import arrays
from tests.exporting import KINDS, a_day, dispatch, exportable, features, inequalities, near
from tests.zoo import ZOO


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_numpy_gives_what_torch_gives_and_stays_strict(kind: str, strict: bool) -> None:
    P, h = KINDS[kind](), features()
    layer = exportable(P, strict=strict).eval()
    x = rh.to_numpy(layer)(h.numpy())
    assert x.dtype == np.float32
    assert near(x, layer(h))
    assert not strict or bool(inequalities(P).contains_exactly(x).all())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "steps"])
@pytest.mark.parametrize("name", ZOO)
def test_no_operation_of_any_set_is_missing(name: str, method: str) -> None:
    P, h, strict = ZOO[name](), features(), name != "implicit equality"
    layer = exportable(P, strict=strict, method=method).eval()
    x = rh.to_numpy(layer.fold())(h.numpy())
    assert near(x, layer(h), 5e-4)  # each within 2e-4 of float64, on the long chain
    assert not strict or bool(inequalities(P).contains_exactly(x).all())


@pytest.mark.parametrize("options", [{"simplex": "sparsemax"}, {"simplex": "entmax"}, {"simplex": "softplus"}], ids=str)
def test_other_weights_of_vertices_are_there_too(options: dict[str, str]) -> None:
    layer = rh.Constrained(4, rh.simplex(5), method="vertices", **options).eval()
    assert near(rh.to_numpy(layer)(features().numpy()), layer(features()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_other_dtypes_stay_what_they_are(dtype: torch.dtype) -> None:
    P = rh.monotone(5) & rh.box(-1, 1)
    layer, h = rh.Constrained(4, P, dtype=dtype, strict=True), features(dtype=dtype)
    x = rh.to_numpy(layer)(h.numpy())
    assert str(x.dtype) == str(dtype).removeprefix("torch.")
    assert near(x, layer.eval()(h), 1e-12 if dtype == torch.float64 else 1e-2)
    assert bool(P.contains_exactly(x).all())


def network() -> nn.Sequential:
    torch.manual_seed(0)
    body = [nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.BatchNorm1d(8), nn.SiLU(), nn.Linear(8, 8)]
    body += [nn.ELU(), nn.LeakyReLU(), nn.Softplus(), nn.Sigmoid(), nn.Tanh(), nn.ReLU(), nn.Dropout(), nn.Softmax(-1)]
    return nn.Sequential(*body, rh.Constrained(8, rh.monotone(5) & rh.box(-1, 1), batch_norm=True))


def test_a_whole_network_is_a_program_and_stays_in_its_mode() -> None:
    model, h = network(), features()
    program = rh.to_numpy(model)
    assert model.training
    assert near(program(h.numpy()), model.eval()(h))


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = rh.Constrained(6, rh.box(0, 9, 3))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        norms = [torch.linalg.vector_norm(h, order, dim=-1) for order in (0, 1, 2, 3, torch.inf, -torch.inf)]
        return self.head(torch.stack(norms, -1))


def test_norms_keep_their_order() -> None:
    model, h = Norms().eval(), features()
    assert near(rh.to_numpy(model, h)(h.numpy()), model(h))


def test_a_program_stays_what_it_is_while_its_module_trains_on() -> None:
    layer, h = rh.Constrained(4, rh.box(-1, 1, 3)), features().numpy()
    program = rh.to_numpy(layer)
    x = program(h)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.add_(1.0)
    assert np.array_equal(program(h), x)


def test_the_batch_may_have_any_dimensions_and_none() -> None:
    layer, h = exportable(KINDS["steps"]()).eval(), features(12)
    program = rh.to_numpy(layer)
    assert near(program(h.reshape(3, 4, 4).numpy()), layer(h).reshape(3, 4, 3))
    assert near(program(h[0].numpy()), layer(h)[0])
    assert program(h[:0].numpy()).shape == (0, 3)


# -- sides -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_sides_of_the_sample_are_inputs(strict: bool) -> None:
    layer, h, day = dispatch(strict=strict), features(), a_day(40)
    given = {name: side.numpy() for name, side in day.items()}
    x = rh.to_numpy(layer, sides=tuple(day))(h.numpy(), **given)
    assert np.isnan(x[0]).all()
    assert near(x[1:], layer(h, **day)[1:], 1e-4)
    judge = inequalities(layer.polyhedron)
    assert not strict or bool(judge.contains_exactly(x[1:], upper=given["upper"][1:]).all())
    one = rh.to_numpy(layer, sides=tuple(day))(h.numpy(), b_eq=given["b_eq"][5], upper=given["upper"][5])
    assert near(one, layer(h, **{name: side[5].expand(40, -1) for name, side in day.items()}), 1e-4)


def test_a_side_that_is_missing_unknown_or_of_another_dtype_is_named() -> None:
    program, h = rh.to_numpy(dispatch(), sides=("b_eq",)), features(3).numpy()
    with pytest.raises(TypeError, match=r"takes features, b_eq: b_eq is missing. Sides are named when it is made"):
        program(h)
    with pytest.raises(TypeError, match="there is no upper"):
        program(h, b_eq=np.ones((3, 1), np.float32), upper=np.ones(3))
    with pytest.raises(TypeError, match="expected b_eq in float32, as the layer is, got float64: cast it"):
        program(h, b_eq=np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"expected features of shape \(\*, 4\), got \(3, 5\)"):
        program(np.ones((3, 5)), b_eq=np.ones((3, 1), np.float32))


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_saved_program_runs_where_there_is_neither_torch_nor_rayhull(tmp_path: Path) -> None:
    layer, h = exportable(KINDS["several kinds"](), strict=True).eval(), features().numpy()
    program = rh.to_numpy(layer)
    program.save(tmp_path / "layer.npz")
    np.save(tmp_path / "h.npy", h)
    shutil.copy(arrays.__file__, tmp_path)
    code = (
        "import sys, numpy as np; sys.modules['torch'] = sys.modules['rayhull'] = None\n"
        "from arrays import load; np.save('x.npy', load('layer.npz')(np.load('h.npy')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={"PATH": "", "PYTHONPATH": ""})
    assert np.array_equal(np.load(tmp_path / "x.npy"), program(h))


def test_other_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    with pytest.raises(ValueError, match="holds arrays, but no graph"):
        arrays.load(tmp_path / "other.npz")
    graph = np.frombuffer(json.dumps({"format": 99}).encode(), np.uint8)
    np.savez(tmp_path / "newer.npz", graph=graph)
    with pytest.raises(ValueError, match="has format 99; this reads up to 1"):
        arrays.load(tmp_path / "newer.npz")


# -- what cannot be --------------------------------------------------------------------------------------------------


class Turning(nn.Module):
    """A layer after an operation that programs lack."""

    def __init__(self) -> None:
        super().__init__()
        self.head = rh.Constrained(4, rh.simplex(3))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return self.head(torch.erfinv(h))


def test_an_operation_that_is_missing_is_named_and_may_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    model, h = Turning().eval(), torch.rand(5, 4) * 0.9
    with pytest.raises(rh.RayhullError, match=r"NumPy have no aten.erfinv.default.*arrays.OPERATIONS\['erfinv'\]"):
        rh.to_numpy(model, h)
    from scipy.special import erfinv

    monkeypatch.setitem(arrays.OPERATIONS, "erfinv", lambda xp, x: erfinv(x))
    assert near(rh.to_numpy(model, h)(h.numpy()), model(h))


def test_a_solver_is_no_part_of_a_program() -> None:
    with pytest.raises(rh.RayhullError, match=r'iterative solver, which no program for NumPy holds.*method="steps"'):
        rh.to_numpy(nn.Sequential(nn.Linear(4, 4), rh.Projection(rh.convex(4), weights=[1, 2, 3, 4])))


def test_what_numpy_or_the_module_does_not_say_is_asked_for() -> None:
    with pytest.raises(rh.RayhullError, match=r"NumPy has no bfloat16: export the layer in float32"):
        rh.to_numpy(rh.Constrained(4, rh.simplex(3), dtype=torch.bfloat16))
    flat = nn.Sequential(nn.Flatten(), rh.Constrained(4, rh.simplex(3))).eval()
    with pytest.raises(rh.RayhullError, match="does not begin with a Linear or a layer: give example="):
        rh.to_numpy(flat)
    h = torch.randn(5, 2, 2)
    assert near(rh.to_numpy(flat, h)(h.numpy()), flat(h))


def test_a_program_follows_the_solver_far_from_the_set() -> None:
    into = rh.MapInto(rh.birkhoff(6))
    c = 100 * torch.randn(100, into.coefficients, generator=torch.Generator().manual_seed(0))
    away = (torch.as_tensor(rh.to_numpy(into)(c.numpy())) - into(c)).abs().flatten(1).amax(1)
    assert away.quantile(0.95) < 0.05  # 0.6 with one penalty


def test_a_layer_may_be_exported_twice_and_used_in_between() -> None:
    P = rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1)
    layer = rh.Constrained(4, P, varies={"upper": (0.5, 1.5)}).eval()
    h, upper = torch.randn(2, 4), torch.full((2, 4, 4), 0.75)
    torch.export.export(layer, (h,), {"upper": upper})
    assert near(rh.to_numpy(layer, sides=("upper",))(h.numpy(), upper=upper.numpy()), layer(h, upper=upper))


def test_a_program_meets_a_row_from_far_away_too() -> None:
    P = rh.checkerboard((8, 8), tiles=(4, 4)) & rh.box(-1, 1)
    torch.manual_seed(0)
    program = rh.to_numpy(rh.Constrained(64, P).eval())
    x = program(1e3 * torch.randn(2000, 64).numpy())
    assert P.contains(np.asarray(x)).all()
