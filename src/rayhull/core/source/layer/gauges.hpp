// The gauge of a set, max_i a_i·y / h_i, with the row that attains it, and the gradients of it and of max|x|.
#pragma once

#include "products.hpp"
#include "tail.hpp"

#include <limits>

namespace rayhull::layer {

// The largest of a gauge's values, which one it is, and 0, or not a number where a value is not finite.
struct Largest {
  Lanes value = -std::numeric_limits<double>::infinity(), which = 0.0, marked = 0.0;

  void take(Lanes v, double number) {
    const Mask larger = v > value;
    which = where(larger, number, which);
    value = where(larger, v, value);
  }
};

inline Largest gauge_of(const Gauge& gauge, const double* numbers, int64_t n, const Lanes* y, Lanes* scratch) {
  Largest found;
  const auto offset = [&](int64_t place, int64_t i) { return place < 0 ? 0.0 : numbers[place + i]; };
  fill(scratch, gauge.rows, 0.0);
  add_product(numbers + gauge.matrix, gauge.rows, n, y, scratch);
  for (int64_t i = 0; i < gauge.rows; i++) {
    found.marked += mark(scratch[i]);
    found.take(scratch[i] - offset(gauge.offset, i), double(i));
  }
  if (gauge.upper < 0) return found;
  for (int64_t j = 0; j < n; j++) {
    found.marked += mark(y[j]);
    found.take(y[j] * numbers[gauge.upper + j] - offset(gauge.upper_offset, j), double(gauge.rows + j));
    found.take(y[j] * -numbers[gauge.lower + j] - offset(gauge.lower_offset, j), double(gauge.rows + n + j));
  }
  return found;
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
