// The operator around the strict pull.
#pragma once

#include "../layer/strict_pull.hpp"
#include "tensors.hpp"

namespace rayhull {

// rows (m, n), rhs (m) or none, bounds (0, n), (2, n): upper and lower 1 / slack, or (4, n): and their offsets
inline layer::Gauge gauge_of(const Tensor& rows, const Tensor* rhs, const Tensor& bounds, int64_t n) {
  const int64_t count = rows.size(0), parts = rhs ? 4 : 2;
  STD_TORCH_CHECK(rows.size(1) == n && bounds.size(1) == n && (bounds.size(0) == 0 || bounds.size(0) == parts),
                  "rayhull: a gauge of another size than the points");
  STD_TORCH_CHECK(!rhs || rhs->numel() == count, "rayhull: one right-hand side for each row");
  const double* of = bounds.size(0) ? read<double>(bounds) : nullptr;
  const auto part = [&](int64_t k) { return of && k < parts ? of + k * n : nullptr; };
  return {count, read<double>(rows), rhs ? read<double>(*rhs) : nullptr, part(0), part(1), part(2), part(3)};
}

template <class T>
Tensor strict_pull_of(const layer::StrictPullProblem& problem, Tensor x) {
  x = dense<T>(x, 2);
  const int64_t n = problem.n;
  const Tensor out = empty<T>({x.size(0), problem.width});
  const int64_t work = 1 + problem.count * n * (8 + 4 * problem.rank + problem.tight.rows + problem.loose.rows);
  in_eights(x.size(0), work, [&](auto... which) { layer::strict_pull(problem, read<T>(x), write<T>(out), which...); });
  return out;
}

// x (N, D) float or double -> the same, its blocks inside: places (count, n), sign (count); hull, start, along (n),
// equal (n, q), numbers (7)
inline Tensor strict_pull(Tensor x, Tensor places, Tensor sign, Tensor hull, Tensor equal, Tensor start, Tensor along,
                          Tensor tight, Tensor tight_bounds, Tensor loose, Tensor loose_rhs, Tensor loose_bounds,
                          Tensor numbers, bool moving, bool conic) {
  places = dense<int32_t>(places, 2);
  for (Tensor* one : {&sign, &hull, &start, &along, &loose_rhs, &numbers}) *one = dense<double>(*one, 1);
  for (Tensor* two : {&equal, &tight, &tight_bounds, &loose, &loose_bounds}) *two = dense<double>(*two, 2);
  const int64_t n = start.numel();
  const int64_t count = places.size(0), width = x.dim() == 2 ? x.size(1) : 0;
  STD_TORCH_CHECK(places.size(1) == n && count * n <= width && sign.numel() == count && n >= 1 && along.numel() == n &&
                      equal.size(0) == n && hull.numel() == n,
                  "rayhull: points of another size than the strict pull's");
  check_indices(places, width);
  STD_TORCH_CHECK(numbers.numel() == 7, "rayhull: seven numbers say what rounding may take");
  const double* v = read<double>(numbers);
  const layer::StrictPullProblem problem{
      width, count, read<int32_t>(places), read<double>(sign), n, equal.size(1),
      read<double>(hull), read<double>(equal), read<double>(start), read<double>(along),
      gauge_of(tight, nullptr, tight_bounds, n), gauge_of(loose, &loose_rhs, loose_bounds, n), v[0], v[1], v[2], v[3], v[4],
      v[5], v[6], moving, conic};
  return is_double(x) ? strict_pull_of<double>(problem, x) : strict_pull_of<float>(problem, x);
}

}  // namespace rayhull
