// The operators around the steps of splitting.
#pragma once

#include "../layer/splitting.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

// Constants of double precision: rows, first (k, n), turn (k, k or rank), last (n, k), onto (n, n).
struct SplittingTensors {
  Tensor rows, first, turn, last, onto;
  layer::SplittingProblem problem;

  SplittingTensors(const Tensor& rows_, const Tensor& first_, const Tensor& turn_, const Tensor& last_, const Tensor& onto_,
                   int64_t steps, double relaxation)
      : rows(dense<double>(rows_, 2)), first(dense<double>(first_, 2)), turn(dense<double>(turn_, 2)),
        last(dense<double>(last_, 2)), onto(dense<double>(onto_, 2)) {
    const int64_t k = rows.size(0), n = rows.size(1);
    STD_TORCH_CHECK(n >= 1 && first.size(0) == k && first.size(1) == n && turn.size(0) == k && last.size(0) == n &&
                        last.size(1) == k && onto.size(0) == n && onto.size(1) == n,
                    "rayhull: constants of the splitting that do not fit each other");
    STD_TORCH_CHECK(steps >= 0 && steps <= (1 << 20), "rayhull: a splitting of no or of a million steps");
    problem = {n, k, turn.size(1), read<double>(rows), read<double>(first), read<double>(turn), read<double>(last),
               read<double>(onto), steps, relaxation};
  }

  void check_points(const Tensor& y) const {
    STD_TORCH_CHECK(y.dim() == 2 && y.size(1) == problem.n, "rayhull: points of another size than the splitting's");
  }

  // run(start, stop) over samples, on threads that take whole groups of eight.
  template <class F>
  void each(int64_t samples, const F& run) const {
    const int64_t n = problem.n, k = problem.k;
    in_eights(samples, 1 + n * (n + 3 * k) + problem.steps * k * problem.rank, run);
  }
};

template <class T>
std::tuple<Tensor, Tensor> splitting_of(const SplittingTensors& by, Tensor y, Tensor low, Tensor high, bool keep) {
  const int64_t samples = y.size(0), k = by.problem.k;
  y = dense<T>(y, 2), low = sides(low, samples, k), high = sides(high, samples, k);
  const Tensor x = empty<T>({samples, by.problem.n});
  const Tensor states = keep ? empty<int8_t>({samples, by.problem.steps + 1, k}) : empty<int8_t>({0});
  by.each(samples, [&](int64_t start, int64_t stop) {
    layer::splitting(by.problem, read<T>(y), side(low), side(high), write<T>(x), keep ? write<int8_t>(states) : nullptr,
                     start, stop);
  });
  return {x, states};
}

// y (N, n) float or double, low and high (1 or N, k) -> x (N, n), states (N, steps + 1, k) int8, or empty
inline std::tuple<Tensor, Tensor> splitting(Tensor y, Tensor rows, Tensor first, Tensor turn, Tensor last, Tensor onto,
                                            Tensor low, Tensor high, int64_t steps, double relaxation, bool keep) {
  const SplittingTensors by(rows, first, turn, last, onto, steps, relaxation);
  by.check_points(y);
  return is_double(y) ? splitting_of<double>(by, y, low, high, keep) : splitting_of<float>(by, y, low, high, keep);
}

template <class T>
std::tuple<Tensor, Tensor, Tensor> splitting_backward_of(const SplittingTensors& by, Tensor g, Tensor states) {
  const int64_t samples = g.size(0), n = by.problem.n, k = by.problem.k;
  g = dense<T>(g, 2), states = dense<int8_t>(states, 3);
  STD_TORCH_CHECK(states.size(0) == samples && states.size(1) == by.problem.steps + 1 && states.size(2) == k,
                  "rayhull: states of another splitting");
  const Tensor to_y = empty<T>({samples, n}), to_low = empty<T>({samples, k}), to_high = empty<T>({samples, k});
  by.each(samples, [&](int64_t start, int64_t stop) {
    layer::splitting_backward(by.problem, read<T>(g), read<int8_t>(states), write<T>(to_y), write<T>(to_low),
                              write<T>(to_high), start, stop);
  });
  return {to_y, to_low, to_high};
}

// g (N, n), states as `splitting` kept them -> gradients in y (N, n), low and high (N, k)
inline std::tuple<Tensor, Tensor, Tensor> splitting_backward(Tensor g, Tensor states, Tensor rows, Tensor first, Tensor turn,
                                                             Tensor last, Tensor onto, int64_t steps, double relaxation) {
  const SplittingTensors by(rows, first, turn, last, onto, steps, relaxation);
  by.check_points(g);
  return is_double(g) ? splitting_backward_of<double>(by, g, states) : splitting_backward_of<float>(by, g, states);
}

}  // namespace rayhull
