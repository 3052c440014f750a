// The functions onto the non-negative numbers, and their slopes, for eight samples at once.
#pragma once

#include "lanes.hpp"

#include <cstring>

namespace rayhull::layer {

// The order is that of FUNCTIONS in nn/tail.py. SHARE is softplus / log 2.
enum Function : int64_t { RELU, ABS, SQUARE, SOFTPLUS, SHARE, SOFTMAX, FUNCTIONS };

constexpr double LINEAR = 20.0;  // beyond it softplus is the identity, as torch has it
constexpr double LOG_2 = 0x1.62e42fefa39efp-1;

namespace detail {

// exp(x) for x <= 0 (0 below -708): x = k log 2 + r, and the Taylor series of exp(r) for |r| <= log(2) / 2.
inline Four exp_of_negative(Four x) {
  const Four lowest = four(-708.0);
  x = x < lowest ? lowest : x;
  const Four magic = four(0x1.8p52);  // added and taken away, it rounds to an integer, which its last bits then hold
  const Four shifted = x * four(0x1.71547652b82fep0) + magic, k = shifted - magic;
  const Four r = (x - k * four(0x1.62e42fee00000p-1)) - k * four(0x1.a39ef35793c76p-33);
  Four sum = four(1.0 / 6227020800.0);
  constexpr double terms[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                              1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
  for (double term : terms) sum = sum * r + four(term);
  FourBits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  Four power;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}

// log(1 + t) for 0 <= t <= 1: twice the series of the inverse hyperbolic tangent of t / (2 + t) <= 1 / 3.
inline Four log_of_one_plus(Four t) {
  const Four s = t / (t + four(2.0)), square = s * s;
  Four sum = four(1.0 / 35);
  for (int odd = 33; odd >= 1; odd -= 2) sum = sum * square + four(1.0 / odd);
  return (s + s) * sum;
}

template <class V>
using Entry = std::conditional_t<std::is_same_v<V, Eight>, float, double>;

// The same two in single precision: 0 below -87, and shorter series.
inline Eight exp_of_negative(Eight x) {
  const Eight lowest = Eight{} - 87.0f, magic = Eight{} + 0x1.8p23f;
  x = x < lowest ? lowest : x;
  const Eight shifted = x * 0x1.715476p0f + magic, k = shifted - magic;
  const Eight r = (x - k * 0x1.63p-1f) + k * 0x1.bd0106p-13f;
  Eight sum = Eight{} + 1.0f / 5040;
  constexpr float terms[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  for (float term : terms) sum = sum * r + term;
  uint32_t __attribute__((vector_size(32))) bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  Eight power;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}

inline Eight log_of_one_plus(Eight t) {
  const Eight s = t / (t + 2.0f), square = s * s;
  Eight sum = Eight{} + 1.0f / 17;
  for (int odd = 15; odd >= 1; odd -= 2) sum = sum * square + 1.0f / float(odd);
  return (s + s) * sum;
}

template <class V>
inline V softplus(V x) {
  const V zero{}, linear = zero + Entry<V>(LINEAR), size = x < zero ? -x : x, positive = x < zero ? zero : x;
  return x > linear ? x : positive + log_of_one_plus(exp_of_negative(-size));
}

template <class V>
inline V sigmoid(V x) {
  const V zero{}, one = zero + Entry<V>(1), size = x < zero ? -x : x, e = exp_of_negative(-size), share = one / (one + e);
  return x < zero ? e * share : share;
}

}  // namespace detail

inline Lanes exp_of_negative(Lanes x) { return {detail::exp_of_negative(x.a), detail::exp_of_negative(x.b)}; }
inline Lanes softplus(Lanes x) { return {detail::softplus(x.a), detail::softplus(x.b)}; }
inline Lanes sigmoid(Lanes x) { return {detail::sigmoid(x.a), detail::sigmoid(x.b)}; }

// For points of type T: floats need no more than single precision, but the range of doubles.
template <class T>
inline Lanes softplus_for(Lanes x) {
  if constexpr (std::is_same_v<T, double>) return softplus(x);
  else return where(x > LINEAR, x, widened(Singles(detail::softplus(narrowed<Singles>(x).v))));
}

template <class T>
inline Lanes sigmoid_for(Lanes x) {
  if constexpr (std::is_same_v<T, double>) return sigmoid(x);
  else return widened(Singles(detail::sigmoid(narrowed<Singles>(x).v)));
}

inline Lanes apply(int64_t function, Lanes x) {
  switch (function) {
    case RELU: return max(x, 0.0);
    case ABS: return abs(x);
    case SQUARE: return x * x;
    case SOFTPLUS: return softplus(x);
    default: return softplus(x) * (1 / LOG_2);
  }
}

inline Lanes slope(int64_t function, Lanes x) {
  switch (function) {
    case RELU: return where(x > 0.0, 1.0, 0.0);
    case ABS: return where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0));
    case SQUARE: return x + x;
    case SOFTPLUS: return where(x > LINEAR, 1.0, sigmoid(x));
    default: return where(x > LINEAR, 1.0, sigmoid(x)) * (1 / LOG_2);
  }
}

// w = softmax(x) over r coefficients.
inline void softmax(const Lanes* x, int64_t r, Lanes* w) {
  Lanes largest = x[0], sum(0.0);
  for (int64_t i = 1; i < r; i++) largest = max(largest, x[i]);
  for (int64_t i = 0; i < r; i++) sum += w[i] = exp_of_negative(x[i] - largest);
  for (int64_t i = 0; i < r; i++) w[i] = w[i] / sum;
}

}  // namespace rayhull::layer
