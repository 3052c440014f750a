// The gauge of a set, max_i a_i·y / h_i, with the row that attains it, and the gradients of it and of max|x|.
#pragma once

#include "products.hpp"
#include "tail.hpp"

#include <limits>

namespace rayhull::layer {

// The largest of a gauge's values, which one it is (if a backward pass asks), and 0, or not a number where a value is not
// finite.
struct Largest {
  Lanes value = -std::numeric_limits<double>::infinity(), which = 0.0, marked = 0.0;

  template <bool asked = true>
  void take(Lanes v, double number) {
    if (asked) which = where(v > value, number, which);
    value = max(value, v);
  }
};

namespace detail {

template <bool asked>
Largest gauge_of(const Gauge& gauge, const double* numbers, int64_t n, const Lanes* y, Lanes* scratch) {
  Largest found;
  const auto offset = [&](int64_t place, int64_t i) { return place < 0 ? 0.0 : numbers[place + i]; };
  write_product(numbers + gauge.matrix, gauge.rows, n, y, scratch);
  for (int64_t i = 0; i < gauge.rows; i++) {
    found.marked += mark(scratch[i]);
    found.take<asked>(scratch[i] - offset(gauge.offset, i), double(i));
  }
  if (gauge.upper < 0) return Largest(found);
  const double *upper = numbers + gauge.upper, *lower = numbers + gauge.lower;
  for (int64_t j = 0; j < n; j++) {
    found.marked += mark(y[j]);
    found.take<asked>(y[j] * upper[j] - offset(gauge.upper_offset, j), double(gauge.rows + j));
    found.take<asked>(y[j] * -lower[j] - offset(gauge.lower_offset, j), double(gauge.rows + n + j));
  }
  return Largest(found);  // a copy: what is returned itself lies in memory, and is stored again for every value
}

}  // namespace detail

inline Largest gauge_of(const Gauge& gauge, const double* numbers, int64_t n, const Lanes* y, Lanes* scratch, bool asked) {
  return asked ? detail::gauge_of<true>(gauge, numbers, n, y, scratch) : detail::gauge_of<false>(gauge, numbers, n, y, scratch);
}

// g += by · (the row of the largest value), lane by lane.
inline void add_gauge_gradient(const Gauge& gauge, const double* numbers, int64_t n, Lanes which, Lanes by, Lanes* g) {
  for (int64_t lane = 0; lane < LANES; lane++) {
    const int64_t number = int64_t(which.get(lane));
    const double share = by.get(lane);
    if (share == 0.0) continue;
    if (number < gauge.rows) {
      const double* row = numbers + gauge.matrix + number * n;
      for (int64_t j = 0; j < n; j++) g[j].set(lane, g[j].get(lane) + share * row[j]);
    } else {
      const int64_t j = (number - gauge.rows) % n;
      const bool above = number - gauge.rows < n;
      const double entry = above ? numbers[gauge.upper + j] : -numbers[gauge.lower + j];
      g[j].set(lane, g[j].get(lane) + share * entry);
    }
  }
}

// g += by · d max|x| / dx.
inline void add_size_gradient(const Lanes* x, int64_t n, Lanes size, Lanes by, Lanes* g) {
  for (int64_t lane = 0; lane < LANES; lane++) {
    const double share = by.get(lane), largest = size.get(lane);
    if (share == 0.0) continue;
    for (int64_t j = 0; j < n; j++) {
      const double entry = x[j].get(lane);
      if (std::fabs(entry) == largest) {
        g[j].set(lane, g[j].get(lane) + (entry < 0 ? -share : share));
        break;
      }
    }
  }
}

}  // namespace rayhull::layer
