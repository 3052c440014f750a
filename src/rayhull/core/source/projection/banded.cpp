#include "banded.hpp"

#include <algorithm>

#include "certificate.hpp"
#include "eight.hpp"

namespace rayhull {
namespace {

constexpr int64_t PATIENCE = 3, LONGER = 6, MOST = 250;  // steps without fewer wrong guesses before it is careful, more so; in all
constexpr int64_t LONG = 2000, POLISHED = 4;  // rows from which one more solution from where the last came out is not enough
constexpr double HELD = 4 * ULP;            // what rounding of the multipliers alone leaves of a point, relative to them
constexpr double TINY = 1e-14;              // a pivot this small against its diagonal: the row depends on those before it

using Report = std::function<void(const Settled&)>;

// Who stands in a lane: which sample, how many steps, how many of its guesses were wrong at best, for how long.
struct Turn {
  int64_t sample = -1, steps = 0, fewest = 0, stalled = 0, polished = 0;
  bool careful = false, finished = false, right = false;
};

// W: the width of the band.
template <int W>
class Pivoting {
 public:
  explicit Pivoting(const Given& given)
      : given_(given), rows_(given.band.rows), k_(rows_.ordered), d_(rows_.d), y_(d_), x_(d_), v_(d_), c_(rows_.count),
        start_(k_), gap_(k_), multipliers_(rows_.count), excess_(k_), peak_(k_), factor_(k_ * W), active_(k_), wrong_(k_),
        point_(d_) {}

  void run(int64_t first, int64_t last, const Report& settled) {
    next_ = first, last_ = last;
    for (Turn& turn : turns_) turn.finished = true;
    while (refill(settled)) {
      solve();
      test();
      if (k_ > LONG) refine();
      bool careful = false;
      for (int64_t lane = 0; lane < EIGHT; lane++) careful |= go_on(lane);
      if (careful) select();
      for (int64_t i = 0; i < k_; i++) active_[i] = (active_[i] ^ (wrong_[i] & moving_)) | anew_;
    }
  }

 private:
  // Finished lanes go to the next samples; those of them that keep all rows are finished too. Returns whether work is left.
  bool refill(const Report& settled) {
    for (bool again = true; again;) {
      again = hand_out(settled);
      if (again) begin();
    }
    return std::any_of(turns_, turns_ + EIGHT, [](const Turn& turn) { return turn.sample >= 0; });
  }

  // Reports what is finished; returns whether new samples came.
  bool hand_out(const Report& settled) {
    fresh_ = Which{};
    if (std::any_of(turns_, turns_ + EIGHT, [](const Turn& turn) { return turn.finished && turn.right; })) certify();
    bool any = false;
    for (int64_t lane = 0; lane < EIGHT; lane++) {
      if (!turns_[lane].finished) continue;
      if (turns_[lane].sample >= 0) settled(report(lane));
      polishing_.set(lane, false), moving_.set(lane, false);
      turns_[lane] = {};
      if (next_ < last_) load(lane), any = true;
    }
    return any;
  }

  void load(int64_t lane) {
    const int64_t sample = next_++;
    const double* c = given_.c.of(sample);
    turns_[lane] = {sample, 0, k_ + 1, 0};
    fresh_.set(lane, true);
    given_.places.read(sample, point_.data());
    for (int64_t j = 0; j < d_; j++) y_[j].set(lane, point_[j]);
    for (int64_t i = 0; i < rows_.count; i++) c_[i].set(lane, c[given_.band.stated[i]]);
  }

  // Active rows of new samples: the violated ones, or the guess that was given.
  void begin() {
    Eight size = eight(0.0);
    for (int64_t j = 0; j < d_; j++) size = larger(magnitude(y_[j]), size), x_[j] = where(fresh_, y_[j], x_[j]);
    Which any{};
    for (int64_t i = 0; i < k_; i++) {
      const Eight gap = rows_.dot(i, y_.data()) - c_[i];
      const Which violated = gap > SLACK * (rows_.lengths[i] * size + magnitude(c_[i]));
      start_[i] = where(fresh_, gap, start_[i]);
      multipliers_[i] = where(!fresh_, multipliers_[i]);
      active_[i] = (fresh_ & violated) | (!fresh_ & active_[i]);
      any = any | violated;
    }
    for (int64_t lane = 0; lane < EIGHT; lane++)
      if (fresh_.get(lane)) turns_[lane].finished = turns_[lane].right = !guess(lane) && !any.get(lane);
  }

  // The guess that was given; returns whether some row is in it.
  bool guess(int64_t lane) {
    bool any = false;
    for (int64_t i = 0; i < k_ && given_.active != nullptr; i++) {
      const bool active = given_.active[turns_[lane].sample * rows_.count + given_.band.stated[i]];
      active_[i].set(lane, active);
      any |= active;
    }
    return any;
  }

  // Multipliers and point for the guess; where it stood the test, once more from where that came out, which takes the
  // rounding away.
  void solve() {
    for (int64_t j = 0; j < d_; j++) x_[j] = where(polishing_, x_[j], y_[j]);
    eliminate();
    substitute();
  }

  // Once more from where every lane came out: along a run of thousands of rows rounding turns multipliers' signs.
  void refine() {
    const Which polishing = polishing_, dependent = dependent_;
    for (int64_t lane = 0; lane < EIGHT; lane++) polishing_.set(lane, true);
    solve();
    polishing_ = polishing, dependent_ = dependent_ | dependent;
    test();
  }

  // L D L^T = the products of the active rows, row by row, and r with L D r = their gaps. Dependent rows become inactive.
  void eliminate() {
    Eight before[W][W], solved[W], inverse[W];  // of the W rows before: L from the diagonal on to the left, D r, 1 / D
    Which was[W];                               // whether they are active
    for (int p = 0; p < W; p++) {
      solved[p] = inverse[p] = eight(0.0), was[p] = Which{};
      for (int q = 0; q < W; q++) before[p][q] = eight(0.0);
    }
    Which dependent{};
    for (int64_t i = 0; i < k_; i++) {
      const double* product = &given_.band.products[i * (W + 1)];
      const Which on = active_[i];
      Eight pivot = eight(product[0]), r = where(on, where(polishing_, gap_[i], start_[i])), u[W], l[W];
      for (int p = W - 1; p >= 0; p--) {  // the row p + 1 before this one
        u[p] = where(on & was[p], eight(product[p + 1]));
        for (int q = p + 1; q < W; q++) u[p] = u[p] - u[q] * before[p][q - p - 1];
        l[p] = u[p] * inverse[p];
        pivot = pivot - u[p] * l[p];
        r = r - l[p] * solved[p];
      }
      const Which fine = pivot > eight(TINY * product[0]);
      dependent = dependent | (on & !fine);
      active_[i] = on & fine;
      for (int p = W - 1; p > 0; p--) {
        inverse[p] = inverse[p - 1], solved[p] = solved[p - 1], was[p] = was[p - 1];
        for (int q = 0; q < W; q++) before[p][q] = before[p - 1][q];
      }
      inverse[0] = where(fine, 1.0 / pivot), solved[0] = r, was[0] = active_[i];
      for (int q = 0; q < W; q++) before[0][q] = factor_[i * W + q] = l[q];
      gap_[i] = where(active_[i], r * inverse[0]);
    }
    dependent_ = dependent;
  }

  // r = L^-T r, added to the multipliers and taken off the point.
  void substitute() {
    Eight after[W], left[W][W];  // r of the W rows behind, and their rows of L
    for (int p = 0; p < W; p++) {
      after[p] = eight(0.0);
      for (int q = 0; q < W; q++) left[p][q] = eight(0.0);
    }
    for (int64_t i = k_ - 1; i >= 0; i--) {
      Eight r = gap_[i];
      for (int p = W - 1; p >= 0; p--) r = r - left[p][p] * after[p];
      for (int p = W - 1; p > 0; p--) {
        after[p] = after[p - 1];
        for (int q = 0; q < W; q++) left[p][q] = left[p - 1][q];
      }
      after[0] = r;
      for (int q = 0; q < W; q++) left[0][q] = factor_[i * W + q];
      multipliers_[i] = where(polishing_, multipliers_[i]) + r;
      rows_.add(i, -r, x_.data());
    }
  }

  // By how much each guess is wrong, and how many are.
  void test() {
    Eight size = eight(0.0);
    for (int64_t j = 0; j < d_; j++) size = larger(magnitude(x_[j]), size);
    Which count{};
    for (int64_t i = 0; i < k_; i++) {
      const Eight gap = rows_.dot(i, x_.data()) - c_[i];
      const Eight over = gap - SLACK * (rows_.lengths[i] * size + magnitude(c_[i]));
      const Eight excess = where(active_[i], -multipliers_[i], over);
      gap_[i] = gap, excess_[i] = excess, wrong_[i] = excess > eight(0.0);
      count = count + wrong_[i];
    }
    count_ = count;
  }

  // What becomes of a lane; returns whether it is to be careful.
  bool go_on(int64_t lane) {
    Turn& turn = turns_[lane];
    if (turn.sample < 0) return false;
    const int64_t wrong = count_.count(lane);
    const bool right = wrong == 0 && !dependent_.get(lane);
    turn.steps++;
    turn.polished += polishing_.get(lane);
    turn.right = turn.polished >= (k_ > LONG ? POLISHED : 1);
    turn.finished = turn.right || turn.steps >= MOST;
    turn.stalled = wrong < turn.fewest ? 0 : turn.stalled + 1;
    turn.fewest = std::min(turn.fewest, wrong);
    polishing_.set(lane, right || turn.polished > 0);
    moving_.set(lane, !polishing_.get(lane) && !turn.finished);
    const bool anew = !turn.careful && turn.stalled > PATIENCE && moving_.get(lane);
    anew_.set(lane, anew);
    if (anew) turn.careful = true, turn.fewest = k_ + 1, turn.stalled = 0;
    careful_.set(lane, turn.careful), single_.set(lane, turn.careful && turn.stalled > LONGER);
    return turn.careful && moving_.get(lane);
  }

  // A careful lane, which begins with all rows active, frees one row of each run of rows that pull, and takes back all that
  // are violated: a multiplier is as smooth as a curve of twice the order, and one knot changes all of its run. A lane that
  // goes on without success takes back the worst row alone, or frees one where none is violated.
  void select() {
    Eight most = eight(0.0), violated = eight(0.0), pulling = eight(0.0);
    for (int64_t i = 0; i < k_; i++) {
      const Which pulls = wrong_[i] & active_[i];
      peak_[i] = most = where(pulls, larger(most, excess_[i]));  // from the start of the run up to here
      pulling = larger(pulling, most), violated = larger(violated, where(wrong_[i] & !active_[i], excess_[i]));
    }
    const Which some = violated > eight(0.0);
    const Eight worst = where(some, violated, pulling);
    most = eight(0.0);
    for (int64_t i = k_ - 1; i >= 0; i--) {
      most = where(wrong_[i] & active_[i], larger(most, excess_[i]));
      const Which of_run = !active_[i] | (excess_[i] >= larger(most, peak_[i]));
      const Which alone = (excess_[i] >= worst) & (active_[i] ^ some);
      wrong_[i] = wrong_[i] & (!careful_ | of_run) & (!single_ | alone);
    }
  }

  void certify() {
    Eight size = eight(0.0), far = eight(0.0);
    for (int64_t j = 0; j < d_; j++) size = larger(magnitude(x_[j]), size), far = larger(magnitude(y_[j]), far);
    const Answered<Eight> answered{rows_, rows_.count, c_.data(), y_.data(), x_.data(), multipliers_.data(), v_.data(), HELD};
    residual_ = kkt_error(answered, [](Eight v, int64_t) { return v; }), size_ = size, far_ = far;
  }

  Settled report(int64_t lane) {
    const Turn& turn = turns_[lane];
    return {turn.sample, std::max<int64_t>(turn.steps, 1), turn.right, turn.right ? residual_.get(lane) : INFINITY, size_.get(lane), far_.get(lane),
            [this, lane](double* x, double* multipliers, bool* active) { read(lane, x, multipliers, active); }};
  }

  void read(int64_t lane, double* x, double* multipliers, bool* active) const {
    for (int64_t j = 0; j < d_; j++) x[j] = x_[j].get(lane);
    for (int64_t i = 0; i < rows_.count; i++) {
      const int64_t row = given_.band.stated[i];
      multipliers[row] = multipliers_[i].get(lane), active[row] = i < k_ && active_[i].get(lane);
    }
  }

  const Given& given_;
  const Rows& rows_;
  int64_t k_, d_, next_ = 0, last_ = 0;
  std::vector<Eight> y_, x_, v_;                                        // (d)
  std::vector<Eight> c_, start_, gap_, multipliers_, excess_, peak_, factor_;  // (rows)
  std::vector<Which> active_, wrong_;
  std::vector<double> point_;
  Eight size_{}, far_{}, residual_{};
  Which fresh_{}, polishing_{}, moving_{}, careful_{}, single_{}, anew_{}, dependent_{}, count_{};
  Turn turns_[EIGHT];
};

}  // namespace

Band::Band(const Rows& given) : rows(given) {
  if (given.order == nullptr || given.is_dense()) return;
  std::vector<bool> taken(given.count);
  for (int64_t i = 0; i < given.ordered; i++) stated.push_back(given.order[i]), taken[given.order[i]] = true;
  for (int64_t i = 0; i < given.count; i++)
    if (!taken[i]) stated.push_back(int32_t(i));
  begin_.push_back(0);
  for (int32_t row : stated) {
    lengths_.push_back(given.lengths[row]);
    data_.insert(data_.end(), given.data + given.begin[row], given.data + given.begin[row + 1]);
    columns_.insert(columns_.end(), given.columns + given.begin[row], given.columns + given.begin[row + 1]);
    begin_.push_back(int64_t(data_.size()));
  }
  rows.data = data_.data(), rows.columns = columns_.data(), rows.begin = begin_.data(), rows.lengths = lengths_.data();
  width = farthest();
  if (width > 0) multiply();
}

// How many rows before it one shares coordinates with; 0 if more than the widest band has, or if a row is there twice.
int64_t Band::farthest() const {
  std::vector<int64_t> touched(rows.d, rows.ordered);  // the first row that has this coordinate
  int64_t found = 1;
  for (int64_t i = 0; i < rows.ordered; i++)
    for (int64_t e = begin_[i]; e < begin_[i + 1]; e++) {
      int64_t& first = touched[columns_[e]];
      first = std::min(first, i);
      found = std::max(found, i - first);
    }
  return found <= WIDEST && int64_t(stated.size()) == rows.count ? found : 0;
}

void Band::multiply() {
  products.assign(rows.ordered * (width + 1), 0.0);
  std::vector<double> row(rows.d);
  for (int64_t i = 0; i < rows.ordered; i++) {
    rows.add(i, 1.0, row.data());
    for (int64_t p = 0; p <= std::min(width, i); p++) products[i * (width + 1) + p] = rows.dot(i - p, row.data());
    for (int64_t e = begin_[i]; e < begin_[i + 1]; e++) row[columns_[e]] = 0.0;
  }
}

void pivot_in_lanes(const Given& given, int64_t first, int64_t last, const std::function<void(const Settled&)>& settled) {
  switch (given.band.width) {
    case 1: return Pivoting<1>(given).run(first, last, settled);
    case 2: return Pivoting<2>(given).run(first, last, settled);
    case 3: return Pivoting<3>(given).run(first, last, settled);
    case 4: return Pivoting<4>(given).run(first, last, settled);
  }
}

}  // namespace rayhull
