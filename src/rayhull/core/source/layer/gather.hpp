// Numbers of eight samples, from where they lie in a batch and back.
#pragma once

#include "lanes.hpp"
#include "tail.hpp"

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
