// Four doubles at once, by the vector extension of GCC and Clang; narrower registers take them in two halves.
#pragma once

#include <cstdint>
#include <cstring>

namespace rayhull {

using Lanes = double __attribute__((vector_size(32)));
using Singles = float __attribute__((vector_size(16)));
using Mask = int64_t __attribute__((vector_size(32)));  // all bits of a lane, or none

constexpr int64_t WIDTH = 4;

#define RAYHULL_LANES static inline __attribute__((always_inline))

RAYHULL_LANES Lanes load(const double* from) {
  Lanes v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
RAYHULL_LANES void store(double* to, Lanes v) { std::memcpy(to, &v, sizeof v); }
RAYHULL_LANES Lanes load(const float* from) {
  Singles v;
  std::memcpy(&v, from, sizeof v);
  return __builtin_convertvector(v, Lanes);
}
RAYHULL_LANES void store(float* to, Lanes v) {
  const Singles singles = __builtin_convertvector(v, Singles);
  std::memcpy(to, &singles, sizeof singles);
}
RAYHULL_LANES Lanes clip(Lanes v, Lanes low, Lanes high) {
  const Lanes u = v < low ? low : v;
  return high < u ? high : u;
}
RAYHULL_LANES Lanes where(Mask mask, Lanes v) { return (Lanes)(mask & (Mask)v); }  // else 0
RAYHULL_LANES Lanes magnitude(Lanes v) { return v < 0.0 ? -v : v; }
RAYHULL_LANES double sum(Lanes v) { return (v[0] + v[1]) + (v[2] + v[3]); }

#undef RAYHULL_LANES

// a · b. Two sums, because one would wait for itself.
inline double dot(const double* a, const double* b, int64_t n) {
  Lanes first{}, second{};
  int64_t j = 0;
  for (; j + 2 * WIDTH <= n; j += 2 * WIDTH) {
    first += load(a + j) * load(b + j);
    second += load(a + j + WIDTH) * load(b + j + WIDTH);
  }
  double total = sum(first + second);
  for (; j < n; j++) total += a[j] * b[j];
  return total;
}

// Products of two rows with four over n entries: eight sums at once, so that none waits and loads are shared.
inline void dot_2x4(const double* a, const double* b, const double* const* rows, int64_t n, double (*out)[4]) {
  Lanes sums[2][4] = {};
  int64_t j = 0;
  for (; j + WIDTH <= n; j += WIDTH) {
    const Lanes u = load(a + j), v = load(b + j);
    for (int c = 0; c < 4; c++) {
      const Lanes row = load(rows[c] + j);
      sums[0][c] += u * row, sums[1][c] += v * row;
    }
  }
  for (int c = 0; c < 4; c++) {
    out[0][c] = sum(sums[0][c]), out[1][c] = sum(sums[1][c]);
    for (int64_t e = j; e < n; e++) out[0][c] += a[e] * rows[c][e], out[1][c] += b[e] * rows[c][e];
  }
}

}  // namespace rayhull
