// The backward pass of nearest points, from what is active there: D - D G^T (G D G^T)^+ G D.
#include <memory>
#include <numeric>
#include <optional>

#include "active_set.hpp"
#include "cholesky.hpp"

namespace rayhull {
namespace {

// Rows that are differences: coordinates that active ones tie together move as one, by the mean of their gradients, or, if a
// bound holds one of them, not at all.
class Ties {
 public:
  explicit Ties(const Rows& rows) : rows_(rows), above_(rows.d), sum_(rows.d), mass_(rows.d) {}

  void pull(const bool* active, const int8_t* state, double* g) {
    std::iota(above_.begin(), above_.end(), 0);
    for (int64_t i = 0; i < rows_.count; i++)
      if (active[i]) above_[top(rows_.columns[2 * i])] = top(rows_.columns[2 * i + 1]);
    std::fill(sum_.begin(), sum_.end(), 0.0), std::fill(mass_.begin(), mass_.end(), 0.0);
    for (int32_t j = 0; j < rows_.d; j++) {
      const double root = rows_.roots[j];
      sum_[top(j)] += root * g[j], mass_[top(j)] += state[j] ? INFINITY : root * root;
    }
    for (int32_t j = 0; j < rows_.d; j++) g[j] = rows_.roots[j] * (sum_[top(j)] / mass_[top(j)]);
  }

 private:
  int32_t top(int32_t j) {
    while (above_[j] != j) j = above_[j] = above_[above_[j]];
    return j;
  }

  const Rows& rows_;
  std::vector<int32_t> above_;
  std::vector<double> sum_, mass_;
};

// One block after another, in memory of its own.
class Backward {
 public:
  explicit Backward(const ActiveGradient& problem)
      : p_(problem), rows_(p_.rows), v_(rows_.d), g_(rows_.d), r_(rows_.count + 1), active_(new bool[rows_.count + 1]),
        state_(rows_.d) {
    if (rows_.roots != nullptr) ties_.emplace(rows_);
    else factor_.emplace(rows_.count, rows_.d);
  }

  void run(int64_t s) {
    read(s);
    if (ties_) ties_->pull(active_.get(), state_.data(), g_.data());
    else pull();
    p_.gradients.write(s, g_.data());
  }

 private:
  // The gradient where no bound holds a coordinate, and what is active.
  void read(int64_t s) {
    const double *lower = p_.lower.of(s), *upper = p_.upper.of(s), *multipliers = p_.multipliers + s * rows_.count;
    p_.points.read(s, v_.data()), p_.gradients.read(s, g_.data());
    for (int64_t i = 0; i < rows_.count; i++) {
      active_[i] = multipliers[i] > 0.0 || i >= p_.m;
      if (multipliers[i] != 0.0) rows_.add(i, -multipliers[i], v_.data());
    }
    for (int64_t j = 0; j < rows_.d; j++) {
      state_[j] = int8_t((v_[j] > upper[j]) - (v_[j] < lower[j]));
      if (state_[j] != 0) g_[j] = 0.0;
    }
  }

  void pull() {
    factor_->factor(rows_, active_.get(), state_.data());
    for (int64_t a = 0; a < factor_->size(); a++) r_[a] = rows_.dot(factor_->row(a), g_.data());
    factor_->solve(r_.data());
    for (int64_t a = 0; a < factor_->size(); a++) rows_.add(factor_->row(a), -r_[a], g_.data());
    for (int64_t j = 0; j < rows_.d; j++)
      if (state_[j] != 0) g_[j] = 0.0;
  }

  const ActiveGradient& p_;
  const Rows& rows_;
  std::vector<double> v_, g_, r_;
  std::unique_ptr<bool[]> active_;
  std::vector<int8_t> state_;
  std::optional<Ties> ties_;
  std::optional<Cholesky> factor_;
};

}  // namespace

void active_set_backward(const ActiveGradient& problem, int64_t start, int64_t stop) {
  Backward blocks(problem);
  for (int64_t s = start * problem.points.count; s < stop * problem.points.count; s++) blocks.run(s);
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
