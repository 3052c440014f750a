// A block's direction: from coefficients along lines, then along rays or by a closed form, and backwards.
#pragma once

#include "chain.hpp"
#include "clipped_shift.hpp"
#include "functions.hpp"
#include "leak.hpp"
#include "matrix.hpp"
#include "memory.hpp"
#include "order.hpp"
#include "pooling.hpp"
#include "sample.hpp"
#include "spans.hpp"

#include <algorithm>
#include <optional>

namespace rayhull::layer {

// c -> y for samples of type T.
template <class T>
class Direction : Arrays {
 public:
  // `keeps`: a backward pass follows.
  Direction(const Program& program, const Block& block, const Arrays& arrays, Sample& sample, bool keeps)
      : Arrays(arrays), p(program), k(block), n(block.size), r(block.rays_count), sample(sample),
        shift(shift_of(program.numbers, block, keeps)), leak(keeps ? program.leak : 0.0, block.size, LeakRows<T>::ROUNDING) {
    if (is_single()) lines.emplace(at(k.matrix), k.columns, n);
    if (k.conic == POOLED) pooling.emplace(n, p.layout + k.path_index);
  }

  // `sided`: sides came with the samples.
  void forward(bool with_sides) {
    sided = with_sides, are_points = sided && k.following.points;
    along_lines();
    along_rays();
  }

  // While g is the gradient in the finished point: what of it leaks past the map.
  void leak_past() {
    if (leak.any()) leak.take(out, g, blocks_of_set());
  }

  // From g, the gradient in y, to gc; g is used up.
  void backward() {
    rays_backward();
    lines_backward();
  }

 private:
  using Many = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;

  const Program& p;
  const Block& k;
  const int64_t n, r;
  Sample& sample;
  ClippedShift<T> shift;
  Leak leak;
  std::optional<Matrix<Many>> lines;  // in single precision
  std::optional<Pooling<T>> pooling;
  Lanes kept_lines, kept_hull;
  bool sided = false;
  bool are_points = false;  // coefficients that stand for points: seen from the sample's base point, along the equalities

  const double* at(int64_t place) const { return p.numbers + place; }

  static ClippedShift<T> shift_of(const double* numbers, const Block& k, bool keeps) {
    if (k.conic != SHIFT) return {0, nullptr, nullptr, nullptr, 0.0, false, keeps};
    const double *low = numbers + k.rows, *numbers_of = numbers + k.slacks;
    return {k.size, numbers + k.rays, low, low + k.size, numbers_of[0], numbers_of[1] != 0.0, keeps};
  }

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
    if (leak.any() && !is_free_along_hull()) see_free_point();
    if (are_points) {
      for (int64_t j = 0; j < n; j++) u[j] += at(k.point)[j] - sample.base[j];
    }
    if (k.hull_rank) kept_hull = remove_span(at(k.hull), n, k.hull_rank, p.strict, u, scratch);
    if (leak.any() && is_free_along_hull()) see_free_point();
    if (k.point >= 0 && !are_points) {
      for (int64_t j = 0; j < n; j++) u[j] += at(k.point)[j];
    }
  }

  bool is_single() const { return k.linear == MATRIX && k.single && std::is_same_v<T, float>; }

  void multiply_lines() {
    if (lines && lines->combination_of(c, u)) return;
    fill(u, n, 0.0);
    add_combination(at(k.matrix), k.columns, n, c, u);
  }

  // The free point is where coefficients lead with nothing imposed; from a sample's own base point they follow the
  // equalities.
  bool is_free_along_hull() const { return sided && k.following.from == OF_SAMPLE && !are_points; }

  void see_free_point() {
    for (int64_t j = 0; j < n; j++) {
      const Lanes from = k.point < 0 ? u[j] : u[j] + at(k.point)[j];
      leak.see(j, are_points ? from : sided ? from + sample.base[j] : k.base < 0 ? from : from + at(k.base)[j]);
    }
  }

  const int64_t* blocks_of_set() const {
    return sided && k.following.leak_index >= 0 ? p.layout + k.following.leak_index : nullptr;
  }

  void lines_backward() {  // g, and into gc
    if (leak.any() && is_free_along_hull()) leak.add(g);
    if (k.hull_rank) remove_span_backward(at(k.hull), n, k.hull_rank, p.strict, kept_hull, g, scratch);
    if (are_points) {
      for (int64_t j = 0; j < n; j++) sample.gbase[j] -= g[j];
    }
    if (leak.any() && !is_free_along_hull()) leak.add(g);
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

  Between bounds() const { return {at(k.slacks)[0], at(k.slacks)[1]}; }

  Chain<T> chain(int64_t size) const {
    return {size, at(k.rays), at(k.slacks)[2], at(k.slacks)[3], bounds(), p.layout + k.path_index};
  }

  Curve<T> curve() const { return {n, at(k.slacks)[4], chain(n - 1)}; }
  PartialOrder<T> order() const { return {n, r, p.layout + k.path_index, bounds()}; }

  void along_rays() {
    switch (k.conic) {
      case NO_RAYS: return;
      case SHIFT: return shift.forward(u, y, values);
      case CHAIN: return chain(n).forward(c, values, y);
      case ORDER: return order().forward(u, values, weights, y);
      case POOLED: return pooling->forward(u, y);
      case CURVE:
        curve().forward(c, values, y);
        for (int64_t j = 0; j < n; j++) y[j] += u[j];
        return;
      default: along_own_rays();
    }
  }

  void along_own_rays() {
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
    switch (k.conic) {
      case NO_RAYS: return;
      case SHIFT: return shift.backward(values, g);
      case CHAIN: return chain(n).backward(c, values, g, gw, gc);
      case CURVE: return curve().backward(c, values, g, gw, gc);
      case ORDER: return order().backward(u, values, weights, gw, g);
      case POOLED: return pooling->backward(u, y, g);
      default: own_rays_backward();
    }
  }

  void own_rays_backward() {
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
};

}  // namespace rayhull::layer
