#include "rank.hpp"

#include <vector>

namespace rayhull {
namespace {

// x^(p - 2) modulo the prime p; 1 and -1, the most frequent, are their own inverses.
int64_t inverse(int64_t x) {
  if (x == 1 || x == PRIME - 1) return x;
  int64_t out = 1;
  for (int64_t exponent = PRIME - 2; exponent; exponent >>= 1) {
    if (exponent & 1) out = out * x % PRIME;
    x = x * x % PRIME;
  }
  return out;
}

// Rows in echelon form modulo PRIME, each with a pivot of 1.
class Echelon {
 public:
  explicit Echelon(int64_t k) : k_(k), rows_((k + 1) * k), pivots_(k + 1) {}

  void start(int64_t columns) { columns_ = columns, rank_ = 0; }
  int64_t rank() const { return rank_; }
  int64_t* next() { return &rows_[rank_ * k_]; }  // where the caller writes the next row

  // Takes the row in next() in, if it does not depend on the others.
  void take() {
    int64_t* row = next();
    for (int64_t u = 0; u < rank_; u++) reduce(row, &rows_[u * k_], pivots_[u]);
    for (int64_t c = 0; c < columns_; c++) {
      if (row[c] == 0) continue;
      const int64_t scale = inverse(row[c]);
      for (int64_t d = c; d < columns_ && scale != 1; d++) row[d] = row[d] * scale % PRIME;
      pivots_[rank_++] = c;
      return;
    }
  }

 private:
  void reduce(int64_t* row, const int64_t* by, int64_t pivot) const {
    const int64_t factor = row[pivot];
    if (factor == 0) return;
    for (int64_t c = pivot; c < columns_; c++) row[c] = (row[c] + (PRIME - factor) * by[c]) % PRIME;
  }

  int64_t k_, columns_ = 0, rank_ = 0;
  std::vector<int64_t> rows_, pivots_;
};

}  // namespace

bool all_extreme(const int64_t* residues, int64_t n, int64_t k, const uint8_t* tight, const uint8_t* support, int64_t r) {
  Echelon echelon(k);
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
    if (echelon.rank() < s - 1) return false;  // and no ray that is zero, which has s = 0, passes as one
  }
  return true;
}

}  // namespace rayhull
