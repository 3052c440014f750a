// Eight samples side by side: one number of each, as two vectors of four. Every loop of the layer's tail runs over these;
// the dual steps of float32 layers over one vector of eight floats, or over the plain numbers of a single sample.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace rayhull::layer {

constexpr int64_t LANES = 8;

using Four = double __attribute__((vector_size(32)));
using FourBits = int64_t __attribute__((vector_size(32)));

inline Four four(double x) { return Four{x, x, x, x}; }

struct Lanes {
  Four a, b;

  // Copied by two vectors: a plain copy of the bytes goes by sixteen, and a vector that is loaded next waits for them.
  Lanes() = default;
  Lanes(const Lanes& x) : a(x.a), b(x.b) {}
  Lanes& operator=(const Lanes& x) { a = x.a, b = x.b; return *this; }
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

inline Mask is_finite(Lanes x) { return {x.a - x.a == four(0.0), x.b - x.b == four(0.0)}; }

inline Lanes where(Mask mask, Lanes x, Lanes y) { return {mask.a ? x.a : y.a, mask.b ? x.b : y.b}; }
inline Lanes max(Lanes x, Lanes y) { return where(x < y, y, x); }  // not a number in y is passed over: see Gauge
inline Lanes min(Lanes x, Lanes y) { return where(y < x, y, x); }
inline Lanes abs(Lanes x) { return max(x, -x); }

// -- single precision, and a single sample ---------------------------------------------------------------------------

using Eight = float __attribute__((vector_size(32)));
using EightBits = int32_t __attribute__((vector_size(32)));

struct Singles {
  Eight v;

  Singles() = default;
  explicit Singles(Eight x) : v(x) {}
  Singles(float x) : v(Eight{x, x, x, x, x, x, x, x}) {}  // NOLINT: a number stands for eight of it

  Singles& operator+=(Singles y) { v += y.v; return *this; }
  Singles& operator-=(Singles y) { v -= y.v; return *this; }
  Singles& operator*=(Singles y) { v *= y.v; return *this; }
};

inline Singles operator+(Singles x, Singles y) { return Singles(x.v + y.v); }
inline Singles operator-(Singles x, Singles y) { return Singles(x.v - y.v); }
inline Singles operator*(Singles x, Singles y) { return Singles(x.v * y.v); }
inline Singles operator/(Singles x, Singles y) { return Singles(x.v / y.v); }
inline Singles operator-(Singles x) { return Singles(-x.v); }
inline EightBits operator<(Singles x, Singles y) { return x.v < y.v; }
inline EightBits operator<=(Singles x, Singles y) { return x.v <= y.v; }
inline EightBits operator>(Singles x, Singles y) { return x.v > y.v; }
inline EightBits operator>=(Singles x, Singles y) { return x.v >= y.v; }
inline EightBits is_finite(Singles x) { return x.v - x.v == Eight{}; }
inline Singles where(EightBits mask, Singles x, Singles y) { return Singles(mask ? x.v : y.v); }
inline Singles max(Singles x, Singles y) { return where(x < y, y, x); }
inline Singles min(Singles x, Singles y) { return where(y < x, y, x); }
inline Singles abs(Singles x) { return max(x, -x); }
inline float where(bool mask, float x, float y) { return mask ? x : y; }
inline double where(bool mask, double x, double y) { return mask ? x : y; }

inline bool all(EightBits x) {
  FourBits pairs;
  std::memcpy(&pairs, &x, sizeof pairs);
  return (pairs[0] & pairs[1] & pairs[2] & pairs[3]) == -1;
}

// Eight floats where they lie.
using EightThere = float __attribute__((vector_size(32), aligned(4), may_alias));

inline Eight load(const float* from) { return *reinterpret_cast<const EightThere*>(from); }
inline void store(Eight x, float* to) { *reinterpret_cast<EightThere*>(to) = x; }

// The number type of a vector; of a number, itself.
template <class V>
using Number = std::conditional_t<std::is_same_v<V, Lanes>, double, std::conditional_t<std::is_same_v<V, Singles>, float, V>>;

// Four floats as doubles. GCC 12 makes four instructions of the portable form, and one of this.
using Half = float __attribute__((vector_size(16)));

inline Four widened(Half x) {
#ifdef __AVX__
  return _mm256_cvtps_pd(x);
#else
  return __builtin_convertvector(x, Four);
#endif
}

// The same eight numbers in another type; of a single sample, the first.
template <class V>
inline V narrowed(Lanes x) {
  if constexpr (std::is_same_v<V, Lanes>) return x;
  if constexpr (std::is_floating_point_v<V>) return V(x.a[0]);
  if constexpr (std::is_same_v<V, Singles>) {
    const Half low = __builtin_convertvector(x.a, Half), high = __builtin_convertvector(x.b, Half);
    return V(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7));
  }
}

template <class V>
inline Lanes widened(V x) {
  if constexpr (std::is_same_v<V, Lanes>) return x;
  if constexpr (std::is_floating_point_v<V>) return Lanes(double(x));
  if constexpr (std::is_same_v<V, Singles>) {
    return {widened(Half(__builtin_shufflevector(x.v, x.v, 0, 1, 2, 3))),
            widened(Half(__builtin_shufflevector(x.v, x.v, 4, 5, 6, 7)))};
  }
}

// 0 where x is finite, not a number elsewhere: added to a result, it keeps what a maximum would pass over.
inline Lanes mark(Lanes x) { return x * 0.0; }

}  // namespace rayhull::layer
