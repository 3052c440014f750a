// Coefficients of eight samples: as they come, or what a Linear makes of their features.
#pragma once

#include "gather.hpp"
#include "products.hpp"

#include <limits>
#include <vector>

namespace rayhull::layer {

template <class T>
class Coefficients {
 public:
  Coefficients(const Program& program, const Given<T>& given)
      : p(program), given(given), features(given.front.features) {}

  // Samples first .. first + count - 1; with a Linear, their features.
  void see(int64_t first_sample, int64_t samples) {
    first = first_sample, count = samples;
    if (!given.front.weight) {
      marked = given.marks ? gather(given.marks + first, 1, count) : Lanes(0.0);
      return;
    }
    gather_rows(given.rows + first * given.stride, given.stride, count, given.front.features, features.data());
    marked = given.overflows && !given.front.finite ? NOT_A_NUMBER : 0.0;
    if (!given.overflows) return;
    auto fine = is_finite(V(T(0)));
    for (const V& feature : features) fine = fine & is_finite(feature);
    marked += widened(where(fine, V(T(0)), V(std::numeric_limits<T>::quiet_NaN())));
  }

  // The k coefficients from a column on. Returns 0, or not a number for samples that have no answer.
  Lanes load(int64_t column, int64_t k, Lanes* c) {
    if (given.front.weight) {
      predict(column, k, c);
    } else {
      gather_rows(given.rows + first * given.stride + column, given.stride, count, k, c);
    }
    Mask numbers = Lanes(0.0) <= Lanes(0.0);
    for (int64_t i = 0; i < k; i++) {
      Lanes value = c[i];
      if (given.overflows) value = where(value <= value, value, 0.0);
      if (p.strict) value = min(max(value, -p.largest), p.largest);
      c[i] = value;
      numbers = numbers & (value <= value);
    }
    return marked + where(numbers, 0.0, NOT_A_NUMBER);
  }

 private:
  using V = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;
  static constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

  const Program& p;
  const Given<T>& given;
  std::vector<V> features, sums;
  int64_t first = 0, count = 0;
  Lanes marked;

  void predict(int64_t column, int64_t k, Lanes* c) {
    const Front<T>& front = given.front;
    sums.resize(std::max(sums.size(), size_t(k)));
    for (int64_t i = 0; i < k; i++) sums[i] = V(front.bias[column + i]);
    add_product(front.weight + column * front.features, k, front.features, features.data(), sums.data());
    for (int64_t i = 0; i < k; i++) c[i] = widened(sums[i]);
  }
};

}  // namespace rayhull::layer
