// Pool adjacent violators: the nearest increasing sequence, with weights and bounds.
#pragma once

#include <cstdint>

namespace rayhull {

struct ChainProblem {
  int64_t d;
  const double* weights;               // (d)
  const double* y;                     // (n, d)
  const double *lower, *upper;         // (1, d) or (n, d)
  int64_t lower_stride, upper_stride;  // 0 where all samples share one row
};

struct ChainSolution {
  double* x;            // (n, d)
  double* multipliers;  // (n, d - 1), of x[i] <= x[i + 1]
  double* residual;     // (n)
  int64_t* status;      // (n): 0 solved, 2 the bounds leave no point
};

// Fills samples start .. stop - 1.
void pool_adjacent_violators(const ChainProblem& problem, const ChainSolution& solution, int64_t start, int64_t stop);

}  // namespace rayhull
