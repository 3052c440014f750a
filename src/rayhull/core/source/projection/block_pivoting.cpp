// Block pivoting: guess which rows and bounds are met with equality, solve, correct every wrong guess at once.
//
// Each step is one Newton step on the piecewise linear optimality conditions. When the number of wrong guesses stops
// falling, only the last wrong one is changed (Murty's rule, which ends for independent rows).
#include "sample.hpp"

namespace rayhull {
namespace {

constexpr int64_t PATIENCE = 4;   // steps without fewer wrong guesses before single exchanges
constexpr double SLACK = 8 * ULP; // a row counts as violated beyond this, relative to its terms

struct Wrong {
  int64_t many = 0, last = -1;  // coordinate j, or d + i for row i

  void note(int64_t which) { many++, last = which; }
};

// 1 where v is past the upper bound, -1 past the lower, else 0; a fixed value exactly on its bound stays.
int8_t side(const Sample& s, double v, int64_t j) {
  if (v > s.upper[j] || (v == s.upper[j] && s.state[j] > 0)) return 1;
  if (v < s.lower[j] || (v == s.lower[j] && s.state[j] < 0)) return -1;
  return 0;
}

// Coordinates on the wrong side; x is clipped.
void find_wrong_bounds(const Sample& s, const Workspace& work, Wrong& wrong) {
  for (int64_t j = 0; j < s.d(); j++) {
    if (side(s, work.v[j], j) != s.state[j]) wrong.note(j);
    s.x[j] = s.clip(s.x[j], j);
  }
}

// Violated rows, and active ones whose multiplier is negative; by how much goes to `excess`.
void find_wrong_rows(const Sample& s, Workspace& work, Wrong& wrong) {
  const double size = largest(s.x, s.d());
  for (int64_t i = 0; i < s.count(); i++) {
    if (s.active[i]) {
      work.excess[i] = i < s.m ? -s.multipliers[i] : 0.0;
    } else {
      const double gap = s.rows.dot(i, s.x) - s.c[i];
      work.excess[i] = (i < s.m ? gap : std::abs(gap)) - SLACK * (s.rows.lengths[i] * size + std::abs(s.c[i]));
    }
    if (work.excess[i] > 0.0) wrong.note(s.d() + i);
  }
}

// Changes all wrong guesses, or only this one.
void exchange(const Sample& s, Workspace& work, bool lazy, int64_t only = -1) {
  for (int64_t j = 0; j < s.d() && !lazy; j++)
    if (only < 0 || only == j) s.state[j] = side(s, work.v[j], j);
  for (int64_t i = 0; i < s.count(); i++)
    if (work.excess[i] > 0.0 && (only < 0 || only == s.d() + i)) s.active[i] = !s.active[i];
}

}  // namespace

int64_t block_pivoting(const Sample& s, int64_t most, bool lazy, Workspace& work) {
  const int64_t all = s.d() + s.count() + 1;
  int64_t fewest = all, stalled = 0;
  for (int64_t step = 1; step <= most; step++) {
    const int64_t dependent = solve_guess(s, work);
    Wrong wrong;
    if (!lazy) find_wrong_bounds(s, work, wrong);
    find_wrong_rows(s, work, wrong);
    if (wrong.many == 0 && dependent == 0 && lazy) {  // the rows are right: now the bounds
      lazy = false, fewest = all;
      find_wrong_bounds(s, work, wrong);
      if (wrong.many > 0) {
        exchange(s, work, lazy);
        continue;
      }
    }
    if (wrong.many == 0 && dependent == 0) {
      polish(s, work);
      return step;
    }
    stalled = wrong.many < fewest ? 0 : stalled + 1;
    fewest = std::min(fewest, wrong.many);
    exchange(s, work, lazy, stalled > PATIENCE ? wrong.last : -1);
  }
  return -most;
}

}  // namespace rayhull
