// Rows in echelon form modulo a prime, where a rank can only drop: what is independent there is independent.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "wide.hpp"

namespace rayhull {

// Arithmetic modulo a prime below 2^26, on residues of at most half of it in size, as doubles: a sum of two products is
// below 2^53 and so exact, and a loop over entries fills vector lanes. 0 stands for every multiple of the prime.
class Modulus {
 public:
  explicit Modulus(int64_t prime) : prime_(prime), reciprocal_(1.0 / static_cast<double>(prime)) {}

  double reduce(double x) const { return x - std::rint(x * reciprocal_) * static_cast<double>(prime_); }
  double residue(int64_t x) const { return reduce(static_cast<double>(magnitude(x) < SHORT ? x : x % prime_)); }

 private:
  static constexpr uint64_t SHORT = uint64_t{1} << 52;  // integers that doubles hold and reduce, without a division

  int64_t prime_;
  double reciprocal_;
};

class Echelon {
 public:
  // Room for `most` independent rows of `width` entries.
  Echelon(int64_t prime, int64_t most, int64_t width)
      : modulus_(prime), width_(width), rows_((most + 1) * width), pivots_(most + 1) {}

  void start(int64_t columns) { columns_ = columns, rank_ = 0; }
  int64_t rank() const { return rank_; }
  int64_t pivot() const { return pivots_[rank_ - 1]; }  // the column of the row taken last
  double* next() { return &rows_[rank_ * width_]; }   // where the caller writes the residues of the next row

  // Takes the row in next() in; false if it depends on the others.
  bool take() {
    double* row = next();
    for (int64_t u = 0; u < rank_; u++) reduce(row, &rows_[u * width_], pivots_[u]);
    for (int64_t c = 0; c < columns_; c++) {
      if (row[c] == 0) continue;
      pivots_[rank_++] = c;
      return true;
    }
    return false;
  }

 private:
  // by[pivot] row - row[pivot] by: no inverse is needed. Before its pivot `by` is 0.
  void reduce(double* row, const double* by, int64_t pivot) const {
    if (row[pivot] == 0) return;
    const double lead = by[pivot], factor = row[pivot];
    for (int64_t c = 0; c < pivot; c++) row[c] = modulus_.reduce(lead * row[c]);
    for (int64_t c = pivot; c < columns_; c++) row[c] = modulus_.reduce(lead * row[c] - factor * by[c]);
  }

  Modulus modulus_;
  int64_t width_, columns_ = 0, rank_ = 0;
  std::vector<double> rows_;
  std::vector<int64_t> pivots_;
};

// The first rows of A (m, k) that are independent modulo the prime, and of each the column of its last entry that counts
// once those before it are eliminated. Returns how many.
inline int64_t independent_rows(const int64_t* A, int64_t m, int64_t k, int64_t prime, int64_t* rows,
                                int64_t* columns) {
  const Modulus modulus(prime);
  Echelon echelon(prime, std::min(m, k), k);
  echelon.start(k);
  for (int64_t row = 0; row < m && echelon.rank() < k; row++) {
    for (int64_t c = 0; c < k; c++) echelon.next()[k - 1 - c] = modulus.residue(A[row * k + c]);  // the last comes first
    if (!echelon.take()) continue;
    rows[echelon.rank() - 1] = row;
    columns[echelon.rank() - 1] = k - 1 - echelon.pivot();
  }
  return echelon.rank();
}

}  // namespace rayhull
