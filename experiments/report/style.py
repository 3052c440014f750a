"""One look for every figure: a colour for each method throughout, readable labels, no clutter."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

COLOURS = {
    "paper": "#D55E00",
    "constrained": "#0072B2",
    "projection": "#009E73",
    "leak": "#56B4E9",
    "ttp": "#CC79A7",
    "alternating": "#E69F00",
    "lagrangian": "#8C564B",
    "penalty": "#7F7F7F",
    "unconstrained": "#555555",
    "optimum": "#000000",
    "optnet": "#56B4E9",
    "softmax": "#D55E00",
    "shrink": "#0072B2",
    "vertices-softmax": "#D55E00",
    "vertices-softplus": "#E69F00",
    "vertices-sparsemax": "#CC79A7",
    "vertices-entmax": "#8C564B",
    "vertices-abs": "#56B4E9",
}
NAMES = {
    "paper": "the paper's layer",
    "constrained": "rayhull.Constrained",
    "projection": "trained through the nearest point",
    "leak": "trained through the nearest point, with a leak",
    "ttp": "test-time projection",
    "alternating": "alternating (Pathak et al.)",
    "lagrangian": "Lagrangian (Márquez-Neila et al.)",
    "optimum": "optimum: the nearest point itself",
    "optnet": "OptNet",
    "vertices-softmax": "softmax over vertices",
    "vertices-softplus": "softplus over vertices",
    "vertices-sparsemax": "sparsemax over vertices",
    "vertices-entmax": "entmax over vertices",
    "vertices-abs": "absolute values over vertices",
}
_LINES = ("-", "--", ":", "-.")
DPI = 130


def colour(method: str) -> str:
    """The method's colour, the same in every figure; grey for one that has none yet."""
    return COLOURS.get(method, "#999999")


def full_name(method: str) -> str:
    """The method as a reader knows it."""
    return NAMES.get(method, method)


def timed_name(case: Mapping[str, Any]) -> str:
    """The label of a timed case with its method's full name."""
    return str(case["label"]).replace(case["method"], full_name(case["method"]), 1)


def line_style(position: int) -> str:
    """Tells apart several curves of one method."""
    return _LINES[position % len(_LINES)]


def pyplot() -> Any:
    """matplotlib without a window, with our defaults."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "figure.constrained_layout.use": True,
        }
    )
    return plt


def rendered(figure: Any, kind: str = "png") -> bytes:
    """The figure as the bytes of a PNG, SVG or PDF file, the same bytes each time."""
    buffer = io.BytesIO()
    undated = {"png": None, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with pyplot().rc_context({"svg.hashsalt": "rayhull", "svg.fonttype": "none"}):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=undated)
    return buffer.getvalue()


def show_image(axes: Any, image: Any, title: str = "") -> None:
    """A picture in grey, -1 black and 1 white, with its title."""
    axes.imshow(image, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if title:
        axes.set_title(title, fontsize=8)
