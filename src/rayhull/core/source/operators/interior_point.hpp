// The operators around solve_interior_point, interval_multipliers and PatternOfFactor.
#pragma once

#include "../projection/interior_point.hpp"
#include "active_set.hpp"

namespace rayhull {

// Intervals as tensors: sparse rows (count), of which each side is one of `stated` rows; the pattern of L by columns.
struct IntervalTensors {
  Tensor data, columns, begin, high, low, coordinate, pattern_begin, pattern_rows;
  Intervals intervals;

  IntervalTensors(Tensor data_, Tensor columns_, Tensor begin_, Tensor high_, Tensor low_, Tensor coordinate_,
                  Tensor pattern_begin_, Tensor pattern_rows_, bool by_rows, int64_t stated, int64_t d)
      : data(dense<double>(data_, 1)), columns(dense<int32_t>(columns_, 1)), begin(dense<int64_t>(begin_, 1)),
        high(dense<int32_t>(high_, 1)), low(dense<int32_t>(low_, 1)), coordinate(dense<int32_t>(coordinate_, 1)),
        pattern_begin(dense<int64_t>(pattern_begin_, 1)), pattern_rows(dense<int32_t>(pattern_rows_, 1)) {
    const int64_t count = begin.numel() - 1, n = by_rows ? count : d;
    STD_TORCH_CHECK(high.numel() == count && low.numel() == count && coordinate.numel() == d &&
                        pattern_begin.numel() == n + 1 && data.numel() == columns.numel(),
                    "rayhull: intervals do not fit together");
    check_indices(coordinate, d), check_sparse(begin, columns, count, d), check_sparse(pattern_begin, pattern_rows, n, n);
    bool fine = true;
    for (int64_t i = 0; i < count; i++) {
      const int32_t one = read<int32_t>(high)[i], other = read<int32_t>(low)[i];
      fine &= -1 <= one && one < stated && -1 <= other && other < stated && std::max(one, other) >= 0;
    }
    STD_TORCH_CHECK(fine, "rayhull: an index out of range");
    intervals = {{count, d, read<double>(data), read<int32_t>(columns), read<int64_t>(begin), nullptr, nullptr, nullptr, nullptr},
                 read<int32_t>(high), read<int32_t>(low), read<int32_t>(coordinate),
                 {n, read<int64_t>(pattern_begin), read<int32_t>(pattern_rows)}, by_rows};
  }
};

// As active_set; `guess` (blocks, rows) are multipliers
inline FoundAndBlurred interior_point(Tensor x, Tensor index, std::optional<Tensor> scale, Tensor out, Tensor data,
                                      Tensor columns, Tensor begin, int64_t m, Tensor c, Tensor lower, Tensor upper,
                                      std::optional<Tensor> guess, Tensor own_data, Tensor own_columns, Tensor own_begin,
                                      Tensor high, Tensor low, Tensor coordinate, Tensor pattern_begin, Tensor pattern_rows,
                                      bool by_rows) {
  const PlaceTensors at(x, index, scale, out);
  const int64_t n = at.blocks(), d = at.places.size;
  const Tensor none = empty<double>({0, 0}), lengths = empty<double>({begin.numel() - 1});
  const RowTensors given(data, columns, begin, none, lengths, std::nullopt, std::nullopt, n, d);
  const int64_t count = given.rows.count;
  const BlockTensors blocks(at, c, lower, upper, count);
  if (guess) guess = dense<double>(*guess, 2);
  STD_TORCH_CHECK(0 <= m && m <= count && (!guess || guess->numel() == n * count), "rayhull: a guess of another shape");
  const IntervalTensors own(own_data, own_columns, own_begin, high, low, coordinate, pattern_begin, pattern_rows, by_rows,
                            count, d);
  const Problem problem{at.places, given.rows, 0, m, side(blocks.c), side(blocks.lower), side(blocks.upper), nullptr, nullptr};
  const double* start = guess ? read<double>(*guess) : nullptr;
  return with_blurred(blocks.solve(8, [&](auto... to) { return solve_interior_point(problem, own.intervals, start, to...); }));
}

// As active_system.
inline Tensor interval_system(Tensor own_data, Tensor own_columns, Tensor own_begin, Tensor high, Tensor low, Tensor coordinate,
                              Tensor pattern_begin, Tensor pattern_rows, bool by_rows, Tensor q, Tensor active, Tensor state) {
  q = dense<double>(q, 2), active = dense<bool>(active, 2), state = dense<int8_t>(state, 2);
  const int64_t n = q.size(0), count = q.size(1), d = state.size(1);
  STD_TORCH_CHECK(active.numel() == n * count && state.size(0) == n, "rayhull: a guess of another shape");
  const IntervalTensors own(own_data, own_columns, own_begin, high, low, coordinate, pattern_begin, pattern_rows, by_rows,
                            count, d);
  Tensor w = empty<double>({n, count});
  parallel(n, 8, [&](int64_t a, int64_t b) {
    interval_multipliers(own.intervals, count, read<double>(q), read<bool>(active), read<int8_t>(state), write<double>(w), a, b);
  });
  return w;
}

// A symmetric matrix by columns, of which the lower triangle is read -> L below its diagonal: begin, rows
inline std::tuple<Tensor, Tensor> sparse_pattern(Tensor begin, Tensor rows) {
  begin = dense<int64_t>(begin, 1), rows = dense<int32_t>(rows, 1);
  const int64_t n = begin.numel() - 1;
  check_sparse(begin, rows, n, n);
  const PatternOfFactor found(n, read<int64_t>(begin), read<int32_t>(rows));
  const Pattern pattern = found.view();
  const Tensor own_begin = empty<int64_t>({n + 1}), own_rows = empty<int32_t>({pattern.begin[n]});
  std::copy(pattern.begin, pattern.begin + n + 1, write<int64_t>(own_begin));
  std::copy(pattern.rows, pattern.rows + pattern.begin[n], write<int32_t>(own_rows));
  return {own_begin, own_rows};
}

}  // namespace rayhull
