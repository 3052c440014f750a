// The operator around pool_adjacent_violators.
#pragma once

#include "../projection/chain.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

// y (n, d), weights (d), bounds (1 or n, d) -> x (n, d), multipliers (n, d - 1), residual (n), status (n)
inline std::tuple<Tensor, Tensor, Tensor, Tensor> pool_adjacent(Tensor y, Tensor weights, Tensor lower, Tensor upper) {
  y = dense<double>(y, 2), weights = dense<double>(weights, 1);
  const int64_t n = y.size(0), d = y.size(1);
  lower = sides(lower, n, d), upper = sides(upper, n, d);
  STD_TORCH_CHECK(d >= 1 && weights.numel() == d, "rayhull: a chain needs one weight for each coordinate");
  Tensor x = empty<double>({n, d}), multipliers = empty<double>({n, d - 1});
  Tensor residual = empty<double>({n}), status = empty<int64_t>({n});
  const ChainProblem problem{d, read<double>(weights), read<double>(y), read<double>(lower), read<double>(upper),
                             stride_of(lower), stride_of(upper)};
  const ChainSolution solution{write<double>(x), write<double>(multipliers), write<double>(residual),
                               write<int64_t>(status)};
  parallel(n, 1 + (1 << 14) / d, [&](int64_t a, int64_t b) { pool_adjacent_violators(problem, solution, a, b); });
  return {x, multipliers, residual, status};
}

}  // namespace rayhull
