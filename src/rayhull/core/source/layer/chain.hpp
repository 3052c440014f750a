// Chains by their own increments, and curves whose slopes are such a chain, for eight samples at once. maps/order.py is the
// definition: coefficients are a mean level, then one for each increment; what comes out is in order exactly.
#pragma once

#include "functions.hpp"

#include <cmath>

namespace rayhull::layer {

// An increasing function onto the numbers between two bounds: a sigmoid, softplus with one bound, x itself without any.
struct Between {
  double lower, upper;

  template <class T>
  Lanes value(Lanes x) const {
    if (is_free()) return x;
    if (std::isinf(upper)) return softplus_for<T>(x) + lower;
    if (std::isinf(lower)) return Lanes(upper) - softplus_for<T>(-x);
    return min(sigmoid_for<T>(x) * (upper - lower) + lower, upper);
  }

  Lanes slope(Lanes x) const {
    if (is_free()) return 1.0;
    if (std::isinf(upper)) return layer::slope(SOFTPLUS, x);
    if (std::isinf(lower)) return layer::slope(SOFTPLUS, -x);
    const Lanes share = sigmoid(x);
    return share * (Lanes(1.0) - share) * (upper - lower);
  }

  bool is_free() const { return std::isinf(lower) && std::isinf(upper); }
};

// A curve of n points from its mean and its slopes, which lie in x[1] ... x[n - 1].
inline void from_slopes(Lanes mean, int64_t n, Lanes* x) {
  Lanes risen(0.0), sum(0.0);
  x[0] = 0.0;
  for (int64_t j = 1; j < n; j++) risen += x[j], x[j] = risen, sum += risen;
  const Lanes average = sum / double(n);
  for (int64_t j = 0; j < n; j++) x[j] = mean + (x[j] - average);
}

// g[1] ... g[n - 1] become the gradients of the slopes; returns that of the mean.
inline Lanes from_slopes_backward(int64_t n, Lanes* g) {
  Lanes total(0.0), later(0.0);
  for (int64_t j = 0; j < n; j++) total += g[j];
  const Lanes average = total / double(n);
  for (int64_t j = n - 1; j > 0; j--) later += g[j] - average, g[j] = later;
  return total;
}

// x[path[0]] <= x[path[1]] <= ..., for points of type T
template <class T>
class Chain {
 public:
  Chain(int64_t size, const double* steps, double level, double unit, Between bounds, const int64_t* path)
      : n(size), steps(steps), level(level), unit(unit), bounds(bounds), path(path) {}

  // c (n) -> x (n); inner (n) is the chain before its bounds. Their function is increasing up to its rounding errors: a
  // maximum takes those away.
  void forward(const Lanes* c, Lanes* inner, Lanes* x) const {
    for (int64_t i = 1; i < n; i++) inner[i] = softplus_for<T>(c[i]) * (steps[i - 1] / LOG_2);
    from_slopes(c[0] * unit + level, n, inner);
    Lanes before = bounds.value<T>(inner[0]);
    x[path[0]] = before;
    for (int64_t i = 1; i < n; i++) x[path[i]] = before = max(bounds.value<T>(inner[i]), before);
  }

  // The gradient in c for the gradient g in x.
  void backward(const Lanes* c, const Lanes* inner, const Lanes* g, Lanes* scratch, Lanes* gc) const {
    for (int64_t i = 0; i < n; i++) scratch[i] = g[path[i]] * bounds.slope(inner[i]);
    gc[0] = from_slopes_backward(n, scratch) * unit;
    for (int64_t i = 1; i < n; i++) gc[i] = scratch[i] * slope(SHARE, c[i]) * steps[i - 1];
  }

 private:
  int64_t n;
  const double* steps;  // (n - 1) increments for coefficients 0
  double level, unit;   // of the mean: for a coefficient 0, and what a unit of it adds
  Between bounds;
  const int64_t* path;
};

// A curve from the coefficient of its mean and those of a chain of slopes.
template <class T>
class Curve {
 public:
  Curve(int64_t size, double scale, const Chain<T>& slopes) : n(size), scale(scale), slopes(slopes) {}

  void forward(const Lanes* c, Lanes* inner, Lanes* x) const {
    slopes.forward(c + 1, inner, x + 1);
    from_slopes(c[0] * scale, n, x);
  }

  // g is used up.
  void backward(const Lanes* c, const Lanes* inner, Lanes* g, Lanes* scratch, Lanes* gc) const {
    gc[0] = from_slopes_backward(n, g) * scale;
    slopes.backward(c + 1, inner, g + 1, scratch, gc + 1);
  }

 private:
  int64_t n;
  double scale;
  Chain<T> slopes;
};

}  // namespace rayhull::layer
