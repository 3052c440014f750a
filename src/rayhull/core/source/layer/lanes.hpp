// Eight samples side by side: one number of each, as two vectors of four. Every loop of the layer's tail runs over these.
#pragma once

#include <cstdint>

namespace rayhull::layer {

constexpr int64_t LANES = 8;

using Four = double __attribute__((vector_size(32)));
using FourBits = int64_t __attribute__((vector_size(32)));

inline Four four(double x) { return Four{x, x, x, x}; }

struct Lanes {
  Four a, b;

  Lanes() = default;
  Lanes(Four first, Four second) : a(first), b(second) {}
  Lanes(double x) : a(four(x)), b(four(x)) {}  // NOLINT: a number stands for eight of it

  double get(int64_t lane) const { return lane < 4 ? a[lane] : b[lane - 4]; }
  void set(int64_t lane, double x) { (lane < 4 ? a[lane] : b[lane - 4]) = x; }

  Lanes& operator+=(Lanes y) { a += y.a, b += y.b; return *this; }
  Lanes& operator-=(Lanes y) { a -= y.a, b -= y.b; return *this; }
  Lanes& operator*=(Lanes y) { a *= y.a, b *= y.b; return *this; }
};

inline Lanes operator+(Lanes x, Lanes y) { return {x.a + y.a, x.b + y.b}; }
inline Lanes operator-(Lanes x, Lanes y) { return {x.a - y.a, x.b - y.b}; }
inline Lanes operator*(Lanes x, Lanes y) { return {x.a * y.a, x.b * y.b}; }
inline Lanes operator/(Lanes x, Lanes y) { return {x.a / y.a, x.b / y.b}; }
inline Lanes operator-(Lanes x) { return {-x.a, -x.b}; }

// Which lanes: all bits set, or none.
struct Mask {
  FourBits a, b;
};

inline Mask operator<(Lanes x, Lanes y) { return {x.a < y.a, x.b < y.b}; }
inline Mask operator<=(Lanes x, Lanes y) { return {x.a <= y.a, x.b <= y.b}; }
inline Mask operator>(Lanes x, Lanes y) { return y < x; }
inline Mask operator>=(Lanes x, Lanes y) { return y <= x; }
inline Mask operator&(Mask x, Mask y) { return {x.a & y.a, x.b & y.b}; }
inline Mask operator!(Mask x) { return {~x.a, ~x.b}; }

inline bool all(Mask x) {
  const FourBits both = x.a & x.b;
  return both[0] & both[1] & both[2] & both[3];
}

inline Lanes where(Mask mask, Lanes x, Lanes y) { return {mask.a ? x.a : y.a, mask.b ? x.b : y.b}; }
inline Lanes max(Lanes x, Lanes y) { return where(x < y, y, x); }  // not a number in y is passed over: see Gauge
inline Lanes min(Lanes x, Lanes y) { return where(y < x, y, x); }
inline Lanes abs(Lanes x) { return max(x, -x); }

// 0 where x is finite, not a number elsewhere: added to a result, it keeps what a maximum would pass over.
inline Lanes mark(Lanes x) { return x * 0.0; }

}  // namespace rayhull::layer
