// L D L^T of sparse symmetric matrices in a given order, eight side by side: the pattern of L is found once.
#pragma once

#include <algorithm>
#include <vector>

#include "eight.hpp"

namespace rayhull {

// The rows of L below the diagonal, column after column, ascending. A column that is the one before it without its first
// row forms a supernode with it: they change the columns behind them together.
struct Pattern {
  int64_t n;
  const int64_t* begin;  // (n + 1)
  const int32_t* rows;

  int64_t length(int64_t j) const { return begin[j + 1] - begin[j]; }
  bool joins(int64_t j) const { return j > 0 && length(j - 1) == length(j) + 1 && rows[begin[j - 1]] == j; }
};

// That of L for a matrix with these rows in its columns; those above the diagonal are passed over.
class PatternOfFactor {
 public:
  PatternOfFactor(int64_t n, const int64_t* begin, const int32_t* rows);
  Pattern view() const { return {int64_t(begin_.size()) - 1, begin_.data(), rows_.data()}; }

 private:
  std::vector<int64_t> begin_{0};
  std::vector<int32_t> rows_;
};

// Of eight doubles, or of eight floats: Eight or Rough.
template <class Number>
class SparseCholesky {
 public:
  explicit SparseCholesky(const Pattern& pattern)
      : p_(pattern), L_(p_.begin[p_.n]), inverse_(p_.n), pivot_(p_.n), w_(p_.n, Number(0.0)), first_(p_.n), end_(p_.n),
        head_(p_.n), next_(p_.n), left_(p_.n) {
    for (int64_t j = 0; j < p_.n; j++) first_[j] = p_.joins(j) ? first_[j - 1] : j, end_[first_[j]] = j + 1;
  }

  // column(j, w) adds column j of the matrix to w, from the diagonal on. Rows that depend on others become 0.
  template <class Column>
  void factor(const Column& column) {
    std::fill(head_.begin(), head_.end(), -1);
    for (int64_t j = 0; j < p_.n; j++) {
      column(j, w_.data());
      const Number diagonal = w_[j];
      for (int64_t s = head_[j], after; s >= 0; s = after) {  // supernodes with this row
        after = next_[s];
        update(s, end_[s], left_[s]--);
        wait(s);
      }
      if (first_[j] < j) update(first_[j], j, p_.length(j - 1));
      finish(j, diagonal);
      if (end_[first_[j]] == j + 1) left_[first_[j]] = p_.length(j), wait(first_[j]);
    }
  }

  // x = (L D L^T)^-1 x
  void solve(Number* x) const {
    for (int64_t j = 0; j < p_.n; j++)
      for (int64_t e = p_.begin[j]; e < p_.begin[j + 1]; e++) x[p_.rows[e]] = x[p_.rows[e]] - L_[e] * x[j];
    for (int64_t j = p_.n - 1; j >= 0; j--) {
      Number total = inverse_[j] * x[j];
      for (int64_t e = p_.begin[j]; e < p_.begin[j + 1]; e++) total = total - L_[e] * x[p_.rows[e]];
      x[j] = total;
    }
  }

 private:
  static constexpr bool ROUGH = sizeof(Number) == 32;
  // A pivot this small against its diagonal, and what it becomes.
  static constexpr double TINY = ROUGH ? 1e-6 : 1e-15, ABSENT = ROUGH ? 1e30 : 1e150;

  // A supernode changes next the column of the first of its `left` last rows.
  void wait(int64_t s) {
    if (left_[s] == 0) return;
    int64_t& head = head_[p_.rows[p_.begin[end_[s]] - left_[s]]];
    next_[s] = head, head = s;
  }

  // w -= the last `left` rows of columns s .. end - 1, each times its entry in the first of them.
  void update(int64_t s, int64_t end, int64_t left) {
    const int32_t* rows = p_.rows + p_.begin[s + 1] - left;
    int64_t k = s;
    for (; k + 4 <= end; k += 4) {
      const Number *a = last(k, left), *b = last(k + 1, left), *c = last(k + 2, left), *d = last(k + 3, left);
      const Number u = *a * pivot_[k], v = *b * pivot_[k + 1], x = *c * pivot_[k + 2], y = *d * pivot_[k + 3];
      for (int64_t e = 0; e < left; e++) w_[rows[e]] = w_[rows[e]] - (a[e] * u + b[e] * v) - (c[e] * x + d[e] * y);
    }
    for (; k < end; k++) {
      const Number* a = last(k, left);
      const Number u = *a * pivot_[k];
      for (int64_t e = 0; e < left; e++) w_[rows[e]] = w_[rows[e]] - a[e] * u;
    }
  }

  const Number* last(int64_t k, int64_t left) const { return L_.data() + p_.begin[k + 1] - left; }

  void finish(int64_t j, Number diagonal) {
    pivot_[j] = where(w_[j] > TINY * diagonal, w_[j], Number(ABSENT)), inverse_[j] = 1.0 / pivot_[j], w_[j] = Number(0.0);
    for (int64_t e = p_.begin[j]; e < p_.begin[j + 1]; e++) {
      Number& entry = w_[p_.rows[e]];
      L_[e] = inverse_[j] * entry, entry = Number(0.0);
    }
  }

  Pattern p_;
  std::vector<Number> L_, inverse_, pivot_, w_;  // L_ (entries), below the diagonal; inverse_: 1 / D
  std::vector<int64_t> first_, end_;          // of supernodes: the first column; the one behind the last, for the first
  std::vector<int64_t> head_, next_, left_;   // the supernodes that wait for a column, as lists; how many rows they have left
};

}  // namespace rayhull
