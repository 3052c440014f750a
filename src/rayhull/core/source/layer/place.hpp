// What the tail does with one block of eight samples: direction, dual steps, closing, and all of it backwards.
#pragma once

#include "clipped_shift.hpp"
#include "functions.hpp"
#include "gauges.hpp"
#include "sample.hpp"
#include "spans.hpp"
#include "steps.hpp"
#include "tail.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace rayhull::layer {

constexpr double EPS = 0x1p-53;

// Memory for one block of eight samples, cut into arrays.
class Memory {
 public:
  Lanes* take(int64_t size) {
    if (used_ + size > int64_t(store_.size())) store_.resize(used_ + size + 64);
    used_ += size;
    return store_.data() + used_ - size;
  }
  void reserve(int64_t size) {
    if (size > int64_t(store_.size())) store_.resize(size);
  }
  void clear() { used_ = 0; }

 private:
  std::vector<Lanes> store_;
  int64_t used_ = 0;
};

// One block of eight samples of type T, forwards and backwards.
template <class T>
class Place {
 public:
  // `keeps`: a backward pass follows.
  Place(const Program& program, const Block& block, Memory& memory, bool keeps)
      : p(program), k(block), numbers(program.numbers), n(block.size), m(block.step_rows), r(block.rays_count),
        keeps(keeps), sample(program, block), shift(shift_of(program.numbers, block)) {
    if (is_single()) lines.emplace(at(k.matrix), k.columns, n);
    memory.clear();
    const int64_t rows = std::max({block.shrink.rows, block.loose.rows, block.tight.rows, m, r});
    const int64_t ranks = std::max({block.rank, block.hull_rank, block.equal_rank, block.clean_rank});
    const int64_t lengths[] = {block.coefficients, n, n, n, n, n, n, n, r, r, r, m, m, m, n, n, n, n,
                               std::max(rows, ranks), block.coefficients};
    int64_t total = 0;
    for (int64_t length : lengths) total += length;
    memory.reserve(total);  // so that taking moves nothing
    Lanes** arrays[] = {&c,    &u,    &y,    &z,   &x,    &out,   &base,   &g,       &values,  &weights,
                        &gw,   &last, &seen, &ga,  &low,  &high,  &glow,   &ghigh,   &scratch, &gc};
    for (size_t i = 0; i < std::size(arrays); i++) *arrays[i] = memory.take(lengths[i]);
    if (k.conic == NO_RAYS) y = u;  // a step that is left out copies nothing
    if (k.step == NO_STEP && !k.equal_rank) z = y;
    if (k.finish == NO_FINISH) out = base;
    fill(seen, m, 0.0), fill(low, n, -INFINITE), fill(high, n, INFINITE);
    if (is_dual()) for (int64_t i = 0; i < m; i++) seen[i] = at(k.seen)[i];
    if (k.low >= 0) for (int64_t j = 0; j < n; j++) low[j] = at(k.low)[j], high[j] = at(k.high)[j];
  }

  // The sides of these samples; returns which of them their base point certifies.
  Mask take(const GivenSides& given, const At& place) {
    sided = given.any();
    if (!sided) return Lanes(0.0) <= Lanes(0.0);
    const Mask fine = sample.take(given, place);
    sample.see(seen, low, high);
    return fine;
  }

  Lanes *c, *out, *g, *gc;  // coefficients, points, gradients in points and in coefficients

  // For `count` samples. Returns 0, or not a number for lanes whose answer is none.
  Lanes forward(int64_t count) {
    along_lines();
    along_rays();
    step(count == 1);
    clean();
    const Lanes marked = closed();
    return marked + finished();
  }

  // Under strict with sides of the sample: which finished points are proven.
  Mask proven() {
    if (!sided || !p.strict) return Lanes(0.0) <= Lanes(0.0);
    return sample.template finish<T>(base, out);
  }

  void backward() {
    if (sided) sample.clear_gradients();
    if (sided && p.strict) sample.finish_backward(g);
    finish_backward();
    closed_backward();
    if (k.clean_rank) remove_span_backward(at(k.clean), n, k.clean_rank, true, kept_clean, g, scratch);
    step_backward();
    rays_backward();
    lines_backward();
  }

  void give_back(const GivenSides& given, const At& place) {
    if (sided) sample.give_back(given, place);
  }

 private:
  const Program& p;
  const Block& k;
  const double* numbers;
  static constexpr double INFINITE = std::numeric_limits<double>::infinity();
  using Many = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;

  const int64_t n, m, r;
  const bool keeps;
  bool sided = false;
  Lanes *u, *y, *z, *x, *base, *values, *weights, *gw, *last, *seen, *ga, *low, *high, *glow, *ghigh, *scratch;
  Lanes kept_lines, kept_hull, kept_clean, t, size, excess;
  Largest gauge, loose, tight;
  Sample sample;
  ClippedShift shift;
  std::optional<Matrix<Many>> lines;        // in single precision
  std::optional<DualSteps<T>> by_one;       // for a single sample,
  std::optional<DualSteps<Many>> by_many;   // for eight,
  std::optional<DualSteps<Lanes>> by_wide;  // and for eight whose numbers are too large for floats
  enum { ONE, MANY, WIDE } ran = MANY;

  const double* at(int64_t place) const { return numbers + place; }

  static ClippedShift shift_of(const double* numbers, const Block& k) {
    if (k.conic != SHIFT) return {0, nullptr, nullptr, nullptr, 0.0, false};
    const double *low = numbers + k.rows, *numbers_of = numbers + k.slacks;
    return {k.size, numbers + k.rays, low, low + k.size, numbers_of[0], numbers_of[1] != 0.0};
  }

  // -- direction ----------------------------------------------------------------------------------------------------

  void along_lines() {
    switch (k.linear) {
      case NO_LINES: fill(u, n, 0.0); break;
      case DIAGONAL:
        for (int64_t j = 0; j < n; j++) u[j] = c[j] * at(k.matrix)[j];
        break;
      case MATRIX: multiply_lines(); break;
      default: std::copy(c, c + n, u);
    }
    if (k.linear == WITHOUT) kept_lines = remove_span(at(k.matrix), n, k.rank, p.strict, u, scratch);
    if (are_points()) {
      for (int64_t j = 0; j < n; j++) u[j] += at(k.point)[j] - sample.base[j];
    }
    if (k.hull_rank) kept_hull = remove_span(at(k.hull), n, k.hull_rank, p.strict, u, scratch);
    if (k.point >= 0 && !are_points()) {
      for (int64_t j = 0; j < n; j++) u[j] += at(k.point)[j];
    }
  }

  bool is_single() const { return k.linear == MATRIX && k.single && std::is_same_v<T, float>; }

  void multiply_lines() {
    if (lines && lines->combination_of(c, u)) return;
    fill(u, n, 0.0);
    add_combination(at(k.matrix), k.columns, n, c, u);
  }

  // Coefficients that stand for points: seen from the sample's base point, along the equalities.
  bool are_points() const { return sided && k.following.points; }

  void lines_backward() {  // g, and into gc
    if (k.hull_rank) remove_span_backward(at(k.hull), n, k.hull_rank, p.strict, kept_hull, g, scratch);
    if (are_points()) {
      for (int64_t j = 0; j < n; j++) sample.gbase[j] -= g[j];
    }
    if (k.linear == WITHOUT) remove_span_backward(at(k.matrix), n, k.rank, p.strict, kept_lines, g, scratch);
    fill(gc, k.columns, 0.0);
    switch (k.linear) {
      case NO_LINES: break;
      case DIAGONAL:
        for (int64_t j = 0; j < n; j++) gc[j] = g[j] * at(k.matrix)[j];
        break;
      case MATRIX: multiply_lines_backward(); break;
      default: std::copy(g, g + n, gc);
    }
  }

  void multiply_lines_backward() {
    if (lines && lines->product_of(g, gc)) return;
    fill(gc, k.columns, 0.0);
    add_product(at(k.matrix), k.columns, n, g, gc);
  }

  Lanes slack_unit(int64_t i) const { return k.slacks < 0 ? Lanes(1.0) : Lanes(at(k.slacks)[i]); }

  void along_rays() {
    if (k.conic == SHIFT) return shift.forward(u, y, values);
    if (k.conic == NO_RAYS) return;
    std::copy(u, u + n, y);
    if (k.conic == ROWS) {
      fill(values, r, 0.0);
      add_product(at(k.rows), r, n, u, values);
    }
    const Lanes* own = c + k.columns;
    if (k.function == SOFTMAX) {
      softmax(own, r, weights);
    } else {
      for (int64_t i = 0; i < r; i++) weights[i] = k.conic == OWN ? apply(k.function, own[i]) : inside(i);
    }
    add_combination(at(k.rays), r, n, weights, y);
  }

  // v + σ f(-v / σ) for the value v of a row: relu(v) where f is relu.
  Lanes inside(int64_t i) const {
    const Lanes v = values[i], unit = slack_unit(i);
    return k.function == RELU ? max(v, 0.0) : v + unit * apply(k.function, -v / unit);
  }

  Lanes inside_slope(int64_t i) const {
    const Lanes v = values[i];
    return k.function == RELU ? slope(RELU, v) : Lanes(1.0) - slope(k.function, -v / slack_unit(i));
  }

  void rays_backward() {
    if (k.conic == SHIFT) return shift.backward(values, g);
    if (k.conic == NO_RAYS) return;
    fill(gw, r, 0.0);
    add_product(at(k.rays), r, n, g, gw);
    if (k.conic == ROWS) {
      for (int64_t i = 0; i < r; i++) gw[i] *= inside_slope(i);
      add_combination(at(k.rows), r, n, gw, g);
      return;
    }
    const Lanes* own = c + k.columns;
    Lanes mean(0.0);
    if (k.function == SOFTMAX) {
      for (int64_t i = 0; i < r; i++) mean += gw[i] * weights[i];
    }
    for (int64_t i = 0; i < r; i++) {
      gc[k.columns + i] = k.function == SOFTMAX ? weights[i] * (gw[i] - mean) : gw[i] * slope(k.function, own[i]);
    }
  }

  // -- steps towards the nearest point ------------------------------------------------------------------------------

  bool is_dual() const { return k.step == GRAM || k.step == POINTS; }
  bool clamps() const { return k.step == CLAMP || (k.step == POINTS && k.low >= 0); }

  void step(bool single) {
    if (z != y) std::copy(y, y + n, z);
    if (is_dual()) {
      take_steps(single);
      add_combination(at(k.back), m, n, last, z, -1.0);
    }
    if (clamps()) {  // x is z before: the backward pass asks where it was free
      for (int64_t j = 0; j < n; j++) x[j] = z[j], z[j] = min(max(z[j], low[j]), high[j]);
    }
    if (k.equal_rank) project(at(k.equal), n, k.equal_rank, z, scratch);
  }

  template <class V>
  bool take_steps_by(std::optional<DualSteps<V>>& steps) {
    if (!steps) steps.emplace(numbers, k, keeps);
    const Lanes bad = steps->forward(y, seen, low, high, last);
    return all(bad <= bad);
  }

  void take_steps(bool single) {
    ran = single ? ONE : MANY;
    const bool fine = single ? take_steps_by(by_one) : take_steps_by(by_many);
    if (fine || std::is_same_v<T, double>) return;
    ran = WIDE;
    take_steps_by(by_wide);
  }

  void step_backward() {
    if (k.equal_rank) project(at(k.equal), n, k.equal_rank, g, scratch);
    fill(glow, n, 0.0), fill(ghigh, n, 0.0);
    if (clamps()) clamp_backward();
    fill(ga, m, 0.0);
    if (is_dual()) {
      Lanes *below = z, *above = x;  // neither is needed any more
      std::copy(glow, glow + n, below), std::copy(ghigh, ghigh + n, above);
      fill(last, m, 0.0);
      add_product(at(k.back), m, n, g, last, -1.0);
      if (ran == ONE) by_one->backward(last, g, ga, glow, ghigh);
      if (ran == MANY) by_many->backward(last, g, ga, glow, ghigh);
      if (ran == WIDE) by_wide->backward(last, g, ga, glow, ghigh);
      for (int64_t j = 0; j < n; j++) glow[j] += below[j], ghigh[j] += above[j];
    }
    if (sided) sample.see_backward(ga, glow, ghigh);
  }

  void clamp_backward() {
    for (int64_t j = 0; j < n; j++) {
      const Mask above = x[j] >= high[j], below = x[j] <= low[j];
      ghigh[j] = where(above & !below, g[j], 0.0), glow[j] = where(below, g[j], 0.0);
      g[j] = where((x[j] > low[j]) & (x[j] < high[j]), g[j], 0.0);
    }
  }

  // -- closing ------------------------------------------------------------------------------------------------------

  void clean() {
    if (!k.clean_rank) return;
    const double* origin = at(k.origin);
    for (int64_t j = 0; j < n; j++) z[j] -= origin[j];
    kept_clean = remove_span(at(k.clean), n, k.clean_rank, true, z, scratch);
    for (int64_t j = 0; j < n; j++) z[j] += origin[j];
  }

  // x = x0 + t z
  Lanes closed() {
    const double* number = at(k.scale_numbers);
    Lanes marked(0.0);
    t = 1.0;
    if (sided) {
      gauge = sample.gauge_of(z, scratch);
      marked = gauge.marked;
    } else if (k.scale == SHRINK || k.scale == STRICT_SHRINK) {
      gauge = gauge_of(k.shrink, numbers, n, z, scratch);
      marked = gauge.marked;
    }
    if (sided || k.scale == SHRINK) t = Lanes(1.0) / max(gauge.value, 1.0);
    if (k.scale == STRICT_SHRINK) {  // margin, kept, limit
      size = largest_size(z, n);
      t = Lanes(number[1]) / max(strict_bound(), number[1]);
    }
    if (k.scale == REACH) size = largest_size(z, n), t = Lanes(number[0]) / max(size, number[0]);
    for (int64_t j = 0; j < n; j++) {
      base[j] = sided ? z[j] * t + sample.base[j] : k.base < 0 ? z[j] * t : z[j] * t + at(k.base)[j];
    }
    return marked;
  }

  Lanes strict_bound() const {
    const double* number = at(k.scale_numbers);
    return max(gauge.value + size * number[0], size / number[2]);
  }

  void closed_backward() {
    if (sided) return closed_backward_of_sample();
    if (k.scale == NO_SCALE) return;
    const double* number = at(k.scale_numbers);
    Lanes slope_t(0.0), by_gauge(0.0), by_size(0.0);
    for (int64_t j = 0; j < n; j++) slope_t += g[j] * z[j], g[j] *= t;
    if (k.scale == SHRINK) by_gauge = where(gauge.value >= 1.0, -slope_t * t * t, 0.0);
    if (k.scale == REACH) by_size = where(size > number[0], -slope_t * t / size, 0.0);
    if (k.scale == STRICT_SHRINK) {
      const Lanes bound = strict_bound(), by = where(bound > number[1], -slope_t * t / bound, 0.0);
      const Mask rows = gauge.value + size * number[0] >= size / number[2];
      by_gauge = where(rows, by, 0.0);
      by_size = where(rows, by * number[0], by / number[2]);
    }
    if (k.scale != REACH) add_gauge_gradient(k.shrink, numbers, n, gauge.which, by_gauge, g);
    if (k.scale != SHRINK) add_size_gradient(z, n, size, by_size, g);
  }

  void closed_backward_of_sample() {
    Lanes slope_t(0.0);
    for (int64_t j = 0; j < n; j++) sample.gbase[j] += g[j], slope_t += g[j] * z[j], g[j] *= t;
    sample.add_gauge_gradient(gauge, where(gauge.value >= 1.0, -slope_t * t * t, 0.0), g);
  }

  // -- the finished point: base -> out ------------------------------------------------------------------------------

  Lanes finished() {
    if (k.finish == INTERVAL) out[0] = min(max(base[0], at(k.finish_numbers)[0]), at(k.finish_numbers)[1]);
    return k.finish == PULL ? pulled() : Lanes(0.0);
  }

  struct Margins {
    double loose, tight, constant, kept, tiny, reach, limit;
  };

  Margins margins() const {
    const double* v = at(k.finish_numbers);
    return {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  }

  Lanes moved() const { return k.moving ? min(max(size, margins().tiny), margins().reach) : Lanes(0.0); }

  double from(int64_t j) const { return at(k.from)[j]; }

  bool has_loose() const { return k.loose.rows > 0 || k.loose.upper >= 0; }
  bool has_tight() const { return k.tight.rows > 0 || k.tight.upper >= 0; }

  // The excess over the loose rows and over the tight ones, every rounding error in it, in units of the slack.
  Lanes loose_excess(Lanes scale) const {
    if (!has_loose()) return -1.0;
    const Lanes over = loose.value + (size + scale) * margins().loose + margins().constant;
    return k.apex ? over : over / (scale + 1.0);
  }

  Lanes tight_excess(Lanes scale) const {
    return has_tight() ? (tight.value + (size + scale) * margins().tight) / scale : Lanes(-1.0);
  }

  // A pull towards from + scale · along, by the share e / (1 + e) of the way for an excess e.
  Lanes pulled() {
    const Margins v = margins();
    size = largest_size(base, n);
    if (has_loose()) loose = gauge_of(k.loose, numbers, n, base, scratch);
    if (has_tight()) tight = gauge_of(k.tight, numbers, n, base, scratch);
    const Lanes scale = moved();
    excess = (max(loose_excess(scale), tight_excess(scale)) + 8 * EPS) / v.kept;
    excess = max(max(excess, farthest(scale) / v.limit - 1.0), 0.0);
    const Mask stays = excess <= 0.0, nothing = size < v.tiny;
    for (int64_t j = 0; j < n; j++) {
      const Lanes to = scale * at(k.along)[j] + from(j);
      out[j] = where(stays, base[j], to + (base[j] - to) / (excess + 1.0));
      if (k.apex) out[j] = where(nothing, 0.0, out[j]);
    }
    return loose.marked + tight.marked + mark(size);
  }

  // max|x - the point that it is pulled to|
  Lanes farthest(Lanes scale) const {
    Lanes found(0.0);
    for (int64_t j = 0; j < n; j++) found = max(found, abs(base[j] - (scale * at(k.along)[j] + from(j))));
    return found;
  }

  void finish_backward() {
    if (k.finish == INTERVAL) {
      const double *ends = at(k.finish_numbers);
      g[0] = where((base[0] >= ends[0]) & (base[0] <= ends[1]), g[0], 0.0);
    }
    if (k.finish == PULL) pull_backward();
  }

  void pull_backward() {
    const Margins v = margins();
    const Lanes scale = moved(), share = Lanes(1.0) / (excess + 1.0);
    const Mask stays = excess <= 0.0, nothing = size < v.tiny;
    Lanes by_excess(0.0), by_scale(0.0);
    for (int64_t j = 0; j < n; j++) {
      if (k.apex) g[j] = where(nothing, 0.0, g[j]);
      const Lanes away = base[j] - (scale * at(k.along)[j] + from(j)), mine = where(stays, 0.0, g[j]);
      by_excess -= mine * away * share * share;
      by_scale += mine * (Lanes(1.0) - share) * at(k.along)[j];
      g[j] = where(stays, g[j], g[j] * share);
    }
    const Lanes over_loose = loose_excess(scale), over_tight = tight_excess(scale);
    const Mask rows = (max(over_loose, over_tight) + 8 * EPS) / v.kept >= farthest(scale) / v.limit - 1.0;
    const Lanes by = where(rows, by_excess / v.kept, 0.0);  // beyond the limit nothing is learnt
    const Mask by_loose = over_loose >= over_tight;
    const Lanes to_loose = where(by_loose, by, 0.0) / (k.apex ? Lanes(1.0) : scale + 1.0);
    const Lanes to_tight = where(by_loose, 0.0, by) / (has_tight() ? scale : Lanes(1.0));
    Lanes by_size = to_loose * v.loose + to_tight * v.tight;
    by_scale += by_size - (k.apex ? Lanes(0.0) : to_loose * over_loose) - to_tight * over_tight;
    const Mask moves = (size >= v.tiny) & (size <= v.reach);
    if (k.moving) by_size += where(moves, by_scale, 0.0);
    if (has_loose()) add_gauge_gradient(k.loose, numbers, n, loose.which, to_loose, g);
    if (has_tight()) add_gauge_gradient(k.tight, numbers, n, tight.which, to_tight, g);
    add_size_gradient(base, n, size, by_size, g);
  }
};

}  // namespace rayhull::layer
