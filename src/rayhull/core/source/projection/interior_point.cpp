#include "interior_point.hpp"

#include <cmath>
#include <optional>

#include "certificate.hpp"
#include "sample.hpp"

namespace rayhull {
namespace {

constexpr double STIFF[] = {1e12, 1e14};  // the stiffest spring, in a system of coordinates, of rows: 1 / what regularises it
constexpr double EQUAL = 1e12;      // that of an equality on the way: a softer one stops the path short of its end
constexpr double SOFT = 1e6;        // a spring of rows, to see which forces they take
constexpr double NEVER = 1e-30;     // the freedom of a coordinate at its bound
constexpr int64_t MOST = 120;       // steps of the interior point, over all attempts
constexpr int64_t ROUGH = 16;       // of them with a factor in floats, where that has
constexpr int64_t FILLED = 3;       // times the entries of the rows
constexpr double GENTLE = 0.3;      // the forces at the start, against what soft springs need
constexpr int64_t ROUNDS = 6, REFINED = 8;  // of pivoting after each attempt; of refinement
constexpr double STALLED = 1e-3;  // steps of this length lead nowhere
constexpr double GOALS[] = {1e-6, 1e-12};  // products of slack and multiplier before an attempt, over distance times width
constexpr double BACK = 0.995, LAST = 0.9999;  // of the way to the boundary, at first and at last
constexpr double OFF = 16 * ULP;  // a row or a force counts as wrong beyond this, relative to its terms

Eight root(Eight x) {
  for (int64_t lane = 0; lane < EIGHT; lane++) x.set(lane, std::sqrt(x.get(lane)));
  return x;
}
Eight smaller(Eight x, Eight y) { return where(x > y, y, x); }
bool any(Which which) {
  bool found = false;
  for (int64_t lane = 0; lane < EIGHT; lane++) found |= which.get(lane);
  return found;
}
const Eight ZERO = eight(0.0), ONE = eight(1.0);
const Which NONE{};

// The columns of sparse rows.
struct Columns {
  explicit Columns(const Rows& rows) : begin(rows.d + 1), row(rows.begin[rows.count]), data(row.size()) {
    const int64_t entries = rows.begin[rows.count];
    for (int64_t e = 0; e < entries; e++) begin[rows.columns[e] + 1]++;
    for (int64_t j = 0; j < rows.d; j++) begin[j + 1] += begin[j];
    std::vector<int64_t> next(begin);
    for (int64_t i = 0; i < rows.count; i++)
      for (int64_t e = rows.begin[i]; e < rows.begin[i + 1]; e++) {
        const int64_t to = next[rows.columns[e]]++;
        row[to] = int32_t(i), data[to] = rows.data[e];
      }
  }

  std::vector<int64_t> begin;
  std::vector<int32_t> row;
  std::vector<double> data;
};

// dx + G^T dw = rho and dw = stiffness G dx + h, where a coordinate moves by freedom times what is left of it: by the system
// G freedom G^T + 1 / stiffness of the rows, or 1 / freedom + G^T stiffness G of the coordinates.
class System {
 public:
  explicit System(const Intervals& given)
      : dx(given.rows.d), dt(given.rows.count), dw(given.rows.count), freedom(given.rows.d), stiffness(given.rows.count),
        rho(given.rows.d), h(given.rows.count), given_(given), G_(given.rows), columns_(G_), shift_(G_.d),
        factor_(given.pattern) {
    if (given.by_rows && given.pattern.begin[given.pattern.n] > FILLED * G_.begin[G_.count]) {
      rough_factor_.emplace(given.pattern);
      rough_dw_.resize(G_.count);
    }
    std::vector<int64_t> at(columns_.begin);
    for (int64_t e = 0; e < G_.begin[G_.count]; e++) next_.push_back(at[G_.columns[e]]++);
  }

  // In floats where that is good enough and worth it.
  void factor(bool rough = false) {
    is_rough_ = rough && rough_factor_;
    if (is_rough_) rough_factor_->factor([&](int64_t i, Rough* w) { add_row(i, w); });
    else if (given_.by_rows) factor_.factor([&](int64_t i, Eight* w) { add_row(i, w); });
    else
      factor_.factor([&](int64_t j, Eight* w) {
        w[j] = w[j] + 1.0 / larger(freedom[j], eight(NEVER));
        for (int64_t f = columns_.begin[j]; f < columns_.begin[j + 1]; f++) {
          const int64_t i = columns_.row[f];
          const Eight scaled = columns_.data[f] * stiffness[i];
          for (int64_t e = G_.begin[i + 1]; e-- > G_.begin[i] && G_.columns[e] >= j;)
            w[G_.columns[e]] = w[G_.columns[e]] + G_.data[e] * scaled;
        }
      });
  }

  // From rho and h to dx, dt = G dx and dw.
  void solve() {
    if (given_.by_rows) {
      for (int64_t j = 0; j < G_.d; j++) shift_[j] = freedom[j] * rho[j];
      for (int64_t i = 0; i < G_.count; i++) dw[i] = G_.dot(i, shift_.data()) + h[i] / larger(stiffness[i], eight(NEVER));
      if (is_rough_) {
        std::copy(dw.begin(), dw.end(), rough_dw_.begin());
        rough_factor_->solve(rough_dw_.data());
        std::copy(rough_dw_.begin(), rough_dw_.end(), dw.begin());
      } else factor_.solve(dw.data());
      pull(dw.data(), shift_.data());
      for (int64_t j = 0; j < G_.d; j++) dx[j] = freedom[j] * (rho[j] - shift_[j]);
    } else {
      pull(h.data(), shift_.data());
      for (int64_t j = 0; j < G_.d; j++) dx[j] = rho[j] - shift_[j];
      factor_.solve(dx.data());
    }
    for (int64_t i = 0; i < G_.count; i++) {
      dt[i] = G_.dot(i, dx.data());
      if (!given_.by_rows) dw[i] = stiffness[i] * dt[i] + h[i];
    }
  }

  // G^T w
  void pull(const Eight* w, Eight* out) const {
    for (int64_t j = 0; j < G_.d; j++) {
      Eight total = ZERO;
      for (int64_t f = columns_.begin[j]; f < columns_.begin[j + 1]; f++)
        total = total + columns_.data[f] * w[columns_.row[f]];
      out[j] = total;
    }
  }

  std::vector<Eight> dx, dt, dw;                  // (d), (rows), (rows)
  std::vector<Eight> freedom, stiffness, rho, h;  // (d), (rows), (d), (rows)

 private:
  template <class Number>
  void add_row(int64_t i, Number* w) const {
    w[i] = w[i] + Number(smaller(1.0 / stiffness[i], eight(1.0 / NEVER)));
    for (int64_t e = G_.begin[i]; e < G_.begin[i + 1]; e++) {
      const int64_t j = G_.columns[e];
      const Eight scaled = G_.data[e] * freedom[j];
      for (int64_t f = next_[e]; f < columns_.begin[j + 1]; f++)
        w[columns_.row[f]] = w[columns_.row[f]] + Number(columns_.data[f] * scaled);
    }
  }

  const Intervals& given_;
  const Rows& G_;
  Columns columns_;
  std::vector<int64_t> next_;  // (entries) of a row: its place in its column
  std::vector<Eight> shift_;
  SparseCholesky<Eight> factor_;
  std::optional<SparseCholesky<Rough>> rough_factor_;
  std::vector<Rough> rough_dw_;
  bool is_rough_ = false;
};

// One of the two sides of each interval, rows first, then coordinates: sign (bound - t) >= 0.
struct Wall {
  Wall(int64_t size, double sign)
      : sign(sign), bound(size), slack(size), force(size), dslack(size), dforce(size), inverse(size), there(size),
        met(size) {}

  double sign;
  std::vector<Eight> bound, slack, force, dslack, dforce;
  std::vector<Eight> inverse;  // 1 / slack, where that is not stiffer than STIFF
  std::vector<Which> there;  // finite, and the interval is more than a point
  std::vector<char> met;     // there, in some sample

  Eight missing(int64_t k, Eight t) const { return sign * (bound[k] - t) - slack[k]; }
  // What the product of slack and force is to gain.
  Eight wanted(int64_t k, Eight target, bool second) const {
    const Eight product = target - slack[k] * force[k];
    return second ? product - dslack[k] * dforce[k] : product;
  }
};

class Group {
 public:
  Group(const Problem& problem, const Intervals& intervals)
      : p_(problem), given_(intervals), G_(intervals.rows), M_(G_.count), d_(G_.d), size_(M_ + d_),
        stiff_(STIFF[intervals.by_rows]), system_(intervals), y_(d_), x_(d_), v_(d_), t_(size_), total_(size_), walls_{Wall(size_, 1.0), Wall(size_, -1.0)}, equal_(size_), up_(size_),
        down_(size_), point_(d_), stated_(d_), origin_(d_), shifted_(d_) {}

  // The samples first .. first + some - 1, at most eight.
  template <class Note>
  void run(int64_t first, int64_t some, const double* guess, double* multipliers, const Note& note) {
    for (int64_t lane = 0; lane < EIGHT; lane++) load(first + std::min(lane, some - 1), lane);
    start();
    if (guess != nullptr) {
      take_guess(first, some, guess);
      pivot();
    }
    for (int attempt = 0; attempt < 2 && any(!settled_); attempt++) {
      approach(GOALS[attempt]);
      const std::vector<Eight> x(x_), total(total_);
      read_active();
      pivot();
      // the path goes on where it was left; its end is near the answer where pivoting finds none
      for (int64_t j = 0; j < d_; j++) x_[j] = where(settled_, x_[j], x[j]);
      for (int64_t k = 0; k < size_; k++) total_[k] = where(settled_, total_[k], total[k]);
    }
    for (int64_t lane = 0; lane < some; lane++) note(first + lane, finish(first + lane, lane, multipliers));
  }

 private:
  void load(int64_t sample, int64_t lane) {
    const double *c = p_.c.of(sample), *lower = p_.lower.of(sample), *upper = p_.upper.of(sample);
    p_.places.read(sample, stated_.data());
    for (int64_t j = 0; j < d_; j++) {
      y_[j].set(lane, stated_[given_.coordinate[j]]);
      set_interval(M_ + j, lane, lower[given_.coordinate[j]], upper[given_.coordinate[j]]);
    }
    for (int64_t i = 0; i < M_; i++) {
      const int32_t high = given_.high[i], low = given_.low[i];
      set_interval(i, lane, low < 0 ? -INFINITY : (low == high ? c[low] : -c[low]), high < 0 ? INFINITY : c[high]);
    }
  }

  void set_interval(int64_t k, int64_t lane, double low, double high) {
    const bool equal = std::isfinite(low) && std::isfinite(high) && high - low <= 4 * ULP * (std::abs(low) + std::abs(high));
    walls_[0].bound[k].set(lane, high), walls_[1].bound[k].set(lane, low), equal_[k].set(lane, equal);
    walls_[0].there[k].set(lane, high < INFINITY && !equal), walls_[1].there[k].set(lane, low > -INFINITY && !equal);
  }

  // At y: slacks as far as y is from its worst row or bound, forces as large as soft springs need to hold it there.
  void start() {
    x_ = y_;
    values();
    Eight worst = ZERO;
    for (int64_t k = 0; k < size_; k++)
      worst = larger(worst, larger(t_[k] - walls_[0].bound[k], walls_[1].bound[k] - t_[k]));
    distance_ = where(worst > ZERO, worst, ONE), settled_ = !(worst > ZERO), steps_ = 0, sides_ = ZERO;
    reach_ = eight(FLOOR);
    for (int64_t j = 0; j < d_; j++) reach_ = larger(reach_, magnitude(y_[j]));
    const Eight force = larger(distance_, root(distance_ * held()));
    for (int64_t k = 0; k < size_; k++) {
      total_[k] = ZERO, up_[k] = down_[k] = NONE;
      for (Wall& wall : walls_) {
        const Which there = wall.there[k];
        wall.met[k] = any(there);
        wall.slack[k] = where(there, larger(wall.sign * (wall.bound[k] - t_[k]), distance_), ONE);
        wall.force[k] = where(there, GENTLE * force * distance_ / wall.slack[k]);
        sides_ = sides_ + where(there, ONE);
      }
    }
    sides_ = larger(sides_, ONE);
  }

  // The largest force of soft springs on the violated rows; equalities alone need none.
  Eight held() {
    Eight most = ZERO;
    if (std::equal(given_.high, given_.high + M_, given_.low)) return most;
    std::fill(system_.freedom.begin(), system_.freedom.end(), ONE);
    std::fill(system_.stiffness.begin(), system_.stiffness.end(), eight(SOFT));
    std::fill(system_.rho.begin(), system_.rho.end(), ZERO);
    for (int64_t i = 0; i < M_; i++)
      system_.h[i] = SOFT * (larger(t_[i] - walls_[0].bound[i], ZERO) - larger(walls_[1].bound[i] - t_[i], ZERO));
    system_.factor();
    system_.solve();
    for (int64_t i = 0; i < M_; i++) most = larger(most, magnitude(system_.dw[i]));
    return most;
  }

  // t = (G x, x)
  void values() {
    for (int64_t i = 0; i < M_; i++) t_[i] = G_.dot(i, x_.data());
    std::copy(x_.begin(), x_.end(), t_.begin() + M_);
  }

  // Mehrotra's predictor and corrector, until the products of slack and force are small or no step leads on.
  void approach(double goal) {
    for (; steps_ < MOST; steps_++) {
      const Eight mean = measure();
      const Which left = (!settled_) & ((mean > goal * distance_ * width_) | (missing_ > 1e-6 * distance_));
      if (!any(left)) return;
      system_.factor(steps_ < ROUGH);
      const Eight ahead = direction(ZERO, false), after = mean_after(ahead), ratio = after / larger(mean, eight(FLOOR));
      const Eight length = where(left, direction(ratio * ratio * ratio * mean, true));
      move(smaller(larger(eight(BACK), ONE - mean / (distance_ * width_)), eight(LAST)) * length);
      if (!any(length > STALLED)) return;
    }
  }

  // Springs, what is missing, and the mean product of slack and force.
  Eight measure() {
    values();
    Eight sum = ZERO, slacks = ZERO;
    missing_ = ZERO;
    for (int64_t k = 0; k < size_; k++) {
      Eight spring = where(equal_[k], eight(EQUAL)), force = where(equal_[k], total_[k]);
      missing_ = larger(missing_, where(equal_[k], magnitude(walls_[0].bound[k] - t_[k])));
      for (Wall& wall : walls_) {
        if (!wall.met[k]) continue;
        const Which there = wall.there[k];
        wall.inverse[k] = 1.0 / larger(wall.slack[k], (1.0 / stiff_) * wall.force[k]);
        spring = spring + wall.force[k] * wall.inverse[k], force = force + wall.sign * wall.force[k];
        sum = sum + wall.slack[k] * wall.force[k], slacks = slacks + where(there, wall.slack[k]);
        missing_ = larger(missing_, where(there, magnitude(wall.missing(k, t_[k]))));
      }
      total_[k] = force;
      if (k < M_) system_.stiffness[k] = spring;
      else system_.freedom[k - M_] = 1.0 / (ONE + spring);
    }
    system_.pull(total_.data(), v_.data());
    for (int64_t j = 0; j < d_; j++) v_[j] = y_[j] - x_[j] - v_[j] - total_[M_ + j];
    width_ = smaller(distance_, slacks / sides_);
    return sum / sides_;
  }

  // Where slacks and forces go for products of `target`; returns the step to the boundary, at most 1.
  Eight direction(Eight target, bool second) {
    for (int64_t k = 0; k < size_; k++) {
      Eight pull = where(equal_[k], -EQUAL * (walls_[0].bound[k] - t_[k]));
      for (const Wall& wall : walls_) {
        if (!wall.met[k]) continue;
        const Eight by = (wall.wanted(k, target, second) - wall.force[k] * wall.missing(k, t_[k])) * wall.inverse[k];
        pull = pull + where(wall.there[k], wall.sign * by);
      }
      if (k < M_) system_.h[k] = pull;
      else system_.rho[k - M_] = v_[k - M_] - pull;
    }
    system_.solve();
    Eight most = ONE;
    for (int64_t k = 0; k < size_; k++) {
      const Eight dt = k < M_ ? system_.dt[k] : system_.dx[k - M_];
      for (Wall& wall : walls_) {
        if (!wall.met[k]) continue;
        const Eight ds = where(wall.there[k], wall.missing(k, t_[k]) - wall.sign * dt);
        const Eight df = where(wall.there[k], (wall.wanted(k, target, second) - wall.force[k] * ds) * wall.inverse[k]);
        most = larger(most, larger(-ds / wall.slack[k], where(wall.there[k], -df / larger(wall.force[k], eight(FLOOR)))));
        wall.dslack[k] = ds, wall.dforce[k] = df;
      }
    }
    return 1.0 / most;
  }

  Eight mean_after(Eight length) const {
    Eight sum = ZERO;
    for (const Wall& wall : walls_)
      for (int64_t k = 0; k < size_; k++)
        if (wall.met[k]) sum = sum + where(wall.there[k], (wall.slack[k] + length * wall.dslack[k]) * (wall.force[k] + length * wall.dforce[k]));
    return sum / sides_;
  }

  void move(Eight length) {
    for (int64_t j = 0; j < d_; j++) x_[j] = x_[j] + length * system_.dx[j];
    for (int64_t k = 0; k < size_; k++) {
      const Eight pull = k < M_ ? system_.dw[k] : EQUAL * (system_.dx[k - M_] - (walls_[0].bound[k] - t_[k]));
      total_[k] = where(equal_[k], total_[k] + length * pull);
      for (Wall& wall : walls_) {
        if (!wall.met[k]) continue;
        wall.slack[k] = wall.slack[k] + length * wall.dslack[k];
        wall.force[k] = wall.force[k] + length * wall.dforce[k];
      }
    }
  }

  // ---- the active set ----

  // Active is what has more force than slack, as shares of y's distance and of the set's width.
  void read_active() {
    const Eight share = width_ / distance_;
    for (int64_t k = 0; k < size_; k++) {
      const Which up = walls_[0].there[k] & (share * walls_[0].force[k] > walls_[0].slack[k]);
      const Which down = walls_[1].there[k] & (share * walls_[1].force[k] > walls_[1].slack[k]) & !up;
      up_[k] = (settled_ & up_[k]) | ((!settled_) & up), down_[k] = (settled_ & down_[k]) | ((!settled_) & down);
    }
  }

  void take_guess(int64_t first, int64_t some, const double* guess) {
    for (int64_t lane = 0; lane < EIGHT; lane++) {
      const double* own = guess + (first + std::min(lane, some - 1)) * p_.rows.count;
      for (int64_t i = 0; i < M_; i++) {
        const double high = given_.high[i] < 0 ? 0.0 : own[given_.high[i]], low = given_.low[i] < 0 ? 0.0 : own[given_.low[i]];
        total_[i].set(lane, given_.high[i] == given_.low[i] ? high : high - low);
      }
    }
    shift();
    for (int64_t k = 0; k < size_; k++) {
      const Eight at = k < M_ ? total_[k] : v_[k - M_] - walls_[0].bound[k], low = k < M_ ? at : v_[k - M_] - walls_[1].bound[k];
      up_[k] = walls_[0].there[k] & (at > ZERO), down_[k] = walls_[1].there[k] & (ZERO > low) & !up_[k];
    }
  }

  Which active(int64_t k) const { return up_[k] | down_[k] | equal_[k]; }
  Eight bound(int64_t k) const { return where(down_[k], walls_[1].bound[k], walls_[0].bound[k]); }

  // v = y - G^T forces
  void shift() {
    system_.pull(total_.data(), v_.data());
    for (int64_t j = 0; j < d_; j++) v_[j] = y_[j] - v_[j];
  }

  // Meets what is active and corrects what turns out wrong, in all samples that are not settled, while that grows less.
  void pivot() {
    Eight wrong = eight(INFINITY);
    for (int round = 0; round < ROUNDS && any(!settled_); round++) {
      steps_++;
      for (int64_t k = 0; k < size_; k++) {
        const Which on = active(k);
        total_[k] = where(on, total_[k]);
        if (k < M_) system_.stiffness[k] = where(on, eight(stiff_));
        else system_.freedom[k - M_] = where(!on, ONE), x_[k - M_] = where(on, bound(k), x_[k - M_]);
      }
      system_.factor();
      refine();
      const Eight before = wrong;
      wrong = correct();
      settled_ = settled_ | !(wrong > ZERO);
      if (!any((!settled_) & (before > wrong))) return;
    }
  }

  // Newton steps on the active set, until x and forces meet it to rounding.
  void refine() {
    for (int step = 0; step < REFINED; step++) {
      shift();
      for (int64_t j = 0; j < d_; j++) system_.rho[j] = where(!active(M_ + j), v_[j] - x_[j]);
      for (int64_t i = 0; i < M_; i++) system_.h[i] = where(active(i), stiff_ * (G_.dot(i, x_.data()) - bound(i)));
      system_.solve();
      Eight moved = ZERO;
      for (int64_t j = 0; j < d_; j++) {
        const Eight dx = where(!active(M_ + j), system_.dx[j]);
        x_[j] = x_[j] + dx, moved = larger(moved, magnitude(dx));
      }
      for (int64_t i = 0; i < M_; i++) total_[i] = total_[i] + where(active(i), system_.dw[i]);
      if (!any(moved > 4 * ULP * reach_)) break;
    }
    shift();
  }

  // Changes all wrong guesses; returns how many there were in each sample.
  Eight correct() {
    Eight size = ZERO;
    for (int64_t j = 0; j < d_; j++) size = larger(size, magnitude(x_[j]));
    const Eight rounding = OFF * (reach_ + size);
    Eight wrong = ZERO;
    for (int64_t k = 0; k < size_; k++) {
      const Eight t = k < M_ ? G_.dot(k, x_.data()) : x_[k - M_];
      const Eight up_force = k < M_ ? total_[k] : v_[k - M_] - walls_[0].bound[k];
      const Eight down_force = k < M_ ? -total_[k] : walls_[1].bound[k] - v_[k - M_];
      const Eight slack = OFF * (size + magnitude(t));
      const Which off = (up_[k] & (-rounding > up_force)) | (down_[k] & (-rounding > down_force));
      const Which idle = !(up_[k] | down_[k]);
      const Which up = walls_[0].there[k] & idle & (t > walls_[0].bound[k] + slack);
      const Which down = walls_[1].there[k] & idle & (walls_[1].bound[k] > t + slack);
      const Which change = (!settled_) & (off | up | down);
      wrong = wrong + where(change, ONE);
      up_[k] = (up_[k] & !(off & change)) | (up & change), down_[k] = (down_[k] & !(off & change)) | (down & change);
    }
    return wrong;
  }

  // ---- the answer ----

  Answer finish(int64_t sample, int64_t lane, double* multipliers) {
    const double *c = p_.c.of(sample), *lower = p_.lower.of(sample), *upper = p_.upper.of(sample);
    double* own = multipliers + sample * p_.rows.count;
    std::fill(own, own + p_.rows.count, 0.0);
    for (int64_t i = 0; i < M_; i++) {
      const double force = total_[i].get(lane);
      const int32_t high = given_.high[i], low = given_.low[i];
      if (high == low) own[high] = force;
      else if (force != 0.0 && (force > 0.0 ? high : low) >= 0) own[force > 0.0 ? high : low] = std::abs(force);
    }
    p_.places.read(sample, stated_.data());
    for (int64_t j = 0; j < d_; j++) {
      const int64_t to = given_.coordinate[j];
      point_[to] = std::min(std::max(x_[j].get(lane), lower[to]), upper[to]);
    }
    double residual = certify(point_.data(), c, own, lower, upper);
    const double size = largest(point_.data(), d_), far = largest(stated_.data(), d_);
    if (size <= APEX * far) {
      for (int64_t j = 0; j < d_; j++) origin_[j] = std::min(std::max(0.0, lower[j]), upper[j]);
      const double there = certify(origin_.data(), c, own, lower, upper);
      if (there <= residual) residual = there, point_ = origin_;
    }
    p_.places.write(sample, point_.data());
    const bool crossed = is_crossed(lower, upper, d_), missed = missing_.get(lane) > 1e-6 * distance_.get(lane);
    const int64_t status = crossed ? EMPTY : (residual <= TOLERANCE ? SOLVED : (missed ? EMPTY : UNSOLVED));
    return {status, residual, std::max<int64_t>(steps_, 1), !crossed && is_blurred(size, far, residual)};
  }

  double certify(const double* x, const double* c, const double* multipliers, const double* lower, const double* upper) {
    const Answered<double> answered{p_.rows, p_.m, c, stated_.data(), x, multipliers, shifted_.data()};
    return kkt_error(answered, [&](double v, int64_t j) { return std::min(std::max(v, lower[j]), upper[j]); });
  }

  const Problem& p_;
  const Intervals& given_;
  const Rows& G_;
  int64_t M_, d_, size_, steps_ = 0;
  double stiff_;
  System system_;
  std::vector<Eight> y_, x_, v_, t_, total_;  // total: the force of an interval, upwards positive
  Wall walls_[2];
  std::vector<Which> equal_, up_, down_;
  std::vector<double> point_, stated_, origin_, shifted_;
  Eight distance_{}, width_{}, sides_{}, missing_{}, reach_{};
  Which settled_{};
};

}  // namespace

Tally solve_interior_point(const Problem& problem, const Intervals& intervals, const double* guess, double* multipliers,
                           const Report& report, int64_t start, int64_t stop) {
  Group group(problem, intervals);
  Tally tally;
  const int64_t last = stop * problem.places.count;
  for (int64_t s = start * problem.places.count; s < last; s += EIGHT)
    group.run(s, std::min(EIGHT, last - s), guess, multipliers,
              [&](int64_t n, const Answer& found) { tally.note(report, n, found); });
  return tally;
}

void interval_multipliers(const Intervals& given, int64_t count, const double* q, const bool* active, const int8_t* state,
                          double* w, int64_t start, int64_t stop) {
  System system(given);
  const Rows& G = given.rows;
  std::vector<Eight> right(G.count), total(G.count), pulled(G.d);
  for (int64_t s = start; s < stop; s += EIGHT) {
    const int64_t some = std::min(EIGHT, stop - s);
    for (int64_t lane = 0; lane < EIGHT; lane++) {
      const int64_t n = s + std::min(lane, some - 1);
      for (int64_t j = 0; j < G.d; j++) system.freedom[j].set(lane, state[n * G.d + given.coordinate[j]] == 0);
      for (int64_t i = 0; i < G.count; i++) {
        const int32_t high = given.high[i], low = given.low[i];
        const bool up = high >= 0 && active[n * count + high], down = low >= 0 && low != high && active[n * count + low];
        system.stiffness[i].set(lane, up || down ? STIFF[given.by_rows] : 0.0);
        right[i].set(lane, up ? q[n * count + high] : (down ? -q[n * count + low] : 0.0));
      }
    }
    system.factor();
    std::fill(total.begin(), total.end(), ZERO);
    std::fill(system.rho.begin(), system.rho.end(), ZERO);
    for (int64_t step = 0; step < REFINED; step++) {
      system.pull(total.data(), pulled.data());
      for (int64_t j = 0; j < G.d; j++) pulled[j] = system.freedom[j] * pulled[j];
      for (int64_t i = 0; i < G.count; i++) system.h[i] = system.stiffness[i] * (right[i] - G.dot(i, pulled.data()));
      system.solve();
      for (int64_t i = 0; i < G.count; i++) total[i] = total[i] + where(system.stiffness[i] > ZERO, system.dw[i]);
    }
    for (int64_t lane = 0; lane < some; lane++) {
      double* own = w + (s + lane) * count;
      std::fill(own, own + count, 0.0);
      for (int64_t i = 0; i < G.count; i++) {
        const int32_t high = given.high[i], low = given.low[i];
        const bool up = high >= 0 && active[(s + lane) * count + high];
        if (up) own[high] = total[i].get(lane);
        else if (low >= 0 && active[(s + lane) * count + low]) own[low] = -total[i].get(lane);
      }
    }
  }
}

}  // namespace rayhull
