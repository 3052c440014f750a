// Points that are inside up to rounding -> points that are inside, pulled towards a base point start + scale · along with
// every rounding error counted; before that, what rounding left of them outside the equalities is taken away.
// StrictPull in nn/strict.py is the definition.
#pragma once

#include <cstdint>

namespace rayhull::layer {

// max_i a_i·x / h_i - offset_i over rows with slack h, and over bounds coordinate by coordinate.
struct Gauge {
  int64_t rows;
  const double *matrix, *offset;              // (rows, n): a / h; (rows), or null for 0
  const double *upper, *lower;                // (n): 1 / h of the bounds, 0 where there is none; or null
  const double *upper_offset, *lower_offset;  // (n), or null for 0

  bool is_there() const { return rows > 0 || upper; }
};

struct StrictPullProblem {
  int64_t width, count;        // coordinates of a sample; blocks in it
  const int32_t* places;       // (count, n)
  const double* sign;          // (count): -1 for mirror images
  int64_t n, rank;             // coordinates of a block; columns of `equal`
  const double *hull, *equal;  // (n), (n, rank) orthonormal
  const double *start, *along;  // (n)
  Gauge tight, loose;
  double loose_slope, tight_slope, constant, kept, tiny, reach, limit;
  bool moving, conic;  // the base point follows the point; 0 is in the set
};

// The blocks of the samples start .. stop - 1, x and out (samples, width).
template <class T>
void strict_pull(const StrictPullProblem& problem, const T* x, T* out, int64_t start, int64_t stop);

}  // namespace rayhull::layer
