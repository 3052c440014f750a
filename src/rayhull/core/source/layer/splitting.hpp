// A fixed number of relaxed steps of operator splitting (ADMM on (x, A x) with one factor), and their derivative. For y (n):
//
//   t = rows y,  s = first y
//   repeat: w = clamp(t, low, high),  t += relaxation (s + T (2 w - t) - w)
//   w = clamp(t, low, high),  x = onto y + last (2 w - t)
#pragma once

#include "../projection/places.hpp"

namespace rayhull::layer {

struct SplittingProblem {
  int64_t n, k, rank;         // coordinates; rows; columns of `turn`
  const double *rows, *first;  // (k, n)
  const double* turn;          // T (k, k), symmetric, or a factor (k, rank) of T = factor factorᵀ
  const double *last, *onto;   // (n, k), (n, n)
  int64_t steps;
  double relaxation;
};

// x (n) of the samples start .. stop - 1, for bounds (k); states (steps + 1, k), or null: -1 where t < low, 1 where t > high, else 0.
template <class T>
void splitting(const SplittingProblem& problem, const T* y, Side low, Side high, T* x, int8_t* states, int64_t start,
               int64_t stop);

// From the gradient in x (n) to those in y (n), low and high (k).
template <class T>
void splitting_backward(const SplittingProblem& problem, const T* g, const int8_t* states, T* to_y, T* to_low, T* to_high,
                        int64_t start, int64_t stop);

}  // namespace rayhull::layer
