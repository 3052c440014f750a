#include "strict_pull.hpp"

#include "gather.hpp"
#include "matrix.hpp"

#include <limits>
#include <vector>

namespace rayhull::layer {

namespace {

constexpr double EPS = 0x1p-53;
constexpr double LOST = 0x1p-40;  // what is left of a vector below this share has lost too many digits
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN(), INFINITE = std::numeric_limits<double>::infinity();

Lanes largest_size(const std::vector<Lanes>& x) {
  Lanes found(0.0);
  for (const Lanes& number : x) found = max(found, abs(number));
  return found;
}

class Pull {
 public:
  explicit Pull(const StrictPullProblem& problem)
      : p(problem), all(p.width), x(p.n), equal(p.equal, p.n, p.rank), tight(p.tight.matrix, p.tight.rows, p.n),
        loose(p.loose.matrix, p.loose.rows, p.n), parts(p.rank) {}

  // All blocks of `count` samples.
  template <class T>
  void run(const T* from, T* to, int64_t count) {
    gather_rows(from, p.width, count, p.width, all.data());
    const int32_t* at = p.places;
    for (int64_t k = 0; k < p.count; k++, at += p.n) {
      const Lanes sign(p.sign[k]);
      for (int64_t j = 0; j < p.n; j++) x[j] = all[at[j]] * sign;
      finish();
      for (int64_t j = 0; j < p.n; j++) all[at[j]] = x[j] * sign;
    }
    scatter_rows(all.data(), p.width, to, p.width, count);
  }

 private:
  const StrictPullProblem& p;
  std::vector<Lanes> all, x;  // the samples, and one block of them
  Matrix<Lanes> equal, tight, loose;
  std::vector<Lanes> parts;
  Lanes marked, size, scale;  // 0, or not a number for samples that are none; max|x|; of `along`

  void finish() {
    marked = 0.0;
    for (const Lanes& number : x) marked += number * 0.0;
    if (p.rank) clean();
    pull();
    for (Lanes& number : x) number += marked;
  }

  // x less its part in the span of `equal`.
  void project() {
    Lanes *const part = parts.data(), *const at = x.data();
    equal.combination(at, [=](int64_t i, Lanes sum) AT_ONCE { part[i] = sum; });
    equal.product(part, [=](int64_t j, Lanes sum) AT_ONCE { at[j] -= sum; });
  }

  // Twice, and 0 where next to nothing is left, never a direction of rounding errors.
  void clean() {
    for (int64_t j = 0; j < p.n; j++) x[j] -= p.hull[j];
    const Lanes before = largest_size(x);
    project();
    const Mask lost = largest_size(x) <= before * LOST;
    for (Lanes& number : x) number = where(lost, 0.0, number);
    project();
    for (int64_t j = 0; j < p.n; j++) x[j] += p.hull[j];
  }

  Lanes gauge_of(const Gauge& gauge, Matrix<Lanes>& matrix) {
    Lanes found(-INFINITE), none(0.0);
    const auto take = [&](Lanes value, const double* offset, int64_t i) AT_ONCE {
      value -= offset ? offset[i] : 0.0;
      found = max(found, value), none += where(value <= value, 0.0, NOT_A_NUMBER);
    };
    matrix.product(x.data(), [&](int64_t i, Lanes sum) AT_ONCE { take(sum, gauge.offset, i); });
    for (int64_t j = 0; gauge.upper && j < p.n; j++) {
      take(x[j] * gauge.upper[j], gauge.upper_offset, j), take(x[j] * -gauge.lower[j], gauge.lower_offset, j);
    }
    marked += none;
    return found;
  }

  // By how much x exceeds a row, every rounding error in it, in units of the slack.
  Lanes excess() {
    Lanes found(-1.0);
    const Lanes farthest = size + scale;  // with the size of the start, it bounds x, the base point and their difference
    if (p.loose.is_there()) {
      found = gauge_of(p.loose, loose) + farthest * p.loose_slope + p.constant;
      if (!p.conic) found = found / (scale + 1.0);
    }
    if (p.tight.is_there()) found = max(found, (gauge_of(p.tight, tight) + farthest * p.tight_slope) / scale);
    return (found + 8 * EPS) / p.kept;
  }

  Lanes base(int64_t j) const { return scale * p.along[j] + p.start[j]; }

  // By the share e / (1 + e) of the way for an excess e.
  void pull() {
    size = largest_size(x), scale = p.moving ? min(max(size, p.tiny), p.reach) : Lanes(0.0);
    Lanes away(0.0);
    for (int64_t j = 0; j < p.n; j++) away = max(away, abs(x[j] - base(j)));
    const Lanes over = max(max(excess(), away / p.limit - 1.0), 0.0);
    const Mask stays = over <= 0.0, nothing = size < p.tiny;
    for (int64_t j = 0; j < p.n; j++) {
      x[j] = where(stays, x[j], base(j) + (x[j] - base(j)) / (over + 1.0));
      if (p.conic) x[j] = where(nothing, 0.0, x[j]);
    }
  }
};

}  // namespace

template <class T>
void strict_pull(const StrictPullProblem& problem, const T* x, T* out, int64_t start, int64_t stop) {
  Pull pull(problem);
  for (int64_t first = start; first < stop; first += LANES) {
    pull.run(x + first * problem.width, out + first * problem.width, std::min(LANES, stop - first));
  }
}

template void strict_pull<float>(const StrictPullProblem&, const float*, float*, int64_t, int64_t);
template void strict_pull<double>(const StrictPullProblem&, const double*, double*, int64_t, int64_t);

}  // namespace rayhull::layer
