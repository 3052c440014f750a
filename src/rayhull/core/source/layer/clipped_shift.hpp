// One row and bounds: z = clip(u - t a, low, high) with a·z = c, or a·z <= c and t >= 0, for eight samples at once.
#pragma once

#include "lanes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace rayhull::layer {

// The search for t in one precision: V is Lanes, or Singles with a row and bounds in floats.
template <class V>
class Shift {
 public:
  using S = Number<V>;

  Shift(int64_t size, const double* row, const double* low_, const double* high_, double rhs, bool equality)
      : n(size), c(S(rhs)), equality(equality) {
    if constexpr (std::is_same_v<V, Lanes>) {
      a = row, low = low_, high = high_;
    } else {
      own.resize(3 * n);
      S* const to = own.data();
      std::copy(row, row + n, to), std::copy(low_, low_ + n, to + n), std::copy(high_, high_ + n, to + 2 * n);
      a = to, low = to + n, high = to + 2 * n;
    }
  }

  Shift(const Shift&) = delete;

  // Newton steps, or the middle of the bracket where one would leave it. Few samples need the bends, which cost more than
  // three steps.
  V root(const V* u) const {
    V left = equality ? -INFINITE : S(0), right = INFINITE, t = S(0);
    Value here = at(u, t);
    Bits done = equality ? abs(here.excess) <= here.rounding : here.excess <= here.rounding;
    std::optional<Bends> outer;
    for (int used = 0; used < MOST; used++) {
      done = !((!done) & (abs(here.excess) > here.rounding));  // also where it is not a number
      if (all(done)) break;
      const Bits over = here.excess > S(0);
      left = where(over, t, left), right = where(over, right, t);
      const V next = t + here.excess / where(here.slope > S(0), here.slope, S(0));
      const Bits inside = (next > left) & (next < right);
      V then = where(done, t, next);
      if (!all(!((!inside) & (!done)))) {
        if (!outer) outer = bends(u), left = max(left, outer->first), right = min(right, outer->last);
        then = where(done, t, where(inside, next, middle(left, right, outer->far)));
      }
      done = !((!done) & !((then <= t) & (then >= t)));
      t = then;
      here = at(u, t);
    }
    const Bits moves = (here.slope > S(0)) & (equality ? here.slope > S(0) : t > S(0));
    t += where(moves, here.excess / where(moves, here.slope, S(1)), S(0));  // what the search left, on its last piece
    return equality ? t : max(t, S(0));
  }

 private:
  using Bits = decltype(V(S(0)) <= V(S(0)));
  static constexpr S INFINITE = std::numeric_limits<S>::infinity(), EPSILON = std::numeric_limits<S>::epsilon();
  static constexpr int MOST = 100;  // steps; eight or so are usual
  static constexpr int64_t FEW = 16;  // terms that are added up before they join the others: fewer rounding errors

  int64_t n;
  const S *a, *low, *high;
  std::vector<S> own;
  S c;
  bool equality;

  struct Value {
    V excess, slope, rounding;
  };

  // a·z(t) - c falls piecewise linearly in t.
  Value at(const V* u, V t) const {
    Value found{-c, S(0), std::fabs(c)};
    for (int64_t first = 0; first < n; first += FEW) {
      Value few{S(0), S(0), S(0)};
      for (int64_t j = first; j < std::min(n, first + FEW); j++) {
        const V moved = u[j] - t * a[j], term = min(max(moved, low[j]), high[j]) * a[j];
        few.excess += term;
        few.rounding += abs(term);
        few.slope += where((moved > low[j]) & (moved < high[j]), a[j] * a[j], S(0));
      }
      found.excess += few.excess, found.rounding += few.rounding, found.slope += few.slope;
    }
    found.rounding = found.rounding * (4 * EPSILON) + abs(t) * found.slope * EPSILON;  // enough to tell what is free
    return found;
  }

  // Beyond the first and the last bend every coordinate stays at a bound, or all that are left move for ever.
  struct Bends {
    V first = INFINITE, last = -INFINITE, far = S(1);
  };

  Bends bends(const V* u) const {
    Bends found;
    for (int64_t j = 0; j < n; j++) {
      if (a[j] == 0) continue;
      const V one = (u[j] - high[j]) / a[j], other = (u[j] - low[j]) / a[j];
      found.first = min(found.first, min(one, other)), found.last = max(found.last, max(one, other));
      found.far = max(found.far, max(finite_size(one), finite_size(other)));
    }
    return found;
  }

  static V finite_size(V x) { return where(abs(x) < INFINITE, abs(x), S(0)); }

  static V middle(V left, V right, V far) {
    const V open = where(left > -INFINITE, max(far, left + far), min(-far, right - far));
    return where((left > -INFINITE) & (right < INFINITE), (left + right) * S(0.5), open);
  }
};

// For samples of type T. Float32 layers search in single precision, inequalities alone: an equality is to hold as exactly as
// its point is rounded. Coordinates that are free were at most max|z| + |t a| before, so that t is off by a rounding error of
// that size: where the shift is FAR longer than the point that is left of it, or overflows, the search is repeated in double
// precision. The point itself is moved and clipped there.
template <class T>
class ClippedShift {
 public:
  // `keeps`: a backward pass follows.
  ClippedShift(int64_t size, const double* row, const double* low, const double* high, double rhs, bool equality, bool keeps)
      : n(size), a(row), low(low), high(high), equality(equality), keeps(keeps), wide(size, row, low, high, rhs, equality) {
    if (std::is_same_v<T, float> && !equality) single.emplace(size, row, low, high, rhs, equality), near.resize(size);
    for (int64_t j = 0; j < n; j++) steepest = std::max(steepest, std::fabs(row[j]));
  }

  // From u to z; free[j] is 1 where z moves with u, 0 where a bound holds it.
  void forward(const Lanes* u, Lanes* z, Lanes* free) {
    Lanes t = single ? root_in_singles(u) : wide.root(u);
    const Lanes size = move(u, t, z);
    if (single) {
      const Mask fine = abs(t) * steepest <= size * FAR;  // not so where t is not a number
      if (!all(fine)) t = where(fine, t, wide.root(u)), move(u, t, z);
    }
    if (!keeps) return;
    square = 0.0;
    for (int64_t j = 0; j < n; j++) {
      const Lanes moved = u[j] - t * a[j];
      free[j] = where((moved > low[j]) & (moved < high[j]), 1.0, 0.0);
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
  int64_t n;
  const double *a, *low, *high;
  bool equality, keeps;
  Shift<Lanes> wide;
  std::optional<Shift<Singles>> single;
  std::vector<Singles> near;
  static constexpr double FAR = 8.0;
  double steepest = 0.0;  // max|a|
  Lanes square;
  Mask meets;

  Lanes root_in_singles(const Lanes* u) {
    for (int64_t j = 0; j < n; j++) near[j] = narrowed<Singles>(u[j]);
    return widened(single->root(near.data()));
  }

  // z = clip(u - t a); returns max|z|.
  Lanes move(const Lanes* u, Lanes t, Lanes* z) const {
    Lanes size(0.0);
    for (int64_t j = 0; j < n; j++) z[j] = min(max(u[j] - t * a[j], low[j]), high[j]), size = max(size, abs(z[j]));
    return size;
  }
};

}  // namespace rayhull::layer
