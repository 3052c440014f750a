// The operator around the leak.
#pragma once

#include "../layer/leak.hpp"
#include "tensors.hpp"

namespace rayhull {

template <class T>
Tensor leak_of(Tensor g, Tensor d, std::optional<Tensor> through, std::optional<Tensor> unit, Tensor block, double share,
               double far, bool clamps) {
  for (Tensor* points : {&g, &d, through ? &*through : &d}) {
    *points = dense<T>(*points, 2);
    STD_TORCH_CHECK(points->size(0) == g.size(0) && points->size(1) == g.size(1), "rayhull: gradients of other points");
  }
  const int64_t samples = g.size(0), n = g.size(1);
  block = dense<int64_t>(block, 1);
  if (unit) unit = dense<T>(*unit, 1);
  STD_TORCH_CHECK((!unit || unit->numel() == n) && (block.numel() == 0 || block.numel() == n),
                  "rayhull: one unit and one block for each coordinate");
  const int64_t* number = block.numel() ? read<int64_t>(block) : nullptr;
  int64_t blocks = 1;
  for (int64_t j = 0; number && j < n; j++) {
    STD_TORCH_CHECK(0 <= number[j] && number[j] < n, "rayhull: an index out of range");
    blocks = std::max(blocks, number[j] + 1);
  }
  const Tensor out = empty<T>({samples, n});
  const layer::Leak<T> problem{n, blocks, read<T>(g), read<T>(d), unit ? read<T>(*unit) : nullptr, number,
                               share, far, through ? read<T>(*through) : nullptr, clamps, write<T>(out)};
  in_eights(samples, 4 * (n + 1), [&](auto... which) { layer::leak(problem, which...); });
  return out;
}

// g, d, through (N, n) float or double, unit (n) alike, block (n) or (0) int64 -> (N, n)
inline Tensor leak(Tensor g, Tensor d, std::optional<Tensor> through, std::optional<Tensor> unit, Tensor block, double share,
                   double far, bool clamps) {
  return is_double(g) ? leak_of<double>(g, d, through, unit, block, share, far, clamps)
                      : leak_of<float>(g, d, through, unit, block, share, far, clamps);
}

}  // namespace rayhull
