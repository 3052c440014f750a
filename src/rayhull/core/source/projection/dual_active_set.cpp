// A dual active-set method in the manner of Goldfarb and Idnani (1983), for the identity Hessian.
//
// It starts at the nearest point of a subset of the rows and adds the most violated row or bound, one at a time, dropping
// those whose multiplier would turn negative: always at the nearest point of a larger subset, so it ends, and with a row
// that cannot be met it proves the set empty. Bounds never enter the factor: a fixed coordinate is left out of
// H = G_W D G_W^T, which costs a rank-one change.
#include "violated_first.hpp"

namespace rayhull {
namespace {

constexpr double FLAT = 1e-13;     // a direction this short (squared, unit rows) is none: the row depends on the active ones
constexpr double STEADY = 1e-12;   // a multiplier that changes no faster than this does not block

// A violated constraint: a row, or a bound of a coordinate, with the sign of its normal.
struct Violated {
  int64_t row = -1, coordinate = -1;
  double sign = 1.0, gap = 0.0;
};

class Method {
 public:
  Method(const Sample& sample, Workspace& work) : s(sample), work_(work), factor_(work.factor) {}

  // Drops what has a multiplier of the wrong sign until none is left: the nearest point of a subset of the rows.
  int64_t settle() {
    int64_t rounds = 0, dropped;
    do {
      rounds++;
      dropped = solve_guess(s, work_);
      for (int64_t i = 0; i < s.m; i++)
        if (s.active[i] && s.multipliers[i] < 0.0) s.active[i] = false, dropped++;
      for (int64_t j = 0; j < s.d(); j++) {
        const double v = work_.v[j];
        const bool wrong = (s.state[j] > 0 && v < s.upper[j]) || (s.state[j] < 0 && v > s.lower[j]);
        if (wrong && s.lower[j] < s.upper[j]) s.state[j] = 0, dropped++;
      }
    } while (dropped > 0);
    polish(s, work_);
    factor_.fill_envelope();
    for (int64_t j = 0; j < s.d(); j++) work_.bound_multipliers[j] = s.state[j] != 0 ? work_.v[j] - s.x[j] : 0.0;
    return rounds;
  }

  // The most violated one.
  bool find(Violated& worst) const {
    double most = 0.0;
    for (int64_t j = 0; j < s.d(); j++) {
      if (s.state[j] != 0) continue;
      const double over = std::max(s.x[j] - s.upper[j], s.lower[j] - s.x[j]);
      if (!(over > most && over > SLACK * std::abs(s.x[j]))) continue;
      most = over;
      worst = {-1, j, s.x[j] > s.upper[j] ? 1.0 : -1.0, over};
    }
    const double size = largest(s.x, s.d());
    for (int64_t i = 0; i < s.count(); i++) {
      if (s.active[i]) continue;
      const double value = s.rows.dot(i, s.x) - s.c[i], over = i < s.m ? value : std::abs(value);
      if (!(over > most && over > SLACK * (s.rows.lengths[i] * size + std::abs(s.c[i])))) continue;
      most = over;
      worst = {i, -1, value < 0.0 ? -1.0 : 1.0, over};
    }
    return most > 0.0;
  }

  // Is a violation that cannot be removed no more than the rounding of the numbers involved?
  bool is_rounding(const Violated& p) const {
    const double size = largest(s.x, s.d());
    const double terms = p.row < 0 ? size : s.rows.lengths[p.row] * size + std::abs(s.c[p.row]);
    return p.gap <= 1e-11 * terms + 16 * ULP * largest(s.y, s.d());
  }

  // Moves until constraint p is met, dropping what blocks.
  Met meet(const Violated& p, int64_t most, int64_t& steps) {
    double gap = p.gap, force = 0.0;
    while (steps < most) {
      steps++;
      const double slope = find_direction(p), full = slope > FLAT ? gap / slope : INFINITE;
      int64_t blocker = 0;
      const double partial = find_blocker(blocker);
      if (full == INFINITE && partial == INFINITE) return Met::IMPOSSIBLE;
      const double t = std::min(full, partial);
      force += t;
      gap -= t * slope;
      move(t);
      if (full <= partial) return join(p, force, slope) ? Met::YES : Met::REFACTOR;
      if (!leave(blocker)) return Met::REFACTOR;
    }
    return Met::REFACTOR;
  }

 private:
  // direction = n - G_W^T r with r = H^-1 G_W D n: x moves by -t direction where free, multipliers of bounds where fixed.
  // Returns its squared length over the free coordinates.
  double find_direction(const Violated& p) {
    double *v = work_.direction.data(), *r = work_.r.data(), *w = work_.w.data();
    const int64_t d = s.d(), k = factor_.size();
    std::fill(v, v + d, 0.0);
    if (p.row >= 0) s.rows.add(p.row, p.sign, v);
    for (int64_t j = 0; j < d; j++) v[j] = s.state[j] == 0 ? v[j] : 0.0;
    for (int64_t a = 0; a < k; a++)
      w[a] = p.row >= 0 ? s.rows.dot(factor_.row(a), v) : p.sign * s.rows.entry(factor_.row(a), p.coordinate);
    factor_.solve_lower(w);
    std::copy(w, w + k, r);
    factor_.solve_upper(r);
    std::fill(v, v + d, 0.0);
    if (p.row >= 0)
      s.rows.add(p.row, p.sign, v);
    else
      v[p.coordinate] = p.sign;
    for (int64_t a = 0; a < k; a++) s.rows.add(factor_.row(a), -r[a], v);
    double slope = 0.0;
    for (int64_t j = 0; j < d; j++) slope += s.state[j] == 0 ? v[j] * v[j] : 0.0;
    return slope;
  }

  // The step at which a multiplier reaches 0 first, and whose: a place in the factor, or -1 - j for a bound.
  double find_blocker(int64_t& blocker) const {
    double first = INFINITE;
    for (int64_t a = 0; a < factor_.size(); a++) {
      const int64_t i = factor_.row(a);
      if (i >= s.m || !(work_.r[a] > STEADY)) continue;
      const double t = std::max(s.multipliers[i], 0.0) / work_.r[a];
      if (t < first) first = t, blocker = a;
    }
    for (int64_t j = 0; j < s.d(); j++) {
      if (s.state[j] == 0 || !(s.state[j] * work_.direction[j] > STEADY) || !(s.lower[j] < s.upper[j])) continue;
      const double t = std::max(work_.bound_multipliers[j] * s.state[j], 0.0) / std::abs(work_.direction[j]);
      if (t < first) first = t, blocker = -1 - j;
    }
    return first;
  }

  void move(double t) {
    for (int64_t a = 0; a < factor_.size(); a++) s.multipliers[factor_.row(a)] -= t * work_.r[a];
    for (int64_t j = 0; j < s.d(); j++) (s.state[j] == 0 ? s.x[j] : work_.bound_multipliers[j]) -= t * work_.direction[j];
  }

  // The constraint that is now met becomes active; false if the factor must be computed afresh.
  bool join(const Violated& p, double force, double slope) {
    if (p.row >= 0) {
      factor_.append(p.row, work_.w.data(), p.sign, std::sqrt(slope));
      s.active[p.row] = true, s.multipliers[p.row] = p.sign * force;
      return true;
    }
    const int64_t j = p.coordinate;
    s.state[j] = p.sign > 0 ? 1 : -1, work_.bound_multipliers[j] = p.sign * force;
    s.x[j] = p.sign > 0 ? s.upper[j] : s.lower[j];
    return change_column(j, -1.0);
  }

  bool leave(int64_t blocker) {
    if (blocker < 0) {
      const int64_t j = -1 - blocker;
      s.state[j] = 0, work_.bound_multipliers[j] = 0.0;
      return change_column(j, 1.0);
    }
    const int64_t i = factor_.row(blocker);
    s.active[i] = false, s.multipliers[i] = 0.0;
    factor_.remove(blocker);
    return true;
  }

  // Coordinate j leaves (-1) or joins (1) the free ones.
  bool change_column(int64_t j, double sign) {
    for (int64_t a = 0; a < factor_.size(); a++) work_.w[a] = s.rows.entry(factor_.row(a), j);
    return factor_.rank_one(work_.w.data(), sign);
  }

  const Sample& s;
  Workspace& work_;
  Cholesky& factor_;
};

}  // namespace

int64_t dual_active_set(const Sample& sample, int64_t most, Workspace& work, int64_t& steps) {
  Method method(sample, work);
  return add_violated<Violated>(method, most, steps);
}

}  // namespace rayhull
