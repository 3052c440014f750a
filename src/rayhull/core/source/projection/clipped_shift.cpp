#include "clipped_shift.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lanes.hpp"
#include "tolerances.hpp"

namespace rayhull {
namespace {

constexpr int64_t MOST = 120;  // Newton steps; half of them halve the bracket, if they must
constexpr int ROUNDS = 3;
constexpr double INFINITE = std::numeric_limits<double>::infinity();

struct Step {
  double total, slope, mass;  // a z; the sum of a² over the coordinates strictly inside their bounds; the sum of |a z|
};

struct Root {
  double t = 0.0, residual = 0.0;
  int64_t steps = 0;
};

// One block of one sample. Arrays are as long as a multiple of the lanes; what is beyond the block has a = 0, v = 0.
class Block {
 public:
  Block(int64_t size, const double* a)
      : size_(size), padded_((size + 2 * WIDTH - 1) / (2 * WIDTH) * (2 * WIDTH)), a_(padded_), low_(padded_),
        high_(padded_), v_(padded_), z_(padded_), inverse_(padded_), square_(padded_), range_(padded_, -INFINITE), base_(padded_) {
    std::copy(a, a + size, a_.begin());
    for (int64_t j = 0; j < size; j++) {
      reach_ += std::abs(a[j]);
      if (a[j] != 0.0) inverse_[j] = 1.0 / a[j], square_[j] = inverse_[j] * inverse_[j];
    }
  }

  // From v = point() to z = answer().
  double* point() { return v_.data(); }
  const double* answer() const { return z_.data(); }

  void set_bounds(const double* lower, const double* upper) {
    std::copy(lower, lower + size_, low_.begin());
    std::copy(upper, upper + size_, high_.begin());
    crossed_ = is_crossed(lower, upper, size_);
    least_ = 0.0, widest_ = 0.0;
    for (int64_t j = 0; j < size_; j++) {
      const double least = least_term(j);
      least_ += least, range_[j] = most_term(j) - least, base_[j] = least * square_[j];
      widest_ = std::max(widest_, range_[j]);
    }
  }

  Root solve(double c, bool equality) {
    c_ = c, equality_ = equality;
    const double excess = clip() - c;
    if (std::isnan(excess)) return {0.0, INFINITE, 0};
    return excess > 0.0 || (equality && excess < 0.0) ? root(excess) : Root{};
  }

  int64_t status(const Root& root) const {
    if (crossed_) return EMPTY;
    return root.residual <= TOLERANCE ? SOLVED : (is_out_of_reach() ? EMPTY : UNSOLVED);
  }

 private:
  // Do the bounds alone keep a z away from c?
  bool is_out_of_reach() const {
    double most = 0.0;
    for (int64_t j = 0; j < size_; j++) most += most_term(j);
    const double slack = 1e-12 * (1e-3 + std::abs(c_));
    return least_ > c_ + slack || (equality_ && most < c_ - slack);
  }

  // The bounds of a[j] z[j].
  double least_term(int64_t j) const { return a_[j] == 0.0 ? 0.0 : a_[j] * (a_[j] > 0.0 ? low_[j] : high_[j]); }
  double most_term(int64_t j) const { return a_[j] == 0.0 ? 0.0 : a_[j] * (a_[j] > 0.0 ? high_[j] : low_[j]); }

  // A shift that is surely too small, or 0: while one coordinate alone, with all others at their least, exceeds c. In a
  // large simplex few coordinates stay positive, and Newton steps from here find them in two or three instead of eight.
  double first_shift() const {
    const double rest = c_ - least_;  // what a coordinate may add to its least
    if (!(rest <= widest_)) return 0.0;
    Lanes t{};
    for (int64_t j = 0; j < padded_; j += WIDTH) {
      const Lanes alone = load(&v_[j]) * load(&inverse_[j]) - (load(&base_[j]) + rest * load(&square_[j]));
      const Lanes found = where((load(&range_[j]) >= rest) & (alone > t), alone);
      t = found > t ? found : t;
    }
    return std::max(std::max(t[0], t[1]), std::max(t[2], t[3]));
  }

  // z = clip(v); returns a z.
  double clip() {
    Lanes total{}, other{};
    for (int64_t j = 0; j < padded_; j += 2 * WIDTH) {
      total += load(&a_[j]) * clip_lanes(j);
      other += load(&a_[j + WIDTH]) * clip_lanes(j + WIDTH);
    }
    return sum(total + other);
  }

  Lanes clip_lanes(int64_t j) {
    const Lanes z = rayhull::clip(load(&v_[j]), load(&low_[j]), load(&high_[j]));
    store(&z_[j], z);
    return z;
  }

  // z = clip(v - t a).
  Step shift(double t) {
    Sums even{}, odd{};
    for (int64_t j = 0; j < padded_; j += 2 * WIDTH) shift_lanes(j, t, even), shift_lanes(j + WIDTH, t, odd);
    return {sum(even.total + odd.total), sum(even.slope + odd.slope), sum(even.mass + odd.mass)};
  }

  struct Sums {
    Lanes total, slope, mass;
  };

  void shift_lanes(int64_t j, double t, Sums& sums) {
    const Lanes a = load(&a_[j]), low = load(&low_[j]), high = load(&high_[j]), u = load(&v_[j]) - t * a;
    const Lanes z = rayhull::clip(u, low, high), term = a * z;
    store(&z_[j], z);
    sums.total += term;
    sums.mass += magnitude(term);
    sums.slope += where((low < u) & (u < high), a * a);
  }

  // The slope for t just past 0 in the given direction: a coordinate on its bound that moves inwards counts. Images sit
  // on the bounds of their pixels; without this their first Newton step would jump far too wide.
  double first_slope(double direction) const {
    Lanes slope{};
    for (int64_t j = 0; j < padded_; j += WIDTH) {
      const Lanes a = load(&a_[j]), low = load(&low_[j]), high = load(&high_[j]), v = load(&v_[j]);
      const Lanes out = direction * a > 0.0 ? high : low;  // the bound that it leaves
      slope += where(((low < v) & (v < high)) | ((v == out) & (low < high)), a * a);
    }
    return sum(slope);
  }

  // Moves z by a further step where it is free, which meets the row to the rounding of z; returns what is still off, and
  // makes `mass` that of the moved z: far away it is much smaller than before.
  double refine(double t, double step, double& mass) {
    double excess = -c_;
    mass = 0.0;
    for (int64_t j = 0; j < size_; j++) {
      const double u = v_[j] - t * a_[j], more = (low_[j] < u) & (u < high_[j]) ? step * a_[j] : 0.0;
      const double z = std::min(std::max(z_[j] - more, low_[j]), high_[j]);
      z_[j] = z;
      excess += a_[j] * z;
      mass += std::abs(a_[j] * z);
    }
    return excess;
  }

  // For v far away, v - t a keeps the rounding of v. The root is then found again from v - t a (v is used up): adding a
  // multiple of the row to v changes t and not z.
  Root root(double excess) {
    Root all;
    for (int round = 0; round < ROUNDS; round++) {
      double rounding = 0.0;
      const double start = round == 0 && excess > 0.0 ? first_shift() : 0.0;
      const Root some = newton(start, equality_ ? -INFINITE : -all.t, excess, rounding);
      all = {all.t + some.t, some.residual, all.steps + some.steps};
      if (std::abs(excess) <= rounding) break;
      for (int64_t j = 0; j < size_; j++) v_[j] -= some.t * a_[j];
      excess = clip() - c_;
      if (excess == 0.0 || (excess < 0.0 && all.t <= 0.0 && !equality_)) {
        all.residual = 0.0;
        break;
      }
    }
    return all;
  }

  // Newton steps from t = start, halved or stretched where they leave the bracket; t >= least. `excess` becomes what the
  // row is off, `rounding` what it may be.
  Root newton(double start, double least, double& excess, double& rounding) {
    double left = least, right = INFINITE, t = 0.0, stride = 0.0, next = start;
    Step at{0.0, start > 0.0 ? 0.0 : first_slope(excess > 0.0 ? 1.0 : -1.0), 0.0};
    for (int64_t used = 1;; used++) {
      (excess > 0.0 ? left : right) = t;
      if (used > 1 || !(start > 0.0)) next = at.slope > 0.0 ? t + excess / at.slope : INFINITE;
      if (!(left < next && next < right)) next = without_slope(left, right, t, excess, stride);
      const double moved = std::abs(next - t);
      t = next;
      at = shift(t);
      excess = at.total - c_;
      rounding = 2 * ULP * (at.mass + std::abs(c_));
      const bool met = std::abs(excess) <= rounding + 2 * ULP * std::abs(t) * at.slope;
      if (met || moved <= ULP * std::abs(t) || used == MOST) return finish(t, used, at, excess, rounding);
    }
  }

  // The middle of the bracket, or a stride of the size of the numbers involved where it is open.
  double without_slope(double left, double right, double t, double excess, double& stride) const {
    if (left > -INFINITE && right < INFINITE) return 0.5 * (left + right);
    if (stride > 0.0) {
      stride *= 4;
    } else {
      stride = std::abs(c_);
      for (int64_t j = 0; j < size_; j++) stride = std::max(stride, std::abs(v_[j]));
      if (!(stride > 0.0)) stride = 1.0;
    }
    return excess > 0.0 ? t + stride : t - stride;
  }

  Root finish(double t, int64_t used, Step at, double& excess, double& rounding) {
    if (std::abs(excess) > rounding && at.slope > 0.0) {
      excess = refine(t, excess / at.slope, at.mass);
      rounding = 2 * ULP * (at.mass + std::abs(c_));
    }
    const double error = std::abs(excess) / std::max(std::max(at.mass / reach_, std::abs(c_)), FLOOR);
    return {t, at.mass < INFINITE ? error : INFINITE, used};
  }

  int64_t size_, padded_;
  double c_ = 0.0, reach_ = 0.0, least_ = 0.0, widest_ = 0.0;
  bool equality_ = false, crossed_ = false;
  std::vector<double> a_, low_, high_, v_, z_;
  std::vector<double> inverse_, square_, range_, base_;  // 1 / a, 1 / a²; of a z: how wide its bounds are, the lower one / a²
};

}  // namespace

Tally clipped_shift(const ShiftProblem& p, double* shifts, const Report& report, int64_t start, int64_t stop) {
  Block block(p.places.size, p.a);
  const bool shared = p.lower.stride == 0 && p.upper.stride == 0;
  if (shared) block.set_bounds(p.lower.data, p.upper.data);
  Tally tally;
  for (int64_t s = start * p.places.count; s < stop * p.places.count; s++) {
    if (!shared) block.set_bounds(p.lower.of(s), p.upper.of(s));
    p.places.read(s, block.point());
    const Root root = block.solve(*p.c.of(s), p.equality);
    p.places.write(s, block.answer());
    shifts[s] = root.t;
    tally.note(report, s, {block.status(root), root.residual, root.steps});
  }
  return tally;
}

// A coordinate beyond a bound does not move; the others do, along the row only where it carries no multiplier. What has no
// feasible point, or no shift, is constant.
void clipped_shift_backward(const ShiftGradient& p, double* w, int64_t start, int64_t stop) {
  const int64_t size = p.points.size;
  std::vector<double> v(size), g(size);
  for (int64_t s = start * p.points.count; s < stop * p.points.count; s++) {
    const double *low = p.lower.of(s), *high = p.upper.of(s), t = p.shifts[s];
    p.points.read(s, v.data()), p.gradients.read(s, g.data());
    const bool constant = is_crossed(low, high, size) || std::isnan(t);
    double along = 0.0, slope = 0.0;
    for (int64_t j = 0; j < size; j++) {
      const double u = v[j] - t * p.a[j];
      const bool held = (u < low[j]) | (u > high[j]) | constant;
      g[j] = held ? 0.0 : g[j];
      v[j] = held ? 0.0 : p.a[j];
      along += v[j] * g[j], slope += v[j] * v[j];
    }
    w[s] = slope > 0.0 && (p.equality || t > 0.0) ? along / slope : 0.0;
    for (int64_t j = 0; j < size; j++) g[j] -= w[s] * v[j];
    p.gradients.write(s, g.data());
  }
}

}  // namespace rayhull
