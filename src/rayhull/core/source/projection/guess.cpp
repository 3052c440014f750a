// What a guess of the active rows and bounds amounts to, and a first guess by accelerated gradient steps on the dual.
#include "certificate.hpp"
#include "sample.hpp"

namespace rayhull {
namespace {

// Adds to the multipliers what makes the chosen rows hold at x; a second call takes away the rounding.
void correct(const Sample& s, Workspace& work) {
  const Cholesky& factor = work.factor;
  for (int64_t a = 0; a < factor.size(); a++) work.r[a] = s.rows.dot(factor.row(a), s.x) - s.c[factor.row(a)];
  factor.solve(work.r.data());
  for (int64_t a = 0; a < factor.size(); a++) {
    s.multipliers[factor.row(a)] += work.r[a];
    s.rows.add(factor.row(a), -work.r[a], work.v.data());
  }
  for (int64_t j = 0; j < s.d(); j++)
    if (s.state[j] == 0) s.x[j] = work.v[j];
}

}  // namespace

int64_t solve_guess(const Sample& s, Workspace& work) {
  for (int64_t j = 0; j < s.d(); j++) {
    s.x[j] = s.state[j] == 0 ? s.y[j] : (s.state[j] > 0 ? s.upper[j] : s.lower[j]);
    work.v[j] = s.y[j];
  }
  std::fill(s.multipliers, s.multipliers + s.count(), 0.0);
  const int64_t dependent = work.factor.factor(s.rows, s.active, s.state);
  correct(s, work);
  for (int64_t a = 0; a < work.factor.size() && dependent > 0; a++)
    if (work.factor.is_dependent(a)) s.active[work.factor.row(a)] = false;
  return dependent;
}

void polish(const Sample& s, Workspace& work) {
  correct(s, work);
  bool apex = std::all_of(s.state, s.state + s.d(), [](int8_t state) { return state == 0; });
  for (int64_t i = 0; i < s.count(); i++) apex = apex && (!s.active[i] || s.c[i] == 0.0);
  if (apex && largest(s.x, s.d()) <= APEX * largest(s.y, s.d())) std::fill(s.x, s.x + s.d(), 0.0);
}

// FISTA with a restart where the momentum points uphill.
void guess_by_gradients(const Sample& s, double step, int64_t steps, Workspace& work) {
  const int64_t count = s.count();
  std::vector<double> multipliers(count), point(count);
  double* z = work.v.data();
  double t = 1.0;
  for (int64_t k = 0; k < steps; k++) {
    s.dual_point(point.data(), z);
    for (int64_t j = 0; j < s.d(); j++) z[j] = s.clip(z[j], j);
    double uphill = 0.0;
    for (int64_t i = 0; i < count; i++) {
      const double value = point[i] + step * (s.rows.dot(i, z) - s.c[i]);
      work.r[i] = i < s.m ? std::max(value, 0.0) : value;
      uphill += (point[i] - work.r[i]) * (work.r[i] - multipliers[i]);
    }
    if (uphill > 0.0) t = 1.0;
    const double after = 0.5 * (1.0 + std::sqrt(1.0 + 4.0 * t * t));
    const double momentum = uphill > 0.0 ? 0.0 : (t - 1.0) / after;
    for (int64_t i = 0; i < count; i++) {
      point[i] = work.r[i] + momentum * (work.r[i] - multipliers[i]);
      multipliers[i] = work.r[i];
    }
    t = after;
  }
  s.dual_point(multipliers.data(), z);
  for (int64_t i = 0; i < count; i++) s.active[i] = multipliers[i] > 0.0 || i >= s.m;
  for (int64_t j = 0; j < s.d(); j++) s.state[j] = z[j] > s.upper[j] ? 1 : (z[j] < s.lower[j] ? -1 : 0);
}

double kkt_residual(const Sample& s, Workspace& work) {
  double* v = work.v.data();
  const Answered<double> answered{s.rows, s.m, s.c, s.y, s.x, s.multipliers, v};
  const double error = kkt_error(answered, [&](double value, int64_t j) { return s.clip(value, j); });
  for (int64_t j = 0; j < s.d(); j++) s.state[j] = v[j] > s.upper[j] ? 1 : (v[j] < s.lower[j] ? -1 : 0);
  for (int64_t i = 0; i < s.count(); i++) s.active[i] = s.multipliers[i] > 0.0 || i >= s.m;
  return error;
}

}  // namespace rayhull
