// The operator around clipped_shift.
#pragma once

#include "../projection/clipped_shift.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

// a (size), c (1 or blocks, 1), bounds (1 or blocks, size) -> shifts (blocks, 1), residual, steps, status (blocks), open
inline std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t> clipped_shift_blocks(
    Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor a, Tensor c, Tensor lower, Tensor upper,
    bool equality) {
  const PlaceTensors at(x, index, scale, out);
  const int64_t size = at.places.size, blocks = at.blocks();
  a = dense<double>(a, 1);
  STD_TORCH_CHECK(a.numel() == size && size >= 1, "rayhull: one coefficient for each coordinate of a block");
  c = sides(c, blocks, 1), lower = sides(lower, blocks, size), upper = sides(upper, blocks, size);
  const Tensor shifts = empty<double>({blocks, 1});
  const ReportTensors to(blocks);
  const ShiftProblem problem{at.places, read<double>(a), side(c), side(lower), side(upper), equality};
  std::atomic<int64_t> open{0};
  parallel(at.samples(), 1 + (1 << 18) / at.places.width, [&](int64_t from, int64_t end) {
    open += clipped_shift(problem, write<double>(shifts), to.report(), from, end);
  });
  return {shifts, to.residual, to.steps, to.status, open};
}

// g (n, D) and the shifts (blocks, 1) of the forward pass -> w (blocks, 1); the gradient in x to out, like g
inline Tensor clipped_shift_backward_blocks(Tensor g, Tensor x, Tensor index, std::optional<Tensor> scale, Tensor shifts,
                                            Tensor a, Tensor lower, Tensor upper, bool equality, Tensor out) {
  const PlaceTensors at(x, index, scale), by = gradients(at, g, scale, out);
  const int64_t size = at.places.size, blocks = at.blocks();
  a = dense<double>(a, 1), shifts = dense<double>(shifts, 2);
  STD_TORCH_CHECK(a.numel() == size && size >= 1, "rayhull: one coefficient for each coordinate of a block");
  STD_TORCH_CHECK(shifts.numel() == blocks, "rayhull: one shift for each block");
  lower = sides(lower, blocks, size), upper = sides(upper, blocks, size);
  const Tensor w = empty<double>({blocks, 1});
  const ShiftGradient problem{at.places, by.places, read<double>(a), read<double>(shifts), side(lower), side(upper), equality};
  parallel(at.samples(), 1 + (1 << 16) / at.places.width,
           [&](int64_t from, int64_t end) { clipped_shift_backward(problem, write<double>(w), from, end); });
  return w;
}

}  // namespace rayhull
