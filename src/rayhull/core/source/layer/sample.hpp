// Sides of the sample in one place of a block: eight base points with the slack of every row and bound there, the gauge by
// that slack, and under strict the proof that the finished point meets the sample's own numbers. nn/following.py and
// nn/closing.py are the definition.
#pragma once

#include "gather.hpp"
#include "gauges.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace rayhull::layer {

class Sample {
 public:
  static constexpr double INFINITE = std::numeric_limits<double>::infinity();

  Sample(const Program& program, const Block& block)
      : p(program), k(block), f(block.following), n(block.size), rows(f.from == NO_SIDES ? 0 : f.rows) {
    const int64_t all = rows + 2 * n;
    const int64_t lengths[] = {n, rows, n, n, all, all, all, n, n, n, n, n, n, n, rows, rows};
    int64_t total = 0;
    for (int64_t length : lengths) total += length;
    store.assign(f.from == NO_SIDES ? 0 : total, Lanes(0.0));
    Lanes** arrays[] = {&base, &rhs,    &high,    &low,     &slack,    &kept,    &gslack, &gbase,
                        &ghigh, &glow,   &before,  &end_low, &end_high, &absolute, &scratch, &sizes};
    Lanes* next = store.data();
    for (size_t i = 0; i < std::size(arrays); i++) *arrays[i] = next, next += lengths[i];
  }

  Lanes* base;          // (n)
  Lanes *slack, *gslack;  // (rows + 2 n)
  Lanes *gbase;         // (n)

  // The sides of eight samples, with their slack; returns which of them their base point certifies.
  Mask take(const GivenSides& given, const At& at) {
    moves_rows = f.from == OF_SAMPLE || given.b.data;
    moves_high = moves(f.upper, at.sign > 0 ? given.upper : given.lower);
    moves_low = moves(f.lower, at.sign > 0 ? given.lower : given.upper);
    read(given, at);
    for (int64_t i = 0; i < rows; i++) slack[i] = moves_rows ? rhs[i] : Lanes(INFINITE);
    if (moves_rows && f.from == OF_SAMPLE) add_product(at_(f.matrix), rows, n, base, slack, -1.0);
    if (moves_rows && f.from == STAYS) {
      for (int64_t i = 0; i < rows; i++) slack[i] -= at_(f.at_base)[i];
    } else if (!moves_rows) {
      for (int64_t g = 0; g < k.shrink.rows; g++) slack[gauge_row(g)] = at_(f.gauge_slack)[g];
    }
    for (int64_t j = 0; j < (bounded() ? n : 0); j++) {
      slack[rows + j] = moves_high ? high[j] - base[j] : stated_slack(k.shrink.upper, j);
      slack[rows + n + j] = moves_low ? base[j] - low[j] : stated_slack(k.shrink.lower, j);
    }
    return certified();
  }

  // The right-hand sides and bounds of the dual steps, seen from the base point; those that were not given as stated (a
  // mirror image has its upper bounds where others have the lower ones).
  void see(Lanes* seen, Lanes* below, Lanes* above) const {
    for (int64_t s = 0; s < k.step_rows; s++) {
      const int64_t i = step_entry(s);
      if (i >= 0 && moved(i)) seen[s] = slack[i] * at_(f.step_units)[s];
    }
    if (k.low < 0) return;
    for (int64_t j = 0; j < n; j++) {
      above[j] = moves_high ? slack[rows + j] : Lanes(at_(k.high)[j]);
      below[j] = moves_low ? -slack[rows + n + j] : Lanes(at_(k.low)[j]);
    }
  }

  void see_backward(const Lanes* seen, const Lanes* below, const Lanes* above) {
    for (int64_t s = 0; s < k.step_rows; s++) {
      const int64_t i = step_entry(s);
      if (i >= 0 && moved(i)) gslack[i] += seen[s] * at_(f.step_units)[s];
    }
    if (k.low < 0) return;
    for (int64_t j = 0; j < n; j++) {
      if (moves_high) gslack[rows + j] += above[j];
      if (moves_low) gslack[rows + n + j] -= below[j];
    }
  }

  // max_i (a_i·y + margin) / slack_i
  Largest gauge_of(const Lanes* y, Lanes* values) const {
    Largest found;
    const Lanes margin = p.strict ? largest_size(y, n) * margins().size : Lanes(0.0);
    fill(values, k.shrink.rows, 0.0);
    add_product(at_(k.shrink.matrix), k.shrink.rows, n, y, values);
    for (int64_t g = 0; g < k.shrink.rows; g++) {
      const int64_t i = gauge_row(g);
      found.marked += mark(values[g]);
      found.take(share(values[g] * at_(f.gauge_slack)[g] + margin * steep(i), kept[i]), double(g));
    }
    if (!bounded()) return found;
    for (int64_t j = 0; j < n; j++) {
      found.marked += mark(y[j]);
      found.take(share(y[j] + margin, kept[rows + j]), double(k.shrink.rows + j));
      found.take(share(-y[j] + margin, kept[rows + n + j]), double(k.shrink.rows + n + j));
    }
    return found;
  }

  // g += by · (the row of the largest value), and the same of the slack.
  void add_gauge_gradient(const Largest& gauge, Lanes by, Lanes* g) {
    for (int64_t lane = 0; lane < LANES; lane++) {
      const double mine = by.get(lane);
      if (mine == 0.0) continue;
      const int64_t which = int64_t(gauge.which.get(lane)), bound = which - k.shrink.rows;
      const int64_t i = bound < 0 ? gauge_row(which) : rows + bound;
      const double each = mine / kept[i].get(lane);
      if (moved(i)) add(gslack[i], lane, -each * gauge.value.get(lane));
      if (bound >= 0) {
        add(g[bound % n], lane, bound < n ? each : -each);
        continue;
      }
      const double *row = at_(k.shrink.matrix) + which * n, by_row = each * at_(f.gauge_slack)[which];
      for (int64_t j = 0; j < n; j++) add(g[j], lane, by_row * row[j]);
    }
  }

  // Under strict: the point as a number of T within the bounds where that is proven, else the base point; returns where
  // one of the two is.
  template <class T>
  Mask finish(const Lanes* x, Lanes* out) {
    for (int64_t j = 0; j < n; j++) {
      end_high[j] = at_most<T>(high[j]), end_low[j] = -at_most<T>(-low[j]);
      before[j] = rounded<T>(x[j]), out[j] = within(before[j], j);
    }
    ours = proven(out);
    if (all(ours)) return ours;
    for (int64_t j = 0; j < n; j++) gbase[j] = within(rounded<T>(base[j]), j);
    const Mask safe = proven(gbase);
    for (int64_t j = 0; j < n; j++) {
      out[j] = where(ours, out[j], gbase[j]), before[j] = where(ours, before[j], rounded<T>(base[j]));
    }
    return !((!ours) & (!safe));
  }

  void clear_gradients() {
    fill(gslack, entries(), 0.0), fill(gbase, n, 0.0);
    if (bounded() || p.strict) fill(ghigh, n, 0.0), fill(glow, n, 0.0);
  }

  // From the gradient in the finished point to that in x, in place.
  void finish_backward(Lanes* g) {
    for (int64_t j = 0; j < n; j++) {
      const Mask above = before[j] > end_high[j], below = before[j] < end_low[j];
      ghigh[j] += where(above, g[j], 0.0), glow[j] += where(below, g[j], 0.0);
      g[j] = where(above, 0.0, where(below, 0.0, g[j]));
      gbase[j] += where(ours, 0.0, g[j]);
      g[j] = where(ours, g[j], 0.0);
    }
  }

  // Gradients of slack and base point -> those of what was given.
  void give_back(const GivenSides& given, const At& at) {
    if (given.b.data) {
      for (int64_t i = 0; i < rows; i++) scatter_gradient(gslack[i] + at.marked, given.b, column(at, i), at);
    }
    const Lanes *up = gslack + rows, *down = up + n;
    const Side &above = at.sign > 0 ? given.upper : given.lower, &below = at.sign > 0 ? given.lower : given.upper;
    for (int64_t j = 0; j < (bounded() ? n : 0); j++) {
      if (above.data) scatter_gradient((up[j] + ghigh[j]) * at.sign + at.marked, above, at.positions[j], at);
      if (below.data) scatter_gradient((glow[j] - down[j]) * at.sign + at.marked, below, at.positions[j], at);
    }
    if (!given.base.data) return;
    add_combination(at_(f.matrix), rows, n, gslack, gbase, -1.0);
    for (int64_t j = 0; j < n; j++) {
      if (bounded()) gbase[j] += down[j] - up[j];
      scatter_gradient(gbase[j] * at.sign + at.marked, given.base, at.positions[j], at);
    }
  }

 private:
  struct Margins {
    double size, slack, tiny, still;  // of max|z|; of |a|·|x0| + |c|; of ‖a‖₁; what a row that nothing moves may lack
  };

  const Program& p;
  const Block& k;
  const Following& f;
  const int64_t n, rows;
  std::vector<Lanes> store;
  Lanes *rhs, *high, *low, *kept, *ghigh, *glow, *before, *end_low, *end_high, *absolute, *scratch, *sizes;
  bool moves_rows, moves_high, moves_low;
  Mask ours;

  const double* at_(int64_t place) const { return p.numbers + place; }
  const Margins& margins() const { return *reinterpret_cast<const Margins*>(at_(f.margins)); }
  int64_t gauge_row(int64_t g) const { return p.layout[f.gauge_index + g]; }
  int64_t step_entry(int64_t s) const { return p.layout[f.step_index + s]; }
  int64_t column(const At& at, int64_t i) const { return p.layout[f.columns_index + at.number * rows + i]; }
  bool moves(int64_t stated, const Side& side) const { return (f.from == OF_SAMPLE && stated >= 0) || side.data; }
  bool bounded() const { return moves_high || moves_low || k.shrink.upper >= 0; }
  int64_t entries() const { return bounded() ? rows + 2 * n : rows; }
  bool moved(int64_t i) const { return i < rows ? moves_rows : i < rows + n ? moves_high : moves_low; }
  Lanes stated_slack(int64_t inverse, int64_t j) const { return inverse < 0 ? Lanes(INFINITE) : Lanes(1.0 / at_(inverse)[j]); }

  static void add(Lanes& to, int64_t lane, double x) { to.set(lane, to.get(lane) + x); }

  static Lanes share(Lanes value, Lanes of) { return where(of > 0.0, value / of, INFINITE); }

  double steep(int64_t i) const { return !p.strict ? 0.0 : i < rows ? at_(f.steep)[i] : 1.0; }

  void read(const GivenSides& given, const At& at) {
    for (int64_t i = 0; i < rows; i++) rhs[i] = given.b.data ? gather(given.b, column(at, i), at) : Lanes(at_(f.rhs)[i]);
    const Side &above = at.sign > 0 ? given.upper : given.lower, &below = at.sign > 0 ? given.lower : given.upper;
    for (int64_t j = 0; j < n; j++) {
      if (given.base.data) base[j] = gather(given.base, at.positions[j], at) * at.sign;
      else base[j] = k.base < 0 ? 0.0 : at_(k.base)[j];
    }
    if (!bounded() && !p.strict) return;
    for (int64_t j = 0; j < n; j++) {
      high[j] = above.data ? gather(above, at.positions[j], at) * at.sign : Lanes(f.upper < 0 ? INFINITE : at_(f.upper)[j]);
      low[j] = below.data ? gather(below, at.positions[j], at) * at.sign : Lanes(f.lower < 0 ? -INFINITE : at_(f.lower)[j]);
    }
  }

  // |a|·|x| + |c| of every row
  void take_sizes(const Lanes* x) {
    for (int64_t j = 0; j < n; j++) absolute[j] = abs(x[j]);
    for (int64_t i = 0; i < rows; i++) sizes[i] = finite_size(rhs[i]);
    add_product(at_(f.sizes), rows, n, absolute, sizes);
  }

  // The same at the base point, for an entry of the slack vector.
  Lanes size_of(int64_t i) const {
    const int64_t j = (i - rows) % n;
    return i < rows ? sizes[i] : abs(base[j]) + finite_size(i < rows + n ? high[j] : low[j]);
  }

  static Lanes finite_size(Lanes c) { return where(abs(c) < INFINITE, abs(c), 0.0); }

  // Slack in every row; one that nothing moves must not be broken, and has no part in what follows.
  Mask certified() {
    Mask fine = Lanes(0.0) <= Lanes(0.0);
    if (f.still || p.strict) take_sizes(base);
    for (int64_t s = 0; s < f.still; s++) {
      const int64_t i = p.layout[f.still_index + s];
      fine = fine & (slack[i] >= -size_of(i) * margins().still);
      slack[i] = INFINITE;
    }
    for (int64_t i = 0; i < entries(); i++) {
      if (moved(i)) fine = fine & (slack[i] > 0.0);
      kept[i] = slack[i];
    }
    if (!p.strict) return fine;
    for (int64_t i = 0; i < entries(); i++) {
      kept[i] = kept[i] - size_of(i) * margins().slack - steep(i) * margins().tiny;
    }
    return fine;
  }

  template <class T>
  static Lanes rounded(Lanes x) {
    double values[LANES];
    std::memcpy(values, &x, sizeof values);
    for (double& value : values) value = double(T(value));
    std::memcpy(&x, values, sizeof values);
    return x;
  }

  // A number of T that is not above the bound, at most three below the largest one.
  template <class T>
  static Lanes at_most(Lanes bound) {
    if constexpr (std::is_same_v<T, double>) return bound;
    using Limits = std::numeric_limits<T>;
    const Lanes near = rounded<T>(min(max(bound, double(Limits::lowest())), double(Limits::max())));
    const Lanes step = abs(near) * double(Limits::epsilon()) + double(Limits::denorm_min());
    return where(near > bound, rounded<T>(near - step), near);
  }

  Lanes within(Lanes x, int64_t j) const { return min(max(x, end_low[j]), end_high[j]); }

  // Whether every row and bound holds in rational arithmetic, as far as float64 can prove it.
  Mask proven(const Lanes* x) {
    Mask fine = Lanes(0.0) <= Lanes(0.0);
    for (int64_t j = 0; j < n; j++) fine = fine & (x[j] <= high[j]) & (x[j] >= low[j]) & (abs(x[j]) < INFINITE);
    fill(scratch, rows, 0.0);
    add_product(at_(f.matrix), rows, n, x, scratch);
    take_sizes(x);
    for (int64_t i = 0; i < rows; i++) fine = fine & (scratch[i] + sizes[i] * at_(f.proof)[i] <= rhs[i]);
    return fine;
  }
};

}  // namespace rayhull::layer
