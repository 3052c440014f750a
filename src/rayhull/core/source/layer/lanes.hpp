// Eight samples side by side: one number of each, as two vectors of four doubles or one of eight floats; what serves these
// serves the plain number of a single sample too.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../projection/eight.hpp"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace rayhull::layer {

constexpr int64_t LANES = EIGHT;

using Four = rayhull::Lanes;
using Lanes = rayhull::Eight;
using Mask = rayhull::Which;

inline Lanes max(Lanes x, Lanes y) { return larger(y, x); }  // not a number in y is passed over
inline Lanes min(Lanes x, Lanes y) { return where(x > y, y, x); }
inline Lanes abs(Lanes x) { return magnitude(x); }

// -- single precision, and a single sample ---------------------------------------------------------------------------

using Floats = float __attribute__((vector_size(32)));
using EightBits = int32_t __attribute__((vector_size(32)));

struct Singles {
  Floats v;

  Singles() = default;
  explicit Singles(Floats x) : v(x) {}
  Singles(float x) : v(Floats{x, x, x, x, x, x, x, x}) {}  // NOLINT: a number stands for eight of it

  Singles& operator+=(Singles y) { v += y.v; return *this; }
};

inline Singles operator+(Singles x, Singles y) { return Singles(x.v + y.v); }
inline Singles operator-(Singles x, Singles y) { return Singles(x.v - y.v); }
inline Singles operator*(Singles x, Singles y) { return Singles(x.v * y.v); }
inline Singles operator/(Singles x, Singles y) { return Singles(x.v / y.v); }
inline EightBits operator<(Singles x, Singles y) { return x.v < y.v; }
inline EightBits operator<=(Singles x, Singles y) { return x.v <= y.v; }
inline EightBits operator>(Singles x, Singles y) { return x.v > y.v; }
inline Singles where(EightBits mask, Singles x, Singles y) { return Singles(mask ? x.v : y.v); }
inline float where(bool mask, float x, float y) { return mask ? x : y; }
using rayhull::where;

// Eight floats where they lie.
using FloatsThere = float __attribute__((vector_size(32), aligned(4), may_alias));

inline Floats load(const float* from) { return *reinterpret_cast<const FloatsThere*>(from); }
inline void store(Floats x, float* to) { *reinterpret_cast<FloatsThere*>(to) = x; }

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

// The same eight numbers in another type.
inline Lanes widened(Singles x) {
  return {widened(Half(__builtin_shufflevector(x.v, x.v, 0, 1, 2, 3))),
          widened(Half(__builtin_shufflevector(x.v, x.v, 4, 5, 6, 7)))};
}

inline Singles narrowed(Lanes x) {
  const Half low = __builtin_convertvector(x.a, Half), high = __builtin_convertvector(x.b, Half);
  return Singles(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7));
}

template <class V, class U>
inline V converted(U x) {
  if constexpr (std::is_same_v<V, U>) return x;
  else if constexpr (std::is_same_v<V, Lanes>) return widened(x);
  else return narrowed(x);
}

// -1, 0 or 1 of each sample, as a byte each and as numbers. GCC 12 takes the portable conversions apart, number by number.
using Bytes = int8_t __attribute__((vector_size(8)));

template <class V>
inline void store_signs(V x, int8_t* to) {
  if constexpr (std::is_floating_point_v<V>) {
    *to = int8_t(x);
  } else {
    using Whole = int8_t __attribute__((vector_size(32)));
    const Whole whole = (Whole)__builtin_convertvector(converted<Singles>(x).v, EightBits);
    const auto low = __builtin_shufflevector(whole, whole, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const auto high = __builtin_shufflevector(whole, whole, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const auto bytes = __builtin_shufflevector(low, high, 0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
    std::memcpy(to, &bytes, LANES);
  }
}

template <class V>
inline V load_signs(const int8_t* from) {
  if constexpr (std::is_floating_point_v<V>) {
    return V(*from);
  } else {
#ifdef __AVX2__
    const EightBits signs = (EightBits)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
    Bytes bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    const EightBits signs = __builtin_convertvector(bytes, EightBits);
#endif
    return converted<V>(Singles(__builtin_convertvector(signs, Floats)));
  }
}

}  // namespace rayhull::layer
