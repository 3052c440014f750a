#include "rank.hpp"

#include <vector>

namespace rayhull {
namespace {

// x^(p - 2) modulo the prime p; 1 and -1, the most frequent, are their own inverses.
int64_t inverse(int64_t x, int64_t prime) {
  if (x == 1 || x == prime - 1) return x;
  int64_t out = 1;
  for (int64_t exponent = prime - 2; exponent; exponent >>= 1) {
    if (exponent & 1) out = out * x % prime;
    x = x * x % prime;
  }
  return out;
}

// Rows in echelon form modulo a prime, each with a pivot of 1.
class Echelon {
 public:
  Echelon(int64_t prime, int64_t k) : prime_(prime), k_(k), rows_((k + 1) * k), pivots_(k + 1) {}

  void start(int64_t columns) { columns_ = columns, rank_ = 0; }
  int64_t rank() const { return rank_; }
  int64_t* next() { return &rows_[rank_ * k_]; }  // where the caller writes the next row

  // Takes the row in next() in, if it does not depend on the others.
  void take() {
    int64_t* row = next();
    for (int64_t u = 0; u < rank_; u++) reduce(row, &rows_[u * k_], pivots_[u]);
    for (int64_t c = 0; c < columns_; c++) {
      if (row[c] == 0) continue;
      const int64_t scale = inverse(row[c], prime_);
      for (int64_t d = c; d < columns_ && scale != 1; d++) row[d] = row[d] * scale % prime_;
      pivots_[rank_++] = c;
      return;
    }
  }

 private:
  void reduce(int64_t* row, const int64_t* by, int64_t pivot) const {
    const int64_t factor = row[pivot];
    if (factor == 0) return;
    for (int64_t c = pivot; c < columns_; c++) row[c] = (row[c] + (prime_ - factor) * by[c]) % prime_;
  }

  int64_t prime_, k_, columns_ = 0, rank_ = 0;
  std::vector<int64_t> rows_, pivots_;
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
      for (int64_t c = 0; c < s; c++) echelon.next()[c] = residues[row * k + columns[c]];
      echelon.take();
    }
    extreme[ray] = s > 0 && echelon.rank() == s - 1;
  }
}

}  // namespace rayhull
