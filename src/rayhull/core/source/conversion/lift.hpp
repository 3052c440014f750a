// Rays as sums of edges, in lowest terms: what leads from slack coordinates back to x.
#pragma once

#include <vector>

#include "wide.hpp"

namespace rayhull {

// out (rows, width) = weights (rows, many) times edges (many, width), each row divided by the greatest common divisor of
// its entries. Sums are kept in 128 bits: they carry the determinant of the edges, and the quotients are short again.
// False if a sum may pass 127 bits or a quotient passes 62.
inline bool primitive_product(const int64_t* weights, const int64_t* edges, int64_t rows, int64_t many, int64_t width,
                              int64_t* out) {
  if (bound_of(weights, rows * many) * bound_of(edges, many * width) * static_cast<double>(many) >= 0x1p126) return false;
  std::vector<Wide> sum(width);
  for (int64_t row = 0; row < rows; row++, weights += many, out += width) {
    std::fill(sum.begin(), sum.end(), Wide{0});
    for (int64_t e = 0; e < many; e++)
      for (int64_t t = 0; t < width && weights[e] != 0; t++) sum[t] += Wide{weights[e]} * edges[e * width + t];
    if (!write_primitive(width, [&](int64_t t) { return sum[t]; }, out)) return false;
  }
  return true;
}

}  // namespace rayhull
