// Products of a constant matrix with eight samples at once, several rows (or columns) of it in registers; or with one
// sample, its outputs side by side. Either way a sum has the same terms in the same order: a sample's answer does not
// depend on how many there are.
#pragma once

#include "lanes.hpp"

// Of a function that takes a sum out of its register: called, it would go through memory.
#define AT_ONCE __attribute__((always_inline))

namespace rayhull::layer {

namespace detail {

// Which way sums run through a matrix: along its rows (a product with it), or down its columns (a combination of its rows).
// Entries of neighbouring sums are then a row apart, or side by side.
enum Way { ALONG, DOWN };

// K sums over `length` terms, in registers, each given to take(number, sum) from the number `first` on.
template <Way way, int K, class V, class S, class F>
inline void sums(const S* matrix, int64_t length, int64_t row, const V* x, int64_t first, const F& take) {
  V sum[K];
#pragma GCC unroll 12
  for (int k = 0; k < K; k++) sum[k] = V(S(0));
  for (int64_t t = 0; t < length; t++, matrix += way == ALONG ? 1 : row) {
    const V term = x[t];
#pragma GCC unroll 12
    for (int k = 0; k < K; k++) sum[k] += term * V(matrix[way == ALONG ? k * row : k]);
  }
#pragma GCC unroll 12
  for (int k = 0; k < K; k++) take(first + k, sum[k]);
}

template <Way way, int K, class V, class S, class F>
inline void take_sums(int64_t count, const S* matrix, int64_t length, int64_t row, const V* x, int64_t first, const F& take) {
  if constexpr (K > 1) {
    if (count < K) return take_sums<way, K - 1>(count, matrix, length, row, x, first, take);
  }
  sums<way, K>(matrix, length, row, x, first, take);
}

// As many at a time as there are registers, the last ones in two equal parts: a few would wait for each other.
template <Way way, class V, class S, class F>
inline void all_sums(const S* matrix, int64_t length, int64_t count, int64_t row, const V* x, const F& take) {
  constexpr int most = sizeof(V) > 32 ? 6 : 12;
  for (int64_t first = 0, here; first < count; first += here) {
    const int64_t left = count - first;
    here = left <= most ? left : left >= 2 * most ? most : (left + 1) / 2;
    take_sums<way, most>(here, matrix + first * (way == ALONG ? row : 1), length, row, x, first, take);
  }
}

// K vectors of outputs of one sample.
template <int K, class Vector, class S>
inline void columns(const S* matrix, int64_t length, int64_t along, const S* x, S* out) {
  constexpr int64_t width = sizeof(Vector) / sizeof(S);
  Vector sum[K] = {};
  for (int64_t t = 0; t < length; t++, matrix += along) {
#pragma GCC unroll 4
    for (int k = 0; k < K; k++) {
      Vector entries;
      std::memcpy(&entries, matrix + k * width, sizeof entries);
      sum[k] += entries * x[t];
    }
  }
  std::memcpy(out, sum, sizeof sum);
}

}  // namespace detail

// A vector of one sample is padded with zeros to whole registers, and so are the rows of its matrices.
template <class S>
constexpr int64_t padded(int64_t n) {
  constexpr int64_t width = 32 / sizeof(S);
  return (n + width - 1) / width * width;
}

// out_j = sum_i w_i A_ij for one sample, A (m, padded n), out (padded n).
template <class S>
inline void combination_of_one(const S* A, int64_t m, int64_t n, const S* w, S* out) {
  using Vector = std::conditional_t<std::is_same_v<S, float>, Floats, Four>;
  constexpr int64_t width = sizeof(Vector) / sizeof(S);
  const int64_t along = padded<S>(n);
  int64_t j = 0;
  for (; j + 4 * width <= along; j += 4 * width) detail::columns<4, Vector>(A + j, m, along, w, out + j);
  if (j + 2 * width <= along) detail::columns<2, Vector>(A + j, m, along, w, out + j), j += 2 * width;
  if (j < along) detail::columns<1, Vector>(A + j, m, along, w, out + j);
}

}  // namespace rayhull::layer
