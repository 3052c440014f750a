#include "lift.hpp"

#include <vector>

#include "wide.hpp"

namespace rayhull {
namespace {

// Writes sum / g, g the greatest common divisor of its entries; false if an entry passes 62 bits.
bool write_primitive(const std::vector<Wide>& sum, int64_t* out) {
  const UnsignedWide g = content(static_cast<int64_t>(sum.size()), [&](int64_t t) { return sum[t]; });
  if (g >= UnsignedWide{LIMIT}) return false;
  const ExactDivisor divisor(g == 0 ? 1 : static_cast<uint64_t>(g));
  for (size_t t = 0; t < sum.size(); t++)
    if (!divisor.divides(sum[t], out[t])) return false;
  return true;
}

}  // namespace

bool primitive_product(const int64_t* weights, const int64_t* edges, int64_t rows, int64_t many, int64_t width,
                       int64_t* out) {
  if (bound_of(weights, rows * many) * bound_of(edges, many * width) * static_cast<double>(many) >= 0x1p126) return false;
  std::vector<Wide> sum(width);
  for (int64_t row = 0; row < rows; row++, weights += many, out += width) {
    std::fill(sum.begin(), sum.end(), Wide{0});
    for (int64_t e = 0; e < many; e++)
      for (int64_t t = 0; t < width && weights[e] != 0; t++) sum[t] += Wide{weights[e]} * edges[e * width + t];
    if (!write_primitive(sum, out)) return false;
  }
  return true;
}

}  // namespace rayhull
