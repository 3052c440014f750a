// One row and bounds: z = clip(u - t a, low, high) with a·z = c, or a·z <= c and t >= 0, for eight samples at once.
#pragma once

#include "lanes.hpp"

#include <cmath>
#include <limits>
#include <optional>

namespace rayhull::layer {

class ClippedShift {
 public:
  ClippedShift(int64_t size, const double* row, const double* low, const double* high, double rhs, bool equality)
      : n(size), a(row), low(low), high(high), c(rhs), equality(equality) {}

  // From u to z; free[j] is 1 where z moves with u, 0 where a bound holds it.
  void forward(const Lanes* u, Lanes* z, Lanes* free) {
    const Lanes t = root(u);
    square = 0.0;
    for (int64_t j = 0; j < n; j++) {
      const Lanes moved = u[j] - t * a[j];
      free[j] = where((moved > low[j]) & (moved < high[j]), 1.0, 0.0);
      z[j] = clip(moved, j);
      square += free[j] * (a[j] * a[j]);
    }
    meets = (square > 0.0) & (equality ? square > 0.0 : t > 0.0);
  }

  // The gradient in u for the gradient g in z, in place.
  void backward(const Lanes* free, Lanes* g) const {
    Lanes along(0.0);
    for (int64_t j = 0; j < n; j++) g[j] *= free[j], along += g[j] * a[j];
    along = where(meets, along / where(meets, square, 1.0), 0.0);
    for (int64_t j = 0; j < n; j++) g[j] -= free[j] * along * a[j];
  }

 private:
  static constexpr double INFINITE = std::numeric_limits<double>::infinity();
  static constexpr int MOST = 100;  // steps; eight or so are usual

  int64_t n;
  const double *a, *low, *high;
  double c;
  bool equality;
  Lanes square;
  Mask meets;

  Lanes clip(Lanes v, int64_t j) const { return min(max(v, low[j]), high[j]); }

  struct Value {
    Lanes excess, slope, rounding;
  };

  // a·z(t) - c falls piecewise linearly in t.
  Value at(const Lanes* u, Lanes t) const {
    Value found{-c, 0.0, std::fabs(c)};
    for (int64_t j = 0; j < n; j++) {
      const Lanes moved = u[j] - t * a[j], term = clip(moved, j) * a[j];
      found.excess += term;
      found.rounding += abs(term);
      found.slope += where((moved > low[j]) & (moved < high[j]), a[j] * a[j], 0.0);
    }
    found.rounding = found.rounding * 0x1p-50 + abs(t) * found.slope * 0x1p-52;  // enough to tell what is free
    return found;
  }

  // Beyond the first and the last bend every coordinate stays at a bound, or all that are left move for ever.
  struct Bends {
    Lanes first = INFINITE, last = -INFINITE, far = 1.0;
  };

  Bends bends(const Lanes* u) const {
    Bends found;
    for (int64_t j = 0; j < n; j++) {
      if (a[j] == 0.0) continue;
      const Lanes one = (u[j] - high[j]) / a[j], other = (u[j] - low[j]) / a[j];
      found.first = min(found.first, min(one, other)), found.last = max(found.last, max(one, other));
      found.far = max(found.far, max(finite_size(one), finite_size(other)));
    }
    return found;
  }

  static Lanes finite_size(Lanes x) { return where(abs(x) < INFINITE, abs(x), 0.0); }

  // Newton steps, or the middle of the bracket where one would leave it. Few samples need the bends, which cost more than
  // three steps.
  Lanes root(const Lanes* u) const {
    Lanes left = equality ? -INFINITE : 0.0, right = INFINITE, t = 0.0;
    Value here = at(u, t);
    Mask done = equality ? abs(here.excess) <= here.rounding : here.excess <= here.rounding;
    std::optional<Bends> outer;
    for (int used = 0; used < MOST; used++) {
      done = !((!done) & (abs(here.excess) > here.rounding));  // also where it is not a number
      if (all(done)) break;
      const Mask over = here.excess > 0.0;
      left = where(over, t, left), right = where(over, right, t);
      const Lanes next = t + here.excess / where(here.slope > 0.0, here.slope, 0.0);
      const Mask inside = (next > left) & (next < right);
      Lanes then = where(done, t, next);
      if (!all(!((!inside) & (!done)))) {
        if (!outer) outer = bends(u), left = max(left, outer->first), right = min(right, outer->last);
        then = where(done, t, where(inside, next, middle(left, right, outer->far)));
      }
      done = !((!done) & !((then <= t) & (then >= t)));
      t = then;
      here = at(u, t);
    }
    const Mask moves = (here.slope > 0.0) & (equality ? here.slope > 0.0 : t > 0.0);
    t += where(moves, here.excess / where(moves, here.slope, 1.0), 0.0);  // what the search left, on its last piece
    return equality ? t : max(t, 0.0);
  }

  static Lanes middle(Lanes left, Lanes right, Lanes far) {
    const Lanes open = where(left > -INFINITE, max(far, left + far), min(-far, right - far));
    return where((left > -INFINITE) & (right < INFINITE), (left + right) * 0.5, open);
  }
};

}  // namespace rayhull::layer
