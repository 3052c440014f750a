// A leak past the map: what a share s of the gradient g in a point x adds to that in the free point u,
//
//   (1 - s) Jᵀg + s (g - min(0, g·d) d / |d|²),  d = u - x
//
// block by block. maps/leak.py is the definition, and says why.
#pragma once

#include "gather.hpp"

#include <limits>
#include <vector>

namespace rayhull::layer {

class Leak {
 public:
  // For n coordinates; a way shorter than the share `rounding` of the largest |u| has no direction.
  Leak(double share, int64_t n, double rounding)
      : s(share), n(share > 0.0 ? n : 0), rounding(rounding), points(2 * this->n), found(this->n), free(points.data()),
        way(free + this->n) {}

  bool any() const { return s > 0.0; }

  void see(int64_t j, Lanes u) { free[j] = u; }

  // The second term, for the gradient g in x; `block` has a number below n for each coordinate, or is null for one block.
  void take(const Lanes* x, const Lanes* g, const int64_t* block) {
    const int64_t blocks = block ? n : 1;
    for (int64_t b = 0; b < blocks; b++) found[b] = {};
    take_way(x, block);
    for (int64_t b = 0; b < blocks; b++) found[b].unit = Lanes(1.0) / found[b].far;
    for (int64_t j = 0; j < n; j++) {
      InBlock& own = found[block ? block[j] : 0];
      const Lanes d = way[j] * own.unit;  // its own square might overflow
      way[j] = where(is_finite(d), d, 0.0);
      own.along += g[j] * way[j], own.square += way[j] * way[j];
    }
    for (int64_t b = 0; b < blocks; b++) found[b].outwards = min(found[b].along, 0.0) / max(found[b].square, TINY);
    for (int64_t j = 0; j < n; j++) {
      way[j] = (g[j] - way[j] * found[block ? block[j] : 0].outwards) * s;
    }
  }

  Lanes second(int64_t j) const { return way[j]; }

  // From Jᵀg to the sum of both terms, in place.
  void add(Lanes* g) const {
    for (int64_t j = 0; j < n; j++) g[j] = g[j] * (1.0 - s) + way[j];
  }

 private:
  struct InBlock {
    Lanes size = 0.0, far = 0.0, unit = 0.0;          // max|u|; max|d|; 1 / far
    Lanes along = 0.0, square = 0.0, outwards = 0.0;  // g·d, |d|², min(0, g·d) / |d|², in units of far
  };
  static constexpr double TINY = std::numeric_limits<double>::min();

  const double s;
  const int64_t n;
  const double rounding;
  std::vector<Lanes> points;
  std::vector<InBlock> found;
  Lanes *free, *way;

  void take_way(const Lanes* x, const int64_t* block) {
    for (int64_t j = 0; j < n; j++) {
      Lanes& size = found[block ? block[j] : 0].size;
      size = max(size, abs(free[j]));
    }
    for (int64_t j = 0; j < n; j++) {
      InBlock& own = found[block ? block[j] : 0];
      const Lanes d = free[j] - x[j];
      way[j] = where(abs(d) > own.size * rounding, d, 0.0);
      own.far = max(own.far, abs(way[j]));
    }
  }
};

// Points x with their free points and gradients g, (n, d) each: (1 - s) g for the map's derivative, and the second term.
template <class T>
struct LeakRows {
  static constexpr double ROUNDING = 64 * double(std::numeric_limits<T>::epsilon());

  const T *g, *x, *free;
  const int64_t* block;
  int64_t d;
  double share;
  T *rest, *past;

  void run(int64_t start, int64_t stop) const {
    Leak leak(share, d, ROUNDING);
    std::vector<Lanes> points(d), gradient(d), seen(d);
    for (int64_t first = start; first < stop; first += LANES) {
      const int64_t count = std::min(LANES, stop - first), place = first * d;
      gather_rows(g + place, d, count, d, gradient.data());
      gather_rows(x + place, d, count, d, points.data());
      gather_rows(free + place, d, count, d, seen.data());
      for (int64_t j = 0; j < d; j++) leak.see(j, seen[j]);
      leak.take(points.data(), gradient.data(), block);
      for (int64_t j = 0; j < d; j++) {
        scatter(gradient[j] * (1.0 - share), rest + place + j, d, count);
        scatter(leak.second(j), past + place + j, d, count);
      }
    }
  }
};

}  // namespace rayhull::layer
