// A partial order: halfway between the least majorant and the greatest minorant, then between bounds, for eight samples at
// once. maps/order.py is the definition.
#pragma once

#include "chain.hpp"

#include <algorithm>

namespace rayhull::layer {

// For points of type T.
template <class T>
class PartialOrder {
 public:
  // `pairs` (count, 2): x_i <= x_j, each after all that end in its i.
  PartialOrder(int64_t size, int64_t count, const int64_t* pairs, Between bounds)
      : n(size), count(count), pairs(pairs), bounds(bounds) {}

  // u (n) -> x (n), with the majorant and the minorant. Maxima and halves are exact, so that x is in order exactly.
  void forward(const Lanes* u, Lanes* above, Lanes* below, Lanes* x) const {
    std::copy(u, u + n, above), std::copy(u, u + n, below);
    upwards([&](int64_t i, int64_t j) { above[j] = max(above[j], above[i]); });
    downwards([&](int64_t i, int64_t j) { below[i] = min(below[i], below[j]); });
    for (int64_t j = 0; j < n; j++) x[j] = bounds.value<T>(middle(above[j], below[j]));
    if (!bounds.is_free()) upwards([&](int64_t i, int64_t j) { x[j] = max(x[j], x[i]); });  // the function's rounding
  }

  // The gradient in u for the gradient g in x, in place: a maximum passes it on to the coordinate that it came from.
  void backward(const Lanes* u, const Lanes* above, const Lanes* below, Lanes* scratch, Lanes* g) const {
    for (int64_t j = 0; j < n; j++) {
      g[j] *= bounds.slope(middle(above[j], below[j])) * 0.5;
      scratch[j] = g[j];
    }
    downwards([&](int64_t i, int64_t j) { pass((above[j] > u[j]) & (above[i] >= above[j]), scratch[j], scratch[i]); });
    upwards([&](int64_t i, int64_t j) { pass((below[i] < u[i]) & (below[j] <= below[i]), g[i], g[j]); });
    for (int64_t j = 0; j < n; j++) g[j] += scratch[j];
  }

 private:
  int64_t n, count;
  const int64_t* pairs;
  Between bounds;

  static Lanes middle(Lanes above, Lanes below) { return above * 0.5 + below * 0.5; }  // halves first: no overflow

  static void pass(Mask on, Lanes& from, Lanes& to) {
    to += where(on, from, 0.0);
    from = where(on, 0.0, from);
  }

  template <class F>
  void upwards(F each) const {
    for (int64_t k = 0; k < count; k++) each(pairs[2 * k], pairs[2 * k + 1]);
  }

  template <class F>
  void downwards(F each) const {
    for (int64_t k = count - 1; k >= 0; k--) each(pairs[2 * k], pairs[2 * k + 1]);
  }
};

}  // namespace rayhull::layer
