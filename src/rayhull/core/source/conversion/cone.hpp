// The cone of the rows taken so far, as double description keeps it.
#pragma once

#include <cstdint>
#include <vector>

#include "bitset.hpp"

namespace rayhull {

struct Pair {
  int64_t above, below;
};

// Rays of {y >= 0, the taken rows of C y >= 0}. Number is int64_t (exact) or double (with an error for each ray).
template <class Number>
struct Cone {
  int64_t n, k;                // rows of C, coordinates
  std::vector<Number> C;       // (n, k); read for floats alone
  int64_t rays = 0;            // how many
  int64_t columns, stride;     // of S: k coordinates and the open rows; entries from one ray to the next
  std::vector<Number> S;       // (rays, stride): y, up to a scale, and the slacks of the open rows
  int64_t words;               // of a zero set
  std::vector<Word> Z;         // (rays, words): zeros among the coordinates and the taken rows
  std::vector<double> E;       // error of each ray, 0 if exact
  std::vector<int64_t> left;   // (columns): row of each open column; the first k are not used
  std::vector<int64_t> taken;  // (n): row of each bit from k on
  int64_t bits;                // coordinates and taken rows

  Number* ray(int64_t i) { return &S[i * stride]; }
  const Number* ray(int64_t i) const { return &S[i * stride]; }
  Word* zeros(int64_t i) { return &Z[i * words]; }
  const Word* zeros(int64_t i) const { return &Z[i * words]; }
  int64_t row() const { return n - (columns - k); }  // rows done with
  int64_t bytes(int64_t many) const { return 2 * many * 8 * (columns + words); }  // with the copies while a row is taken

  void make_room(int64_t many) { S.resize(many * stride), Z.resize(many * words), E.resize(many); }
};

}  // namespace rayhull
