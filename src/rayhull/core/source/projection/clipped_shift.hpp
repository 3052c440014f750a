// One row and bounds, block by block: z = clip(v - t a, lower, upper) with a z <= c (or = c), t the row's multiplier.
#pragma once

#include <cstdint>

namespace rayhull {

// Blocks are read from and written to their places in the samples.
template <class Number>
struct ShiftProblem {
  int64_t width, count, size;          // coordinates of a sample; blocks in it; coordinates of a block
  const Number* y;                     // (n, width)
  const int32_t* index;                // (count, size): places of the blocks
  const double* a;                     // (size)
  const double *c, *lower, *upper;     // (1) or (n count); (1, size) or (n count, size)
  bool c_each, lower_each, upper_each; // one for each block of each sample?
  bool equality;
};

template <class Number>
struct ShiftSolution {
  Number* x;                    // (n, width)
  double *shifts, *residual;    // (n count)
  int64_t* steps;               // (n count)
};

// Fills samples start .. stop - 1.
template <class Number>
void clipped_shift(const ShiftProblem<Number>& problem, const ShiftSolution<Number>& solution, int64_t start, int64_t stop);

}  // namespace rayhull
