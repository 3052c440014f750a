"""Sets and their generators: state, look, convert, go back."""

from fractions import Fraction

import rayhull as rh

P = rh.Polyhedron([[Fraction(1, 3), 1], [2, 1]], [1, 2], lower=0, names=["labour", "material"])
print(P.describe())

G = P.generators()
print(G)
for vertex in G.exact_vertices:
    print("  vertex", *vertex)

back = G.to_polyhedron()
print("back again:", back)
print("the same set:", all(back.contains(P.sample(100, seed=0))) and all(P.contains(back.sample(100, seed=0))))

try:
    P & rh.Polyhedron([[-1, -1]], [-5], names=["demand"])
except rh.EmptySetError as error:
    print("refused:", error)

try:
    rh.ordered(None, (28, 28)).generators(max_generators=10_000)
except rh.BudgetExceededError as error:
    print("refused:", error)
