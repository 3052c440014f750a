// Rows in echelon form modulo a prime, where a rank can only drop: what is independent there is independent.
#pragma once

#include <cstdint>
#include <vector>

namespace rayhull {

// Arithmetic modulo a prime below 2^31, with a multiplication in place of each division (Barrett).
class Modulus {
 public:
  explicit Modulus(int64_t prime) : prime_(prime), reciprocal_(~uint64_t{0} / prime_) {}

  // x modulo the prime, for any x: the quotient is too small by at most 1.
  uint64_t reduce(uint64_t x) const {
    const auto quotient = static_cast<uint64_t>((static_cast<unsigned __int128>(x) * reciprocal_) >> 64);
    const uint64_t rest = x - quotient * prime_;
    return rest >= prime_ ? rest - prime_ : rest;
  }

  uint64_t residue(int64_t x) const {
    const uint64_t size = reduce(x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x));
    return x < 0 ? negative(size) : size;
  }

  uint64_t negative(uint64_t x) const { return x == 0 ? 0 : prime_ - x; }

 private:
  uint64_t prime_, reciprocal_;
};

class Echelon {
 public:
  // Room for `most` independent rows of `width` entries.
  Echelon(int64_t prime, int64_t most, int64_t width)
      : modulus_(prime), width_(width), rows_((most + 1) * width), pivots_(most + 1) {}

  void start(int64_t columns) { columns_ = columns, rank_ = 0; }
  int64_t rank() const { return rank_; }
  int64_t pivot() const { return pivots_[rank_ - 1]; }  // the column of the row taken last
  uint64_t* next() { return &rows_[rank_ * width_]; }   // where the caller writes the residues of the next row

  // Takes the row in next() in; false if it depends on the others.
  bool take() {
    uint64_t* row = next();
    for (int64_t u = 0; u < rank_; u++) reduce(row, &rows_[u * width_], pivots_[u]);
    for (int64_t c = 0; c < columns_; c++) {
      if (row[c] == 0) continue;
      if (modulus_.negative(row[c]) == 1)  // -1 becomes 1, the pivot that costs least
        for (int64_t d = c; d < columns_; d++) row[d] = modulus_.negative(row[d]);
      pivots_[rank_++] = c;
      return true;
    }
    return false;
  }

 private:
  // by[pivot] row - row[pivot] by: no inverse is needed. Before its pivot `by` is 0.
  void reduce(uint64_t* row, const uint64_t* by, int64_t pivot) const {
    if (row[pivot] == 0) return;
    const uint64_t lead = by[pivot], factor = modulus_.negative(row[pivot]);
    for (int64_t c = 0; c < pivot && lead != 1; c++) row[c] = modulus_.reduce(lead * row[c]);
    for (int64_t c = pivot; c < columns_; c++) row[c] = modulus_.reduce(lead * row[c] + factor * by[c]);
  }

  Modulus modulus_;
  int64_t width_, columns_ = 0, rank_ = 0;
  std::vector<uint64_t> rows_;
  std::vector<int64_t> pivots_;
};

// The first rows of A (m, k) that are independent modulo the prime, and of each the column of its last entry that counts
// once those before it are eliminated. Returns how many.
int64_t independent_rows(const int64_t* A, int64_t m, int64_t k, int64_t prime, int64_t* rows, int64_t* columns);

}  // namespace rayhull
