// Any rows and bounds: block pivoting first, the exact method where it gave up, a certificate for every sample.
#pragma once

#include <cstdint>

#include "rows.hpp"

namespace rayhull {

struct Problem {
  Rows rows;
  int64_t rows_stride;                           // entries from one sample's dense rows to the next; 0 where all share them
  int64_t m;                                     // rows that are inequalities; equalities follow
  const double *c, *lower, *upper, *y;           // (1 or n, rows), (1 or n, d), (n, d)
  int64_t c_stride, lower_stride, upper_stride;  // 0 where one row serves all
};

struct Effort {
  int64_t gradient_steps;  // for a first guess
  double step;             // their length; 0: found for each sample from its rows
  int64_t pivots;          // of block pivoting, before it gives up
  int64_t exact_steps;     // of the exact method
  bool lazy;               // bounds last: on chains the bounds of a first guess mislead
};

struct Solution {
  bool* active;                     // (n, rows): the first guess, overwritten
  int8_t* state;                    // (n, d): as `active`
  double *multipliers, *x;          // (n, rows), (n, d)
  int64_t *status, *steps;          // (n)
  double* residual;                 // (n)
};

// Fills samples start .. stop - 1.
void solve_active_set(const Problem& problem, const Effort& effort, const Solution& solution, int64_t start, int64_t stop);

// w with (G D G^T) w = q over the active rows, 0 elsewhere and for dependent rows: the backward rule.
void active_multipliers(const Rows& rows, int64_t rows_stride, const double* q, const bool* active, const int8_t* state,
                        double* w, int64_t start, int64_t stop);

}  // namespace rayhull
