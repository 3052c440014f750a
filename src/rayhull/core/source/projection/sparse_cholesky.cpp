#include "sparse_cholesky.hpp"

namespace rayhull {

// A column of L has the rows of the matrix's column, and of each column whose first row it is.
PatternOfFactor::PatternOfFactor(int64_t n, const int64_t* begin, const int32_t* rows) {
  std::vector<int64_t> seen(n, -1), child(n, -1), sibling(n, -1);
  for (int64_t j = 0; j < n; j++) {
    const size_t start = rows_.size();
    const auto take = [&](int32_t row) {
      if (row > j && seen[row] != j) seen[row] = j, rows_.push_back(row);
    };
    for (int64_t e = begin[j]; e < begin[j + 1]; e++) take(rows[e]);
    for (int64_t k = child[j]; k >= 0; k = sibling[k])
      for (int64_t e = begin_[k]; e < begin_[k + 1]; e++) take(rows_[e]);
    std::sort(rows_.begin() + int64_t(start), rows_.end());
    begin_.push_back(int64_t(rows_.size()));
    if (rows_.size() == start) continue;
    sibling[j] = child[rows_[start]], child[rows_[start]] = j;
  }
}

}  // namespace rayhull
