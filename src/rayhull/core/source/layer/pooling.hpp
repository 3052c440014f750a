// The nearest increasing chain: each entry is merged with the pools before it that are above, for eight samples one after
// another. maps/pooling.py is the definition.
#pragma once

#include "lanes.hpp"

#include <limits>
#include <vector>

namespace rayhull::layer {

// x[path[0]] <= x[path[1]] <= ..., for points of type T
template <class T>
class Pooling {
 public:
  Pooling(int64_t size, const int64_t* path) : n(size), places(size), pools(size), inverse(size + 1) {
    for (int64_t i = 0; i < n; i++) places[i] = path[i] * LANES;
    while (share * double(n) > 1.0) share *= 0.5;
    for (int64_t k = 1; k <= n; k++) inverse[k] = 1.0 / (share * double(k));
  }

  // u (n) -> x (n). A pool is never above the next one, so that x is in order exactly.
  void forward(const Lanes* u, Lanes* x) {
    for (int64_t lane = 0; lane < LANES; lane++) {
      const int64_t count = make_pools(numbers(u) + lane);
      double* out = numbers(x) + lane;
      for (int64_t k = 0, i = 0; k < count; k++) {
        for (const int64_t end = i + pools[k].size; i < end; i++) out[places[i]] = pools[k].mean;
      }
    }
  }

  // The gradient in u for the gradient g in x, in place: its mean over each pool, whose x are equal and not all their u.
  void backward(const Lanes* u, const Lanes* x, Lanes* g) const {
    for (int64_t lane = 0; lane < LANES; lane++) mean_over_pools(numbers(u) + lane, numbers(x) + lane, numbers(g) + lane);
  }

 private:
  struct Pool {
    double mean, sum;  // the sum in units in which that of all entries cannot overflow
    int64_t size;
  };

  int64_t n;
  std::vector<int64_t> places;  // of a lane's numbers, along the path
  std::vector<Pool> pools;
  std::vector<double> inverse;  // from the sum of so many to their mean
  double share = 1.0;           // a power of two, at most 1 / n: products with it are exact

  static const double* numbers(const Lanes* x) { return reinterpret_cast<const double*>(x); }
  static double* numbers(Lanes* x) { return reinterpret_cast<double*>(x); }

  // Returns how many; an entry on its own stays as it is. One that T does not hold makes a single pool, not a number.
  int64_t make_pools(const double* u) {
    int64_t count = 0;
    double entry = u[places[0]];
    Pool last{entry, entry * share, 1};
    T marked = T(entry) * T(0);
    for (int64_t i = 1; i < n; i++) {
      entry = u[places[i]], marked += T(entry) * T(0);
      if (last.mean > entry) {
        merge(last, entry * share, 1);
        for (; count && pools[count - 1].mean > last.mean; count--) merge(last, pools[count - 1].sum, pools[count - 1].size);
      } else {
        pools[count++] = last;
        last = {entry, entry * share, 1};
      }
    }
    pools[count++] = last;
    if (marked == T(0)) return count;
    pools[0] = {std::numeric_limits<double>::quiet_NaN(), 0.0, n};
    return 1;
  }

  void merge(Pool& pool, double sum, int64_t size) const {
    pool.sum += sum, pool.size += size;
    pool.mean = pool.sum * inverse[pool.size];
  }

  void mean_over_pools(const double* u, const double* x, double* g) const {
    for (int64_t i = 0, end; i < n; i = end) {
      const double level = x[places[i]];
      double sum = g[places[i]];
      bool moved = u[places[i]] != level;
      for (end = i + 1; end < n && x[places[end]] == level; end++) {
        sum += g[places[end]], moved |= u[places[end]] != level;
      }
      if (!moved) continue;
      const double mean = sum / double(end - i);
      for (int64_t j = i; j < end; j++) g[places[j]] = mean;
    }
  }
};

}  // namespace rayhull::layer
