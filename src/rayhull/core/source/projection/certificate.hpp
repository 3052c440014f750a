// The certificate of an answer, the same formula for one sample and for eight side by side.
#pragma once

#include <cmath>

#include "eight.hpp"
#include "rows.hpp"
#include "tolerances.hpp"

namespace rayhull {

// What an answer says, Number by Number: c and multipliers (rows), y and x (d); v (d) is filled in.
template <class Number>
struct Answered {
  const Rows& rows;
  int64_t m;
  const Number *c, *y, *x, *multipliers;
  Number* v;  // y - G^T multipliers
  double held = 0.0;  // a share of the largest multiplier that counts as rounding, where the rows have no other multipliers
};

// The largest relative error of the optimality conditions, from nothing but y, the rows and the multipliers; infinite where
// something is not a number. `clip` takes a coordinate of v to its bounds.
template <class Number, class Clip>
Number kkt_error(const Answered<Number>& s, const Clip& clip) {
  const Number none = all<Number>(0.0), floor = all<Number>(FLOOR);
  Number size = none, far = floor, off = none, most = none;
  auto nan = is_nan(none);
  for (int64_t j = 0; j < s.rows.d; j++) {
    size = larger(magnitude(s.x[j]), size), far = larger(magnitude(s.y[j]), far);
    s.v[j] = s.y[j];
  }
  for (int64_t i = 0; i < s.rows.count; i++) {
    most = larger(magnitude(s.multipliers[i]), most);
    if constexpr (std::is_same_v<Number, double>)
      if (s.multipliers[i] == 0.0) continue;
    s.rows.add(i, -s.multipliers[i], s.v);
  }
  for (int64_t j = 0; j < s.rows.d; j++) {
    off = larger(magnitude(s.x[j] - clip(s.v[j], j)), off);
    nan = nan | is_nan(s.x[j]) | is_nan(s.v[j]);
  }
  const Number reach = far + size, rounding = ROUNDING * reach + s.held * most;
  Number worst = larger(off - rounding, none) / (size + rounding);
  for (int64_t i = 0; i < s.rows.count; i++) {
    const Number gap = s.rows.dot(i, s.x) - s.c[i], over = i < s.m ? where(s.multipliers[i] > none, magnitude(gap), gap)
                                                                    : magnitude(gap);
    worst = larger(over / larger(larger(magnitude(s.c[i]), size), floor), worst);
    if (i < s.m) worst = larger(-s.multipliers[i] / reach, worst);
    nan = nan | is_nan(gap);
  }
  return where(nan, all<Number>(INFINITY), worst);  // NaN is no certificate
}

}  // namespace rayhull
