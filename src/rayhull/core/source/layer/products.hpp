// Products of a constant matrix with eight samples at once, up to six rows (or columns) of it in registers.
#pragma once

#include "lanes.hpp"

namespace rayhull::layer {

namespace detail {

// K sums over `length` terms, in registers: entry k of term t is at matrix[t * along + k * across].
template <int K>
inline void sums(const double* matrix, int64_t length, int64_t along, int64_t across, const Lanes* x, Lanes* out,
                 Four sign) {
  Four a[K], b[K];
#pragma GCC unroll 6
  for (int k = 0; k < K; k++) a[k] = b[k] = four(0.0);
  for (int64_t t = 0; t < length; t++, matrix += along) {
    const Four first = x[t].a, second = x[t].b;
#pragma GCC unroll 6
    for (int k = 0; k < K; k++) {
      const Four entry = four(matrix[k * across]);
      a[k] += first * entry, b[k] += second * entry;
    }
  }
#pragma GCC unroll 6
  for (int k = 0; k < K; k++) out[k].a += a[k] * sign, out[k].b += b[k] * sign;
}

// Six at a time, the last ones in two equal parts: fewer than four would wait for each other.
inline void all_sums(const double* matrix, int64_t length, int64_t count, int64_t along, int64_t across, const Lanes* x,
                     Lanes* out, double sign) {
  const Four by = four(sign);
  while (count > 0) {
    const int64_t take = count >= 12 || count <= 6 ? (count < 6 ? count : 6) : (count + 1) / 2;
    switch (take) {
      case 1: sums<1>(matrix, length, along, across, x, out, by); break;
      case 2: sums<2>(matrix, length, along, across, x, out, by); break;
      case 3: sums<3>(matrix, length, along, across, x, out, by); break;
      case 4: sums<4>(matrix, length, along, across, x, out, by); break;
      case 5: sums<5>(matrix, length, along, across, x, out, by); break;
      default: sums<6>(matrix, length, along, across, x, out, by);
    }
    matrix += take * across, out += take, count -= take;
  }
}

}  // namespace detail

// out_i += sign * sum_j A_ij x_j, for A (m, n)
inline void add_product(const double* A, int64_t m, int64_t n, const Lanes* x, Lanes* out, double sign = 1.0) {
  detail::all_sums(A, n, m, 1, n, x, out, sign);
}

// out_j += sign * sum_i w_i A_ij, for A (m, n)
inline void add_combination(const double* A, int64_t m, int64_t n, const Lanes* w, Lanes* out, double sign = 1.0) {
  detail::all_sums(A, m, n, n, 1, w, out, sign);
}

inline void fill(Lanes* x, int64_t n, double value) {
  for (int64_t j = 0; j < n; j++) x[j] = Lanes(value);
}

inline Lanes largest_size(const Lanes* x, int64_t n) {
  Lanes found(0.0);
  for (int64_t j = 0; j < n; j++) found = max(found, abs(x[j]));
  return found;
}

}  // namespace rayhull::layer
