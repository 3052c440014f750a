// The operator around the leak, for maps that the tail does not take.
#pragma once

#include "../layer/leak.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

template <class T>
std::tuple<Tensor, Tensor> leak_of(Tensor g, Tensor x, Tensor free, const int64_t* block, double share) {
  g = dense<T>(g, 2), x = dense<T>(x, 2), free = dense<T>(free, 2);
  const int64_t n = x.size(0), d = x.size(1);
  STD_TORCH_CHECK(g.size(0) == n && free.size(0) == n && g.size(1) == d && free.size(1) == d,
                  "rayhull: a gradient or free points of another shape than the points");
  Tensor rest = empty<T>({n, d}), past = empty<T>({n, d});
  const layer::LeakRows<T> rows{read<T>(g), read<T>(x), read<T>(free), block, d, share, write<T>(rest), write<T>(past)};
  const int64_t groups = (n + 7) / 8;  // threads take whole groups of eight samples
  parallel(groups, 1 + (1 << 12) / (1 + d), [&](int64_t a, int64_t b) { rows.run(8 * a, std::min(n, 8 * b)); });
  return {rest, past};
}

// g, x, free (n, d); block (d) the number of each coordinate's block, or empty for one block -> the share of g that the
// map's derivative takes, and what reaches the free points past it.
inline std::tuple<Tensor, Tensor> leak(Tensor g, Tensor x, Tensor free, Tensor block, double share) {
  block = dense<int64_t>(block, 1);
  const int64_t d = x.dim() == 2 ? x.size(1) : 0, *numbers = block.numel() ? read<int64_t>(block) : nullptr;
  STD_TORCH_CHECK(!numbers || block.numel() == d, "rayhull: one block for each coordinate");
  for (int64_t j = 0; j < block.numel(); j++) {
    STD_TORCH_CHECK(0 <= numbers[j] && numbers[j] < d, "rayhull: a block out of range");
  }
  STD_TORCH_CHECK(share > 0.0 && share <= 1.0, "rayhull: a leak is a share");
  if (x.scalar_type() == scalar_type<double>()) return leak_of<double>(g, x, free, numbers, share);
  return leak_of<float>(g, x, free, numbers, share);
}

}  // namespace rayhull
