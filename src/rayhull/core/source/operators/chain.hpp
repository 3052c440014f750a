// The operator around pool_adjacent_violators.
#pragma once

#include "../projection/chain.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

// y (n, d), weights (d), bounds (1 or n, d) -> x, joined, state, residual, status
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> pool_adjacent(Tensor y, Tensor weights, Tensor lower, Tensor upper) {
  const int64_t n = y.size(0), d = y.size(1);
  y = dense<double>(y), weights = dense<double>(weights), lower = dense<double>(lower), upper = dense<double>(upper);
  STD_TORCH_CHECK(weights.numel() == d && lower.size(1) == d && upper.size(1) == d, "chain: widths differ");
  Tensor x = empty<double>({n, d}), joined = empty<bool>({n, d - 1}), state = empty<int8_t>({n, d});
  Tensor residual = empty<double>({n}), status = empty<int64_t>({n});
  const ChainProblem problem{d, read<double>(weights), read<double>(y), read<double>(lower), read<double>(upper),
                             stride_of(lower, n), stride_of(upper, n)};
  const ChainSolution solution{write<double>(x), write<bool>(joined), write<int8_t>(state), write<double>(residual),
                               write<int64_t>(status)};
  parallel(n, 256, [&](int64_t a, int64_t b) { pool_adjacent_violators(problem, solution, a, b); });
  return {x, joined, state, residual, status};
}

}  // namespace rayhull
