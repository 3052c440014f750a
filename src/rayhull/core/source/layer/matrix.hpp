// A constant matrix in the precision and the order that the products of a vector type need.
#pragma once

#include "products.hpp"

#include <algorithm>
#include <vector>

namespace rayhull::layer {

// A (m, n) as the products of a vector type need it: as it is, in its own precision, or for one sample both ways round.
template <class V>
class Matrix {
 public:
  using S = Number<V>;
  static constexpr bool one = std::is_floating_point_v<V>;

  Matrix(const double* A, int64_t m, int64_t n) : m_(m), n_(n), data_(nullptr) {
    if constexpr (std::is_same_v<V, Lanes>) {
      data_ = A;
    } else {
      copy(A);
    }
  }

  // out += sign · A x
  void product(const V* x, V* out, S sign = S(1)) const {
    if constexpr (one) {
      add_combination_of_one(turned_.data(), n_, m_, x, out, sign);
    } else {
      add_product(data(), m_, n_, x, out, sign);
    }
  }

  // The same written, not added.
  void write_product(const V* x, V* out) const {
    if constexpr (one) {
      std::fill(out, out + padded<S>(m_), S(0)), product(x, out);
    } else {
      layer::write_product(data(), m_, n_, x, out);
    }
  }

  void write_combination(const V* w, V* out) const {
    if constexpr (one) {
      std::fill(out, out + padded<S>(n_), S(0)), combination(w, out);
    } else {
      layer::write_combination(data(), m_, n_, w, out);
    }
  }

  // take(j, (Aᵀ w)_j)
  template <class F>
  void each_combination(const V* w, const F& take) {
    if constexpr (one) {
      made_.resize(padded<S>(n_));
      write_combination(w, made_.data());
      for (int64_t j = 0; j < n_; j++) take(j, made_[j]);
    } else {
      layer::each_combination(data(), m_, n_, w, take);
    }
  }

  // The same for numbers in double precision, rounded first: out = A x or Aᵀ w. Returns whether all are finite.
  bool product_of(const Lanes* x, Lanes* out) { return rounded(x, n_, out, m_, [&](const V* a, V* b) { write_product(a, b); }); }
  bool combination_of(const Lanes* w, Lanes* out) {
    return rounded(w, m_, out, n_, [&](const V* a, V* b) { write_combination(a, b); });
  }

  // out += sign · Aᵀ w
  void combination(const V* w, V* out, S sign = S(1)) const {
    if constexpr (one) {
      add_combination_of_one(data(), m_, n_, w, out, sign);
    } else {
      add_combination(data(), m_, n_, w, out, sign);
    }
  }

 private:
  int64_t m_, n_;
  const double* data_;
  std::vector<S> own_, turned_;
  std::vector<V> given_, made_;

  const S* data() const {
    if constexpr (std::is_same_v<V, Lanes>) return data_;
    return own_.data();
  }

  template <class F>
  bool rounded(const Lanes* from, int64_t size, Lanes* out, int64_t made, const F& multiply) {
    given_.resize(std::max(m_, n_)), made_.resize(std::max(m_, n_));
    for (int64_t i = 0; i < size; i++) given_[i] = narrowed<V>(from[i]);
    multiply(given_.data(), made_.data());
    auto fine = is_finite(V(S(0)));
    for (int64_t j = 0; j < made; j++) out[j] = widened(made_[j]), fine = fine & is_finite(made_[j]);
    return all(fine);
  }

  void copy(const double* A) {
    const int64_t along = one ? padded<S>(n_) : n_, across = padded<S>(m_);
    own_.assign(m_ * along, S(0));
    if (one) turned_.assign(n_ * across, S(0));
    for (int64_t i = 0; i < m_; i++) {
      for (int64_t j = 0; j < n_; j++) {
        own_[i * along + j] = S(A[i * n_ + j]);
        if (one) turned_[j * across + i] = S(A[i * n_ + j]);
      }
    }
  }
};

}  // namespace rayhull::layer
