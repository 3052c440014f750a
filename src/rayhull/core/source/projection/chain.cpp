#include "chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tolerances.hpp"

namespace rayhull {
namespace {

struct Pool {
  double sum, mass, floor, ceiling, value;
  int64_t size;

  bool is_empty() const { return floor > ceiling; }
  void absorb(const Pool& before) {
    sum += before.sum, mass += before.mass, size += before.size;
    floor = std::max(floor, before.floor), ceiling = std::min(ceiling, before.ceiling);
    value = std::min(std::max(sum / mass, floor), ceiling);
  }
};

// One block along its path, in plain coordinates less the steps.
struct Sample {
  int64_t d;
  const double *weights, *y, *lower, *upper;
  double *x, *multipliers;

  double push(int64_t i, double value) const { return weights[i] * (y[i] - value); }
};

// Merges each coordinate with the pools before it that are above; returns whether the bounds leave a point.
bool make_pools(const Sample& s, std::vector<Pool>& pools) {
  bool feasible = true;
  pools.clear();
  for (int64_t i = 0; i < s.d; i++) {
    const double w = s.weights[i], clipped = std::min(std::max(s.y[i], s.lower[i]), s.upper[i]);
    Pool pool{w * s.y[i], w, s.lower[i], s.upper[i], clipped, 1};
    feasible &= !pool.is_empty();
    while (!pools.empty() && pools.back().value > pool.value) {
      pool.absorb(pools.back());
      pools.pop_back();
      feasible &= !pool.is_empty();
    }
    pools.push_back(pool);
  }
  return feasible;
}

// The coordinate whose bound takes what a clipped pool leaves over: the last that holds it from above (all before it want
// up), the first that holds it from below; -1 if none.
int64_t holder(const Sample& s, double value, double rest, int64_t at, int64_t end) {
  int64_t found = -1;
  for (int64_t i = at; i < end; i++)
    if ((rest > 0.0 && s.upper[i] == value) || (rest < 0.0 && s.lower[i] == value && found < 0)) found = i;
  return found;
}

// Writes one pool from coordinate `at` on; returns by how much it breaks the optimality conditions: the running sums of
// w (y - x) are the multipliers and must not be negative, nor may anything be left at the end.
double write_pool(const Sample& s, const Pool& pool, int64_t at) {
  const int64_t end = at + pool.size;
  double rest = 0.0, total = 0.0, worst = 0.0;
  for (int64_t i = at; i < end; i++) rest += s.push(i, pool.value);
  const int64_t held = holder(s, pool.value, rest, at, end);
  for (int64_t i = at; i < end; i++) {
    s.x[i] = pool.value;
    total += s.push(i, pool.value);
    if (i == held) total -= rest;
    if (i + 1 < s.d) s.multipliers[i] = i + 1 < end ? std::max(total, 0.0) : 0.0;
    if (i + 1 < end) worst = std::max(worst, -total / s.weights[i]);
  }
  return std::max(worst, std::abs(total) / s.weights[end - 1]);
}

// Takes a block to its path and back. The sides are laid out once where all blocks share them.
class Layout {
 public:
  explicit Layout(const ChainProblem& problem)
      : p_(problem), path_(p_.path), d_(problem.places.size), y_(d_), low_(d_), high_(d_), shift_(d_), weights_(d_), x_(d_), between_(d_) {
    for (int64_t k = 0; k < d_; k++) weights_[k] = path_.roots[k] * path_.roots[k];
    shared_ = p_.c.stride == 0 && p_.lower.stride == 0 && p_.upper.stride == 0;
    if (shared_) lay_out(0);
  }

  Sample read(int64_t s) {
    if (!shared_) lay_out(s);
    p_.places.read(s, y_.data());
    for (int64_t k = 0; k < d_; k++) y_[k] = y_[k] / path_.roots[k] - shift_[k];
    return {d_, weights_.data(), y_.data(), low_.data(), high_.data(), x_.data(), between_.data()};
  }

  void write(int64_t s, double* multipliers) {
    const double *lower = p_.lower.of(s), *upper = p_.upper.of(s);
    for (int64_t k = 0; k < d_; k++) {
      const double z = (x_[k] + shift_[k]) * path_.roots[k];
      x_[k] = std::min(std::max(z, lower[path_.order[k]]), upper[path_.order[k]]);
    }
    p_.places.write(s, x_.data());
    for (int64_t k = 0; k + 1 < d_; k++) multipliers[path_.rows[k]] = between_[k] * path_.unit_steps[path_.rows[k]];
  }

 private:
  // x = t + shift has the steps, t none.
  void lay_out(int64_t s) {
    const double *c = p_.c.of(s), *lower = p_.lower.of(s), *upper = p_.upper.of(s);
    double shift = 0.0;
    for (int64_t k = 0; k < d_; k++) {
      shift_[k] = shift;
      low_[k] = lower[path_.order[k]] / path_.roots[k] - shift, high_[k] = upper[path_.order[k]] / path_.roots[k] - shift;
      if (k + 1 < d_) shift -= c[path_.rows[k]] * path_.unit_steps[path_.rows[k]];
    }
  }

  const ChainProblem& p_;
  const Path path_;
  int64_t d_;
  bool shared_;
  std::vector<double> y_, low_, high_, shift_, weights_, x_, between_;
};

// The largest relative error of the optimality conditions; writes points and multipliers.
double write_pools(const Sample& s, const std::vector<Pool>& pools) {
  double worst = 0.0, size = FLOOR, sum = 0.0;
  int64_t at = 0;
  for (const Pool& pool : pools) {
    worst = std::max(worst, write_pool(s, pool, at));
    at += pool.size;
  }
  for (int64_t i = 0; i < s.d; i++) size = std::max(size, std::abs(s.y[i])), sum += s.y[i];
  return std::isnan(sum) ? std::numeric_limits<double>::infinity() : worst / size;
}

// The backward pass of one block. Coordinates that active rows tie together move as one: by the mean of their gradients, or,
// if a bound holds one of them, not at all. In units of the steps, w of a row is the sum of root (g - what comes out) over
// the coordinates before it, or less that after it.
class Backward {
 public:
  explicit Backward(const ChainGradient& problem)
      : p_(problem), path_(p_.path), d_(problem.points.size), v_(d_), g_(d_), push_(d_ + 1), w_(d_ + 1), held_(d_) {}

  void run(int64_t s, double* w) {
    read(s);
    std::fill(w_.begin(), w_.end(), 0.0);
    for (int64_t first = 0, end; first < d_; first = end) {
      for (end = first + 1; end < d_ && push_[end] > 0.0; end++) continue;
      move(first, end);
    }
    p_.gradients.write(s, g_.data());
    for (int64_t k = 0; k + 1 < d_; k++) w[path_.rows[k]] = w_[k + 1] * path_.unit_steps[path_.rows[k]];
  }

 private:
  // The gradient, the multiplier before each coordinate, and which coordinates a bound holds: in a pool at a bound that they
  // share, all but one are on it up to rounding, and only that one is held.
  void read(int64_t s) {
    const double *lower = p_.lower.of(s), *upper = p_.upper.of(s), *multipliers = p_.multipliers + s * (d_ - 1);
    p_.points.read(s, v_.data()), p_.gradients.read(s, g_.data());
    bool constant = is_crossed(lower, upper, d_);
    double reach = 0.0;
    for (int64_t k = 0; k + 1 < d_; k++) {
      push_[k + 1] = multipliers[path_.rows[k]] / path_.unit_steps[path_.rows[k]];
      constant |= std::isnan(push_[k + 1]);
    }
    for (int64_t k = 0; k < d_; k++) reach = std::max(reach, std::abs(v_[k]) + (push_[k] + push_[k + 1]) / path_.roots[k]);
    for (int64_t k = 0; k < d_; k++) {
      const double v = v_[k] - (push_[k + 1] - push_[k]) / path_.roots[k], rounding = ROUNDING * reach;
      held_[k] = (v < lower[path_.order[k]] - rounding) | (v > upper[path_.order[k]] + rounding);
      if (constant) g_[k] = 0.0;
    }
  }

  // Coordinates first .. end - 1, tied together. Between two that are held, the last row carries nothing.
  void move(int64_t first, int64_t end) {
    double sum = 0.0, mass = 0.0;
    int64_t held = end;  // the first that is
    for (int64_t k = end - 1; k >= first; k--) {
      if (held_[k]) held = k;
      sum += path_.roots[k] * g_[k], mass += path_.roots[k] * path_.roots[k];
    }
    const double mean = held < end ? 0.0 : sum / mass;
    for (int64_t k = first; k + 1 < end && k < held; k++) w_[k + 1] = w_[k] + path_.roots[k] * (g_[k] - path_.roots[k] * mean);
    for (int64_t k = end - 1; k > held; k--) w_[k] = held_[k] ? 0.0 : w_after(k, end) - path_.roots[k] * g_[k];
    for (int64_t k = first; k < end; k++) g_[k] = path_.roots[k] * mean;
  }

  double w_after(int64_t k, int64_t end) const { return k + 1 < end ? w_[k + 1] : 0.0; }

  const ChainGradient& p_;
  const Path path_;
  int64_t d_;
  std::vector<double> v_, g_, push_, w_;  // w_[k] of the row before coordinate k, 0 at the ends
  std::vector<char> held_;
};

}  // namespace

Tally pool_adjacent_violators(const ChainProblem& problem, double* multipliers, const Report& report, int64_t start,
                              int64_t stop) {
  const int64_t count = problem.places.count, d = problem.places.size;
  Layout path(problem);
  std::vector<Pool> pools;
  pools.reserve(d);
  Tally tally;
  for (int64_t s = start * count; s < stop * count; s++) {
    const Sample sample = path.read(s);
    const bool feasible = make_pools(sample, pools);
    const double residual = write_pools(sample, pools);
    path.write(s, multipliers + s * (d - 1));
    tally.note(report, s, {!feasible ? EMPTY : (residual <= TOLERANCE ? SOLVED : UNSOLVED), residual, 1});
  }
  return tally;
}

void pool_adjacent_backward(const ChainGradient& problem, double* w, int64_t start, int64_t stop) {
  const int64_t count = problem.points.count, d = problem.points.size;
  Backward path(problem);
  for (int64_t s = start * count; s < stop * count; s++) path.run(s, w + s * (d - 1));
}

}  // namespace rayhull
