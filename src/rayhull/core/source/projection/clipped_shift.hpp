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

// Fills the blocks of samples start .. stop - 1; returns how many are not solved.
int64_t clipped_shift(const ShiftProblem& problem, double* shifts, const Report& report, int64_t start, int64_t stop);

}  // namespace rayhull
