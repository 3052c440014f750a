// The operator around pool_adjacent_violators.
#pragma once

#include "../projection/chain.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

// The index runs along the path: order (d), rows (d - 1), unit_steps (d - 1), roots (d); c (1 or blocks, d - 1), bounds
// (1 or blocks, d) -> multipliers (blocks, d - 1), residual, steps, status (blocks), open
inline std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t> pool_adjacent(
    Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor order, Tensor rows, Tensor unit_steps,
    Tensor roots, Tensor c, Tensor lower, Tensor upper) {
  const PlaceTensors at(x, index, scale, out);
  const int64_t d = at.places.size, blocks = at.blocks();
  order = dense<int32_t>(order, 1), rows = dense<int32_t>(rows, 1);
  unit_steps = dense<double>(unit_steps, 1), roots = dense<double>(roots, 1);
  STD_TORCH_CHECK(d >= 1 && order.numel() == d && roots.numel() == d && rows.numel() == d - 1 && unit_steps.numel() == d - 1,
                  "rayhull: a path needs a place and a root for each coordinate and a row between two");
  check_indices(order, d), check_indices(rows, d - 1);
  c = sides(c, blocks, d - 1), lower = sides(lower, blocks, d), upper = sides(upper, blocks, d);
  const Tensor multipliers = empty<double>({blocks, d - 1});
  const ReportTensors to(blocks);
  const ChainProblem problem{at.places,           read<int32_t>(order), read<int32_t>(rows), read<double>(unit_steps),
                             read<double>(roots), side(c),              side(lower),         side(upper)};
  std::atomic<int64_t> open{0};
  parallel(at.samples(), 1 + (1 << 14) / at.places.width, [&](int64_t from, int64_t end) {
    open += pool_adjacent_violators(problem, write<double>(multipliers), to.report(), from, end);
  });
  return {multipliers, to.residual, to.steps, to.status, open};
}

}  // namespace rayhull
