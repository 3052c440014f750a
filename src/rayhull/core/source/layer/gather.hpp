// Numbers of eight samples, from where they lie in a batch and back.
#pragma once

#include "lanes.hpp"

#include <algorithm>

namespace rayhull::layer {

// One number of eight samples, `stride` apart; 0 for samples that there are not.
template <class V, class T>
V gather(const T* from, int64_t stride, int64_t count) {
  if constexpr (std::is_floating_point_v<V>) {
    return V(from[0]);
  } else {
    Number<V> values[LANES] = {};
    for (int64_t lane = 0; lane < count; lane++) values[lane] = Number<V>(from[lane * stride]);
    V found;
    std::memcpy(static_cast<void*>(&found), values, sizeof found);
    return found;
  }
}

template <class T, class V>
void scatter(V value, T* to, int64_t stride, int64_t count) {
  Number<V> values[sizeof(V) / sizeof(Number<V>)];
  std::memcpy(values, &value, sizeof values);
  for (int64_t lane = 0; lane < count; lane++) to[lane * stride] = T(values[lane]);
}

// Eight rows of eight floats, turned: pairs, then fours, then halves change places.
inline void transpose(Floats* r) {
  Floats s[LANES];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const Floats x = s[4 * (i / 2) + i % 2], y = s[4 * (i / 2) + i % 2 + 2];
    r[4 * (i / 2) + 2 * (i % 2)] = __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13);
    r[4 * (i / 2) + 2 * (i % 2) + 1] = __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const Floats x = r[i], y = r[i + 4];
    r[i] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Whether full groups of rows are moved by squares of eight floats, the last of which overlaps the one before.
template <class T, class V>
constexpr bool BY_SQUARES = std::is_same_v<T, float> && !std::is_floating_point_v<V>;

// Rows of `width` numbers, `stride` apart, one for each sample -> to[j], number j of all samples.
template <class T, class V>
void gather_rows(const T* from, int64_t stride, int64_t count, int64_t width, V* to) {
  int64_t j = 0;
  if constexpr (BY_SQUARES<T, V>) {
    for (; count == LANES && width >= LANES && j < width; j += LANES) {
      const int64_t column = std::min(j, width - LANES);
      Floats square[LANES];
      for (int64_t lane = 0; lane < LANES; lane++) square[lane] = load(from + lane * stride + column);
      transpose(square);
      for (int64_t i = 0; i < LANES; i++) to[column + i] = converted<V>(Singles(square[i]));
    }
  }
  for (; j < width; j++) to[j] = gather<V>(from + j, stride, count);
}

// And back.
template <class T, class V>
void scatter_rows(const V* values, int64_t width, T* to, int64_t stride, int64_t count) {
  int64_t j = 0;
  if constexpr (BY_SQUARES<T, V>) {
    for (; count == LANES && width >= LANES && j < width; j += LANES) {
      const int64_t column = std::min(j, width - LANES);
      Floats square[LANES];
      for (int64_t i = 0; i < LANES; i++) square[i] = converted<Singles>(values[column + i]).v;
      transpose(square);
      for (int64_t lane = 0; lane < LANES; lane++) store(square[lane], to + lane * stride + column);
    }
  }
  for (; j < width; j++) scatter(values[j], to + j, stride, count);
}

// Eight rows of eight bytes, turned: three times the halves are dealt like cards, one from each in turn.
inline void transpose(int8_t* bytes) {
  using Sixteen = int8_t __attribute__((vector_size(16)));
  Sixteen v[4], w[4];
  std::memcpy(v, bytes, sizeof v);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 2; i++) {
      w[2 * i] = __builtin_shufflevector(v[i], v[i + 2], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 2], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(v, w, sizeof v);
  }
  std::memcpy(bytes, v, sizeof v);
}

inline void copy_bytes(const int8_t* from, int64_t count, int8_t* to) {
  if (count == LANES) std::memcpy(to, from, LANES);
  else std::copy(from, from + count, to);
}

// Bytes (width, lanes), room for whole squares -> rows of `width` bytes, `stride` apart, one for each sample.
inline void scatter_bytes(const int8_t* from, int64_t width, int8_t* to, int64_t stride, int64_t count) {
  for (int64_t j = 0; j < width; j += LANES) {
    int8_t square[LANES * LANES];
    std::memcpy(square, from + j * LANES, sizeof square);
    transpose(square);
    for (int64_t i = 0; i < count; i++) copy_bytes(square + i * LANES, std::min(LANES, width - j), to + i * stride + j);
  }
}

// And back.
inline void gather_bytes(const int8_t* from, int64_t stride, int64_t count, int64_t width, int8_t* to) {
  for (int64_t j = 0; j < width; j += LANES) {
    int8_t square[LANES * LANES] = {};
    for (int64_t i = 0; i < count; i++) copy_bytes(from + i * stride + j, std::min(LANES, width - j), square + i * LANES);
    transpose(square);
    std::memcpy(to + j * LANES, square, sizeof square);
  }
}

}  // namespace rayhull::layer
