// Rays as sums of edges, in lowest terms: what leads from slack coordinates back to x.
#pragma once

#include <cstdint>

namespace rayhull {

// out (rows, width) = weights (rows, many) times edges (many, width), each row divided by the greatest common divisor of
// its entries. Sums are kept in 128 bits: they carry the determinant of the edges, and the quotients are short again.
// False if a sum may pass 127 bits or a quotient passes 62.
bool primitive_product(const int64_t* weights, const int64_t* edges, int64_t rows, int64_t many, int64_t width,
                       int64_t* out);

}  // namespace rayhull
