// The operators around clipped_shift.
#pragma once

#include "../projection/clipped_shift.hpp"
#include "tensors.hpp"

namespace rayhull {

inline Tensor checked_row(const Tensor& a, const PlaceTensors& at) {
  STD_TORCH_CHECK(a.numel() == at.places.size && a.numel() >= 1, "rayhull: one coefficient for each coordinate of a block");
  return dense<double>(a, 1);
}

// a (size), c (1 or blocks, 1), bounds (1 or blocks, size) -> shifts (blocks, 1), residual, steps, status (blocks), open
inline Found clipped_shift_blocks(Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor a, Tensor c,
                                  Tensor lower, Tensor upper, bool equality) {
  const BlockTensors blocks({x, index, scale, out}, c, lower, upper, 1);
  a = checked_row(a, blocks.at);
  const Places& places = blocks.at.places;
  const ShiftProblem problem{places, read<double>(a), side(blocks.c), side(blocks.lower), side(blocks.upper), equality};
  return blocks.solve(1 + (1 << 18) / places.width, [&](auto... to) { return clipped_shift(problem, to...); }).first;
}

// g (n, D) and the shifts (blocks, 1) of the forward pass -> w (blocks, 1); the gradient in x to out, like g
inline Tensor clipped_shift_backward_blocks(Tensor g, Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor a,
                                            Tensor shifts, Tensor lower, Tensor upper, bool equality) {
  const GradientTensors blocks(g, x, index, scale, out, shifts, lower, upper, 1);
  a = checked_row(a, blocks.at);
  const ShiftGradient problem{blocks.at.places, blocks.by.places, read<double>(a), read<double>(blocks.multipliers),
                              side(blocks.lower), side(blocks.upper), equality};
  return blocks.pull(1 + (1 << 16) / blocks.at.places.width, [&](auto... to) { clipped_shift_backward(problem, to...); });
}

}  // namespace rayhull
