// Products of a constant matrix with eight samples at once, several rows (or columns) of it in registers; or with one
// sample, its outputs side by side. Either way a sum has the same terms in the same order: a sample's answer does not
// depend on how many there are.
#pragma once

#include "lanes.hpp"

namespace rayhull::layer {

namespace detail {

// K sums over `length` terms, in registers: entry k of term t is at matrix[t * along + k * across].
template <int K, class V, class S>
inline void sums(const S* matrix, int64_t length, int64_t along, int64_t across, const V* x, V* out, S sign) {
  V sum[K];
#pragma GCC unroll 12
  for (int k = 0; k < K; k++) sum[k] = V(S(0));
  for (int64_t t = 0; t < length; t++, matrix += along) {
    const V term = x[t];
#pragma GCC unroll 12
    for (int k = 0; k < K; k++) sum[k] += term * V(matrix[k * across]);
  }
#pragma GCC unroll 12
  for (int k = 0; k < K; k++) out[k] += sum[k] * V(sign);
}

template <int K, class V, class S>
inline void take_sums(int64_t take, const S* matrix, int64_t length, int64_t along, int64_t across, const V* x, V* out,
                      S sign) {
  if constexpr (K > 1) {
    if (take < K) return take_sums<K - 1>(take, matrix, length, along, across, x, out, sign);
  }
  sums<K>(matrix, length, along, across, x, out, sign);
}

// As many at a time as there are registers, the last ones in two equal parts: a few would wait for each other.
template <class V, class S>
inline void all_sums(const S* matrix, int64_t length, int64_t count, int64_t along, int64_t across, const V* x, V* out,
                     S sign) {
  constexpr int most = sizeof(V) > 32 ? 6 : 12;
  while (count > 0) {
    const int64_t take = count <= most ? count : count >= 2 * most ? most : (count + 1) / 2;
    take_sums<most>(take, matrix, length, along, across, x, out, sign);
    matrix += take * across, out += take, count -= take;
  }
}

// K vectors of outputs of one sample.
template <int K, class Vector, class S>
inline void columns(const S* matrix, int64_t length, int64_t along, const S* x, S* out, S sign) {
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
#pragma GCC unroll 4
  for (int k = 0; k < K; k++) {
    Vector found;
    std::memcpy(&found, out + k * width, sizeof found);
    found += sum[k] * sign;
    std::memcpy(out + k * width, &found, sizeof found);
  }
}

}  // namespace detail

// out_i += sign * sum_j A_ij x_j, for A (m, n)
template <class V, class S>
inline void add_product(const S* A, int64_t m, int64_t n, const V* x, V* out, S sign = S(1)) {
  detail::all_sums(A, n, m, 1, n, x, out, sign);
}

// out_j += sign * sum_i w_i A_ij, for A (m, n)
template <class V, class S>
inline void add_combination(const S* A, int64_t m, int64_t n, const V* w, V* out, S sign = S(1)) {
  detail::all_sums(A, m, n, n, 1, w, out, sign);
}

// A vector of one sample is padded with zeros to whole registers, and so are the rows of its matrices.
template <class S>
constexpr int64_t padded(int64_t n) {
  constexpr int64_t width = 32 / sizeof(S);
  return (n + width - 1) / width * width;
}

// out_j += sign * sum_i w_i A_ij for one sample, A (m, padded n).
template <class S>
inline void add_combination_of_one(const S* A, int64_t m, int64_t n, const S* w, S* out, S sign) {
  using Vector = std::conditional_t<std::is_same_v<S, float>, Eight, Four>;
  constexpr int64_t width = sizeof(Vector) / sizeof(S);
  const int64_t along = padded<S>(n);
  int64_t j = 0;
  for (; j + 4 * width <= along; j += 4 * width) detail::columns<4, Vector>(A + j, m, along, w, out + j, sign);
  if (j + 2 * width <= along) detail::columns<2, Vector>(A + j, m, along, w, out + j, sign), j += 2 * width;
  if (j < along) detail::columns<1, Vector>(A + j, m, along, w, out + j, sign);
}

template <class V>
inline void fill(V* x, int64_t n, Number<V> value) {
  for (int64_t j = 0; j < n; j++) x[j] = V(value);
}

inline Lanes largest_size(const Lanes* x, int64_t n) {
  Lanes found(0.0);
  for (int64_t j = 0; j < n; j++) found = max(found, abs(x[j]));
  return found;
}

}  // namespace rayhull::layer
