// Taking the part along a basis out of a vector, and what that does to a gradient.
#pragma once

#include "products.hpp"

namespace rayhull::layer {

constexpr double LOST = 0x1p-40;  // what is left of a vector below this share has lost too many digits

// x less its part in the span of an orthonormal basis Q (n, rank).
inline void project(const double* Q, int64_t n, int64_t rank, Lanes* x, Lanes* scratch) {
  fill(scratch, rank, 0.0);
  add_combination(Q, n, rank, x, scratch);
  add_product(Q, n, rank, scratch, x, -1.0);
}

// The same; carefully: twice, and 0 where next to nothing is left, never a direction of rounding errors. Returns what was kept.
inline Lanes remove_span(const double* Q, int64_t n, int64_t rank, bool carefully, Lanes* x, Lanes* scratch) {
  const Lanes before = largest_size(x, n);
  project(Q, n, rank, x, scratch);
  if (!carefully) return 1.0;
  const Lanes kept = where(largest_size(x, n) <= before * LOST, 0.0, 1.0);
  for (int64_t j = 0; j < n; j++) x[j] *= kept;
  project(Q, n, rank, x, scratch);
  return kept;
}

// The transposed derivative of remove_span: the matrix is symmetric.
inline void remove_span_backward(const double* Q, int64_t n, int64_t rank, bool carefully, Lanes kept, Lanes* g, Lanes* scratch) {
  project(Q, n, rank, g, scratch);
  if (!carefully) return;
  for (int64_t j = 0; j < n; j++) g[j] *= kept;
  project(Q, n, rank, g, scratch);
}

}  // namespace rayhull::layer
