// Where the blocks of one kind stand in the samples: coordinate j of block k is scale[k, j] x[index[k, j]]. Kernels read
// and write there, so that no copy of the samples is made.
#pragma once

#include <cstdint>

namespace rayhull {

struct Places {
  int64_t width, count, size;  // coordinates of a sample; blocks in it; coordinates of a block
  const int32_t* index;        // (count, size)
  const double* scale;         // (count, size), or null for 1
  bool mirrored;               // the scale is 1 or -1
  const void* from;            // (n, width)
  void* to;                    // (n, width)
  bool single;                 // float instead of double
  bool whole;                  // one block with all coordinates in their order

  // Block s % count of sample s / count, as doubles.
  void read(int64_t s, double* v) const {
    single ? read_as(static_cast<const float*>(from), s, v) : read_as(static_cast<const double*>(from), s, v);
  }
  void write(int64_t s, const double* z) const {
    single ? write_as(static_cast<float*>(to), s, z) : write_as(static_cast<double*>(to), s, z);
  }

 private:
  template <class Number>
  void read_as(const Number* samples, int64_t s, double* v) const {
    const Number* sample = samples + s / count * width;
    const int32_t* places = index + s % count * size;
    const double* factor = scale + s % count * size;
    if (scale != nullptr)
      for (int64_t j = 0; j < size; j++) v[j] = factor[j] * sample[places[j]];
    else if (whole)
      for (int64_t j = 0; j < size; j++) v[j] = sample[j];
    else
      for (int64_t j = 0; j < size; j++) v[j] = sample[places[j]];
  }

  template <class Number>
  void write_as(Number* samples, int64_t s, const double* z) const {
    Number* sample = samples + s / count * width;
    const int32_t* places = index + s % count * size;
    const double* factor = scale + s % count * size;
    if (scale != nullptr && mirrored)  // 1 or -1: a product is the quotient, and cheaper
      for (int64_t j = 0; j < size; j++) sample[places[j]] = static_cast<Number>(z[j] * factor[j]);
    else if (scale != nullptr)
      for (int64_t j = 0; j < size; j++) sample[places[j]] = static_cast<Number>(z[j] / factor[j]);
    else if (whole)
      for (int64_t j = 0; j < size; j++) sample[j] = static_cast<Number>(z[j]);
    else
      for (int64_t j = 0; j < size; j++) sample[places[j]] = static_cast<Number>(z[j]);
  }
};

// A right-hand side or bound of each block: one row for all (stride 0), or one for each.
struct Side {
  const double* data;
  int64_t stride;

  const double* of(int64_t s) const { return data + s * stride; }
};

// Does a lower bound stand above its upper bound?
inline bool is_crossed(const double* lower, const double* upper, int64_t size) {
  bool crossed = false;
  for (int64_t j = 0; j < size; j++) crossed |= lower[j] > upper[j];
  return crossed;
}

// What a kernel says of each block.
struct Report {
  double* residual;
  int64_t *steps, *status;
};

}  // namespace rayhull
