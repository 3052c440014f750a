#include "chain.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rayhull {
namespace {

constexpr int64_t SOLVED = 0, EMPTY = 2;

struct Pool {
  double sum, mass, floor, ceiling, value;
  int64_t size;

  bool is_empty() const { return floor > ceiling; }
  void settle() { value = std::min(std::max(sum / mass, floor), ceiling); }
  void absorb(const Pool& before) {
    sum += before.sum, mass += before.mass, size += before.size;
    floor = std::max(floor, before.floor), ceiling = std::min(ceiling, before.ceiling);
    settle();
  }
};

struct Sample {
  int64_t d;
  const double *weights, *y, *lower, *upper;
  double* x;
  bool* joined;
  int8_t* state;
};

// Merges each coordinate with the pools before it that are not below; returns whether the bounds leave a point.
bool make_pools(const Sample& s, std::vector<Pool>& pools) {
  bool feasible = true;
  pools.clear();
  for (int64_t i = 0; i < s.d; i++) {
    const double w = s.weights[i], clipped = std::min(std::max(s.y[i], s.lower[i]), s.upper[i]);
    Pool pool{w * s.y[i], w, s.lower[i], s.upper[i], clipped, 1};
    feasible &= !pool.is_empty();
    while (!pools.empty() && pools.back().value >= pool.value) {
      pool.absorb(pools.back());
      pools.pop_back();
      feasible &= !pool.is_empty();
    }
    pools.push_back(pool);
  }
  return feasible;
}

// Writes one pool from coordinate `at` on; returns by how much its multipliers break their signs. The running sums of
// w (y - x) are the multipliers of the neighbours and must not be negative; what is left at the end a bound must take.
double write_pool(const Sample& s, const Pool& pool, int64_t at) {
  const int64_t end = at + pool.size;
  double push = 0.0, force = 0.0, worst = 0.0;
  for (int64_t i = at; i < end; i++) push += s.weights[i] * (s.y[i] - pool.value);
  int8_t holder = push == 0.0 ? 0 : (push > 0.0 ? 1 : -1);
  for (int64_t i = at; i < end; i++) {
    s.x[i] = pool.value;
    s.state[i] = 0;
    force += s.weights[i] * (s.y[i] - pool.value);
    if ((holder > 0 && s.upper[i] == pool.value) || (holder < 0 && s.lower[i] == pool.value)) {
      s.state[i] = holder;
      force -= push;
      holder = 0;
    }
    if (i + 1 < end) worst = std::max(worst, -force / s.weights[i]);
    if (i + 1 < s.d) s.joined[i] = i + 1 < end;
  }
  return std::max(worst, std::abs(force) / s.weights[end - 1]);
}

}  // namespace

void pool_adjacent_violators(const ChainProblem& problem, const ChainSolution& solution, int64_t start, int64_t stop) {
  const int64_t d = problem.d;
  std::vector<Pool> pools;
  pools.reserve(d);
  for (int64_t n = start; n < stop; n++) {
    const Sample s{d, problem.weights, problem.y + n * d, problem.lower + n * problem.lower_stride,
                   problem.upper + n * problem.upper_stride, solution.x + n * d, solution.joined + n * (d - 1),
                   solution.state + n * d};
    solution.status[n] = make_pools(s, pools) ? SOLVED : EMPTY;
    double worst = 0.0, size = 1e-300;
    int64_t at = 0;
    for (const Pool& pool : pools) {
      worst = std::max(worst, write_pool(s, pool, at));
      at += pool.size;
    }
    for (int64_t i = 0; i < d; i++) size = std::max(size, std::abs(s.y[i]));
    solution.residual[n] = worst / size;
  }
}

}  // namespace rayhull
