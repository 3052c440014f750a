"""What an exported layer gives, target by target: python -m benchmarks.exports [--only TARGET ...] [--missing].

Each cell: the largest difference to the layer in torch, the share of samples outside in rational arithmetic
(inequalities and bounds), and the size of the file. JAX and ExecuTorch may live in environments of their own: cells of
targets that are not installed here stay as they were measured there, and the results name the machine of each column.
With ``--missing`` the cells that are there stay, too: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks.device import storage
from benchmarks.harness import RESULTS, machine, save, table
from rayhull.nn.export import to_onnx

N, FEATURES = 1000, 8
NOT_RUN = {"left out": "not run"}
Sides = dict[str, Tensor]
Run = Callable[[Tensor, Sides], Any]


# -- layers ----------------------------------------------------------------------------------------------------------


def dense() -> rh.Polyhedron:
    rng = np.random.default_rng(0)
    return rh.Polyhedron(rng.standard_normal((30, 50)), rng.random(30) + 0.5, lower=-1, upper=1)


def dispatch() -> rh.Polyhedron:
    return rh.Polyhedron([[1, -2, 0]], 0, A_eq=[[1, 1, 1]], b_eq=3, lower=0, upper=[4, 3, 2])


SETS: dict[str, tuple[Callable[[], rh.Polyhedron], dict[str, Any], dict[str, tuple[float, float]]]] = {
    "checkerboard 8x8 in a box": (
        lambda: rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-1, 1),
        {},
        {"upper": (0.5, 1)},
    ),
    "monotone 9 in a box": (lambda: rh.monotone(9) & rh.box(0, 1), {}, {"b": (0.0, 0.1)}),
    "30 rows in R^50 and a box": (dense, {"method": "steps"}, {"b": (0.5, 1.5)}),
    "dispatch": (dispatch, {"method": "steps", "varies": {"b_eq": (2.0, 5.0)}}, {"b_eq": (2.0, 5.0)}),
    "convex 12": (lambda: rh.convex(12), {"varies": {"b": (0.0, 0.1)}}, {"b": (0.0, 0.1)}),
    "storage of 12 hours": (lambda: storage(12), {"varies": {"b": (1.5, 2.5)}}, {"b": (1.5, 2.5)}),
}  # the set, how the layer is built, and the ranges of a side of the sample


def cases() -> dict[str, tuple[rh.Constrained, Sides]]:
    """Layers plain and strict, and with a side of the sample; where its base point is proven, strict too."""
    made, random = {}, torch.Generator().manual_seed(0)
    for name, (build, options, ranges) in SETS.items():
        P = build()
        shapes = {"upper": P.shape, "b": (len(P.inequalities),), "b_eq": (len(P.equalities),)}
        sides = {
            side: low + (high - low) * torch.rand(N, *shapes[side], generator=random)
            for side, (low, high) in ranges.items()
        }
        for kind in ("plain", "strict", "sides"):
            if kind != "sides" or sides:
                torch.manual_seed(0)
                strict = kind == "strict" or (kind == "sides" and "varies" in options)
                layer = rh.Constrained(FEATURES, P, strict=strict, **options).eval()
                label = f"{', '.join(sides)} of the sample{', strict' if strict else ''}" if kind == "sides" else kind
                made[f"{name}, {label}"] = (layer, sides if kind == "sides" else {})
    return made


# -- targets: a layer and its sides → the function that runs it, and the bytes of its file -----------------------------


def exported(layer: rh.Constrained, sides: Sides) -> torch.export.ExportedProgram:
    layer.map.prepare()
    batch = torch.export.Dim("batch", max=N)
    dynamic = {name: {0: batch} for name in ("features", *sides)}
    two = {name: side[:2] for name, side in sides.items()}
    return torch.export.export(layer, (torch.zeros(2, FEATURES),), two, dynamic_shapes=dynamic)


def by_export(layer: rh.Constrained, sides: Sides, folder: Path) -> tuple[Run, Path]:
    torch.export.save(exported(layer, sides), folder / "layer.pt2")
    module = torch.export.load(folder / "layer.pt2").module()
    return lambda h, sides: module(h, **sides), folder / "layer.pt2"


def by_onnx(layer: rh.Constrained, sides: Sides, folder: Path) -> tuple[Run, Path]:
    import onnxruntime

    path = to_onnx(layer, FEATURES, folder / "layer.onnx", sides=tuple(sides))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda h, sides: session.run(None, {"features": h.numpy(), **numbers(sides)})[0], path


def by_inductor(layer: rh.Constrained, sides: Sides, folder: Path) -> tuple[Run, Path]:
    path = torch._inductor.aoti_compile_and_package(exported(layer, sides), package_path=str(folder / "layer.pt2"))
    module = torch._inductor.aoti_load_package(path)
    return lambda h, sides: module(h, **sides), Path(path)


def by_executorch(layer: rh.Constrained, sides: Sides, folder: Path) -> tuple[Run, Path]:
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.runtime import Runtime

    config = EdgeCompileConfig(_check_ir_validity=False)
    path = folder / "layer.pte"
    path.write_bytes(to_edge(exported(layer, sides), compile_config=config).to_executorch().buffer)
    program = Runtime.get().load_program(path)
    kept = program, program.load_method("forward")  # both: a method reads the program's memory
    return lambda h, sides: kept[1].execute([h, *sides.values()])[0].clone(), path


def by_jax(layer: rh.Constrained, sides: Sides, folder: Path) -> tuple[Run, None]:
    import jax

    jax.config.update("jax_enable_x64", True)
    parameters, apply = rh.to_jax(layer, sides=tuple(sides))
    run = jax.jit(apply)
    return lambda h, sides: np.asarray(run(parameters, h.numpy(), **numbers(sides))), None


def by_numpy(layer: rh.Constrained, sides: Sides, folder: Path) -> tuple[Run, Path]:
    program = rh.to_numpy(layer, sides=tuple(sides))
    return lambda h, sides: program(h.numpy(), **numbers(sides)), program.save(folder / "layer.npz")


def numbers(sides: Sides) -> dict[str, Any]:
    return {name: side.numpy() for name, side in sides.items()}


TARGETS: dict[str, Callable[[rh.Constrained, Sides, Path], tuple[Run, Path | None]]] = {
    "torch.export": by_export,
    "ONNX Runtime": by_onnx,
    "NumPy": by_numpy,
    "JAX": by_jax,
    "ExecuTorch": by_executorch,
    "AOTInductor": by_inductor,
}
NEEDS = {"ONNX Runtime": "onnxruntime", "JAX": "jax", "ExecuTorch": "executorch"}
Column = Mapping[str, Mapping[str, Any]]  # layer → what was found


# -- the table -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def measured(target: str, layer: rh.Constrained, sides: Sides) -> dict[str, Any]:
    """The largest difference to torch, the share outside exactly, and the bytes of the file."""
    h = torch.randn(N, FEATURES, generator=torch.Generator().manual_seed(1)) * torch.logspace(-1, 2, N)[:, None]
    with tempfile.TemporaryDirectory() as folder:
        try:
            run, path = TARGETS[target](layer, sides, Path(folder))
        except (RuntimeError, rh.RayhullError) as error:
            return {"left out": str(error).splitlines()[0].split(":")[0]}
        x = torch.as_tensor(run(h, sides)).clone()
        size = None if path is None else path.stat().st_size
    P = layer.polyhedron
    judge = rh.Polyhedron(P.A, P.b, lower=P.lower, upper=P.upper, shape=P.shape) if len(P.inequalities) else P
    own = {name: side for name, side in sides.items() if name != "b_eq"}
    outside = 1 - float(judge.contains_exactly(x, **own).double().mean())
    return {"difference": float((x - layer(h, **sides)).abs().max()), "outside": outside, "bytes": size}


def report(columns: Mapping[str, Column]) -> str:
    names = dict.fromkeys(case for column in columns.values() for case in column)
    rows = [[case, *(cell(columns.get(target, {}).get(case, NOT_RUN)) for target in TARGETS)] for case in names]
    return table(rows, ["layer", *TARGETS])


def cell(found: Mapping[str, Any]) -> str:
    if "left out" in found:
        return f"left out: {found['left out']}"
    size = "" if found["bytes"] is None else f", {found['bytes'] / 1000:.0f} kB"
    return f"{found['difference']:.0e}, {found['outside']:.1%}{size}"


def load() -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns that were measured, and the machine of each."""
    path = RESULTS / "exports.json"
    kept = json.loads(path.read_text()) if path.exists() else {"columns": {}, "machines": {}}
    return kept["columns"], kept["machines"]


def measure_column(target: str, layers: Mapping[str, tuple[rh.Constrained, Sides]], known: Column) -> None:
    """The cells of a column that are not known; each is kept as soon as it is there."""
    for case, (layer, sides) in layers.items():
        found = known.get(case) or measured(target, layer, sides)
        columns, machines = load()  # another environment may have added its own
        columns[target] = {**columns.get(target, {}), case: found}
        columns[target] = {name: columns[target][name] for name in layers if name in columns[target]}
        print(f"{target}: {case}: {cell(found)}", flush=True)
        save("exports", {"samples": N, "columns": columns, "machines": machines | {target: machine()}})
        (RESULTS / "exports.md").write_text(report(columns) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(TARGETS), choices=list(TARGETS), metavar="TARGET")
    parser.add_argument("--missing", action="store_true", help="keep the cells that are there")
    given, layers = parser.parse_args(), cases()
    for target in given.only:
        if find_spec(NEEDS.get(target, "torch")) is None:
            print(f"{target} is not installed here: its column stays as it is.")
        else:
            measure_column(target, layers, load()[0].get(target, {}) if given.missing else {})


if __name__ == "__main__":
    main()
