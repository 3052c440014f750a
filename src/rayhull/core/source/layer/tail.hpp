// The layer's tail: what follows the Linear, coefficients -> points of the set, for small dense sets.
//
//   x = finish(x0 + t · approach(direction(c))),  t = scale of the closing
//
// nn/tail.py writes the constants of a layer into two arrays, a Program; the modules of nn/ are the definition. All but
// the dual steps of float32 layers is computed in float64, as strict margins need it, and rounded once at the end: sums
// may be fused (one rounding fewer), never left out.
#pragma once

#include <cstdint>

namespace rayhull::layer {

// The orders below are those of nn/tail.py.
enum Linear : int64_t { NO_LINES, COPY, DIAGONAL, MATRIX, WITHOUT, LINEARS };
// SHIFT: one row and bounds, see clipped_shift.hpp; CHAIN and CURVE: own increments, chain.hpp; ORDER: order.hpp;
// POOLED: pooling.hpp.
enum Conic : int64_t { NO_RAYS, OWN, ROWS, SHIFT, CHAIN, CURVE, ORDER, POOLED, CONICS };
enum Step : int64_t { NO_STEP, CLAMP, GRAM, POINTS, STEPS };
enum Scale : int64_t { NO_SCALE, SHRINK, STRICT_SHRINK, REACH, SCALES };
enum Finish : int64_t { NO_FINISH, INTERVAL, PULL, FINISHES };
enum Base : int64_t { NO_SIDES, STAYS, OF_SAMPLE, BASES };  // the base point, where sides come with the sample

// max_i (a_i·y - b_i) / h_i: rows over their slack, then bounds. Places in the numbers, -1 where there is none.
struct Gauge {
  int64_t rows, matrix, offset;                       // (rows, n), (rows)
  int64_t upper, lower, upper_offset, lower_offset;  // (n) each
};

// What sides of the sample need to know of a block: see sample.hpp. A slack vector has the block's stated rows, then its
// upper bounds, then its lower ones. Fields that end in _index are places in the layout.
struct Following {
  int64_t from;                                     // where the base point comes from: Base
  int64_t rows, columns_index;                      // stated rows of a place; their columns of b, (count, rows)
  int64_t rhs, at_base, matrix, sizes, steep;       // (rows) b as stated, a·x0; (rows, n) a, |a|; (rows) ‖a‖₁
  int64_t upper, lower;                             // (n) as stated, infinite where there is none; -1 without any
  int64_t step_index, step_units;                   // (step_rows) of the slack vector, -1 for none; 1 / length of the row
  int64_t gauge_index, gauge_slack;                 // (shrink.rows) of the rows; the slack that the gauge was divided by
  int64_t still, still_index;                       // how many entries of the slack vector nothing moves; which
  int64_t points, margins, proof;                   // coefficients stand for points; Margins of sample.hpp; (rows)
  int64_t leak_index;                               // (n) the block of each coordinate in the set; -1 for one block
};

// One kind of block, every field a number or a place among the numbers. memcpy'd from the layout: FIELDS of nn/tail.py.
struct Block {
  int64_t count, size, coefficients, start;  // of places; of coordinates; for one place; the first of them
  int64_t places, signs, base;               // event positions (count, size), in the layout; (count); (size)
  int64_t linear, columns, matrix, rank;     // coefficients along lines; their matrix, or an orthonormal basis of what to remove
  int64_t single;                            // float32 layers follow the lines in single precision: what follows closes it
  int64_t hull_rank, hull;                   // an orthonormal basis of the equalities (size, rank)
  int64_t conic, rays_count, function, rays, rows, slacks;  // SHIFT: the row, bounds (2, size), right-hand side and =;
                             // chains: increments, -, then lower, upper, level, unit and a curve's scale
  int64_t point;                             // added to what the lines give
  int64_t step, steps, step_rows, equalities, step_matrix, back, turn, seen, low, high, momenta, length;
  int64_t equal_rank, equal;                 // removed after the steps
  int64_t clean_rank, clean, origin;         // removed before the closing, seen from a point of the hull
  int64_t scale, scale_numbers;
  Gauge shrink;
  int64_t finish, finish_numbers, moving, apex, from, along;
  Gauge loose, tight;
  int64_t path_index;                        // coordinates of a chain in order; pairs (rays_count, 2) of an order
  Following following;
};

struct Program {
  const int64_t* layout;
  const double* numbers;
  const Block* blocks;
  int64_t kinds;
  bool strict;  // coefficients are cut at `largest`, and next to nothing is never taken for a direction
  double largest;
  double leak = 0.0;  // backwards: the share of the gradient that passes by the map, see leak.hpp
};

// A Linear in front of the tail: weight (coefficients, features), bias (coefficients).
template <class T>
struct Front {
  const T *weight, *bias;
  int64_t features;
  bool finite;  // every weight and bias
};

// Coefficients of n samples, `stride` from one to the next; or, with a Linear in front, its features. Where coefficients may
// overflow, those that are no number count as 0, and `marks`, if there are any, say which samples come out as not a number.
template <class T>
struct Given {
  const T* rows;
  int64_t stride;
  bool overflows;
  const double* marks;
  Front<T> front;  // no weight: none
};

// One side of n samples, `stride` (0: one for all) from one to the next; its gradient is contiguous (n, width).
struct Side {
  const void* data;
  int64_t stride, width;
  bool wide;  // float64, or float32
  void* gradient;
};

// What comes with the samples, in the order of the set's rows and coordinates; no data for what was not given.
struct GivenSides {
  Side base, b, lower, upper;
  bool any() const { return base.data || b.data || lower.data || upper.data; }
};

// Whether every place of a block lies in the arrays.
bool fits(const Block& block, const int64_t* layout, int64_t layout_size, int64_t numbers_size, int64_t coefficients,
          int64_t dim);
bool fits(const Following& following, const Block& block, const int64_t* layout, int64_t layout_size,
          int64_t numbers_size, int64_t b_width, bool strict);

// x (n, dim) for samples start .. stop - 1; with sides, certified (n): whether the base point has slack in every row.
template <class T>
void tail_forward(const Program& program, const Given<T>& given, const GivenSides& sides, int64_t dim, T* x,
                  bool* certified, int64_t start, int64_t stop);

// The gradient in c, contiguous (n, width), and those in the sides, for the gradient g in x (n, dim).
template <class T>
void tail_backward(const Program& program, const Given<T>& given, const GivenSides& sides, int64_t dim, const T* g,
                   int64_t width, T* grad, int64_t start, int64_t stop);

}  // namespace rayhull::layer
