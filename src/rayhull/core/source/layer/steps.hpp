// Dual steps towards the nearest point, forwards and backwards: for eight samples in double or single precision (Lanes,
// Singles), or for one sample (double, float). What comes after them closes what they leave, so that single precision
// serves float32 layers, strict ones too.
#pragma once

#include "matrix.hpp"
#include "tail.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace rayhull::layer {

template <class V>
class DualSteps {
 public:
  using S = Number<V>;
  static constexpr bool one = std::is_floating_point_v<V>;

  // `keeps`: every step is kept, for a backward pass.
  DualSteps(const double* numbers, const Block& block, bool keeps)
      : k(block), m(block.step_rows), n(block.size),
        pitch(padded<S>(m) + (block.step == GRAM ? 0 : padded<S>(n))), by_gram(block.step == GRAM), keeps(keeps),
        length(S(numbers[block.length])), momenta(numbers + block.momenta), back_of_one(numbers + block.back),
        rows(numbers + block.step_matrix, m, n), back(back_of_one, one ? 0 : m, one ? 0 : n),
        turn(numbers + (by_gram ? block.turn : 0), by_gram ? m : 0, by_gram ? m : 0) {
    const int64_t M = padded<S>(m), N = padded<S>(n), steps = keeps ? block.steps : 2;
    const int64_t GM = keeps ? M : 0, GN = keeps ? N : 0;  // gradients
    const int64_t sizes[] = {N, M, N, N, M, M, M, M, M, N, GM, GM, GN, GM, GN, GN, steps * pitch};
    int64_t total = 0;
    for (int64_t size : sizes) total += size;
    store.assign(total, V(S(0)));
    V** arrays[] = {&y, &seen, &low, &high, &pull, &last, &ahead, &then, &least, &z, &ga, &gb, &gy, &gseen, &glow, &ghigh, &path};
    V* next = store.data();
    for (size_t i = 0; i < std::size(arrays); i++) *arrays[i] = next, next += sizes[i];
    for (int64_t i = 0; i < m; i++) least[i] = V(i < m - k.equalities ? S(0) : -std::numeric_limits<S>::infinity());
  }

  // From y, seen from the base point as the right-hand sides and bounds are, to z = y - (rows)ᵀ multipliers. Returns 0, or
  // not a number for lanes in which something overflowed.
  Lanes forward(const Lanes* from, const Lanes* rhs, const Lanes* lower, const Lanes* upper, Lanes* to) {
    take(from, n, y), take(rhs, m, seen);
    if (!by_gram) take(lower, n, low), take(upper, n, high);
    fill(last, m, S(0)), fill(ahead, m, S(0));
    if (by_gram) start_by_gram();
    for (int64_t number = 0; number < k.steps; number++) {
      if (by_gram) {
        gram_step(number);
      } else {
        points_step(number);
      }
      std::swap(ahead, then);
    }
    return move(from, k.steps ? of_step(k.steps - 1) : last, to);
  }

  // From the gradient in the multipliers to those in y (added), right-hand sides and bounds (written; none for a block
  // without bounds in its steps).
  void backward(const Lanes* g, Lanes* to_y, Lanes* to_rhs, Lanes* to_lower, Lanes* to_upper) {
    take(g, m, last);
    fill(ga, m, S(0)), fill(gb, m, S(0)), fill(gy, n, S(0)), fill(gseen, m, S(0)), fill(glow, n, S(0)), fill(ghigh, n, S(0));
    for (int64_t number = k.steps - 1; number >= 0; number--) one_step_backward(number);
    if (by_gram) rows.combination(gseen, gy, S(-1));
    for (int64_t j = 0; j < n; j++) to_y[j] += widened(gy[j]), to_lower[j] = widened(glow[j]), to_upper[j] = widened(ghigh[j]);
    for (int64_t i = 0; i < m; i++) to_rhs[i] = widened(gseen[i]);
  }

 private:
  const Block& k;
  const int64_t m, n, pitch;
  const bool by_gram, keeps;
  const S length;
  const double *momenta, *back_of_one;
  Matrix<V> rows, back, turn;
  std::vector<V> store;
  V *y, *seen, *low, *high, *pull, *last, *ahead, *then, *least, *z, *ga, *gb, *gy, *gseen, *glow, *ghigh, *path;

  static void take(const Lanes* from, int64_t size, V* to) {
    for (int64_t i = 0; i < size; i++) to[i] = narrowed<V>(from[i]);
  }

  // What is kept of a step: its multipliers, then, with bounds, the point before the clamp. Without a backward pass, of
  // this step and the one before.
  V* of_step(int64_t number) const { return path + (keeps ? number : number & 1) * pitch; }

  // z = y - (rows)ᵀ multipliers. One sample is not worth a copy of the matrix in its own precision.
  Lanes move(const Lanes* from, const V* multipliers, Lanes* to) {
    if constexpr (one) {
      fill(z, n, S(0));
      for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) z[j] += multipliers[i] * S(back_of_one[i * n + j]);
      }
      for (int64_t j = 0; j < n; j++) to[j] = from[j] - widened(z[j]);
    } else {
      back.each_combination(multipliers, [=](int64_t j, V sum) AT_ONCE { to[j] = from[j] - widened(sum); });
    }
    Lanes bad(0.0);
    for (int64_t j = 0; j < n; j++) bad += mark(to[j]);
    return bad;
  }

  V slope(V v, int64_t i) const { return i < m - k.equalities ? where(v > V(S(0)), V(S(1)), V(S(0))) : V(S(1)); }

  V clamp(V v, int64_t j) const {
    v = where(v < low[j], low[j], v);
    return where(v > high[j], high[j], v);
  }

  // Entry i of the new multipliers, not negative for inequalities, and where the next step looks:
  // then = new + momentum (new - the one before), while `ahead` is still read.
  struct Advance {
    const V *least, *before;
    V *kept, *then;
    V momentum;

    AT_ONCE void operator()(int64_t i, V value) const {
      const V fresh = where(value < least[i], least[i], value);
      then[i] = fresh + (fresh - before[i]) * momentum;
      kept[i] = fresh;
    }
  };

  Advance advance(int64_t number) const {
    return {least, number ? of_step(number - 1) : last, of_step(number), then, V(S(momenta[number]))};
  }

  // Without bounds G z(μ) is affine in μ: one product with 1 - s G Gᵀ a step.
  void start_by_gram() {
    rows.write_product(y, pull);
    for (int64_t i = 0; i < m; i++) pull[i] = (pull[i] - seen[i]) * V(length);
  }

  void gram_step(int64_t number) {
    const Advance advanced = advance(number);
    const V* start = pull;
    if (number) return turn.each_combination(ahead, [=](int64_t i, V sum) AT_ONCE { advanced(i, start[i] + sum); });
    for (int64_t i = 0; i < m; i++) advanced(i, start[i]);
  }

  // With bounds: the point z(μ) itself, clamped, in every step.
  void points_step(int64_t number) {
    const Advance advanced = advance(number);
    V *const fresh = of_step(number), *const point = fresh + padded<S>(m);
    std::copy(y, y + n, point);
    if (number) rows.combination(ahead, point, S(-1));
    for (int64_t j = 0; j < n; j++) z[j] = clamp(point[j], j);
    rows.write_product(z, fresh);
    for (int64_t i = 0; i < m; i++) advanced(i, ahead[i] + (fresh[i] - seen[i]) * V(length));
  }

  // new_k feeds ahead_{k+1} by 1 + μ_k and ahead_{k+2} by -μ_{k+1}; ga and gb hold the gradients of those two.
  void one_step_backward(int64_t number) {
    const S momentum = S(momenta[number]), next = number + 1 < k.steps ? S(momenta[number + 1]) : S(0);
    const V* fresh = of_step(number);
    for (int64_t i = 0; i < m; i++) {
      last[i] = (last[i] + ga[i] * V(1 + momentum) - gb[i] * V(next)) * slope(fresh[i], i);
      gb[i] = ga[i], gseen[i] -= last[i] * V(length);
    }
    if (by_gram) {
      fill(ga, padded<S>(m), S(0));
      if (number) turn.product(last, ga);
    } else {
      points_backward(fresh + padded<S>(m), number > 0);
    }
    fill(last, m, S(0));
  }

  void points_backward(const V* point, bool goes_on) {
    fill(z, padded<S>(n), S(0));
    rows.combination(last, z, length);
    for (int64_t j = 0; j < n; j++) {
      const V zero = V(S(0)), below = where(point[j] > low[j], zero, z[j]), above = where(point[j] < high[j], zero, z[j]);
      glow[j] += below, ghigh[j] += where(point[j] > low[j], above, zero);
      z[j] = where(point[j] > low[j], where(point[j] < high[j], z[j], zero), zero);
      gy[j] += z[j];
    }
    for (int64_t i = 0; i < m; i++) ga[i] = last[i];
    if (goes_on) rows.product(z, ga, S(-1));
  }
};

}  // namespace rayhull::layer
