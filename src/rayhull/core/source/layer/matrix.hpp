// A constant matrix in the precision and the order that the products of a vector type need.
#pragma once

#include "products.hpp"

#include <vector>

namespace rayhull::layer {

// A (m, n) of doubles, which stay where they are; in single precision a copy, and for one sample rows of whole registers,
// of A for combinations and of Aᵀ for products, made when they are first asked for.
template <class V>
class Matrix {
 public:
  using S = Number<V>;

  Matrix(const double* A, int64_t m, int64_t n) : A_(A), m_(m), n_(n) {
    if constexpr (std::is_same_v<V, Singles>) own_.assign(A, A + m * n);
  }

  // take(i, (A x)_i), for every i
  template <class F>
  void product(const V* x, const F& take) {
    if constexpr (std::is_floating_point_v<V>) {
      if (turned_.empty()) turned_ = laid_out(n_, m_, 1, n_);
      combine_one(turned_, n_, m_, x, take);
    } else {
      detail::all_sums<detail::ALONG>(data(), n_, m_, n_, x, take);
    }
  }

  // take(j, (Aᵀ w)_j), for every j
  template <class F>
  void combination(const V* w, const F& take) {
    if constexpr (std::is_floating_point_v<V>) {
      if (own_.empty()) own_ = laid_out(m_, n_, n_, 1);
      combine_one(own_, m_, n_, w, take);
    } else {
      detail::all_sums<detail::DOWN>(data(), m_, n_, n_, w, take);
    }
  }

 private:
  const double* A_;
  int64_t m_, n_;
  std::vector<S> own_, turned_, sums_;

  const S* data() const {
    if constexpr (std::is_same_v<V, Lanes>) return A_;
    else return own_.data();
  }

  std::vector<S> laid_out(int64_t rows, int64_t columns, int64_t down, int64_t along) const {
    const int64_t pitch = padded<S>(columns);
    std::vector<S> made(rows * pitch + 1);
    for (int64_t i = 0; i < rows; i++) {
      for (int64_t j = 0; j < columns; j++) made[i * pitch + j] = S(A_[i * down + j * along]);
    }
    return made;
  }

  template <class F>
  void combine_one(const std::vector<S>& rows, int64_t m, int64_t n, const S* w, const F& take) {
    sums_.resize(padded<S>(n));
    combination_of_one(rows.data(), m, n, w, sums_.data());
    for (int64_t j = 0; j < n; j++) take(j, sums_[j]);
  }
};

}  // namespace rayhull::layer
