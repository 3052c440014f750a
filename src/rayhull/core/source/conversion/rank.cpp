#include "rank.hpp"

#include <algorithm>

namespace rayhull {

int64_t independent_rows(const int64_t* A, int64_t m, int64_t k, int64_t prime, int64_t* rows, int64_t* columns) {
  const Modulus modulus(prime);
  Echelon echelon(prime, std::min(m, k), k);
  echelon.start(k);
  for (int64_t row = 0; row < m && echelon.rank() < k; row++) {
    for (int64_t c = 0; c < k; c++) echelon.next()[k - 1 - c] = modulus.residue(A[row * k + c]);  // the last comes first
    if (!echelon.take()) continue;
    rows[echelon.rank() - 1] = row;
    columns[echelon.rank() - 1] = k - 1 - echelon.pivot();
  }
  return echelon.rank();
}

}  // namespace rayhull
