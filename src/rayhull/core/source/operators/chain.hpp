// The operators around pool_adjacent_violators.
#pragma once

#include "../projection/chain.hpp"
#include "tensors.hpp"

namespace rayhull {

// order (d), rows (d - 1), unit_steps (d - 1), roots (d); the index of the blocks runs along the path
struct PathTensors {
  Tensor order, rows, unit_steps, roots;

  PathTensors(const Tensor& order_, const Tensor& rows_, const Tensor& unit_steps_, const Tensor& roots_, int64_t d)
      : order(dense<int32_t>(order_, 1)), rows(dense<int32_t>(rows_, 1)), unit_steps(dense<double>(unit_steps_, 1)),
        roots(dense<double>(roots_, 1)) {
    STD_TORCH_CHECK(d >= 1 && order.numel() == d && roots.numel() == d && rows.numel() == d - 1 && unit_steps.numel() == d - 1,
                    "rayhull: a path needs a place and a root for each coordinate and a row between two");
    check_indices(order, d), check_indices(rows, d - 1);
  }

  Path path() const { return {read<int32_t>(order), read<int32_t>(rows), read<double>(unit_steps), read<double>(roots)}; }
};

// c (1 or blocks, d - 1), bounds (1 or blocks, d) -> multipliers (blocks, d - 1), residual, steps, status (blocks), open
inline Found pool_adjacent(Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor order, Tensor rows,
                           Tensor unit_steps, Tensor roots, Tensor c, Tensor lower, Tensor upper) {
  const PlaceTensors at(x, index, scale, out);
  const PathTensors along(order, rows, unit_steps, roots, at.places.size);
  const BlockTensors blocks(at, c, lower, upper, at.places.size - 1);
  const ChainProblem problem{at.places, along.path(), side(blocks.c), side(blocks.lower), side(blocks.upper)};
  const auto kernel = [&](auto... to) { return pool_adjacent_violators(problem, to...); };
  return blocks.solve(1 + (1 << 14) / at.places.width, kernel).first;
}

// g (n, D) and the multipliers (blocks, d - 1) of the forward pass -> w alike; the gradient in x to out, like g
inline Tensor pool_adjacent_backward_blocks(Tensor g, Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out,
                                            Tensor order, Tensor rows, Tensor unit_steps, Tensor roots, Tensor multipliers,
                                            Tensor lower, Tensor upper) {
  const PathTensors along(order, rows, unit_steps, roots, index.dim() == 2 ? index.size(1) : 0);
  const GradientTensors blocks(g, x, index, scale, out, multipliers, lower, upper, along.rows.numel());
  const ChainGradient problem{blocks.at.places, blocks.by.places, along.path(), read<double>(blocks.multipliers),
                              side(blocks.lower), side(blocks.upper)};
  return blocks.pull(1 + (1 << 14) / blocks.at.places.width, [&](auto... to) { pool_adjacent_backward(problem, to...); });
}

}  // namespace rayhull
