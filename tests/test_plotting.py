"""Pictures: hull order, windows, projections and sections, and that files come out."""

import subprocess
import sys

import numpy as np
import pytest

import rayhull as rh
from rayhull.sets.description import _traced, outline, projection, ring, section
from tests.zoo import ZOO, cross_polytope

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def area(points):
    """The area of a polygon whose corners go around (the shoelace formula)."""
    x, y = points.T
    return abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


@pytest.mark.parametrize("seed", range(8))
def test_corners_go_around_the_hull_once(seed):
    rng = np.random.default_rng(seed)
    P = rh.Polyhedron(rng.standard_normal((7, 2)), rng.random(7) + 0.1, lower=-1, upper=1)
    V = P.generators().vertices
    order = ring(V)
    assert sorted(order) == list(range(len(V)))
    assert np.isclose(area(V[order]), P.volume())


def test_points_inside_or_on_an_edge_are_no_corners():
    square = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])
    assert len(ring(np.concatenate([square, [[1, 1], [1, 0], [0, 1]]]))) == 4


@pytest.mark.parametrize("d", [3, 4])
def test_a_projection_is_the_shadow_of_the_set(d):
    P = cross_polytope(d)
    found = projection(P, np.array([0, d - 1]), None, np.zeros((0, 2)))
    assert np.isclose(area(found.corners[found.faces[0]]), 2)
    traced = _traced(P, np.array([0, d - 1]), None, np.zeros((0, 2)))
    assert np.isclose(area(traced.corners[traced.faces[0]]), 2)


def test_a_section_keeps_the_other_coordinates():
    P = cross_polytope(3)
    half = section(P, np.array([0, 1]), np.array([0, 0, 0.5]))
    assert np.isclose(half.volume(), 0.5)
    with pytest.raises(rh.EmptySetError):
        section(P, np.array([0, 1]), np.array([0, 0, 2.0]))


def test_a_section_through_a_point_outside_is_empty_whatever_is_shown():
    with pytest.raises(rh.EmptySetError, match=r"section is empty: upper bound of x\[2\] is broken"):
        rh.box(0, 1, 4).plot((0, 1), at=[0, 0, 5, 0])
    third = rh.sum_to(1, 3) & rh.Polyhedron(A_eq=[[0, 0.1, 0.2]], b_eq=[0.3])
    assert rh.product(third, rh.box(0, 1, 2)).plot((3, 4), at=[-1, 1, 1, 0, 0])  # met up to rounding


@pytest.mark.parametrize(
    ("d", "options", "message"),
    [
        (2, {"window": 3}, "two corners .* of 2 numbers or one each, got 3"),
        (2, {"window": (1, 0)}, "two corners"),
        (4, {"coordinates": (0, 0)}, "different coordinates"),
        (4, {"coordinates": (0, 1.7)}, "out of range"),
        (4, {"coordinates": (0, 1), "at": [0, 0]}, r"points must have shape \(\*, 4\)"),
        (1, {}, "the set has one"),
    ],
)
def test_a_picture_that_cannot_be_is_refused(d, options, message):
    with pytest.raises(ValueError, match=message):
        rh.nonnegative(d).plot(**options)


def test_faces_in_space_close_up():
    found = outline((rh.box(0, 1, 3) & rh.Polyhedron([[2, 2, 2]], 5)).generators(), None, np.zeros((0, 3)))
    sizes = sorted(len(face) for face in found.faces)
    assert sizes == [3, 4, 4, 4, 5, 5, 5]
    corners, edges = len(found.true_corners()), len(found.edges())
    assert corners - edges + len(found.faces) == 2  # Euler


def test_an_unbounded_set_is_clipped_and_its_window_makes_no_edges():
    found = outline(rh.nonnegative(2).generators(), np.array([[-1.0, -1], [2, 2]]), np.zeros((0, 2)))
    assert len(found.corners) == 4
    assert found.corners[found.true_corners()].tolist() == [[0, 0]]
    assert len(found.edges()) == 2
    strip = outline(rh.parse("x + y <= 1; x + y >= -1").generators(), None, np.zeros((0, 2)))
    assert len(strip.edges()) == 2
    assert not len(strip.true_corners())


@pytest.mark.parametrize("name", ["triangle", "halfspaces", "far from the origin", "simplex", "whole space", "convex"])
@pytest.mark.parametrize("pick", [(0, 1), (1, 0, 2)])
def test_sets_are_drawn_to_files(name, pick, tmp_path):
    P = ZOO[name]()
    pick = pick if P.dim > 2 else (0, 1)
    points = np.random.default_rng(0).standard_normal((30, *P.shape))
    ax = P.plot(pick, points=points)
    for ending in ("png", "svg"):
        ax.figure.savefig(tmp_path / f"set.{ending}")
        assert (tmp_path / f"set.{ending}").stat().st_size > 2000
    assert ax.get_xlabel() == f"x[{pick[0]}]"


def test_named_coordinates_are_picked_and_labelled():
    P = rh.parse("coal + gas + wind == 100; coal <= 2*gas; coal >= 0; gas >= 0; 0 <= wind <= 40")
    ax = P.plot(("coal", "wind"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("coal", "wind")
    assert P.plot().name == "3d"
    with pytest.raises(ValueError, match="no coordinate 'oil'"):
        P.plot(("coal", "oil"))
    with pytest.raises(ValueError, match="the set has 6: name them, as in plot\\(\\('x\\[0\\]', 'x\\[1\\]'\\)\\)"):
        rh.monotone(6).plot()
    with pytest.raises(ValueError, match="projection="):
        P.plot(ax=plt.figure().add_subplot())
    with pytest.raises(ValueError, match="out of range"):
        P.plot((0, 7))


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "import rayhull as rh\n"
        "try: rh.box(0, 1, 2).plot()\n"
        "except rh.errors.MissingExtraError as error: print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'rayhull[plot]'" in out.stdout


def test_points_in_single_precision_are_judged_up_to_their_own_rounding(monkeypatch):
    import torch

    judged = []
    monkeypatch.setattr("rayhull.sets.plotting.draw_points", lambda ax, x, inside: judged.extend(inside))
    P = rh.Polyhedron([[1.0, 3.0]], [0.1], lower=-1, upper=1)
    torch.manual_seed(0)
    P.plot(points=rh.Constrained(4, P)(100 * torch.randn(500, 4)))
    assert len(judged) == 500
    assert all(judged)


@pytest.mark.parametrize(
    "make", [lambda P: P, lambda P: P & rh.ball(1, d=P.dim), rh.MapInto, rh.Projection, lambda P: rh.Constrained(3, P)]
)
def test_a_notebook_shows_a_drawing_in_the_plane_and_else_the_rules(make):
    drawn = make(rh.Polyhedron([[1, 1]], [1], lower=0))._repr_html_()
    assert drawn.rstrip().endswith("</svg>")
    listed = make(rh.parse("fuel: 3*coal + 2*gas <= 3; coal + gas + oil == 0"))._repr_html_()
    assert "<td>fuel</td><td><code>3*coal + 2*gas &lt;= 3</code>" in listed
    assert "<td></td><td><code>coal + gas + oil == 0</code>" in listed


def test_a_notebook_shows_bounds_and_cones_too():
    P = rh.parse("coal + gas + wind == 100; 0 <= wind <= 40; coal >= 1/3; gas <= 2")
    for bound in ("0 &lt;= wind &lt;= 40", "1/3 &lt;= coal", "gas &lt;= 2"):
        assert f"<code>{bound}</code>" in P._repr_html_()
    x = rh.variables("x", shape=3)
    assert "<code>risk</code>" in rh.rules((rh.norm(x) <= 1).named("risk"), x >= 0)._repr_html_()
    assert "<code>0 &lt;= x[2]</code>" in rh.rules((rh.norm(x) <= 1).named("risk"), x >= 0)._repr_html_()


def test_a_notebook_shows_the_first_rules_of_many():
    assert "and 3 more" in rh.monotone(12)._repr_html_()
    assert "and 4 more" in rh.box(0, 1, 12)._repr_html_()


def test_without_matplotlib_a_notebook_shows_the_rules():
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "import rayhull as rh\n"
        "print(rh.Polyhedron([[1, 1]], [1], lower=0)._repr_html_())\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "x[0] + x[1] &lt;= 1" in out.stdout
