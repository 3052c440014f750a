// Rows of a problem, dense or sparse, and products with them: what the active-set methods share.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "lanes.hpp"

namespace rayhull {

struct Rows {
  int64_t count, d;
  const double* data;        // dense: row after row; sparse: the entries of row i from begin[i] to begin[i + 1]
  const int32_t* columns;    // of each entry; null where rows are dense
  const int64_t* begin;      // (count + 1); not used where rows are dense
  const double* products;    // (count, count) every row · row, or null
  const double* lengths;     // (count) 1-norms
  const double* roots;       // (d) where every row is a difference of two coordinates over their roots; else null
  const int32_t* sweep;      // (count) with `roots`: the rows in the order in which they are tried
  const int32_t* order = nullptr;  // (ordered) rows that imply all others, so that neighbours share coordinates; or null
  int64_t ordered = 0;

  bool is_dense() const { return columns == nullptr; }

  // Of a point, or of eight side by side where rows are sparse.
  template <class Number>
  Number dot(int64_t i, const Number* x) const {
    if constexpr (std::is_same_v<Number, double>)
      if (is_dense()) return rayhull::dot(data + i * d, x, d);
    Number total{};
    for (int64_t e = begin[i]; e < begin[i + 1]; e++) total = total + data[e] * x[columns[e]];
    return total;
  }

  // x += factor * row i
  template <class Number>
  void add(int64_t i, Number factor, Number* x) const {
    if constexpr (std::is_same_v<Number, double>)
      if (is_dense()) {
        const double* row = data + i * d;
        for (int64_t j = 0; j < d; j++) x[j] += factor * row[j];
        return;
      }
    for (int64_t e = begin[i]; e < begin[i + 1]; e++) x[columns[e]] = x[columns[e]] + data[e] * factor;
  }

  double entry(int64_t i, int64_t j) const {
    if (is_dense()) return data[i * d + j];
    for (int64_t e = begin[i]; e < begin[i + 1]; e++)
      if (columns[e] == j) return data[e];
    return 0.0;
  }
};

// The rows of a sample with their 1-norms; shared rows come with them.
class RowsOfSamples {
 public:
  RowsOfSamples(const Rows& rows, int64_t stride) : rows_(rows), stride_(stride), lengths_(stride ? rows.count : 0) {}

  Rows of(int64_t n) {
    if (stride_ == 0) return rows_;
    Rows rows = rows_;
    rows.data += n * stride_;
    for (int64_t i = 0; i < rows.count; i++) {
      lengths_[i] = 0.0;
      for (int64_t j = 0; j < rows.d; j++) lengths_[i] += std::abs(rows.data[i * rows.d + j]);
    }
    rows.lengths = lengths_.data();
    return rows;
  }

 private:
  const Rows& rows_;
  int64_t stride_;
  std::vector<double> lengths_;
};

}  // namespace rayhull
