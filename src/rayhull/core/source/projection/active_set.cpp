#include "active_set.hpp"

#include "sample.hpp"

namespace rayhull {
namespace {

// The rows of a sample with their 1-norms; shared rows come with them.
class RowsOfSamples {
 public:
  RowsOfSamples(const Rows& rows, int64_t stride) : rows_(rows), stride_(stride), lengths_(stride ? rows.count : 0) {}

  Rows of(int64_t n) {
    if (stride_ == 0) return rows_;
    Rows rows = rows_;
    rows.data += n * stride_;
    for (int64_t i = 0; i < rows.count; i++) {
      lengths_[i] = 0.0;
      for (int64_t j = 0; j < rows.d; j++) lengths_[i] += std::abs(rows.data[i * rows.d + j]);
    }
    rows.lengths = lengths_.data();
    return rows;
  }

 private:
  const Rows& rows_;
  int64_t stride_;
  std::vector<double> lengths_;
};

// 1 / (an upper bound of the largest eigenvalue of G G^T): the product of the largest sums of rows and of columns.
double safe_step(const Rows& rows) {
  std::vector<double> columns(rows.d);
  for (int64_t i = 0; i < rows.count; i++)
    for (int64_t j = 0; j < rows.d; j++) columns[j] += std::abs(rows.data[i * rows.d + j]);
  const double bound = largest(rows.lengths, rows.count) * largest(columns.data(), rows.d);
  return bound > 0.0 ? 1.0 / bound : 0.0;
}

void solve_sample(const Sample& s, const Effort& effort, Workspace& work, int64_t& status, int64_t& steps) {
  steps = effort.gradient_steps;
  if (effort.gradient_steps > 0)
    guess_by_gradients(s, effort.step > 0.0 ? effort.step : safe_step(s.rows), effort.gradient_steps, work);
  const int64_t used = block_pivoting(s, effort.pivots, effort.lazy, work);
  steps += std::abs(used);
  status = used > 0 ? SOLVED : dual_active_set(s, effort.exact_steps, work, steps);
}

}  // namespace

void solve_active_set(const Problem& p, const Effort& effort, const Solution& to, int64_t start, int64_t stop) {
  const int64_t count = p.rows.count, d = p.rows.d;
  Workspace work(count, d);
  RowsOfSamples rows_of(p.rows, p.rows_stride);
  for (int64_t n = start; n < stop; n++) {
    const Rows rows = rows_of.of(n);
    const Sample s{rows, p.m, p.c + n * p.c_stride, p.lower + n * p.lower_stride, p.upper + n * p.upper_stride,
                   p.y + n * d, to.active + n * count, to.state + n * d, to.multipliers + n * count, to.x + n * d};
    solve_sample(s, effort, work, to.status[n], to.steps[n]);
    for (int64_t j = 0; j < d; j++) s.x[j] = s.clip(s.x[j], j);
    to.residual[n] = kkt_residual(s, work);
    if (to.residual[n] <= TOLERANCE)
      to.status[n] = SOLVED;
    else if (to.status[n] != EMPTY)
      to.status[n] = UNSOLVED;
  }
}

void active_multipliers(const Rows& rows, int64_t rows_stride, const double* q, const bool* active, const int8_t* state,
                        double* w, int64_t start, int64_t stop) {
  Cholesky factor(rows.count, rows.d);
  RowsOfSamples rows_of(rows, rows_stride);
  std::vector<double> r(rows.count + 1);
  for (int64_t n = start; n < stop; n++) {
    factor.factor(rows_of.of(n), active + n * rows.count, state + n * rows.d);
    for (int64_t a = 0; a < factor.size(); a++) r[a] = q[n * rows.count + factor.row(a)];
    factor.solve(r.data());
    std::fill(w + n * rows.count, w + (n + 1) * rows.count, 0.0);
    for (int64_t a = 0; a < factor.size(); a++) w[n * rows.count + factor.row(a)] = r[a];
  }
}

}  // namespace rayhull
