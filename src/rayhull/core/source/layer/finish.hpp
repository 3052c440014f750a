// The finished point of a block, base -> out: clamped to an interval, or pulled inside with every rounding error counted, and
// backwards. nn/strict.py is the definition.
#pragma once

#include "gauges.hpp"
#include "memory.hpp"

#include <limits>

namespace rayhull::layer {

constexpr double EPS = 0x1p-53;

class Finishing : Arrays {
 public:
  // `keeps`: a backward pass follows.
  Finishing(const Program& program, const Block& block, const Arrays& arrays, bool keeps)
      : Arrays(arrays), k(block), numbers(program.numbers), n(block.size), keeps(keeps) {}

  // Returns 0, or not a number for lanes whose answer is none.
  Lanes forward() {
    if (k.finish == INTERVAL) out[0] = min(max(base[0], at(k.finish_numbers)[0]), at(k.finish_numbers)[1]);
    return k.finish == PULL ? pulled() : Lanes(0.0);
  }

  // From the gradient in out to that in base, in place.
  void backward() {
    if (k.finish == INTERVAL) {
      const double *ends = at(k.finish_numbers);
      g[0] = where((base[0] >= ends[0]) & (base[0] <= ends[1]), g[0], 0.0);
    }
    if (k.finish == PULL) pull_backward();
  }

 private:
  const Block& k;
  const double* numbers;
  const int64_t n;
  const bool keeps;
  Lanes size, excess;
  Largest loose, tight;

  const double* at(int64_t place) const { return numbers + place; }

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
    if (has_loose()) loose = gauge_of(k.loose, numbers, n, base, scratch, keeps);
    if (has_tight()) tight = gauge_of(k.tight, numbers, n, base, scratch, keeps);
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
