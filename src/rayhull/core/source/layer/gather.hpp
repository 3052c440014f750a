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

// And back: number j of all samples to the column positions[j] of rows `stride` apart.
template <class T>
void scatter_columns(const Lanes* values, int64_t width, T* to, int64_t stride, const int64_t* positions, int64_t count) {
  for (int64_t j = 0; j < width; j++) scatter(values[j], to + positions[j], stride, count);
}

constexpr int64_t WIDE = 64, SHORT = 4;  // columns at a time; a run that is not worth a vector

// Floats by squares, to the first `width` columns.
inline void store_rows(const Lanes* values, int64_t width, float* to, int64_t stride) {
  for (int64_t j = 0; j < width; j += LANES) {
    const int64_t column = std::min(j, width - LANES);
    Eight square[LANES];
    for (int64_t i = 0; i < LANES; i++) square[i] = narrowed<Singles>(values[column + i]).v;
    transpose(square);
    for (int64_t lane = 0; lane < LANES; lane++) store(square[lane], to + lane * stride + column);
  }
}

// SHORT floats or more: by vectors, the last of which overlaps the one before.
inline void copy_run(const float* from, float* to, int64_t length) {
  const int64_t width = length < LANES ? SHORT : LANES;
  for (int64_t i = 0; i < length; i += width) {
    const int64_t column = std::min(i, length - width);
    if (width == LANES) store(load(from + column), to + column);
    else std::memcpy(to + column, from + column, SHORT * sizeof(float));
  }
}

// How many columns from the first on lie side by side.
inline int64_t run_of(const int64_t* positions, int64_t width) {
  int64_t length = 1;
  while (length < width && positions[length] == positions[0] + length) length++;
  return length;
}

// Eight samples by runs of columns: a tile of an image has one for each of its rows. From LANES to WIDE columns.
inline void scatter_runs(const Lanes* values, int64_t width, float* to, int64_t stride, const int64_t* positions) {
  if (run_of(positions, width) == width) return store_rows(values, width, to + positions[0], stride);
  float rows[LANES * WIDE];
  store_rows(values, width, rows, WIDE);
  for (int64_t j = 0, length; j < width; j += length) {
    length = run_of(positions + j, width - j);
    if (length < SHORT) {
      scatter_columns(values + j, length, to, stride, positions + j, LANES);
      continue;
    }
    for (int64_t lane = 0; lane < LANES; lane++) copy_run(rows + lane * WIDE + j, to + lane * stride + positions[j], length);
  }
}

template <class T>
void scatter_rows(const Lanes* values, int64_t width, T* to, int64_t stride, const int64_t* positions, int64_t count) {
  for (int64_t first = 0; first < width; first += WIDE) {
    const int64_t here = std::min(width - first, WIDE);
    if constexpr (std::is_same_v<T, float>) {
      if (count == LANES && here >= LANES) {
        scatter_runs(values + first, here, to, stride, positions + first);
        continue;
      }
    }
    scatter_columns(values + first, here, to, stride, positions + first, count);
  }
}

// One place of a block in eight samples.
struct At {
  int64_t first, count;      // of the samples
  int64_t column;            // of the place's first coefficient
  int64_t number;            // of the place among those of its block
  const int64_t* positions;  // of its coordinates in the event
  double sign;
  Lanes marked;  // 0, or not a number for samples that have no answer
};

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
