// The operators around SparseCholesky: a factor worked out once, and solves for many right-hand sides.
#pragma once

#include "../projection/sparse_cholesky.hpp"
#include "tensors.hpp"

#include <tuple>

namespace rayhull {

template <class T>
Tensor copied(const T* from, int64_t size) {
  Tensor made = empty<T>({size});
  std::copy(from, from + size, write<T>(made));
  return made;
}

// Columns of entries: begin (n + 1), rows (entries) below n.
inline void check_columns(const Tensor& begin, const Tensor& rows, int64_t n) {
  const int64_t* at = read<int64_t>(begin);
  bool fine = n >= 0 && at[0] == 0 && at[n] == rows.numel();
  for (int64_t j = 0; j < n; j++) fine &= at[j] <= at[j + 1];
  STD_TORCH_CHECK(fine, "rayhull: columns do not fit together");
  check_indices(rows, n);
}

// A symmetric matrix by columns, of which the lower triangle is read -> L below its diagonal: begin, rows, entries; 1 / D
inline std::tuple<Tensor, Tensor, Tensor, Tensor> sparse_factor(Tensor begin, Tensor rows, Tensor data) {
  begin = dense<int64_t>(begin, 1), rows = dense<int32_t>(rows, 1), data = dense<double>(data, 1);
  const int64_t n = begin.numel() - 1;
  check_columns(begin, rows, n);
  STD_TORCH_CHECK(data.numel() == rows.numel(), "rayhull: one number for each entry");
  const PatternOfFactor found(n, read<int64_t>(begin), read<int32_t>(rows));
  const Pattern pattern = found.view();
  const Tensor lower = empty<double>({pattern.begin[n]}), inverse = empty<double>({n});
  factor_columns(pattern, read<int64_t>(begin), read<int32_t>(rows), read<double>(data), write<double>(lower),
                 write<double>(inverse));
  return {copied(pattern.begin, n + 1), copied(pattern.rows, pattern.begin[n]), lower, inverse};
}

// The solutions (N, n) for right-hand sides b (N, n); order (n): which coordinate each column of L stands for
inline Tensor sparse_solve(Tensor begin, Tensor rows, Tensor lower, Tensor inverse, Tensor order, Tensor b) {
  begin = dense<int64_t>(begin, 1), rows = dense<int32_t>(rows, 1), order = dense<int32_t>(order, 1), b = dense<double>(b, 2);
  lower = dense<double>(lower, 1), inverse = dense<double>(inverse, 1);
  const int64_t count = b.size(0), n = b.size(1);
  STD_TORCH_CHECK(begin.numel() == n + 1 && inverse.numel() == n && order.numel() == n && lower.numel() == rows.numel(),
                  "rayhull: right-hand sides of another length than the factor");
  check_columns(begin, rows, n);
  check_indices(order, n);
  const Pattern pattern{n, read<int64_t>(begin), read<int32_t>(rows)};
  const Tensor x = empty<double>({count, n});
  parallel((count + EIGHT - 1) / EIGHT, 1, [&](int64_t from, int64_t end) {
    std::vector<Eight> lanes(n, eight(0.0));
    for (int64_t s = from * EIGHT; s < std::min(end * EIGHT, count); s += EIGHT) {
      const int64_t some = std::min(EIGHT, count - s);
      for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < some; k++) lanes[j].set(k, read<double>(b)[(s + k) * n + read<int32_t>(order)[j]]);
      solve_lanes(pattern, read<double>(lower), read<double>(inverse), lanes.data());
      for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < some; k++) write<double>(x)[(s + k) * n + read<int32_t>(order)[j]] = lanes[j].get(k);
    }
  });
  return x;
}

}  // namespace rayhull
