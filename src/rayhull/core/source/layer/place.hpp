// What the tail does with one block of eight samples: direction, dual steps, closing, and all of it backwards.
#pragma once

#include "direction.hpp"
#include "finish.hpp"
#include "gauges.hpp"
#include "memory.hpp"
#include "sample.hpp"
#include "spans.hpp"
#include "steps.hpp"
#include "tail.hpp"

#include <algorithm>
#include <optional>

namespace rayhull::layer {

// One block of eight samples of type T, forwards and backwards.
template <class T>
class Place : Arrays {
 public:
  using Arrays::c, Arrays::out, Arrays::g, Arrays::gc;  // coefficients, points, gradients in points and in coefficients

  // `keeps`: a backward pass follows.
  Place(const Program& program, const Block& block, Memory& memory, bool keeps)
      : Arrays(program, block, memory), p(program), k(block), numbers(program.numbers), n(block.size), m(block.step_rows),
        keeps(keeps), sample(program, block), direction(program, block, *this, sample, keeps),
        finish(program, block, *this, keeps) {}

  // The sides of these samples; returns which of them their base point certifies.
  Mask take(const GivenSides& given, const At& place) {
    sided = given.any();
    if (!sided) return Lanes(0.0) <= Lanes(0.0);
    const Mask fine = sample.take(given, place);
    sample.see(seen, low, high);
    return fine;
  }

  // For `count` samples. Returns 0, or not a number for lanes whose answer is none.
  Lanes forward(int64_t count) {
    direction.forward(sided);
    step(count == 1);
    clean();
    const Lanes marked = closed();
    return marked + finish.forward();
  }

  // Under strict with sides of the sample: which finished points are proven.
  Mask proven() {
    if (!sided || !p.strict) return Lanes(0.0) <= Lanes(0.0);
    return sample.template finish<T>(base, out);
  }

  void backward() {
    direction.leak_past();
    if (sided) sample.clear_gradients();
    if (sided && p.strict) sample.finish_backward(g);
    finish.backward();
    closed_backward();
    if (k.clean_rank) remove_span_backward(at(k.clean), n, k.clean_rank, true, kept_clean, g, scratch);
    step_backward();
    direction.backward();
  }

  void give_back(const GivenSides& given, const At& place) {
    if (sided) sample.give_back(given, place);
  }

 private:
  const Program& p;
  const Block& k;
  const double* numbers;
  using Many = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;

  const int64_t n, m;
  const bool keeps;
  bool sided = false;
  Lanes kept_clean, t, size;
  Largest gauge;
  Sample sample;
  Direction<T> direction;
  Finishing finish;
  std::optional<DualSteps<T>> by_one;       // for a single sample,
  std::optional<DualSteps<Many>> by_many;   // for eight,
  std::optional<DualSteps<Lanes>> by_wide;  // and for eight whose numbers are too large for floats
  enum { ONE, MANY, WIDE } ran = MANY;

  const double* at(int64_t place) const { return numbers + place; }

  // -- steps towards the nearest point ------------------------------------------------------------------------------

  bool is_dual() const { return k.step == GRAM || k.step == POINTS; }
  bool clamps() const { return k.step == CLAMP || (k.step == POINTS && k.low >= 0); }

  void step(bool single) {
    if (is_dual()) {
      take_steps(single);
    } else if (z != y) {
      std::copy(y, y + n, z);
    }
    if (clamps()) {  // x is z before: the backward pass asks where it was free
      for (int64_t j = 0; j < n; j++) x[j] = z[j], z[j] = min(max(z[j], low[j]), high[j]);
    }
    if (k.equal_rank) project(at(k.equal), n, k.equal_rank, z, scratch);
  }

  template <class V>
  bool take_steps_by(std::optional<DualSteps<V>>& steps) {
    if (!steps) steps.emplace(numbers, k, keeps);
    const Lanes bad = steps->forward(y, seen, low, high, z);
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
      gauge = gauge_of(k.shrink, numbers, n, z, scratch, keeps);
      marked = gauge.marked;
    }
    if (sided || k.scale == SHRINK) t = Lanes(1.0) / max(gauge.value, 1.0);
    if (k.scale == STRICT_SHRINK) {  // margin, kept, limit
      size = largest_size(z, n);
      t = Lanes(number[1]) / max(strict_bound(), number[1]);
    }
    if (k.scale == REACH) size = largest_size(z, n), t = Lanes(number[0]) / max(size, number[0]);
    if (base == z) return marked;
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
};

}  // namespace rayhull::layer
