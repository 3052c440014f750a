// Numbers of eight samples, from where they lie in a batch and back.
#pragma once

#include "lanes.hpp"
#include "tail.hpp"

#include <algorithm>

namespace rayhull::layer {

// One number of eight samples, `stride` apart; 0 for samples that there are not. Moved first and widened together: one
// conversion for all lanes in place of eight.
template <class T>
Lanes gather(const T* from, int64_t stride, int64_t count) {
  T near[LANES] = {};
  if (count == LANES) {
    for (int64_t lane = 0; lane < LANES; lane++) near[lane] = from[lane * stride];
  } else {
    for (int64_t lane = 0; lane < count; lane++) near[lane] = from[lane * stride];
  }
  double values[LANES];
  for (int64_t lane = 0; lane < LANES; lane++) values[lane] = double(near[lane]);
  Lanes found;
  std::memcpy(&found, values, sizeof found);
  return found;
}

template <class T>
void scatter(Lanes lanes, T* to, int64_t stride, int64_t count) {
  double values[LANES];
  std::memcpy(values, &lanes, sizeof values);
  T near[LANES];
  for (int64_t lane = 0; lane < LANES; lane++) near[lane] = T(values[lane]);
  if (count == LANES) {
    for (int64_t lane = 0; lane < LANES; lane++) to[lane * stride] = near[lane];
  } else {
    for (int64_t lane = 0; lane < count; lane++) to[lane * stride] = near[lane];
  }
}

// Eight rows of eight floats, turned: pairs, then fours, then halves change places.
inline void transpose(Eight* r) {
  Eight s[LANES];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const Eight x = s[4 * (i / 2) + i % 2], y = s[4 * (i / 2) + i % 2 + 2];
    r[4 * (i / 2) + 2 * (i % 2)] = __builtin_shufflevector(x, y, 0, 1, 8, 9, 4, 5, 12, 13);
    r[4 * (i / 2) + 2 * (i % 2) + 1] = __builtin_shufflevector(x, y, 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    const Eight x = r[i], y = r[i + 4];
    r[i] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Rows of `width` numbers, `stride` apart, one for each sample -> to[j], number j of all samples. Floats by squares of eight,
// the last of which overlaps the one before.
template <class T, class V>
void gather_rows(const T* from, int64_t stride, int64_t count, int64_t width, V* to) {
  if constexpr (std::is_same_v<T, float>) {
    for (int64_t j = 0; count == LANES && width >= LANES && j < width; j += LANES) {
      const int64_t column = std::min(j, width - LANES);
      Eight square[LANES];
#pragma GCC unroll 8
      for (int64_t lane = 0; lane < LANES; lane++) square[lane] = load(from + lane * stride + column);
      transpose(square);
      for (int64_t i = 0; i < LANES; i++) {
        if constexpr (std::is_same_v<V, Singles>) to[column + i] = V(square[i]);
        else to[column + i] = widened(Singles(square[i]));
      }
    }
    if (count == LANES && width >= LANES) return;
  }
  for (int64_t j = 0; j < width; j++) to[j] = narrowed<V>(gather(from + j, stride, count));
}

// One place of a block in eight samples.
struct At {
  int64_t first, count;      // of the samples
  int64_t column;            // of the place's first coefficient
  int64_t number;            // of the place among those of its block
  const int64_t* positions;  // of its coordinates in the event
  double sign;
  Lanes marked;  // 0, or not a number for samples that have no answer

  Lanes finished(Lanes value) const { return value * sign + marked; }
};

// And back: number j of all samples to the column positions[j] of rows `stride` apart, as `at` finishes it.
template <class T>
void scatter_columns(const Lanes* values, int64_t width, T* to, int64_t stride, const int64_t* positions, const At& at) {
  for (int64_t j = 0; j < width; j++) scatter(at.finished(values[j]), to + positions[j], stride, at.count);
}

constexpr int64_t SHORT = 4;  // the shortest run of columns that is worth a vector

// Floats by squares, to a run of SHORT or more columns: the last vector overlaps the one before.
inline void store_run(const Lanes* values, int64_t length, float* to, int64_t stride, const At& at) {
  for (int64_t j = 0; j < length; j += LANES) {
    const int64_t column = std::max<int64_t>(std::min(j, length - LANES), 0);
    Eight square[LANES];
    for (int64_t i = 0; i < LANES; i++) {
      square[i] = narrowed<Singles>(at.finished(values[std::min(column + i, length - 1)])).v;
    }
    transpose(square);
    if (length >= LANES) {
      for (int64_t lane = 0; lane < LANES; lane++) store(square[lane], to + lane * stride + column);
      continue;
    }
    float row[LANES];
    for (int64_t lane = 0; lane < LANES; lane++) {
      store(square[lane], row);
      std::memcpy(to + lane * stride, row, SHORT * sizeof(float));
      std::memcpy(to + lane * stride + length - SHORT, row + length - SHORT, SHORT * sizeof(float));
    }
  }
}

inline int64_t run_of(const int64_t* positions, int64_t width) {
  int64_t length = 1;
  while (length < width && positions[length] == positions[0] + length) length++;
  return length;
}

// Floats of eight samples by runs of columns: a tile of an image has one for each of its rows.
template <class T>
void scatter_rows(const Lanes* values, int64_t width, T* to, int64_t stride, const At& at) {
  const int64_t* positions = at.positions;
  if (!std::is_same_v<T, float> || at.count < LANES) return scatter_columns(values, width, to, stride, positions, at);
  for (int64_t j = 0, length; j < width; j += length) {
    length = run_of(positions + j, width - j);
    if constexpr (std::is_same_v<T, float>) {
      if (length >= SHORT) {
        store_run(values + j, length, to + positions[j], stride, at);
        continue;
      }
    }
    scatter_columns(values + j, length, to, stride, positions + j, at);
  }
}

inline Lanes gather(const Side& side, int64_t column, const At& at) {
  const int64_t place = at.first * side.stride + column;
  if (side.wide) return gather(static_cast<const double*>(side.data) + place, side.stride, at.count);
  return gather(static_cast<const float*>(side.data) + place, side.stride, at.count);
}

inline void scatter_gradient(Lanes value, const Side& side, int64_t column, const At& at) {
  const int64_t place = at.first * side.width + column;
  if (side.wide) return scatter(value, static_cast<double*>(side.gradient) + place, side.width, at.count);
  scatter(value, static_cast<float*>(side.gradient) + place, side.width, at.count);
}

}  // namespace rayhull::layer
