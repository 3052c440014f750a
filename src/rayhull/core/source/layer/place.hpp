// What the tail does with one block of eight samples: direction, dual steps, closing, and all of it backwards.
#pragma once

#include "clipped_shift.hpp"
#include "functions.hpp"
#include "gauges.hpp"
#include "spans.hpp"
#include "tail.hpp"

#include <algorithm>
#include <cmath>
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

// One block of eight samples, forwards and backwards.
class Place {
 public:
  Place(const Program& program, const Block& block, Memory& memory)
      : p(program), k(block), numbers(program.numbers), n(block.size), m(block.step_rows), r(block.rays_count),
        shift(shift_of(program.numbers, block)) {
    memory.clear();
    const int64_t rows = std::max({block.shrink.rows, block.loose.rows, block.tight.rows, m, r});
    const int64_t ranks = std::max({block.rank, block.hull_rank, block.equal_rank, block.clean_rank});
    const int64_t history = block.step == GRAM ? m : block.step == POINTS ? m + n : 0;
    const int64_t sizes[] = {block.coefficients, n, n, n, n, n, n, n, r, r, r, m, m, m, m, m, std::max(rows, ranks),
                             block.steps * history, block.coefficients};
    int64_t total = 0;
    for (int64_t size : sizes) total += size;
    memory.reserve(total);  // so that taking moves nothing
    Lanes** arrays[] = {&c, &u, &y, &z, &x, &out, &base, &g, &values, &weights, &gw, &pull, &last, &ahead, &ga, &gb,
                        &scratch, &path, &gc};
    for (size_t i = 0; i < std::size(arrays); i++) *arrays[i] = memory.take(sizes[i]);
  }

  Lanes *c, *out, *g, *gc;  // coefficients, points, gradients in points and in coefficients

  // Returns 0, or not a number for lanes whose answer is none.
  Lanes forward() {
    along_lines();
    along_rays();
    step();
    clean();
    const Lanes marked = closed();
    return marked + finished();
  }

  void backward() {
    finish_backward();
    closed_backward();
    if (k.clean_rank) remove_span_backward(at(k.clean), n, k.clean_rank, true, kept_clean, g, scratch);
    step_backward();
    rays_backward();
    lines_backward();
  }

 private:
  const Program& p;
  const Block& k;
  const double* numbers;
  const int64_t n, m, r;
  Lanes *u, *y, *z, *x, *base, *values, *weights, *gw, *pull, *last, *ahead, *ga, *gb, *scratch, *path;
  Lanes kept_lines, kept_hull, kept_clean, t, size, excess;
  Largest gauge, loose, tight;
  ClippedShift shift;

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
      case MATRIX:
        fill(u, n, 0.0);
        add_combination(at(k.matrix), k.columns, n, c, u);
        break;
      default: std::copy(c, c + n, u);
    }
    if (k.linear == WITHOUT) kept_lines = remove_span(at(k.matrix), n, k.rank, p.strict, u, scratch);
    if (k.hull_rank) kept_hull = remove_span(at(k.hull), n, k.hull_rank, p.strict, u, scratch);
    if (k.point >= 0) {
      for (int64_t j = 0; j < n; j++) u[j] += at(k.point)[j];
    }
  }

  void lines_backward() {  // g, and into gc
    if (k.hull_rank) remove_span_backward(at(k.hull), n, k.hull_rank, p.strict, kept_hull, g, scratch);
    if (k.linear == WITHOUT) remove_span_backward(at(k.matrix), n, k.rank, p.strict, kept_lines, g, scratch);
    fill(gc, k.columns, 0.0);
    switch (k.linear) {
      case NO_LINES: break;
      case DIAGONAL:
        for (int64_t j = 0; j < n; j++) gc[j] = g[j] * at(k.matrix)[j];
        break;
      case MATRIX: add_product(at(k.matrix), k.columns, n, g, gc); break;
      default: std::copy(g, g + n, gc);
    }
  }

  Lanes slack_unit(int64_t i) const { return k.slacks < 0 ? Lanes(1.0) : Lanes(at(k.slacks)[i]); }

  void along_rays() {
    if (k.conic == SHIFT) return shift.forward(u, y, values);
    std::copy(u, u + n, y);
    if (k.conic == NO_RAYS) return;
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

  Lanes clamp(Lanes v, int64_t j) const {
    if (k.low < 0) return v;
    return min(max(v, at(k.low)[j]), at(k.high)[j]);
  }

  // Where a clamp moves with its argument.
  Lanes free(Lanes v, int64_t j) const {
    if (k.low < 0) return 1.0;
    return where((v > at(k.low)[j]) & (v < at(k.high)[j]), 1.0, 0.0);
  }

  Lanes signed_multiplier(Lanes v, int64_t i) const { return i < m - k.equalities ? max(v, 0.0) : v; }
  Lanes signed_slope(Lanes v, int64_t i) const { return i < m - k.equalities ? slope(RELU, v) : Lanes(1.0); }

  void step() {
    if (k.step == GRAM) by_gram();
    if (k.step == POINTS) by_points();
    std::copy(y, y + n, z);
    if (k.step == GRAM || k.step == POINTS) add_combination(at(k.back), m, n, last, z, -1.0);
    std::copy(z, z + n, x);  // before the clamp: the backward pass asks where it was free
    if (k.step == CLAMP || k.step == POINTS) {
      for (int64_t j = 0; j < n; j++) z[j] = clamp(z[j], j);
    }
    if (k.equal_rank) project(at(k.equal), n, k.equal_rank, z, scratch);
  }

  // ahead = new + momentum (new - last), last = new
  void advance(int64_t number, const Lanes* fresh) {
    const double momentum = at(k.momenta)[number];
    for (int64_t i = 0; i < m; i++) {
      ahead[i] = fresh[i] + (fresh[i] - last[i]) * momentum;
      last[i] = fresh[i];
    }
  }

  // Without bounds G z(μ) is affine in μ: one product with 1 - s G Gᵀ a step. The path keeps every step's multipliers.
  void by_gram() {
    const double length = *at(k.length);
    fill(pull, m, 0.0), fill(last, m, 0.0);
    add_product(at(k.step_matrix), m, n, y, pull);
    for (int64_t i = 0; i < m; i++) pull[i] = (pull[i] - at(k.seen)[i]) * length;
    for (int64_t number = 0; number < k.steps; number++) {
      Lanes* fresh = path + number * m;
      std::copy(pull, pull + m, fresh);
      if (number) add_combination(at(k.turn), m, m, ahead, fresh);
      for (int64_t i = 0; i < m; i++) fresh[i] = signed_multiplier(fresh[i], i);
      advance(number, fresh);
    }
  }

  // With bounds: the point z(μ) itself, clamped, in every step. The path keeps multipliers, then points before the clamp.
  void by_points() {
    const double length = *at(k.length);
    fill(last, m, 0.0), fill(ahead, m, 0.0);
    for (int64_t number = 0; number < k.steps; number++) {
      Lanes *fresh = path + number * (m + n), *point = fresh + m;
      std::copy(y, y + n, point);
      if (number) add_combination(at(k.step_matrix), m, n, ahead, point, -1.0);
      for (int64_t j = 0; j < n; j++) z[j] = clamp(point[j], j);
      fill(fresh, m, 0.0);
      add_product(at(k.step_matrix), m, n, z, fresh);
      for (int64_t i = 0; i < m; i++) {
        fresh[i] = signed_multiplier(ahead[i] + (fresh[i] - at(k.seen)[i]) * length, i);
      }
      advance(number, fresh);
    }
  }

  void step_backward() {
    if (k.equal_rank) project(at(k.equal), n, k.equal_rank, g, scratch);
    if (k.step == CLAMP || k.step == POINTS) {
      for (int64_t j = 0; j < n; j++) g[j] *= free(x[j], j);
    }
    if (k.step != GRAM && k.step != POINTS) return;
    // gradients in the multipliers: `last` of the newest, `ahead` of the extrapolated ones behind it
    fill(last, m, 0.0), fill(ga, m, 0.0), fill(gb, m, 0.0), fill(pull, m, 0.0);
    add_product(at(k.back), m, n, g, last, -1.0);
    for (int64_t number = k.steps - 1; number >= 0; number--) one_step_backward(number);
    if (k.step == GRAM) add_combination(at(k.step_matrix), m, n, pull, g);
  }

  // new_k feeds ahead_{k+1} by 1 + μ_k and ahead_{k+2} by -μ_{k+1}; ga and gb hold the gradients of those two.
  void one_step_backward(int64_t number) {
    const double length = *at(k.length), momentum = at(k.momenta)[number];
    const double next = number + 1 < k.steps ? at(k.momenta)[number + 1] : 0.0;
    const Lanes* fresh = path + number * (k.step == GRAM ? m : m + n);
    for (int64_t i = 0; i < m; i++) {
      last[i] = (last[i] + ga[i] * (1 + momentum) - gb[i] * next) * signed_slope(fresh[i], i);
    }
    std::copy(ga, ga + m, gb);
    if (k.step == GRAM) {
      for (int64_t i = 0; i < m; i++) pull[i] += last[i] * length;
      fill(ga, m, 0.0);
      if (number) add_product(at(k.turn), m, m, last, ga);
    } else {
      const Lanes* point = fresh + m;
      fill(z, n, 0.0);
      add_combination(at(k.step_matrix), m, n, last, z, length);
      for (int64_t j = 0; j < n; j++) z[j] *= free(point[j], j), g[j] += z[j];
      std::copy(last, last + m, ga);
      if (number) add_product(at(k.step_matrix), m, n, z, ga, -1.0);
    }
    fill(last, m, 0.0);
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
    if (k.scale == SHRINK || k.scale == STRICT_SHRINK) {
      gauge = gauge_of(k.shrink, numbers, n, z, scratch);
      marked = gauge.marked;
    }
    if (k.scale == SHRINK) t = Lanes(1.0) / max(gauge.value, 1.0);
    if (k.scale == STRICT_SHRINK) {  // margin, kept, limit
      size = largest_size(z, n);
      t = Lanes(number[1]) / max(strict_bound(), number[1]);
    }
    if (k.scale == REACH) size = largest_size(z, n), t = Lanes(number[0]) / max(size, number[0]);
    for (int64_t j = 0; j < n; j++) base[j] = k.base < 0 ? z[j] * t : z[j] * t + at(k.base)[j];
    return marked;
  }

  Lanes strict_bound() const {
    const double* number = at(k.scale_numbers);
    return max(gauge.value + size * number[0], size / number[2]);
  }

  void closed_backward() {
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

  // -- the finished point: base -> out ------------------------------------------------------------------------------

  Lanes finished() {
    if (k.finish == INTERVAL) out[0] = min(max(base[0], at(k.finish_numbers)[0]), at(k.finish_numbers)[1]);
    if (k.finish == NO_FINISH) std::copy(base, base + n, out);
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
