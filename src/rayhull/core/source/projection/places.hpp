// Where the blocks of one kind stand in the samples: coordinate j of block k is scale[k, j] x[index[k, j]]. Kernels read
// and write there, so that no copy of the samples is made.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lanes.hpp"
#include "tolerances.hpp"

namespace rayhull {

struct Places {
  int64_t width, count, size;  // coordinates of a sample; blocks in it; coordinates of a block
  const int32_t* index;        // (count, size)
  const double* scale;         // (count, size), or null for 1
  bool mirrored;               // the scale is 1 or -1
  const void* from;            // (n, width)
  void* to;                    // (n, width)
  bool single;                 // float instead of double
  int64_t run;                 // a block is made of runs of so many neighbours in the sample: a tile's rows, or all

  // Block s % count of sample s / count, as doubles.
  void read(int64_t s, double* v) const {
    single ? read_as(static_cast<const float*>(from), s, v) : read_as(static_cast<const double*>(from), s, v);
  }
  void write(int64_t s, const double* z) const {
    single ? write_as(static_cast<float*>(to), s, z) : write_as(static_cast<double*>(to), s, z);
  }

 private:
  const double* factors(int64_t s) const { return scale == nullptr ? nullptr : scale + s % count * size; }

  template <class Number>
  void read_as(const Number* samples, int64_t s, double* v) const {
    const Number* sample = samples + s / count * width;
    const int32_t* places = index + s % count * size;
    const double* factor = factors(s);
    for (int64_t j = 0; j < size; j += run) {
      const Number* from = sample + places[j];
      along_run([&](int64_t e) { store(v + j + e, factor ? load(factor + j + e) * load(from + e) : load(from + e)); },
                [&](int64_t e) { v[j + e] = factor ? factor[j + e] * from[e] : from[e]; });
    }
  }

  template <class Number>
  void write_as(Number* samples, int64_t s, const double* z) const {
    Number* sample = samples + s / count * width;
    const int32_t* places = index + s % count * size;
    const double* factor = factors(s);
    for (int64_t j = 0; j < size; j += run) {
      Number* to = sample + places[j];
      along_run([&](int64_t e) { store(to + e, factor ? unscaled(load(z + j + e), load(factor + j + e)) : load(z + j + e)); },
                [&](int64_t e) { to[e] = static_cast<Number>(factor ? unscaled(z[j + e], factor[j + e]) : z[j + e]); });
    }
  }

  // 1 or -1: a product is the quotient, and cheaper.
  template <class Value>
  Value unscaled(Value value, Value factor) const {
    return mirrored ? value * factor : value / factor;
  }

  // Four at a time, the last four over some of those before; a short run one by one.
  template <class Four, class One>
  void along_run(const Four& four, const One& one) const {
    if (run < WIDTH)
      for (int64_t e = 0; e < run; e++) one(e);
    else
      for (int64_t e = 0; e < run; e += WIDTH) four(std::min(e, run - WIDTH));
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

// The same of one block; blurred: its residual is more than rounding.
struct Answer {
  int64_t status = UNSOLVED;
  double residual = 0.0;
  int64_t steps = 0;
  bool blurred = false;
};

// Where a point is far from the set, its rounding shows in the rows that x meets, and more is asked.
inline bool is_blurred(double size, double far, double residual) { return !(residual <= (far > FAR * size ? SHARPER : SHARP)); }

// How many blocks are not solved, and how many are blurred.
struct Tally {
  int64_t open = 0, blurred = 0;

  void note(const Report& report, int64_t s, const Answer& found) {
    report.status[s] = found.status, report.residual[s] = found.residual, report.steps[s] = found.steps;
    open += found.status != SOLVED, blurred += found.blurred;
  }
};

}  // namespace rayhull
