// The operator around clipped_shift.
#pragma once

#include "../projection/clipped_shift.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

struct ShiftArguments {
  Tensor y, index, a, c, lower, upper, out, shifts, residual, steps;
  bool equality;
};

template <class Number>
void run_clipped_shift(const ShiftArguments& given) {
  const int64_t n = given.y.size(0), width = given.y.size(1), count = given.index.size(0), size = given.index.size(1);
  const ShiftProblem<Number> problem{width, count, size, read<Number>(given.y), read<int32_t>(given.index),
                                     read<double>(given.a), read<double>(given.c), read<double>(given.lower),
                                     read<double>(given.upper), given.c.size(0) > 1, given.lower.size(0) > 1,
                                     given.upper.size(0) > 1, given.equality};
  const ShiftSolution<Number> solution{write<Number>(given.out), write<double>(given.shifts),
                                       write<double>(given.residual), write<int64_t>(given.steps)};
  parallel(n, 1 + (1 << 18) / width, [&](int64_t a, int64_t b) { clipped_shift(problem, solution, a, b); });
}

// y (n, width) float or double, index (count, size) of the blocks, a (size), c (1 or n count, 1), bounds (1 or n count,
// size); writes the blocks of `out`, which is like y. -> shifts, residual, steps (n count)
inline std::tuple<Tensor, Tensor, Tensor> clipped_shift_blocks(Tensor y, Tensor index, Tensor a, Tensor c, Tensor lower,
                                                               Tensor upper, bool equality, Tensor out) {
  const bool single = y.scalar_type() == scalar_type<float>();
  y = single ? dense<float>(y, 2) : dense<double>(y, 2);
  STD_TORCH_CHECK(out.is_contiguous() && out.scalar_type() == y.scalar_type() && out.numel() == y.numel() && out.is_cpu(),
                  "rayhull: the result must be contiguous and like y");
  index = dense<int32_t>(index, 2), a = dense<double>(a, 1);
  const int64_t n = y.size(0), count = index.size(0), size = index.size(1), blocks = n * count;
  STD_TORCH_CHECK(a.numel() == size && size >= 1, "rayhull: one coefficient for each coordinate of a block");
  check_indices(index, y.size(1));
  c = sides(c, blocks, 1), lower = sides(lower, blocks, size), upper = sides(upper, blocks, size);
  Tensor shifts = empty<double>({blocks}), residual = empty<double>({blocks}), steps = empty<int64_t>({blocks});
  const ShiftArguments given{y, index, a, c, lower, upper, out, shifts, residual, steps, equality};
  single ? run_clipped_shift<float>(given) : run_clipped_shift<double>(given);
  return {shifts, residual, steps};
}

}  // namespace rayhull
