// Block pivoting: guess which rows and bounds are met with equality, solve, correct every wrong guess at once.
//
// Each step is one Newton step on the piecewise linear optimality conditions. Where the number of wrong guesses stops
// falling, it gives up: the exact method goes on from the last guess.
#include "sample.hpp"

namespace rayhull {
namespace {

constexpr int64_t PATIENCE = 3;   // steps without fewer wrong guesses before it gives up

// 1 where v is past the upper bound, -1 past the lower, else 0; a fixed value exactly on its bound stays.
int8_t side(const Sample& s, double v, int64_t j) {
  if (v > s.upper[j] || (v == s.upper[j] && s.state[j] > 0)) return 1;
  if (v < s.lower[j] || (v == s.lower[j] && s.state[j] < 0)) return -1;
  return 0;
}

// How many coordinates are on the wrong side; x is clipped.
int64_t count_wrong_bounds(const Sample& s, const Workspace& work) {
  int64_t wrong = 0;
  for (int64_t j = 0; j < s.d(); j++) {
    wrong += side(s, work.v[j], j) != s.state[j];
    s.x[j] = s.clip(s.x[j], j);
  }
  return wrong;
}

// How many rows are violated, or active with a negative multiplier; by how much goes to `excess`.
int64_t count_wrong_rows(const Sample& s, Workspace& work) {
  int64_t wrong = 0;
  const double size = largest(s.x, s.d());
  for (int64_t i = 0; i < s.count(); i++) {
    if (s.active[i]) {
      work.excess[i] = i < s.m ? -s.multipliers[i] : 0.0;
    } else {
      const double gap = s.rows.dot(i, s.x) - s.c[i];
      work.excess[i] = (i < s.m ? gap : std::abs(gap)) - SLACK * (s.rows.lengths[i] * size + std::abs(s.c[i]));
    }
    wrong += work.excess[i] > 0.0;
  }
  return wrong;
}

// Changes all wrong guesses.
void exchange(const Sample& s, Workspace& work) {
  for (int64_t j = 0; j < s.d(); j++) s.state[j] = side(s, work.v[j], j);
  for (int64_t i = 0; i < s.count(); i++)
    if (work.excess[i] > 0.0) s.active[i] = !s.active[i];
}

}  // namespace

int64_t block_pivoting(const Sample& s, int64_t most, Workspace& work) {
  int64_t fewest = s.d() + s.count() + 1, stalled = 0;
  for (int64_t step = 1; step <= most; step++) {
    const int64_t dependent = solve_guess(s, work);
    const int64_t wrong = count_wrong_bounds(s, work) + count_wrong_rows(s, work);
    if (wrong == 0 && dependent == 0) {
      polish(s, work);
      return step;
    }
    stalled = wrong < fewest ? 0 : stalled + 1;
    fewest = std::min(fewest, wrong);
    if (stalled > PATIENCE) return -step;
    exchange(s, work);
  }
  return -most;
}

}  // namespace rayhull
