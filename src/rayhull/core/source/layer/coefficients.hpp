// Coefficients of eight samples: as they come, or what a Linear makes of their features.
#pragma once

#include "gather.hpp"
#include "products.hpp"

#include <algorithm>
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
    const V* raw = given.front.weight ? predicted(column, k) : gathered(column, k);
    const bool cuts = given.overflows, strict = p.strict;
    const V largest(T(p.largest)), zero(T(0));
    auto numbers = zero <= zero;
    for (int64_t i = 0; i < k; i++) {
      V value = raw[i];
      if (cuts) value = where(value <= value, value, zero);
      if (strict) value = min(max(value, zero - largest), largest);
      numbers = numbers & (value <= value);
      c[i] = widened(value);
    }
    return marked + widened(where(numbers, zero, V(std::numeric_limits<T>::quiet_NaN())));
  }

 private:
  using V = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;
  static constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

  const Program& p;
  const Given<T>& given;
  std::vector<V> features, values;
  int64_t first = 0, count = 0;
  Lanes marked;

  V* room(int64_t k) {
    values.resize(std::max(values.size(), size_t(k)));
    return values.data();
  }

  const V* gathered(int64_t column, int64_t k) {
    V* found = room(k);
    gather_rows(given.rows + first * given.stride + column, given.stride, count, k, found);
    return found;
  }

  const V* predicted(int64_t column, int64_t k) {
    const Front<T>& front = given.front;
    V* found = room(k);
    write_product(front.weight + column * front.features, k, front.features, features.data(), found);
    for (int64_t i = 0; i < k; i++) found[i] += V(front.bias[column + i]);
    return found;
  }
};

}  // namespace rayhull::layer
