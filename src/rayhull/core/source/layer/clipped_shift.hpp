// One row and bounds: z = clip(u - t a, low, high) with a·z = c, or a·z <= c and t >= 0, for eight samples at once.
#pragma once

#include "lanes.hpp"

#include <cmath>
#include <limits>

namespace rayhull::layer {

class ClippedShift {
 public:
  ClippedShift(int64_t size, const double* row, const double* low, const double* high, double rhs, bool equality)
      : n(size), a(row), low(low), high(high), c(rhs), equality(equality) {}

  // From u to z; free[j] is 1 where z moves with u, 0 where a bound holds it.
  void forward(const Lanes* u, Lanes* z, Lanes* free) {
    Lanes t = root(u), mass = -c;
    square = 0.0;
    for (int64_t j = 0; j < n; j++) {
      const Lanes moved = u[j] - t * a[j];
      free[j] = where((moved > low[j]) & (moved < high[j]), 1.0, 0.0);
      z[j] = clip(moved, j);
      square += free[j] * (a[j] * a[j]);
      mass += where(free[j] > 0.0, u[j], z[j]) * a[j];
    }
    meets = (square > 0.0) & (equality ? square > 0.0 : t > 0.0);
    t = where(meets, mass / where(meets, square, 1.0), t);  // of the free coordinates, without the search's rounding
    for (int64_t j = 0; j < n; j++) z[j] = where(free[j] > 0.0, u[j] - t * a[j], z[j]);
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
    found.rounding *= 0x1p-52;
    return found;
  }

  // Newton steps, or the middle of the bracket where one would leave it. Beyond the first and the last bend every
  // coordinate stays at a bound, or all that are left move for ever.
  Lanes root(const Lanes* u) const {
    Lanes first = INFINITE, last = -INFINITE, far = 1.0;
    for (int64_t j = 0; j < n; j++) {
      if (a[j] == 0.0) continue;
      const Lanes one = (u[j] - high[j]) / a[j], other = (u[j] - low[j]) / a[j];
      first = min(first, min(one, other)), last = max(last, max(one, other));
      far = max(far, max(where(abs(one) < INFINITE, abs(one), 0.0), where(abs(other) < INFINITE, abs(other), 0.0)));
    }
    Lanes left = equality ? first : Lanes(0.0), right = last, t = 0.0;
    Value here = at(u, t);
    Mask done = equality ? abs(here.excess) <= here.rounding : here.excess <= here.rounding;
    for (int used = 0; used < MOST; used++) {
      done = !((!done) & (abs(here.excess) > here.rounding));  // also where it is not a number
      if (all(done)) break;
      const Mask over = here.excess > 0.0;
      left = where(over, t, left), right = where(over, right, t);
      const Lanes next = t + here.excess / where(here.slope > 0.0, here.slope, 0.0);
      const Lanes middle = where(left > -INFINITE, where(right < INFINITE, (left + right) * 0.5, max(far, left + far)),
                                 min(-far, right - far));
      const Lanes then = where(done, t, where((next > left) & (next < right), next, middle));
      done = !((!done) & !((then <= t) & (then >= t)));
      t = then;
      here = at(u, t);
    }
    return equality ? t : max(t, 0.0);
  }
};

}  // namespace rayhull::layer
