#include "leak.hpp"

#include "gather.hpp"

#include <vector>

namespace rayhull::layer {

template <class T>
void leak(const Leak<T>& p, int64_t start, int64_t stop) {
  using V = std::conditional_t<std::is_same_v<T, float>, Singles, Lanes>;
  const V zero(T(0)), far(T(p.far)), share(T(p.share)), rest(T(1 - p.share));
  std::vector<V> g(p.n), d(p.n), through(p.n, zero), across(p.blocks), size(p.blocks);
  const auto block = [&](int64_t j) { return p.block ? p.block[j] : 0; };
  for (int64_t first = start; first < stop; first += LANES) {
    const int64_t at = first * p.n, count = std::min(LANES, stop - first);
    const auto gathered = [&](const T* from, std::vector<V>& to) { gather_rows(from + at, p.n, count, p.n, to.data()); };
    gathered(p.g, g), gathered(p.d, d);
    if (p.through) gathered(p.through, through);
    std::fill(across.begin(), across.end(), zero), std::fill(size.begin(), size.end(), V(T(1)));
    for (int64_t j = 0; j < p.n; j++) {
      if (p.clamps) through[j] = where(d[j] <= zero, where(zero <= d[j], g[j], zero), zero);
      const V away = p.unit ? d[j] / V(p.unit[j]) : d[j];
      const V near = where(away < far, where(away > zero - far, away, zero - far), far);
      d[j] = where(away <= away, near, zero);  // where it is no number, g passes
      across[block(j)] += g[j] * d[j], size[block(j)] += d[j] * d[j];
    }
    for (int64_t k = 0; k < p.blocks; k++) across[k] = across[k] / size[k];
    for (int64_t j = 0; j < p.n; j++) g[j] = share * (g[j] - across[block(j)] * d[j]) + rest * through[j];
    scatter_rows(g.data(), p.n, p.to + at, p.n, count);
  }
}

template void leak<float>(const Leak<float>&, int64_t, int64_t);
template void leak<double>(const Leak<double>&, int64_t, int64_t);

}  // namespace rayhull::layer
