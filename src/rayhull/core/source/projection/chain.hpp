// Pool adjacent violators: the nearest sequence x[k] <= x[k + 1] + step[k], with weights and bounds.
#pragma once

#include "places.hpp"

namespace rayhull {

// The places run along the path; bounds, right-hand sides and multipliers have the order of the standard form.
struct Path {
  const int32_t* order;       // (d) the coordinate of each place on the path
  const int32_t* rows;        // (d - 1) the row between two places
  const double* unit_steps;   // (d - 1) for each row: step = c * unit step, and a multiplier alike
  const double* roots;        // (d) along the path: coordinates are roots * x, and weights their squares
};

struct ChainProblem {
  Places places;
  Path path;
  Side c, lower, upper;  // (d - 1), (d), (d)
};

// Fills the blocks of samples start .. stop - 1, multipliers (d - 1) each.
Tally pool_adjacent_violators(const ChainProblem& problem, double* multipliers, const Report& report, int64_t start,
                              int64_t stop);

struct ChainGradient {
  Places points, gradients;
  Path path;
  const double* multipliers;  // (blocks, d - 1)
  Side lower, upper;
};

// From gradients in x to those in y, and w (blocks, d - 1), the multipliers of the backward system.
void pool_adjacent_backward(const ChainGradient& problem, double* w, int64_t start, int64_t stop);

}  // namespace rayhull
