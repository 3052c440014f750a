// One number of eight samples side by side, as two vectors of four: what one waits for, the other works on.
//
// Every function is inlined where it is used: the layer's are compiled with other flags, and a linker must not take one for
// the other.
#pragma once

#include "lanes.hpp"

namespace rayhull {

#define RAYHULL_LANES static inline __attribute__((always_inline))

constexpr int64_t EIGHT = 8;

struct Eight {
  Lanes a, b;

  // Copied by two vectors: a plain copy of the bytes goes by sixteen, and a vector that is loaded next waits for them.
  Eight() = default;
  Eight(Lanes first, Lanes second) : a(first), b(second) {}
  Eight(double x) : a{x, x, x, x}, b{x, x, x, x} {}  // NOLINT: a number stands for eight of it
  Eight(const Eight& x) : a(x.a), b(x.b) {}
  Eight& operator=(const Eight& x) { a = x.a, b = x.b; return *this; }

  __attribute__((always_inline)) Eight& operator+=(Eight y) { a += y.a, b += y.b; return *this; }
  __attribute__((always_inline)) Eight& operator-=(Eight y) { a -= y.a, b -= y.b; return *this; }
  double get(int64_t lane) const { return lane < WIDTH ? a[lane] : b[lane - WIDTH]; }
  void set(int64_t lane, double x) { (lane < WIDTH ? a[lane] : b[lane - WIDTH]) = x; }
};

// Which samples: all bits set, or none. As numbers these are -1 and 0.
struct Which {
  Mask a, b;

  Which() = default;
  Which(Mask first, Mask second) : a(first), b(second) {}
  Which(const Which& x) : a(x.a), b(x.b) {}
  Which& operator=(const Which& x) { a = x.a, b = x.b; return *this; }

  bool get(int64_t lane) const { return (lane < WIDTH ? a[lane] : b[lane - WIDTH]) != 0; }
  void set(int64_t lane, bool yes) { (lane < WIDTH ? a[lane] : b[lane - WIDTH]) = yes ? -1 : 0; }
  int64_t count(int64_t lane) const { return -(lane < WIDTH ? a[lane] : b[lane - WIDTH]); }
};

RAYHULL_LANES Eight eight(double x) { return x; }
RAYHULL_LANES Eight operator+(Eight x, Eight y) { return {x.a + y.a, x.b + y.b}; }
RAYHULL_LANES Eight operator-(Eight x, Eight y) { return {x.a - y.a, x.b - y.b}; }
RAYHULL_LANES Eight operator-(Eight x) { return {-x.a, -x.b}; }
RAYHULL_LANES Eight operator*(Eight x, Eight y) { return {x.a * y.a, x.b * y.b}; }
RAYHULL_LANES Eight operator/(Eight x, Eight y) { return {x.a / y.a, x.b / y.b}; }
RAYHULL_LANES Which operator>(Eight x, Eight y) { return {x.a > y.a, x.b > y.b}; }
RAYHULL_LANES Which operator>=(Eight x, Eight y) { return {x.a >= y.a, x.b >= y.b}; }
RAYHULL_LANES Which operator<(Eight x, Eight y) { return {x.a < y.a, x.b < y.b}; }
RAYHULL_LANES Which operator<=(Eight x, Eight y) { return {x.a <= y.a, x.b <= y.b}; }
RAYHULL_LANES Which operator&(Which x, Which y) { return {x.a & y.a, x.b & y.b}; }
RAYHULL_LANES Which operator|(Which x, Which y) { return {x.a | y.a, x.b | y.b}; }
RAYHULL_LANES Which operator^(Which x, Which y) { return {x.a ^ y.a, x.b ^ y.b}; }
RAYHULL_LANES Which operator+(Which x, Which y) { return {x.a + y.a, x.b + y.b}; }
RAYHULL_LANES Which operator!(Which x) { return {~x.a, ~x.b}; }
RAYHULL_LANES Eight where(Which which, Eight x) { return {where(which.a, x.a), where(which.b, x.b)}; }  // else 0
RAYHULL_LANES Eight where(Which which, Eight x, Eight y) { return {which.a ? x.a : y.a, which.b ? x.b : y.b}; }
RAYHULL_LANES Eight magnitude(Eight x) { return {magnitude(x.a), magnitude(x.b)}; }
RAYHULL_LANES Eight larger(Eight x, Eight y) { return where(x > y, x, y); }  // not a number in x is passed over
RAYHULL_LANES Which is_nan(Eight x) { return {x.a != x.a, x.b != x.b}; }

// The same in floats, in one vector: half the memory and the work, for what need not be exact.
struct Rough {
  using Floats = float __attribute__((vector_size(32)));
  using Chosen = int32_t __attribute__((vector_size(32)));
  Floats v;

  Rough() = default;
  Rough(Floats x) : v(x) {}
  Rough(double x) : v(Floats{} + float(x)) {}  // NOLINT: as above
  Rough(const Eight& x) {
    store(reinterpret_cast<float*>(&v), x.a), store(reinterpret_cast<float*>(&v) + WIDTH, x.b);
  }
  operator Eight() const {
    const float* from = reinterpret_cast<const float*>(&v);
    return {load(from), load(from + WIDTH)};
  }
};

RAYHULL_LANES Rough operator+(Rough x, Rough y) { return x.v + y.v; }
RAYHULL_LANES Rough operator-(Rough x, Rough y) { return x.v - y.v; }
RAYHULL_LANES Rough operator*(Rough x, Rough y) { return x.v * y.v; }
RAYHULL_LANES Rough operator/(Rough x, Rough y) { return x.v / y.v; }
RAYHULL_LANES Rough::Chosen operator>(Rough x, Rough y) { return x.v > y.v; }
RAYHULL_LANES Rough where(Rough::Chosen which, Rough x, Rough y) { return which ? x.v : y.v; }

// The same of one sample, for what serves both.
RAYHULL_LANES double where(bool which, double x, double y) { return which ? x : y; }
RAYHULL_LANES double magnitude(double x) { return x < 0.0 ? -x : x; }
RAYHULL_LANES double larger(double x, double y) { return x > y ? x : y; }
RAYHULL_LANES bool is_nan(double x) { return x != x; }

// A number as it stands for one sample or for eight.
template <class Number>
RAYHULL_LANES Number all(double x) {
  if constexpr (sizeof(Number) == sizeof(double)) return x;
  else return eight(x);
}

#undef RAYHULL_LANES

}  // namespace rayhull
