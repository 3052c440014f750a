"""
Looking at polyhedra: double description, step by step
======================================================

A layer is built from the rays of a cone. The double description method finds them by
adding one half-space after the other: rays on the wrong side go, and each edge that the
new plane cuts leaves a new ray.
"""

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np

import rayhull as rh

# %%
# A cone in three dimensions, seen in the plane z = 1, where its rays are points: first
# two half-spaces, then more.
angle = np.array([0.3, 2.4, 4.4, 1.2, 3.4, 5.4])
rows = np.stack([np.cos(angle), np.sin(angle), -np.ones(6)], 1)


def rays_after(k: int) -> np.ndarray:
    """The points where the rays of the first k rows meet the plane z = 1, in the order
    around the cone.
    """
    rays = rh.Polyhedron(rows[:k]).generators().rays
    points = rays[:, :2] / rays[:, 2:]
    middle = points.mean(0)
    return points[np.argsort(np.arctan2(*(points - middle).T))]


fig, axes = plt.subplots(1, 4, figsize=(10, 2.9), sharey=True, layout="constrained")
for k, ax in enumerate(axes, 3):
    before, now = rays_after(max(3, k - 1)), rays_after(k)
    ax.fill(*before.T, color="0.93")
    ax.fill(*now.T, color="tab:blue", alpha=0.35)
    ax.scatter(*now.T, color="tab:blue", zorder=3)
    normal, t = rows[k - 1, :2], np.array([-4, 4])
    ax.plot(normal[0] - t * normal[1], normal[1] + t * normal[0], color="tab:orange")
    ax.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal")
    ax.set_title(f"{k} half-spaces, {len(now)} rays", fontsize=9)
plt.show()

# %%
# In exact arithmetic, with names, and back again.
P = rh.Polyhedron(
    [[Fraction(1, 3), 1], [2, 1]], [1, 2], lower=0, names=["labour", "material"]
)
G = P.generators()
print(G)
for vertex in G.exact_vertices:
    print("  vertex", *vertex)
back = G.to_polyhedron()
print(
    "the same set:",
    all(back.contains(P.sample(100, seed=0)))
    and all(P.contains(back.sample(100, seed=0))),
)

# %%
# An empty set is refused, and a conversion that explodes is stopped. Each error says
# what to do next.
for refused in (
    lambda: P & rh.Polyhedron([[-1, -1]], [-5], names=["demand"]),
    lambda: rh.ordered(None, (28, 28)).generators(max_generators=10_000),
):
    try:
        refused()
    except rh.RayhullError as error:
        print("refused:", error)
