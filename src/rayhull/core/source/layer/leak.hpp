// The gradient that leaks past a map to the point that it moved by -d: g - (g·d) d / (1 + d·d) for d in units, block by
// block. maps/leak.py has the formula and is the definition.
#pragma once

#include <cstdint>

namespace rayhull::layer {

template <class T>
struct Leak {
  int64_t n, blocks;
  const T *g, *d;        // (samples, n)
  const T* unit;         // (n), or null for 1
  const int64_t* block;  // (n): the block of each coordinate, or null for one block
  double share, far;     // d is cut at `far`
  const T* through;      // (samples, n): the gradient that came through the map, or null for none
  bool clamps;           // of a clamp that is g where d = 0, and 0 elsewhere
  T* to;                 // (samples, n): share of what leaks, and 1 - share of what came through
};

// Samples start .. stop - 1.
template <class T>
void leak(const Leak<T>& problem, int64_t start, int64_t stop);

}  // namespace rayhull::layer
