#include "cholesky.hpp"

#include <algorithm>
#include <cmath>

namespace rayhull {
namespace {

constexpr double TINY = 1e-14;       // a pivot this small against its diagonal: the row depends on those before it
constexpr double DEPENDENT = 1e150;  // its pivot, so that its multiplier is 0

}  // namespace

Cholesky::Cholesky(int64_t count, int64_t d)
    : order_(std::max<int64_t>(count, 1)), d_(d), buffer_(d), inverse_(order_), chosen_(order_),
      first_(order_), touched_(d) {}

int64_t Cholesky::factor(const Rows& rows, const bool* active, const int8_t* state) {
  if (L_ == nullptr) L_.reset(new double[order_ * order_]);
  const int64_t from = kept(rows, state, choose(rows, active, state));
  gram(rows, state, from);
  return factorise(from);
}

// The active rows in order, and where the envelope of each begins: at the first that shares a free coordinate. Returns
// with how many rows of the last factor it begins.
int64_t Cholesky::choose(const Rows& rows, const bool* active, const int8_t* state) {
  const int64_t before = k_;
  int64_t same = 0;
  k_ = 0;
  std::fill(touched_.begin(), touched_.end(), rows.count);  // the first chosen row that has this coordinate
  for (int64_t n = 0; n < rows.count; n++) {
    const int64_t i = rows.is_dense() ? rows.count - 1 - n : n;
    if (!active[i]) continue;
    if (same == k_ && k_ < before && chosen_[k_] == i) same++;
    chosen_[k_] = i;
    first_[k_] = rows.is_dense() ? 0 : k_;
    for (int64_t e = rows.is_dense() ? 0 : rows.begin[i]; !rows.is_dense() && e < rows.begin[i + 1]; e++) {
      const int64_t j = rows.columns[e];
      if (state[j] != 0) continue;
      touched_[j] = std::min(touched_[j], k_);
      first_[k_] = std::min(first_[k_], touched_[j]);
    }
    k_++;
  }
  return same;
}

// How many of the `same` rows are factored already: dense ones, with every coordinate free then and now. An even number,
// since rows are factored in twos: each has the bits that a whole factorisation would give it.
int64_t Cholesky::kept(const Rows& rows, const int8_t* state, int64_t same) {
  const bool all_free = std::all_of(state, state + d_, [](int8_t s) { return s == 0; });
  const bool again = all_free && rows.is_dense() && factored_ == rows.data;
  factored_ = all_free ? rows.data : nullptr;
  return again ? same - same % 2 : 0;
}

void Cholesky::gram(const Rows& rows, const int8_t* state, int64_t from) {
  if (rows.products != nullptr && factored_ != nullptr) {
    for (int64_t a = from; a < k_; a++)
      for (int64_t b = first_[a]; b <= a; b++) at(a, b) = rows.products[chosen_[a] * rows.count + chosen_[b]];
  } else if (rows.is_dense()) {
    gram_dense(rows, state, from);
  } else {
    gram_sparse(rows, state);
  }
}

void Cholesky::gram_sparse(const Rows& rows, const int8_t* state) {
  std::fill(buffer_.begin(), buffer_.end(), 0.0);
  for (int64_t a = 0; a < k_; a++) {
    const int64_t i = chosen_[a];
    for (int64_t e = rows.begin[i]; e < rows.begin[i + 1]; e++)
      buffer_[rows.columns[e]] = state[rows.columns[e]] == 0 ? rows.data[e] : 0.0;
    for (int64_t b = first_[a]; b <= a; b++) at(a, b) = rows.dot(chosen_[b], buffer_.data());
    for (int64_t e = rows.begin[i]; e < rows.begin[i + 1]; e++) buffer_[rows.columns[e]] = 0.0;
  }
}

// Free columns are gathered once, then come 3 x 3 tiles, which thirds the loads.
void Cholesky::gram_dense(const Rows& rows, const int8_t* state, int64_t from) {
  gathered_.resize(order_ * d_);
  int64_t width = 0;
  for (int64_t a = 0; a < k_; a++) {
    const double* row = rows.data + chosen_[a] * d_;
    width = 0;
    for (int64_t j = 0; j < d_; j++)
      if (state[j] == 0) gathered_[a * d_ + width++] = row[j];
  }
  for (int64_t a = from; a < k_; a += 3)
    for (int64_t b = 0; b < std::min(a + 3, k_); b += 3) {  // a need not be a multiple of 3
      const int64_t left[] = {a, std::min(a + 1, k_ - 1), std::min(a + 2, k_ - 1)};
      const int64_t right[] = {b, std::min(b + 1, k_ - 1), std::min(b + 2, k_ - 1)};
      tile(left, right, width);
    }
}

// Nine products of three rows with three.
void Cholesky::tile(const int64_t* left, const int64_t* right, int64_t width) {
  const double *a = &gathered_[left[0] * d_], *b = &gathered_[left[1] * d_], *c = &gathered_[left[2] * d_];
  const double *u = &gathered_[right[0] * d_], *v = &gathered_[right[1] * d_], *w = &gathered_[right[2] * d_];
  double au = 0, av = 0, aw = 0, bu = 0, bv = 0, bw = 0, cu = 0, cv = 0, cw = 0;
  for (int64_t j = 0; j < width; j++) {
    au += a[j] * u[j], av += a[j] * v[j], aw += a[j] * w[j];
    bu += b[j] * u[j], bv += b[j] * v[j], bw += b[j] * w[j];
    cu += c[j] * u[j], cv += c[j] * v[j], cw += c[j] * w[j];
  }
  at(left[0], right[0]) = au, at(left[0], right[1]) = av, at(left[0], right[2]) = aw;
  at(left[1], right[0]) = bu, at(left[1], right[1]) = bv, at(left[1], right[2]) = bw;
  at(left[2], right[0]) = cu, at(left[2], right[1]) = cv, at(left[2], right[2]) = cw;
}

// In place, from a row on. Where no row has an envelope, two rows go together and meet four columns at a time.
int64_t Cholesky::factorise(int64_t from) {
  const bool full = std::all_of(first_.begin(), first_.begin() + k_, [](int64_t first) { return first == 0; });
  int64_t dependent = 0;
  for (int64_t a = 0; a < from; a++) dependent += is_dependent(a);
  for (int64_t i = from; i < k_; i += full ? 2 : 1) {
    if (full) {
      const int64_t next = std::min(i + 1, k_ - 1);
      eliminate_two(i, next);
      if (next > i) dependent += finish_row(i), eliminate(next, i);
      dependent += finish_row(next);
    } else {
      eliminate(i, first_[i]);
      dependent += finish_row(i);
    }
  }
  return dependent;
}

// Columns below `i` of rows i and `next` (which may be the same).
void Cholesky::eliminate_two(int64_t i, int64_t next) {
  double* rows[2] = {&at(i, 0), &at(next, 0)};
  int64_t j = 0;
  for (; j + 4 <= i; j += 4) {
    const double* columns[4] = {&at(j, 0), &at(j + 1, 0), &at(j + 2, 0), &at(j + 3, 0)};
    double products[2][4];
    dot_2x4(rows[0], rows[1], columns, j, products);
    solve_four(rows[0] + j, products[0], columns, j);
    if (next > i) solve_four(rows[1] + j, products[1], columns, j);
  }
  for (int64_t e = j; e < i; e++) {
    eliminate_entry(i, e, 0);
    if (next > i) eliminate_entry(next, e, 0);
  }
}

// Four columns of a row, from what their products with the columns before leave. Written out: as two nested loops GCC 12
// reads entries before they are written (-O3 -fassociative-math).
void Cholesky::solve_four(double* row, const double* products, const double* const* columns, int64_t j) const {
  const double *b = columns[1] + j, *c = columns[2] + j, *d = columns[3] + j, *inverse = &inverse_[j];
  const double x = (row[0] - products[0]) * inverse[0], y = (row[1] - products[1] - x * b[0]) * inverse[1];
  const double z = (row[2] - products[2] - x * c[0] - y * c[1]) * inverse[2];
  row[3] = (row[3] - products[3] - x * d[0] - y * d[1] - z * d[2]) * inverse[3];
  row[0] = x, row[1] = y, row[2] = z;
}

// Columns `start` to i - 1 of row i.
void Cholesky::eliminate(int64_t i, int64_t start) {
  for (int64_t j = start; j < i; j++) eliminate_entry(i, j, std::max(first_[i], first_[j]));
}

void Cholesky::eliminate_entry(int64_t i, int64_t j, int64_t from) {
  at(i, j) = (at(i, j) - dot(&at(i, from), &at(j, from), j - from)) * inverse_[j];
}

// The pivot of a row; returns whether it depends on those before it.
bool Cholesky::finish_row(int64_t i) {
  double* row = &at(i, 0);
  const double diagonal = row[i], total = diagonal - dot(row + first_[i], row + first_[i], i - first_[i]);
  const bool fine = total > TINY * std::max(diagonal, TINY);
  row[i] = fine ? std::sqrt(total) : DEPENDENT;
  inverse_[i] = 1.0 / row[i];
  return !fine;
}

void Cholesky::solve_lower(double* r) const {
  for (int64_t i = 0; i < k_; i++) {
    const double* row = &L_[i * order_];
    r[i] = (r[i] - dot(row + first_[i], r + first_[i], i - first_[i])) / row[i];
  }
}

void Cholesky::solve_upper(double* r) const {
  for (int64_t i = k_ - 1; i >= 0; i--) {
    const double* row = &L_[i * order_];
    const double value = r[i] / row[i];
    r[i] = value;
    for (int64_t e = first_[i]; e < i; e++) r[e] -= row[e] * value;
  }
}

void Cholesky::fill_envelope() {
  factored_ = nullptr;
  for (int64_t i = 0; i < k_; i++) {
    std::fill(&at(i, 0), &at(i, 0) + first_[i], 0.0);
    first_[i] = 0;
  }
}

void Cholesky::append(int64_t row, const double* w, double sign, double diagonal) {
  for (int64_t a = 0; a < k_; a++) at(k_, a) = sign * w[a];
  at(k_, k_) = diagonal;
  first_[k_] = 0;
  chosen_[k_++] = row;
}

// The rows below move up, and rotations bring back the triangle.
void Cholesky::remove(int64_t a) {
  for (int64_t i = a; i < k_ - 1; i++) {
    std::copy(&at(i + 1, 0), &at(i + 1, 0) + i + 2, &at(i, 0));
    chosen_[i] = chosen_[i + 1];
  }
  k_--;
  for (int64_t j = a; j < k_; j++) {
    const double p = at(j, j), q = at(j, j + 1), length = std::sqrt(p * p + q * q);
    const double cosine = p / length, sine = q / length;
    at(j, j) = length;
    for (int64_t i = j + 1; i < k_; i++) {
      const double u = at(i, j), v = at(i, j + 1);
      at(i, j) = cosine * u + sine * v;
      at(i, j + 1) = cosine * v - sine * u;
    }
  }
}

bool Cholesky::rank_one(double* w, double sign) {
  for (int64_t i = 0; i < k_; i++) {
    const double diagonal = at(i, i), square = diagonal * diagonal + sign * w[i] * w[i];
    if (!(square > TINY * diagonal * diagonal)) return false;
    const double length = std::sqrt(square), cosine = length / diagonal, sine = w[i] / diagonal;
    at(i, i) = length;
    for (int64_t e = i + 1; e < k_; e++) {
      at(e, i) = (at(e, i) + sign * sine * w[e]) / cosine;
      w[e] = cosine * w[e] - sine * at(e, i);
    }
  }
  return true;
}

}  // namespace rayhull
