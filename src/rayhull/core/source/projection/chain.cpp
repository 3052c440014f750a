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

}  // namespace

void pool_adjacent_violators(const ChainProblem& problem, const ChainSolution& solution, int64_t start, int64_t stop) {
  const int64_t d = problem.d;
  std::vector<Pool> pools;
  pools.reserve(d);
  for (int64_t n = start; n < stop; n++) {
    const Sample s{d, problem.weights, problem.y + n * d, problem.lower + n * problem.lower_stride,
                   problem.upper + n * problem.upper_stride, solution.x + n * d, solution.multipliers + n * (d - 1)};
    solution.status[n] = make_pools(s, pools) ? SOLVED : EMPTY;
    double worst = 0.0, size = FLOOR, sum = 0.0;
    int64_t at = 0;
    for (const Pool& pool : pools) {
      worst = std::max(worst, write_pool(s, pool, at));
      at += pool.size;
    }
    for (int64_t i = 0; i < d; i++) size = std::max(size, std::abs(s.y[i])), sum += s.y[i];
    solution.residual[n] = std::isnan(sum) ? std::numeric_limits<double>::infinity() : worst / size;
  }
}

}  // namespace rayhull
