// Sparse rows and bounds: an interior-point method finds what is active, a Newton method on the active set the point; eight
// samples side by side. Rows may depend on each other.
#pragma once

#include "active_set.hpp"
#include "sparse_cholesky.hpp"

namespace rayhull {

// Intervals low <= G z <= high, one for each pair of opposite rows, in the order of elimination.
struct Intervals {
  Rows rows;                         // sparse; coordinates in the order of elimination too
  const int32_t *high, *low;         // (rows) the stated row that is the side, or -1; the same where it is an equality
  const int32_t* coordinate;         // (d) the stated coordinate
  Pattern pattern;                   // of L for the system below
  bool by_rows;                      // it is that of the rows, else that of the coordinates
};

// As solve_active_set, from `guess`: multipliers (blocks, rows), or null. `problem.rows` are those stated.
Tally solve_interior_point(const Problem& problem, const Intervals& intervals, const double* guess, double* multipliers,
                           const Report& report, int64_t start, int64_t stop);

// As active_multipliers; multipliers of opposite rows that are both active are shared between them.
void interval_multipliers(const Intervals& intervals, int64_t count, const double* q, const bool* active, const int8_t* state,
                          double* w, int64_t start, int64_t stop);

}  // namespace rayhull
