// The operator around pool_adjacent_violators.
#pragma once

#include "../projection/chain.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

inline void check_path(int64_t d, Tensor& order, Tensor& rows, Tensor& unit_steps, Tensor& roots) {
  order = dense<int32_t>(order, 1), rows = dense<int32_t>(rows, 1);
  unit_steps = dense<double>(unit_steps, 1), roots = dense<double>(roots, 1);
  STD_TORCH_CHECK(d >= 1 && order.numel() == d && roots.numel() == d && rows.numel() == d - 1 && unit_steps.numel() == d - 1,
                  "rayhull: a path needs a place and a root for each coordinate and a row between two");
  check_indices(order, d), check_indices(rows, d - 1);
}

// The index runs along the path: order (d), rows (d - 1), unit_steps (d - 1), roots (d); c (1 or blocks, d - 1), bounds
// (1 or blocks, d) -> multipliers (blocks, d - 1), residual, steps, status (blocks), open
inline std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t> pool_adjacent(
    Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor order, Tensor rows, Tensor unit_steps,
    Tensor roots, Tensor c, Tensor lower, Tensor upper) {
  const PlaceTensors at(x, index, scale, out);
  const int64_t d = at.places.size, blocks = at.blocks();
  check_path(d, order, rows, unit_steps, roots);
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

// g (n, D) and the multipliers (blocks, d - 1) of the forward pass -> w alike; the gradient in x to out, like g
inline Tensor pool_adjacent_backward_blocks(Tensor g, Tensor x, Tensor index, std::optional<Tensor> scale, Tensor multipliers,
                                            Tensor order, Tensor rows, Tensor unit_steps, Tensor roots, Tensor lower,
                                            Tensor upper, Tensor out) {
  const PlaceTensors at(x, index, scale), by = gradients(at, g, scale, out);
  const int64_t d = at.places.size, blocks = at.blocks();
  check_path(d, order, rows, unit_steps, roots);
  multipliers = dense<double>(multipliers, 2), lower = sides(lower, blocks, d), upper = sides(upper, blocks, d);
  STD_TORCH_CHECK(multipliers.size(0) == blocks && multipliers.size(1) == d - 1, "rayhull: one multiplier for each row");
  const Tensor w = empty<double>({blocks, d - 1});
  const ChainGradient problem{at.places,           by.places,          read<int32_t>(order),      read<int32_t>(rows),
                              read<double>(unit_steps), read<double>(roots), read<double>(multipliers), side(lower), side(upper)};
  parallel(at.samples(), 1 + (1 << 14) / at.places.width,
           [&](int64_t from, int64_t end) { pool_adjacent_backward(problem, write<double>(w), from, end); });
  return w;
}

}  // namespace rayhull
