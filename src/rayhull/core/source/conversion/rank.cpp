#include "rank.hpp"

#include <vector>

namespace rayhull {
namespace {

// Arithmetic modulo a prime below 2^31, with a multiplication in place of each division (Barrett).
class Modulus {
 public:
  explicit Modulus(uint64_t prime) : prime_(prime), reciprocal_(~uint64_t{0} / prime) {}

  // x modulo the prime, for any x: the quotient is too small by at most 1.
  uint64_t reduce(uint64_t x) const {
    const auto quotient = static_cast<uint64_t>((static_cast<unsigned __int128>(x) * reciprocal_) >> 64);
    const uint64_t rest = x - quotient * prime_;
    return rest >= prime_ ? rest - prime_ : rest;
  }

  uint64_t negative(uint64_t x) const { return prime_ - x; }

  // x^(p - 2); 1 and -1, the most frequent, are their own inverses.
  uint64_t inverse(uint64_t x) const {
    if (x == 1 || x == prime_ - 1) return x;
    uint64_t out = 1;
    for (uint64_t exponent = prime_ - 2; exponent; exponent >>= 1) {
      if (exponent & 1) out = reduce(out * x);
      x = reduce(x * x);
    }
    return out;
  }

 private:
  uint64_t prime_, reciprocal_;
};

// Rows in echelon form modulo a prime, each with a pivot of 1.
class Echelon {
 public:
  Echelon(int64_t prime, int64_t k) : modulus_(prime), k_(k), rows_((k + 1) * k), pivots_(k + 1) {}

  void start(int64_t columns) { columns_ = columns, rank_ = 0; }
  int64_t rank() const { return rank_; }
  uint64_t* next() { return &rows_[rank_ * k_]; }  // where the caller writes the next row

  // Takes the row in next() in, if it does not depend on the others.
  void take() {
    uint64_t* row = next();
    for (int64_t u = 0; u < rank_; u++) reduce(row, &rows_[u * k_], pivots_[u]);
    for (int64_t c = 0; c < columns_; c++) {
      if (row[c] == 0) continue;
      const uint64_t scale = modulus_.inverse(row[c]);
      for (int64_t d = c; d < columns_ && scale != 1; d++) row[d] = modulus_.reduce(row[d] * scale);
      pivots_[rank_++] = c;
      return;
    }
  }

 private:
  void reduce(uint64_t* row, const uint64_t* by, int64_t pivot) const {
    if (row[pivot] == 0) return;
    const uint64_t factor = modulus_.negative(row[pivot]);
    for (int64_t c = pivot; c < columns_; c++) row[c] = modulus_.reduce(row[c] + factor * by[c]);
  }

  Modulus modulus_;
  int64_t k_, columns_ = 0, rank_ = 0;
  std::vector<uint64_t> rows_;
  std::vector<int64_t> pivots_;
};

}  // namespace

void are_extreme(const int64_t* residues, int64_t prime, int64_t n, int64_t k, const uint8_t* tight,
                 const uint8_t* support, int64_t r, uint8_t* extreme) {
  Echelon echelon(prime, k);
  std::vector<int64_t> columns(k);
  for (int64_t ray = 0; ray < r; ray++) {
    int64_t s = 0;
    for (int64_t c = 0; c < k; c++)
      if (support[ray * k + c]) columns[s++] = c;
    echelon.start(s);
    for (int64_t row = 0; row < n && echelon.rank() < s - 1; row++) {
      if (!tight[ray * n + row]) continue;
      for (int64_t c = 0; c < s; c++) echelon.next()[c] = static_cast<uint64_t>(residues[row * k + columns[c]]);
      echelon.take();
    }
    extreme[ray] = s > 0 && echelon.rank() == s - 1;
  }
}

}  // namespace rayhull
