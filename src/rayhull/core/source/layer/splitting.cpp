#include "splitting.hpp"

#include "gather.hpp"
#include "matrix.hpp"

#include <limits>
#include <optional>
#include <tuple>
#include <vector>

namespace rayhull::layer {

namespace {

// What both passes share: the constants as V multiplies with them.
template <class V>
struct Constants {
  using S = Number<V>;
  static constexpr int64_t WIDTH = std::is_floating_point_v<V> ? 1 : LANES;  // samples side by side

  explicit Constants(const SplittingProblem& p)
      : p(p), relaxation(p.relaxation), rows(p.rows, p.k, p.n), first(p.first, p.k, p.n), turn(p.turn, p.k, p.rank),
        last(p.last, p.n, p.k), onto(p.onto, p.n, p.n), along_(p.rank) {}

  const SplittingProblem& p;
  const S relaxation;
  Matrix<V> rows, first, turn, last, onto;

  static auto into(V* to) {
    return [to](int64_t i, V sum) AT_ONCE { to[i] = sum; };
  }
  static auto added_to(V* to) {
    return [to](int64_t i, V sum) AT_ONCE { to[i] += sum; };
  }

  // take(i, (T v)_i)
  template <class F>
  void turned(const V* v, const F& take) {
    if (p.rank == p.k) return turn.combination(v, take);
    turn.combination(v, into(along_.data()));
    turn.product(along_.data(), take);
  }

  // 0 for samples whose numbers are all finite, not a number for others.
  static V mark(const std::vector<V>& x) {
    V marked = S(0);
    for (const V& number : x) marked += number * V(S(0));
    return marked;
  }

  // Where the states of a step lie, and the bytes that eight samples need for one, in whole squares.
  int64_t place(int64_t sample, int64_t step) const { return (sample * (p.steps + 1) + step) * p.k; }
  int64_t room() const { return (p.k + LANES - 1) / LANES * LANES * WIDTH; }

 private:
  std::vector<V> along_;
};

template <class V>
class Forward : Constants<V> {
 public:
  using S = Number<V>;
  using Base = Constants<V>;
  using Base::p, Base::WIDTH;

  explicit Forward(const SplittingProblem& problem)
      : Base(problem), y(p.n), x(p.n), t(p.k), s(p.k), w(p.k), ahead(p.k), low(p.k), high(p.k), signs(this->room()) {}

  // Returns the mark of what comes out.
  template <class T>
  V run(const T* from, Side least, Side most, T* to, int8_t* states, int64_t sample, int64_t count) {
    gather_rows(from + sample * p.n, p.n, count, p.n, y.data());
    take(least, sample, count, low), take(most, sample, count, high);
    this->rows.product(y.data(), Base::into(t.data())), this->first.product(y.data(), Base::into(s.data()));
    mark_bounds();
    for (int64_t step = 0; step < p.steps; step++) clamp(states, sample, count, step), advance();
    clamp(states, sample, count, p.steps);
    this->onto.product(y.data(), Base::into(x.data())), this->last.product(ahead.data(), Base::added_to(x.data()));
    scatter_rows(x.data(), p.n, to + sample * p.n, p.n, count);
    return Base::mark(x);
  }

 private:
  std::vector<V> y, x, t, s, w, ahead, low, high;
  std::vector<int8_t> signs;

  void take(Side bound, int64_t sample, int64_t count, std::vector<V>& to) const {
    gather_rows(bound.of(sample), bound.stride, bound.stride ? count : WIDTH, p.k, to.data());
  }

  // A bound that is not a number makes the sample none.
  void mark_bounds() {
    const V none = std::numeric_limits<S>::quiet_NaN();
    for (int64_t i = 0; i < p.k; i++) t[i] = where((low[i] <= low[i]) & (high[i] <= high[i]), t[i], none);
  }

  // w = clamp(t) and ahead = 2 w - t
  void clamp(int8_t* states, int64_t sample, int64_t count, int64_t step) {
    for (int64_t i = 0; i < p.k; i++) {
      const V above_low = where(t[i] < low[i], low[i], t[i]);
      w[i] = where(above_low > high[i], high[i], above_low);
      ahead[i] = w[i] + w[i] - t[i];
    }
    if (!states) return;
    const V zero = S(0), one = S(1);
    for (int64_t i = 0; i < p.k; i++) {
      store_signs(where(t[i] < low[i], zero - one, where(t[i] > high[i], one, zero)), signs.data() + i * WIDTH);
    }
    int8_t* to = states + this->place(sample, step);
    if constexpr (WIDTH == 1) std::copy(signs.begin(), signs.begin() + p.k, to);
    else scatter_bytes(signs.data(), p.k, to, (p.steps + 1) * p.k, count);
  }

  void advance() {
    V* const at = t.data();
    const V *start = s.data(), *clamped = w.data(), relaxed = V(this->relaxation);
    this->turned(ahead.data(), [=](int64_t i, V sum) AT_ONCE { at[i] += relaxed * (start[i] + sum - clamped[i]); });
  }
};

template <class V>
class Backward : Constants<V> {
 public:
  using S = Number<V>;
  using Base = Constants<V>;
  using Base::p, Base::WIDTH;

  explicit Backward(const SplittingProblem& problem)
      : Base(problem), g(p.n), gy(p.n), gt(p.k), gs(p.k), then(p.k), glow(p.k), ghigh(p.k), signs(this->room()) {}

  template <class T>
  V run(const T* from, const int8_t* states, T* to_y, T* to_low, T* to_high, int64_t sample, int64_t count) {
    gather_rows(from + sample * p.n, p.n, count, p.n, g.data());
    for (auto* sums : {&gs, &glow, &ghigh}) std::fill(sums->begin(), sums->end(), V(S(0)));
    this->onto.combination(g.data(), Base::into(gy.data())), this->last.combination(g.data(), Base::into(then.data()));
    look(states, sample, count, p.steps);
    for (int64_t i = 0; i < p.k; i++) gt[i] = through_clamp(i, then[i] + then[i]) - then[i];
    for (int64_t step = p.steps - 1; step >= 0; step--) look(states, sample, count, step), retreat();
    this->rows.combination(gt.data(), Base::added_to(gy.data())), this->first.combination(gs.data(), Base::added_to(gy.data()));
    scatter_rows(gy.data(), p.n, to_y + sample * p.n, p.n, count);
    scatter_rows(glow.data(), p.k, to_low + sample * p.k, p.k, count);
    scatter_rows(ghigh.data(), p.k, to_high + sample * p.k, p.k, count);
    return Base::mark(gy) + Base::mark(glow) + Base::mark(ghigh);
  }

 private:
  std::vector<V> g, gy, gt, gs, then, glow, ghigh;
  std::vector<int8_t> signs;

  void look(const int8_t* states, int64_t sample, int64_t count, int64_t step) {
    const int8_t* from = states + this->place(sample, step);
    if constexpr (WIDTH == 1) std::copy(from, from + p.k, signs.begin());
    else gather_bytes(from, (p.steps + 1) * p.k, count, p.k, signs.data());
  }

  // From the gradient in w = clamp(t) to that in t; what a bound holds is the bound's.
  AT_ONCE V through_clamp(int64_t i, V by) {
    const V zero = S(0), sign = load_signs<V>(signs.data() + i * WIDTH);
    glow[i] += where(sign < zero, by, zero), ghigh[i] += where(sign > zero, by, zero);
    return where(sign < zero, zero, where(sign > zero, zero, by));
  }

  // Through t' = t + relaxation (s + T (2 w - t) - w), where T is symmetric.
  void retreat() {
    const V relaxed = V(this->relaxation);
    this->turned(gt.data(), Base::into(then.data()));
    for (int64_t i = 0; i < p.k; i++) {
      const V straight = relaxed * gt[i], turned = relaxed * then[i];
      gs[i] += straight;
      gt[i] = gt[i] - turned + through_clamp(i, turned + turned - straight);
    }
  }
};

// Eight samples at a time, or one alone, in the precision of T; what overflowed in single precision again in double.
template <template <class> class Kernel, class T>
class Groups {
 public:
  explicit Groups(const SplittingProblem& problem) : p_(problem) {}

  template <class Run>
  void each(int64_t start, int64_t stop, const Run& run) {
    using V = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;
    T marks[LANES];
    for (int64_t first = start; first < stop; first += LANES) {
      const int64_t count = std::min(LANES, stop - first);
      if (count == 1) scatter(run(of<T>(), first, count), marks, 1, count);
      else scatter(run(of<V>(), first, count), marks, 1, count);
      for (int64_t lane = 0; std::is_same_v<T, float> && lane < count; lane++) {
        if (marks[lane] != T(0)) run(of<double>(), first + lane, 1);
      }
    }
  }

 private:
  const SplittingProblem& p_;
  template <class V>
  using Made = std::optional<Kernel<V>>;
  std::tuple<Made<Lanes>, Made<Singles>, Made<double>, Made<float>> made_;

  template <class V>
  Kernel<V>& of() {
    auto& kernel = std::get<Made<V>>(made_);
    if (!kernel) kernel.emplace(p_);
    return *kernel;
  }
};

}  // namespace

template <class T>
void splitting(const SplittingProblem& problem, const T* y, Side low, Side high, T* x, int8_t* states, int64_t start,
               int64_t stop) {
  Groups<Forward, T>(problem).each(start, stop, [&](auto& kernel, int64_t first, int64_t count) {
    return kernel.run(y, low, high, x, states, first, count);
  });
}

template <class T>
void splitting_backward(const SplittingProblem& problem, const T* g, const int8_t* states, T* to_y, T* to_low, T* to_high,
                        int64_t start, int64_t stop) {
  Groups<Backward, T>(problem).each(start, stop, [&](auto& kernel, int64_t first, int64_t count) {
    return kernel.run(g, states, to_y, to_low, to_high, first, count);
  });
}

template void splitting<float>(const SplittingProblem&, const float*, Side, Side, float*, int8_t*, int64_t, int64_t);
template void splitting<double>(const SplittingProblem&, const double*, Side, Side, double*, int8_t*, int64_t, int64_t);
template void splitting_backward<float>(const SplittingProblem&, const float*, const int8_t*, float*, float*, float*, int64_t,
                                        int64_t);
template void splitting_backward<double>(const SplittingProblem&, const double*, const int8_t*, double*, double*, double*,
                                         int64_t, int64_t);

}  // namespace rayhull::layer
