#include "active_set.hpp"

#include <memory>
#include <optional>

#include "banded.hpp"
#include "forest.hpp"

namespace rayhull {
namespace {

// 1 / (an upper bound of the largest eigenvalue of G G^T): the product of the largest sums of rows and of columns.
double safe_step(const Rows& rows) {
  std::vector<double> columns(rows.d);
  for (int64_t i = 0; i < rows.count; i++)
    for (int64_t j = 0; j < rows.d; j++) columns[j] += std::abs(rows.data[i * rows.d + j]);
  const double bound = largest(rows.lengths, rows.count) * largest(columns.data(), rows.d);
  return bound > 0.0 ? 1.0 / bound : 0.0;
}

// Without bounds and with no more inequalities than equalities most rows are met anyway: no gradients are needed.
bool needs_gradients(const Sample& s, const Effort& effort) {
  if (effort.gradient_steps == 0) return false;
  bool bounded = false;
  for (int64_t j = 0; j < s.d(); j++) bounded |= s.lower[j] > -INFINITY || s.upper[j] < INFINITY;
  return bounded || 2 * s.m > s.count();
}

int64_t solve_sample(const Sample& s, const Effort& effort, Workspace& work, std::optional<Forest>& forest, int64_t& steps) {
  steps = 0;
  if (forest) return forest->solve(s, effort.exact_steps, steps);
  if (needs_gradients(s, effort)) {
    guess_by_gradients(s, effort.step > 0.0 ? effort.step : safe_step(s.rows), effort.gradient_steps, work);
    steps = effort.gradient_steps;
  }
  const int64_t used = block_pivoting(s, effort.pivots, work);
  steps += std::abs(used);
  return used > 0 ? SOLVED : dual_active_set(s, effort.exact_steps, work, steps);
}

// No bounds and no equalities, and rows that neighbours share: these go in lanes.
bool goes_in_lanes(const Problem& p, const Band& band) {
  bool bounded = p.m < p.rows.count || p.lower.stride != 0 || p.upper.stride != 0;
  for (int64_t j = 0; j < p.rows.d && !bounded; j++) bounded = p.lower.data[j] > -INFINITY || p.upper.data[j] < INFINITY;
  return band.width > 0 && !bounded;
}

// One block after another, in memory of its own.
class Blocks {
 public:
  explicit Blocks(const Problem& p)
      : p_(p), count_(p.rows.count), d_(p.rows.d), y_(d_), x_(d_), no_lower_(d_, -INFINITY), no_upper_(d_, INFINITY),
        active_(new bool[count_ + 1]), state_(d_), work_(count_, d_), rows_of_(p.rows, p.rows_stride) {
    if (p.rows.roots != nullptr) forest_.emplace(p.rows);
  }

  Answer solve(int64_t n, const Effort& effort, double* multipliers) {
    guess(n);
    return certified(n, effort, multipliers);
  }

  // What pivoting in lanes made of it. Where that gave up or is wrong, the exact method goes on from its guess; so it does
  // next to the apex of a cone, which it knows.
  Answer take_over(const Settled& found, Effort effort, double* multipliers) {
    found.read(x_.data(), multipliers, active_.get());
    if (found.right && found.residual <= TOLERANCE && found.size > APEX * found.far) {
      p_.places.write(found.sample, x_.data());
      return {SOLVED, found.residual, found.steps, is_blurred(found.size, found.far, found.residual)};
    }
    if (effort.exact_steps == 0) return {UNSOLVED, found.residual, found.steps, false};
    std::fill(state_.begin(), state_.end(), 0);
    effort.gradient_steps = effort.pivots = 0;
    Answer answer = certified(found.sample, effort, multipliers);
    answer.steps += found.steps;
    return answer;
  }

 private:
  // From the guess of what is active.
  Answer certified(int64_t n, const Effort& effort, double* multipliers) {
    const Rows rows = rows_of_.of(n);
    p_.places.read(n, y_.data());
    const Sample stated{rows, p_.m, p_.c.of(n), p_.lower.of(n), p_.upper.of(n), y_.data(), active_.get(), state_.data(),
                        multipliers, x_.data()};
    Sample s = stated;
    if (effort.clamped) s.lower = no_lower_.data(), s.upper = no_upper_.data();
    Answer answer{};
    const int64_t status = solve_sample(s, effort, work_, forest_, answer.steps);
    for (int64_t j = 0; j < d_; j++) x_[j] = stated.clip(x_[j], j);
    answer.residual = kkt_residual(stated, work_);
    p_.places.write(n, x_.data());
    answer.blurred = is_blurred(largest(x_.data(), d_), largest(y_.data(), d_), answer.residual);
    answer.status = answer.residual <= TOLERANCE ? SOLVED : (status == EMPTY ? EMPTY : UNSOLVED);
    if (is_crossed(stated.lower, stated.upper, d_)) answer.status = EMPTY, answer.blurred = false;
    return answer;
  }

  void guess(int64_t n) {
    for (int64_t i = 0; i < count_; i++) active_[i] = p_.active != nullptr ? p_.active[n * count_ + i] : i >= p_.m;
    for (int64_t j = 0; j < d_; j++) state_[j] = p_.state != nullptr ? p_.state[n * d_ + j] : 0;
  }

  const Problem& p_;
  int64_t count_, d_;
  std::vector<double> y_, x_, no_lower_, no_upper_;
  std::unique_ptr<bool[]> active_;
  std::vector<int8_t> state_;
  Workspace work_;
  RowsOfSamples rows_of_;
  std::optional<Forest> forest_;
};

}  // namespace

Tally solve_active_set(const Problem& problem, const Effort& effort, double* multipliers, const Report& report,
                       int64_t start, int64_t stop) {
  Blocks blocks(problem);
  Tally tally;
  const int64_t first = start * problem.places.count, last = stop * problem.places.count, count = problem.rows.count;
  const Band band(problem.rows);
  if (!goes_in_lanes(problem, band)) {
    for (int64_t s = first; s < last; s++) tally.note(report, s, blocks.solve(s, effort, multipliers + s * count));
  } else {
    pivot_in_lanes({problem.places, band, problem.c, problem.active}, first, last, [&](const Settled& found) {
      tally.note(report, found.sample, blocks.take_over(found, effort, multipliers + found.sample * count));
    });
  }
  return tally;
}

}  // namespace rayhull
