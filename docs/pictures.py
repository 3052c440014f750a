"""Pictures of README and guide: python docs/pictures.py writes docs/_static/readme.png and ways.png.

The first, left: a set in the plane with its vertices and rays, and where a layer sends random coefficients. Right:
digits of the page's two decoders (web/models), at the same latent points; each network has a plane of its own. The
second: what each way into a set does to a grid.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import torch

import rayhull as rh

ROOT = Path(__file__).parent.parent
COLUMNS = 6


def main() -> None:
    figure = plt.figure(figsize=(9.6, 3.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 2])
    draw_set(left.subplots())
    draw_digits(right.subplots(2, COLUMNS))
    figure.savefig(ROOT / "docs" / "_static" / "readme.png", dpi=110)
    draw_ways()


def draw_ways() -> None:
    """Points around a set, and where each way takes them."""
    P = rh.Polyhedron([[1, 4], [-2, 1], [1, -5]], [2, 2, 2])
    t = torch.linspace(0, 2 * torch.pi, 48)[:-1]
    around = torch.stack([0.2 + 2.6 * t.cos(), 1.5 * t.sin()], 1)
    ways = {'"shrink"': {"method": "shrink"}, "steps=3": {"steps": 3}, '"nearest"': {"method": "nearest"}}
    figure, axes = plt.subplots(1, len(ways), figsize=(10, 2.6), sharey=True, layout="constrained")
    for ax, (title, options) in zip(axes, ways.items(), strict=True):
        into = rh.MapInto(P, **options)
        landed = into(into.coefficients_of(around)).detach()
        P.plot(ax=ax, window=((-2.8, -1.7), (3.2, 1.7)))
        ax.plot(*torch.stack([around, landed]).permute(2, 0, 1).numpy(), color="tab:orange", lw=0.8)
        ax.scatter(*landed.T, s=10, color="tab:red", zorder=3)
        ax.set(title=title, xlabel="", ylabel="")
    figure.savefig(ROOT / "docs" / "_static" / "ways.png", dpi=110)


def draw_set(axes: plt.Axes) -> None:
    """A set with two vertices and two rays, and the outputs of a layer."""
    torch.manual_seed(0)
    x, y = rh.variables("x", "y")
    P = rh.rules(y >= -1, x - y <= 2, -3 * x - y <= 3, y - 3 * x <= 4)
    into = rh.MapInto(P)
    points = into(1.2 * torch.randn(250, into.coefficients))
    assert P.contains(points).all()
    P.plot(ax=axes, points=points, window=((-3, -2), (6, 7)))
    axes.set_title("a set, its rays, a layer's outputs", fontsize=9)


def draw_digits(rows: np.ndarray) -> None:
    """One row of digits for each decoder."""
    angle = np.linspace(0.3, 5.5, COLUMNS)
    z = np.stack([1.1 * np.cos(angle), 1.1 * np.sin(angle)], 1).astype(np.float32)
    P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
    for name, title, axes in zip(("free", "constrained"), ("free decoder", "on a checkerboard"), rows, strict=True):
        session = onnxruntime.InferenceSession(ROOT / "web" / "models" / f"{name}.onnx")
        images = session.run(None, {session.get_inputs()[0].name: z})[0].reshape(-1, 28, 28)
        assert name == "free" or P.contains_exactly(images).all()
        for ax, image in zip(axes, images, strict=True):
            ax.imshow(image, cmap="gray", vmin=-1, vmax=1)
            ax.set(xticks=[], yticks=[])
        axes[0].set_ylabel(title, fontsize=9)


if __name__ == "__main__":
    main()
