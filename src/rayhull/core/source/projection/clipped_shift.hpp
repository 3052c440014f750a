// One row and bounds, block by block: z = clip(v - t a, lower, upper) with a z <= c (or = c), t the row's multiplier.
#pragma once

#include "places.hpp"

namespace rayhull {

struct ShiftProblem {
  Places places;
  const double* a;        // (size)
  Side c, lower, upper;   // (1), (size), (size)
  bool equality;
};

// Fills the blocks of samples start .. stop - 1.
Tally clipped_shift(const ShiftProblem& problem, double* shifts, const Report& report, int64_t start, int64_t stop);

struct ShiftGradient {
  Places points, gradients;
  const double *a, *shifts;  // (size), (blocks)
  Side lower, upper;         // (size)
  bool equality;
};

// From gradients in z to those in v, and w (blocks), the multipliers of the backward system.
void clipped_shift_backward(const ShiftGradient& problem, double* w, int64_t start, int64_t stop);

}  // namespace rayhull
