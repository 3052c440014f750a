#include "verification.hpp"

#include <algorithm>
#include <vector>

#include "rank.hpp"
#include "threads.hpp"
#include "wide.hpp"

namespace rayhull {
namespace {

constexpr int64_t PIECE = 1024;  // rays that a task examines

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
      const Number* column = columns_.data() + c * n_;
      for (int64_t row = 0; row < n_; row++) slacks_[row] += factor * column[row];
    }
  }

  // A coordinate that is zero is a tight unit row: it takes one from both sides and need not be eliminated.
  bool is_extreme() {
    const auto s = static_cast<int64_t>(support_.size());
    echelon_.start(s);
    for (int64_t row = 0; row < n_ && echelon_.rank() < s - 1; row++) {
      if (slacks_[row] != 0) continue;
      double* next = echelon_.next();
      for (int64_t c = 0; c < s; c++) next[c] = residues_[row * k_ + support_[c]];
      echelon_.take();
    }
    return s > 0 && echelon_.rank() == s - 1;
  }

  int64_t n_, k_;
  std::vector<Number> columns_, slacks_;  // C column after column: slacks are sums of columns
  std::vector<double> residues_;        // C row after row
  std::vector<int64_t> support_;
  Echelon echelon_;
};

template <class Number>
Fault examine_all(const Claim& claim, int64_t prime, int threads, Word* zeros, uint8_t* extreme) {
  const int64_t words = words_for(claim.n + claim.k), tasks = (claim.rays + PIECE - 1) / PIECE;
  std::vector<Examiner<Number>> examiners(std::max<int64_t>(1, std::min<int64_t>(threads, tasks)), {claim, prime});
  std::vector<Fault> faults(tasks, NO_FAULT);
  run_tasks(tasks, threads, [&](int64_t task, int worker) {
    for (int64_t ray = task * PIECE; ray < std::min(claim.rays, (task + 1) * PIECE) && faults[task] == NO_FAULT; ray++)
      faults[task] = examiners[worker].examine(claim.Y + ray * claim.k, zeros + ray * words, extreme[ray]);
  });
  for (Fault fault : faults)
    if (fault != NO_FAULT) return fault;
  return NO_FAULT;
}

}  // namespace

Fault examine(const Claim& claim, int64_t prime, int threads, Word* zeros, uint8_t* extreme) {
  const double bound =
      bound_of(claim.C, claim.n * claim.k) * bound_of(claim.Y, claim.rays * claim.k) * static_cast<double>(claim.k);
  if (bound < 0x1p52) return examine_all<double>(claim, prime, threads, zeros, extreme);
  if (bound < 0x1p62) return examine_all<int64_t>(claim, prime, threads, zeros, extreme);
  return bound < 0x1p126 ? examine_all<Wide>(claim, prime, threads, zeros, extreme) : TOO_LONG;
}

}  // namespace rayhull
