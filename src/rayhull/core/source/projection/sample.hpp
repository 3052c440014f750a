// One sample of a problem: the nearest point to y with rows i < m at most c, the others equal to c, and bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "cholesky.hpp"
#include "rows.hpp"
#include "tolerances.hpp"

namespace rayhull {

struct Sample {
  const Rows& rows;
  int64_t m;
  const double *c, *lower, *upper, *y;
  bool* active;          // (rows) the guess to start from, and the answer
  int8_t* state;         // (d) 1 at the upper bound, -1 at the lower, 0 free; as `active`
  double *multipliers, *x;

  int64_t count() const { return rows.count; }
  int64_t d() const { return rows.d; }
  double clip(double value, int64_t j) const { return std::min(std::max(value, lower[j]), upper[j]); }

  // v = y - G^T multipliers
  void dual_point(const double* by, double* v) const {
    std::copy(y, y + d(), v);
    for (int64_t i = 0; i < count(); i++)
      if (by[i] != 0.0) rows.add(i, -by[i], v);
  }
};

inline double largest(const double* x, int64_t d) {
  double size = 0.0;
  for (int64_t j = 0; j < d; j++) size = std::max(size, std::abs(x[j]));
  return size;
}

// Memory that serves one sample after another.
struct Workspace {
  Workspace(int64_t count, int64_t d)
      : factor(count, d), r(count + 1), w(count + 1), excess(count + 1), v(d), direction(d), bound_multipliers(d) {}

  Cholesky factor;
  std::vector<double> r, w, excess;                    // (rows + 1)
  std::vector<double> v, direction, bound_multipliers; // (d)
};

// Multipliers and point for the guess: active rows met with equality, fixed coordinates at their bounds. Returns how many
// active rows depend on others; they are made inactive.
int64_t solve_guess(const Sample& sample, Workspace& work);

// Meets the active rows to the rounding of x; where they meet in 0 and x is only the rounding of y, x becomes 0.
void polish(const Sample& sample, Workspace& work);

// The three methods, each from the guess in `active` and `state`.
void guess_by_gradients(const Sample& sample, double step, int64_t steps, Workspace& work);
// Returns the number of steps, negative if it gave up.
int64_t block_pivoting(const Sample& sample, int64_t most, Workspace& work);
// Returns the status (UNSOLVED: too many steps) and adds to `steps`.
int64_t dual_active_set(const Sample& sample, int64_t most, Workspace& work, int64_t& steps);

// The largest relative error of the optimality conditions, from nothing but y, the rows and the multipliers; fills in
// `active` and `state` as the multipliers say.
double kkt_residual(const Sample& sample, Workspace& work);

}  // namespace rayhull
