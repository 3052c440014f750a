// The operators around solve_active_set, active_set_backward and active_multipliers.
#pragma once

#include "../projection/active_set.hpp"
#include "tensors.hpp"

namespace rayhull {

using FoundAndBlurred = std::tuple<Tensor, Tensor, Tensor, Tensor, int64_t, int64_t>;

inline FoundAndBlurred with_blurred(const std::pair<Found, int64_t>& found) {
  return std::tuple_cat(found.first, std::make_tuple(found.second));
}

// Rows as tensors: dense (M, d), dense for each sample (n, M, d), or the entries of sparse ones with their columns. `sweep`
// beside `roots` is the order in which differences are tried; alone, that of banded rows.
struct RowTensors {
  Tensor data, columns, begin, products, lengths;
  std::optional<Tensor> roots, sweep;
  Rows rows;
  int64_t stride = 0;

  RowTensors(Tensor data_, Tensor columns_, Tensor begin_, Tensor products_, Tensor lengths_,
             std::optional<Tensor> roots_, std::optional<Tensor> sweep_, int64_t n, int64_t d)
      : data(dense<double>(data_, data_.dim())), columns(dense<int32_t>(columns_, 1)), begin(dense<int64_t>(begin_, 1)),
        products(dense<double>(products_, 2)), lengths(dense<double>(lengths_, 1)) {
    const bool sparse = data.dim() == 1, shared = data.dim() != 3;
    const int64_t count = sparse ? begin.numel() - 1 : data.size(data.dim() - 2);
    STD_TORCH_CHECK(sparse || data.size(data.dim() - 1) == d, "rayhull: rows of another width than the points");
    STD_TORCH_CHECK(!shared || lengths.numel() == count, "rayhull: one length for each row");
    STD_TORCH_CHECK(shared || data.size(0) == n, "rayhull: rows for another number of samples");
    STD_TORCH_CHECK(products.numel() == 0 || products.numel() == count * count, "rayhull: products of other rows");
    STD_TORCH_CHECK(!sparse || columns.numel() == data.numel(), "rayhull: sparse rows do not fit together");
    if (sparse) check_sparse(begin, columns, count, d);
    if (sweep_) sweep = dense<int32_t>(*sweep_, 1), check_indices(*sweep, count);
    if (roots_ && sweep_) roots = dense<double>(*roots_, 1), check_differences(count, d);
    rows = {count, d, read<double>(data), sparse ? read<int32_t>(columns) : nullptr,
            sparse ? read<int64_t>(begin) : nullptr, products.numel() && shared ? read<double>(products) : nullptr,
            read<double>(lengths), roots ? read<double>(*roots) : nullptr,
            roots ? read<int32_t>(*sweep) : nullptr};
    if (sweep && !roots) rows.order = read<int32_t>(*sweep), rows.ordered = sweep->numel();
    stride = shared ? 0 : count * d;
  }

 private:
  void check_differences(int64_t count, int64_t d) const {
    STD_TORCH_CHECK(data.dim() == 1 && roots->numel() == d && sweep->numel() == count,
                    "rayhull: differences are sparse rows, with a root for each coordinate");
    const int64_t* places = read<int64_t>(begin);
    const double *entries = read<double>(data), *root = read<double>(*roots);
    bool fine = true;
    for (int64_t i = 0; i < count; i++) fine &= places[i] == 2 * i;
    for (int64_t i = 0; i < count && fine; i++) fine &= entries[2 * i] * entries[2 * i + 1] < 0.0;
    for (int64_t j = 0; j < d; j++) fine &= root[j] > 0.0;
    STD_TORCH_CHECK(fine && data.numel() == 2 * count, "rayhull: rows that are no differences");
  }
};

// A first guess (blocks, rows) and (blocks, d), or none; c (1 or blocks, rows), bounds (1 or blocks, d)
// -> multipliers (blocks, rows), residual, steps, status (blocks), open, blurred
inline FoundAndBlurred active_set(Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor data, Tensor columns,
                                  Tensor begin, Tensor products, Tensor lengths, std::optional<Tensor> roots,
                                  std::optional<Tensor> sweep, int64_t m, Tensor c, Tensor lower, Tensor upper,
                                  std::optional<Tensor> active, std::optional<Tensor> state, int64_t gradient_steps,
                                  double step, int64_t pivots, int64_t exact_steps, bool clamped) {
  const PlaceTensors at(x, index, scale, out);
  const int64_t n = at.blocks(), d = at.places.size;
  const RowTensors given(data, columns, begin, products, lengths, roots, sweep, n, d);
  const int64_t count = given.rows.count;
  const BlockTensors blocks(at, c, lower, upper, count);
  STD_TORCH_CHECK(0 <= m && m <= count, "rayhull: more inequalities than rows");
  if (active) active = dense<bool>(*active, 2);
  if (state) state = dense<int8_t>(*state, 2);
  STD_TORCH_CHECK((!active || active->numel() == n * count) && (!state || state->numel() == n * d),
                  "rayhull: a guess of another shape");
  const Problem problem{at.places, given.rows, given.stride, m, side(blocks.c), side(blocks.lower), side(blocks.upper),
                        active ? read<bool>(*active) : nullptr, state ? read<int8_t>(*state) : nullptr};
  const Effort effort{gradient_steps, step, pivots, exact_steps, clamped};
  return with_blurred(blocks.solve(8, [&](auto... to) { return solve_active_set(problem, effort, to...); }));
}

// g (n, D) and the multipliers (blocks, rows) of the forward pass -> the gradient in x to out, like g
inline void active_set_backward_blocks(Tensor g, Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor data,
                                       Tensor columns, Tensor begin, Tensor products, Tensor lengths,
                                       std::optional<Tensor> roots, std::optional<Tensor> sweep, int64_t m, Tensor multipliers,
                                       Tensor lower, Tensor upper) {
  const int64_t d = index.dim() == 2 ? index.size(1) : 0;
  const RowTensors given(data, columns, begin, products, lengths, roots, sweep, 0, d);
  STD_TORCH_CHECK(given.stride == 0, "rayhull: rows of each sample have a derivative of their own");
  const GradientTensors blocks(g, x, index, scale, out, multipliers, lower, upper, given.rows.count);
  const ActiveGradient problem{blocks.at.places, blocks.by.places, given.rows, m, read<double>(blocks.multipliers),
                               side(blocks.lower), side(blocks.upper)};
  parallel(blocks.at.samples(), 8, [&](int64_t start, int64_t stop) { active_set_backward(problem, start, stop); });
}

// q (n, M), active (n, M), state (n, d) -> w (n, M)
inline Tensor active_system(Tensor data, Tensor columns, Tensor begin, Tensor products, Tensor lengths, Tensor q,
                            Tensor active, Tensor state) {
  q = dense<double>(q, 2), active = dense<bool>(active, 2), state = dense<int8_t>(state, 2);
  const int64_t n = q.size(0), count = q.size(1), d = state.size(1);
  const RowTensors given(data, columns, begin, products, lengths, std::nullopt, std::nullopt, n, d);
  STD_TORCH_CHECK(given.rows.count == count && active.numel() == n * count && state.size(0) == n,
                  "rayhull: rows of another number than the right-hand sides");
  Tensor w = empty<double>({n, count});
  parallel(n, 8, [&](int64_t a, int64_t b) {
    active_multipliers(given.rows, given.stride, read<double>(q), read<bool>(active), read<int8_t>(state),
                       write<double>(w), a, b);
  });
  return w;
}

}  // namespace rayhull
