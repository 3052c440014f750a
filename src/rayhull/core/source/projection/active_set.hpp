// Any rows and bounds: block pivoting first, in lanes where rows are banded, the exact method where it gave up, a
// certificate for every sample.
#pragma once

#include "places.hpp"
#include "rows.hpp"

namespace rayhull {

struct Problem {
  Places places;
  Rows rows;
  int64_t rows_stride;     // entries from one block's dense rows to the next; 0 where all share them
  int64_t m;               // rows that are inequalities; equalities follow
  Side c, lower, upper;    // (rows), (d), (d)
  const bool* active;      // (blocks, rows) a first guess; null: the equalities
  const int8_t* state;     // (blocks, d) as `active`: 1 at the upper bound, -1 at the lower
};

struct Effort {
  int64_t gradient_steps;  // for a first guess
  double step;             // their length; 0: found for each sample from its rows
  int64_t pivots;          // of block pivoting, before it gives up
  int64_t exact_steps;     // of the exact method
  bool clamped;            // solve without the bounds, then clip: the same point for an order in one box
};

// Fills the blocks of samples start .. stop - 1.
Tally solve_active_set(const Problem& problem, const Effort& effort, double* multipliers, const Report& report,
                       int64_t start, int64_t stop);

struct ActiveGradient {
  Places points, gradients;
  Rows rows;                  // shared by all samples
  int64_t m;
  const double* multipliers;  // (blocks, rows) of the forward pass: they say what is active
  Side lower, upper;
};

// From gradients in x to those in y.
void active_set_backward(const ActiveGradient& problem, int64_t start, int64_t stop);

// w with (G D G^T) w = q over the active rows, 0 elsewhere and for dependent rows: the rule that every derivative has.
void active_multipliers(const Rows& rows, int64_t rows_stride, const double* q, const bool* active, const int8_t* state,
                        double* w, int64_t start, int64_t stop);

}  // namespace rayhull
