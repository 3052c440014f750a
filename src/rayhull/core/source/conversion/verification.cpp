#include "verification.hpp"

#include <algorithm>
#include <vector>

#include "rank.hpp"
#include "wide.hpp"

namespace rayhull {
namespace {

// Number holds every slack exactly: double is the fastest, and long enough for most.
template <class Number>
class Examiner {
 public:
  Examiner(const Claim& claim, int64_t prime)
      : n_(claim.n), k_(claim.k), columns_(n_ * k_), slacks_(n_), residues_(n_ * k_), echelon_(prime, k_, k_) {
    const Modulus modulus(prime);
    for (int64_t row = 0; row < n_; row++)
      for (int64_t c = 0; c < k_; c++) {
        columns_[c * n_ + row] = static_cast<Number>(claim.C[row * k_ + c]);
        residues_[row * k_ + c] = modulus.residue(claim.C[row * k_ + c]);
      }
  }

  Fault examine(const int64_t* y, Word* zeros, uint8_t& extreme) {
    support_.clear();
    for (int64_t c = 0; c < k_; c++) {
      if (y[c] < 0) return NEGATIVE;
      y[c] == 0 ? add(zeros, c) : support_.push_back(c);
    }
    find_slacks(y);
    for (int64_t row = 0; row < n_; row++) {
      if (slacks_[row] < 0) return BROKEN;
      if (slacks_[row] == 0) add(zeros, k_ + row);
    }
    extreme = is_extreme();
    return NO_FAULT;
  }

 private:
  void find_slacks(const int64_t* y) {
    std::fill(slacks_.begin(), slacks_.end(), Number{0});
    for (int64_t c : support_) {
      const auto factor = static_cast<Number>(y[c]);
      const Number* column = &columns_[c * n_];
      for (int64_t row = 0; row < n_; row++) slacks_[row] += factor * column[row];
    }
  }

  // A coordinate that is zero is a tight unit row: it takes one from both sides and need not be eliminated.
  bool is_extreme() {
    const auto s = static_cast<int64_t>(support_.size());
    echelon_.start(s);
    for (int64_t row = 0; row < n_ && echelon_.rank() < s - 1; row++) {
      if (slacks_[row] != 0) continue;
      uint64_t* next = echelon_.next();
      for (int64_t c = 0; c < s; c++) next[c] = residues_[row * k_ + support_[c]];
      echelon_.take();
    }
    return s > 0 && echelon_.rank() == s - 1;
  }

  int64_t n_, k_;
  std::vector<Number> columns_, slacks_;  // C column after column: slacks are sums of columns
  std::vector<uint64_t> residues_;        // C row after row
  std::vector<int64_t> support_;
  Echelon echelon_;
};

template <class Number>
Fault examine_all(const Claim& claim, int64_t prime, Word* zeros, uint8_t* extreme) {
  Examiner<Number> examiner(claim, prime);
  const int64_t words = words_for(claim.n + claim.k);
  for (int64_t ray = 0; ray < claim.rays; ray++) {
    const Fault fault = examiner.examine(claim.Y + ray * claim.k, zeros + ray * words, extreme[ray]);
    if (fault != NO_FAULT) return fault;
  }
  return NO_FAULT;
}

// At least the largest size, and less than twice it.
double size_of(const int64_t* values, int64_t many) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < many; i++) bits |= magnitude(values[i]);
  return static_cast<double>(bits);
}

}  // namespace

Fault examine(const Claim& claim, int64_t prime, Word* zeros, uint8_t* extreme) {
  const double bound =
      size_of(claim.C, claim.n * claim.k) * size_of(claim.Y, claim.rays * claim.k) * static_cast<double>(claim.k);
  if (bound < 0x1p52) return examine_all<double>(claim, prime, zeros, extreme);
  if (bound < 0x1p62) return examine_all<int64_t>(claim, prime, zeros, extreme);
  return bound < 0x1p126 ? examine_all<Wide>(claim, prime, zeros, extreme) : TOO_LONG;
}

}  // namespace rayhull
