#include "rays.hpp"

#include <cmath>
#include <cstdlib>

#include "levels.hpp"
#include "wide.hpp"

namespace rayhull {
namespace {

constexpr double SHORT = 0x1p61;  // whatever floats have rounded, it is less than 2^62

// Entries of a S_i + b S_j.
struct Sum {
  const int64_t *first, *second;
  int64_t a, b, columns;

  Wide entry(int64_t t) const { return Wide{a} * first[t] + Wide{b} * second[t]; }

  // Are all numbers so short that no sum of products passes 62 bits?
  bool is_short() const {
    uint64_t x = 0, y = 0;
    for (int64_t t = 0; t < columns; t++) x |= magnitude(first[t]), y |= magnitude(second[t]);
    return static_cast<double>(a) * static_cast<double>(x) + static_cast<double>(b) * static_cast<double>(y) < SHORT;
  }
};

void write_short(const Sum& sum, int64_t* ray) {
  for (int64_t t = 0; t < sum.columns; t++) ray[t] = sum.a * sum.first[t] + sum.b * sum.second[t];
  const ExactDivisor common = content(ray, sum.columns);
  for (int64_t t = 0; t < sum.columns && common.divisor() > 1; t++) ray[t] = common.quotient(ray[t]);
}

template <class Number>
void intersect_zeros(Cone<Number>& cone, Pair pair, int64_t q) {
  const Word *a = cone.zeros(pair.above), *b = cone.zeros(pair.below);
  Word* zeros = cone.zeros(q);
  for (int64_t w = 0; w < cone.words; w++) zeros[w] = a[w] & b[w];
  add(zeros, cone.bits);
}

// A float ray recomputed from its tight rows by Gauss-Jordan elimination with complete pivoting.
class Elimination {
 public:
  Elimination(const Cone<double>& cone, const Word* zeros) {
    for (int64_t t = 0; t < cone.k; t++)
      if (!has(zeros, t)) support_.push_back(t);
    for (int64_t t = cone.k; t <= cone.bits; t++) {
      if (!has(zeros, t)) continue;
      for (int64_t c : support_) M_.push_back(cone.C[cone.taken[t - cone.k] * cone.k + c]);
      height_++;
    }
    column_of_.resize(support_.size());
    free_.assign(support_.size(), true);
  }

  // Writes y with largest entry 1; returns its error, or -1 where the rows do not determine a positive one.
  double solve(double* y, int64_t k) {
    const auto s = static_cast<int64_t>(support_.size());
    for (int64_t step = 0; step < s - 1; step++)
      if (!eliminate(step, s)) return -1.0;
    int64_t last = 0;
    while (!free_[last]) last++;
    std::fill(y, y + k, 0.0);
    y[support_[last]] = 1.0;
    double largest = 1.0;
    for (int64_t step = 0; step < s - 1; step++) {
      const double value = -M_[step * s + last];
      if (!(value > 0.0)) return -1.0;
      y[support_[column_of_[step]]] = value;
      largest = std::max(largest, value);
    }
    for (int64_t t = 0; t < k; t++) y[t] /= largest;
    return UNCERTAINTY * (1.0 + 0.5 / smallest_);
  }

 private:
  bool eliminate(int64_t step, int64_t s) {
    double pivot = 0.0;
    int64_t a = -1, c = -1;
    for (int64_t u = step; u < height_; u++)
      for (int64_t v = 0; v < s; v++)
        if (std::abs(M_[u * s + v]) > pivot) pivot = std::abs(M_[u * s + v]), a = u, c = v;
    if (!(pivot >= SMALLEST_PIVOT)) return false;
    smallest_ = std::min(smallest_, pivot);
    double* row = &M_[step * s];
    std::swap_ranges(row, row + s, &M_[a * s]);
    const double scale = 1.0 / row[c];
    for (int64_t v = 0; v < s; v++) row[v] *= scale;
    for (int64_t u = 0; u < height_; u++) {
      double* other = &M_[u * s];
      const double factor = other[c];
      if (u == step || factor == 0.0) continue;
      for (int64_t v = 0; v < s; v++) other[v] -= factor * row[v];
      other[c] = 0.0;
    }
    column_of_[step] = c, free_[c] = false;
    return true;
  }

  std::vector<int64_t> support_, column_of_;
  std::vector<double> M_;
  std::vector<bool> free_;
  int64_t height_ = 0;
  double smallest_ = 1.0;
};

// The ray from its tight rows, and its slacks from the ray; returns its error.
double refresh(const Cone<double>& cone, const Word* zeros, double* ray) {
  const double error = Elimination(cone, zeros).solve(ray, cone.k);
  for (int64_t t = cone.k; t < cone.columns; t++) {
    ray[t] = 0.0;
    for (int64_t c = 0; c < cone.k; c++) ray[t] += cone.C[cone.left[t] * cone.k + c] * ray[c];
  }
  return error;
}

}  // namespace

bool make_ray(Cone<int64_t>& cone, Pair pair, int64_t column, int64_t q) {
  intersect_zeros(cone, pair, q);
  cone.E[q] = 0.0;
  const int64_t *above = cone.ray(pair.above), *below = cone.ray(pair.below);
  const auto g = static_cast<int64_t>(gcd(magnitude(below[column]), magnitude(above[column])));
  const Sum sum{above, below, -below[column] / g, above[column] / g, cone.columns};
  if (!sum.is_short()) return write_primitive(sum.columns, [&](int64_t t) { return sum.entry(t); }, cone.ray(q));
  write_short(sum, cone.ray(q));
  return true;
}

bool make_ray(Cone<double>& cone, Pair pair, int64_t column, int64_t q) {
  intersect_zeros(cone, pair, q);
  const double *above = cone.ray(pair.above), *below = cone.ray(pair.below);
  double a = -below[column], b = above[column], largest = 0.0;
  for (int64_t t = 0; t < cone.k; t++) largest = std::max(largest, a * above[t] + b * below[t]);
  a /= largest, b /= largest;
  double error = (a + 1.0 / largest) * cone.E[pair.above] + (b + 1.0 / largest) * cone.E[pair.below] +
                 4.0 * 0x1p-52 * (a + b);
  double* ray = cone.ray(q);
  for (int64_t t = 0; t < cone.columns; t++) ray[t] = a * above[t] + b * below[t];
  if (!(error <= REFRESH)) error = refresh(cone, cone.zeros(q), ray);
  if (!(error >= 0.0)) return false;
  const double level = std::min(ZERO_LEVEL * error, MOST_ZERO);
  for (int64_t t = cone.k; t < cone.columns; t++)
    if (std::abs(ray[t]) <= level) ray[t] = 0.0;
  cone.E[q] = error;
  return true;
}

}  // namespace rayhull
