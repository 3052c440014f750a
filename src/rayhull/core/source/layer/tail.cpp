#include "tail.hpp"

#include "clipped_shift.hpp"
#include "functions.hpp"
#include "products.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace rayhull::layer {

namespace {

constexpr double LOST = 0x1p-40;  // what is left of a vector below this share has lost too many digits
constexpr double EPS = 0x1p-53;
constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

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

// x less its part in the span of an orthonormal basis Q (n, rank).
void project(const double* Q, int64_t n, int64_t rank, Lanes* x, Lanes* scratch) {
  fill(scratch, rank, 0.0);
  add_combination(Q, n, rank, x, scratch);
  add_product(Q, n, rank, scratch, x, -1.0);
}

// The same; carefully: twice, and 0 where next to nothing is left, never a direction of rounding errors. Returns what was kept.
Lanes remove_span(const double* Q, int64_t n, int64_t rank, bool carefully, Lanes* x, Lanes* scratch) {
  const Lanes before = largest_size(x, n);
  project(Q, n, rank, x, scratch);
  if (!carefully) return 1.0;
  const Lanes kept = where(largest_size(x, n) <= before * LOST, 0.0, 1.0);
  for (int64_t j = 0; j < n; j++) x[j] *= kept;
  project(Q, n, rank, x, scratch);
  return kept;
}

// The transposed derivative of remove_span: the matrix is symmetric.
void remove_span_backward(const double* Q, int64_t n, int64_t rank, bool carefully, Lanes kept, Lanes* g, Lanes* scratch) {
  project(Q, n, rank, g, scratch);
  if (!carefully) return;
  for (int64_t j = 0; j < n; j++) g[j] *= kept;
  project(Q, n, rank, g, scratch);
}

// The largest of a gauge's values, which one it is, and 0, or not a number where a value is not finite.
struct Largest {
  Lanes value = -std::numeric_limits<double>::infinity(), which = 0.0, marked = 0.0;

  void take(Lanes v, double number) {
    const Mask larger = v > value;
    which = where(larger, number, which);
    value = where(larger, v, value);
  }
};

Largest gauge_of(const Gauge& gauge, const double* numbers, int64_t n, const Lanes* y, Lanes* scratch) {
  Largest found;
  const auto offset = [&](int64_t place, int64_t i) { return place < 0 ? 0.0 : numbers[place + i]; };
  fill(scratch, gauge.rows, 0.0);
  add_product(numbers + gauge.matrix, gauge.rows, n, y, scratch);
  for (int64_t i = 0; i < gauge.rows; i++) {
    found.marked += mark(scratch[i]);
    found.take(scratch[i] - offset(gauge.offset, i), double(i));
  }
  if (gauge.upper < 0) return found;
  for (int64_t j = 0; j < n; j++) {
    found.marked += mark(y[j]);
    found.take(y[j] * numbers[gauge.upper + j] - offset(gauge.upper_offset, j), double(gauge.rows + j));
    found.take(y[j] * -numbers[gauge.lower + j] - offset(gauge.lower_offset, j), double(gauge.rows + n + j));
  }
  return found;
}

// g += by · (the row of the largest value), lane by lane.
void add_gauge_gradient(const Gauge& gauge, const double* numbers, int64_t n, Lanes which, Lanes by, Lanes* g) {
  for (int64_t lane = 0; lane < LANES; lane++) {
    const int64_t number = int64_t(which.get(lane));
    const double share = by.get(lane);
    if (share == 0.0) continue;
    if (number < gauge.rows) {
      const double* row = numbers + gauge.matrix + number * n;
      for (int64_t j = 0; j < n; j++) g[j].set(lane, g[j].get(lane) + share * row[j]);
    } else {
      const int64_t j = (number - gauge.rows) % n;
      const bool above = number - gauge.rows < n;
      const double entry = above ? numbers[gauge.upper + j] : -numbers[gauge.lower + j];
      g[j].set(lane, g[j].get(lane) + share * entry);
    }
  }
}

// g += by · d max|x| / dx.
void add_size_gradient(const Lanes* x, int64_t n, Lanes size, Lanes by, Lanes* g) {
  for (int64_t lane = 0; lane < LANES; lane++) {
    const double share = by.get(lane), largest = size.get(lane);
    if (share == 0.0) continue;
    for (int64_t j = 0; j < n; j++) {
      const double entry = x[j].get(lane);
      if (std::fabs(entry) == largest) {
        g[j].set(lane, g[j].get(lane) + (entry < 0 ? -share : share));
        break;
      }
    }
  }
}

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

// Number `column` of eight samples, `stride` apart; 0 for samples that there are not.
template <class T>
Lanes gather(const T* from, int64_t stride, int64_t count) {
  double values[LANES] = {};
  if (count == LANES) {
    for (int64_t lane = 0; lane < LANES; lane++) values[lane] = double(from[lane * stride]);
  } else {
    for (int64_t lane = 0; lane < count; lane++) values[lane] = double(from[lane * stride]);
  }
  Lanes found;
  std::memcpy(&found, values, sizeof found);
  return found;
}

template <class T>
void scatter(Lanes lanes, T* to, int64_t stride, int64_t count) {
  double values[LANES];
  std::memcpy(values, &lanes, sizeof values);
  if (count == LANES) {
    for (int64_t lane = 0; lane < LANES; lane++) to[lane * stride] = T(values[lane]);
  } else {
    for (int64_t lane = 0; lane < count; lane++) to[lane * stride] = T(values[lane]);
  }
}

// The coefficients of one place for eight samples; returns 0, or not a number where one is none.
template <class T>
Lanes load(const Program& program, const Given<T>& given, int64_t first, int64_t count, int64_t column, int64_t k,
           Lanes* c) {
  Lanes marked = given.marks ? gather(given.marks + first, 1, count) : Lanes(0.0);
  const T* rows = given.c + first * given.stride + column;
  for (int64_t i = 0; i < k; i++) {
    Lanes value = gather(rows + i, given.stride, count);
    if (given.overflows) value = where(value <= value, value, 0.0);
    if (program.strict) value = min(max(value, -program.largest), program.largest);
    c[i] = value;
    marked += where(value <= value, 0.0, NOT_A_NUMBER);
  }
  return marked;
}

}  // namespace

bool fits(const Block& b, const int64_t* layout, int64_t layout_size, int64_t numbers_size, int64_t coefficients,
          int64_t dim) {
  constexpr int64_t most = int64_t(1) << 24;
  const int64_t counts[] = {b.count, b.size, b.coefficients, b.start, b.columns, b.rank, b.hull_rank, b.rays_count,
                            b.steps, b.step_rows, b.equalities, b.equal_rank, b.clean_rank, b.shrink.rows, b.loose.rows,
                            b.tight.rows};
  for (int64_t count : counts) {
    if (count < 0 || count > most) return false;
  }
  const int64_t n = b.size, m = b.step_rows, r = b.rays_count;
  const auto in = [&](int64_t place, int64_t length) { return place >= 0 && place <= numbers_size - length; };
  const auto may = [&](bool needed, int64_t place, int64_t length) { return !needed || in(place, length); };
  const auto gauge = [&](const Gauge& g, bool needed) {
    if (!needed) return g.rows == 0 && g.upper < 0;
    return may(g.rows, g.matrix, g.rows * n) && may(g.offset >= 0, g.offset, g.rows) && may(g.upper >= 0, g.upper, n) &&
           may(g.upper >= 0, g.lower, n) && may(g.upper_offset >= 0, g.upper_offset, n) &&
           may(g.lower_offset >= 0, g.lower_offset, n) && (g.rows > 0 || g.upper >= 0);
  };
  if (n < 1 || b.places < 0 || b.places > layout_size - b.count * n) return false;
  for (int64_t i = 0; i < b.count * n; i++) {
    if (layout[b.places + i] < 0 || layout[b.places + i] >= dim) return false;
  }
  const bool lines = b.linear >= 0 && b.linear < LINEARS && (b.linear == NO_LINES || b.linear == MATRIX || b.columns == n) &&
                     (b.linear != NO_LINES || b.columns == 0) && may(b.linear == DIAGONAL, b.matrix, n) &&
                     may(b.linear == MATRIX, b.matrix, b.columns * n) && may(b.linear == WITHOUT, b.matrix, n * b.rank) &&
                     (b.linear == WITHOUT || b.rank == 0);
  const bool rays = b.conic >= 0 && b.conic < CONICS && b.function >= 0 && b.function < FUNCTIONS &&
                    may(b.conic == OWN || b.conic == ROWS, b.rays, r * n) && may(b.conic == ROWS, b.rows, r * n) &&
                    may(b.conic == SHIFT, b.rays, n) && may(b.conic == SHIFT, b.rows, 2 * n) &&
                    may(b.conic == SHIFT, b.slacks, 2) && (b.conic != SHIFT || r == n) &&
                    may(b.conic == ROWS && b.slacks >= 0, b.slacks, r) && (b.function != SOFTMAX || (b.conic == OWN && r > 0)) &&
                    b.coefficients == b.columns + (b.conic == OWN ? r : 0) && (b.conic != NO_RAYS || r == 0);
  const bool dual = b.step == GRAM || b.step == POINTS, clamps = b.step == CLAMP || b.step == POINTS;
  const bool steps = b.step >= 0 && b.step < STEPS && b.equalities <= m && may(dual, b.step_matrix, m * n) &&
                     may(dual, b.back, m * n) && may(b.step == GRAM, b.turn, m * m) && may(dual, b.seen, m) &&
                     may(dual, b.length, 1) && may(dual, b.momenta, b.steps) && may(clamps, b.low, n) &&
                     may(clamps, b.high, n) && (dual || (m == 0 && b.steps == 0));
  const int64_t scale_numbers[] = {0, 0, 3, 1}, finish_numbers[] = {0, 2, 7};
  const bool closing = b.scale >= 0 && b.scale < SCALES && in(b.scale_numbers, scale_numbers[b.scale]) &&
                       gauge(b.shrink, b.scale == SHRINK || b.scale == STRICT_SHRINK) && may(b.base >= 0, b.base, n);
  const bool finish = b.finish >= 0 && b.finish < FINISHES && in(b.finish_numbers, finish_numbers[b.finish]) &&
                      (b.finish != INTERVAL || n == 1) &&
                      may(b.finish == PULL, b.from, n) && may(b.finish == PULL, b.along, n) &&
                      gauge(b.loose, b.loose.rows > 0 || b.loose.upper >= 0) &&
                      gauge(b.tight, b.tight.rows > 0 || b.tight.upper >= 0);
  return lines && rays && steps && closing && finish && may(b.signs >= 0, b.signs, b.count) &&
         may(b.point >= 0, b.point, n) && may(b.hull_rank, b.hull, n * b.hull_rank) && may(b.equal_rank, b.equal, n * b.equal_rank) &&
         may(b.clean_rank, b.clean, n * b.clean_rank) && may(b.clean_rank, b.origin, n) &&
         b.start + b.count * b.coefficients <= coefficients;
}

template <class T>
void tail_forward(const Program& program, const Given<T>& given, int64_t dim, T* x, int64_t start, int64_t stop) {
  Memory memory;
  for (int64_t kind = 0; kind < program.kinds; kind++) {
    const Block& block = program.blocks[kind];
    Place place(program, block, memory);
    const int64_t* positions = program.layout + block.places;
    for (int64_t first = start; first < stop; first += LANES) {
      const int64_t count = std::min(LANES, stop - first);
      for (int64_t number = 0; number < block.count; number++) {
        const double sign = block.signs < 0 ? 1.0 : program.numbers[block.signs + number];
        const int64_t column = block.start + number * block.coefficients;
        Lanes marked = load(program, given, first, count, column, block.coefficients, place.c);
        marked += place.forward();
        for (int64_t j = 0; j < block.size; j++) {
          const int64_t position = positions[number * block.size + j];
          scatter(place.out[j] * sign + marked, x + first * dim + position, dim, count);
        }
      }
    }
  }
}

template <class T>
void tail_backward(const Program& program, const Given<T>& given, int64_t dim, const T* g, int64_t width, T* grad,
                   int64_t start, int64_t stop) {
  Memory memory;
  for (int64_t kind = 0; kind < program.kinds; kind++) {
    const Block& block = program.blocks[kind];
    Place place(program, block, memory);
    const int64_t* positions = program.layout + block.places;
    for (int64_t first = start; first < stop; first += LANES) {
      const int64_t count = std::min(LANES, stop - first);
      for (int64_t number = 0; number < block.count; number++) {
        const double sign = block.signs < 0 ? 1.0 : program.numbers[block.signs + number];
        const int64_t column = block.start + number * block.coefficients;
        Lanes marked = load(program, given, first, count, column, block.coefficients, place.c);
        marked += place.forward();
        for (int64_t j = 0; j < block.size; j++) {
          const int64_t position = positions[number * block.size + j];
          place.g[j] = gather(g + first * dim + position, dim, count) * sign;
        }
        place.backward();
        for (int64_t i = 0; i < block.coefficients; i++) {
          Lanes value = place.gc[i] + marked;
          if (program.strict) {  // nothing is learnt beyond the cut
            const Lanes c = gather(given.c + first * given.stride + column + i, given.stride, count);
            value = where(abs(c) <= program.largest, value, 0.0);
          }
          scatter(value, grad + first * width + column + i, width, count);
        }
      }
    }
  }
}

template void tail_forward(const Program&, const Given<float>&, int64_t, float*, int64_t, int64_t);
template void tail_forward(const Program&, const Given<double>&, int64_t, double*, int64_t, int64_t);
template void tail_backward(const Program&, const Given<float>&, int64_t, const float*, int64_t, float*, int64_t, int64_t);
template void tail_backward(const Program&, const Given<double>&, int64_t, const double*, int64_t, double*, int64_t,
                            int64_t);

}  // namespace rayhull::layer
