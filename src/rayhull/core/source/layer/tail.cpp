#include "tail.hpp"

#include "place.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace rayhull::layer {

namespace {

constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

// Number `column` of eight samples, `stride` apart; 0 for samples that there are not. Moved first and widened together:
// one conversion for all lanes in place of eight.
template <class T>
Lanes gather(const T* from, int64_t stride, int64_t count) {
  T near[LANES] = {};
  if (count == LANES) {
    for (int64_t lane = 0; lane < LANES; lane++) near[lane] = from[lane * stride];
  } else {
    for (int64_t lane = 0; lane < count; lane++) near[lane] = from[lane * stride];
  }
  double values[LANES];
  for (int64_t lane = 0; lane < LANES; lane++) values[lane] = double(near[lane]);
  Lanes found;
  std::memcpy(&found, values, sizeof found);
  return found;
}

template <class T>
void scatter(Lanes lanes, T* to, int64_t stride, int64_t count) {
  double values[LANES];
  std::memcpy(values, &lanes, sizeof values);
  T near[LANES];
  for (int64_t lane = 0; lane < LANES; lane++) near[lane] = T(values[lane]);
  if (count == LANES) {
    for (int64_t lane = 0; lane < LANES; lane++) to[lane * stride] = near[lane];
  } else {
    for (int64_t lane = 0; lane < count; lane++) to[lane * stride] = near[lane];
  }
}

// The coefficients of one place for eight samples; returns 0, or not a number where one is none.
template <class T>
Lanes load(const Program& program, const Given<T>& given, int64_t first, int64_t count, int64_t column, int64_t k,
           Lanes* c) {
  Lanes marked = given.marks ? gather(given.marks + first, 1, count) : Lanes(0.0);
  const T* rows = given.c + first * given.stride + column;
  for (int64_t i = 0; i < k; i++) {
    Lanes value = gather(rows + i, given.stride, count);
    if (given.overflows) value = where(value <= value, value, 0.0);
    if (program.strict) value = min(max(value, -program.largest), program.largest);
    c[i] = value;
    marked += where(value <= value, 0.0, NOT_A_NUMBER);
  }
  return marked;
}

// Every place of every kind for the samples start .. stop - 1, eight at a time: its coefficients are loaded and its points
// computed, then visit(block, place, at) takes them.
struct At {
  int64_t first, count;      // of the samples
  int64_t column;            // of the place's first coefficient
  const int64_t* positions;  // of its coordinates in the event
  double sign;
  Lanes marked;  // 0, or not a number for samples that have no answer
};

template <class T, class Visit>
void each_place(const Program& program, const Given<T>& given, int64_t start, int64_t stop, Visit visit) {
  Memory memory;
  for (int64_t kind = 0; kind < program.kinds; kind++) {
    const Block& block = program.blocks[kind];
    Place place(program, block, memory);
    for (int64_t first = start; first < stop; first += LANES) {
      for (int64_t number = 0; number < block.count; number++) {
        At at{first, std::min(LANES, stop - first), block.start + number * block.coefficients,
              program.layout + block.places + number * block.size,
              block.signs < 0 ? 1.0 : program.numbers[block.signs + number], 0.0};
        at.marked = load(program, given, first, at.count, at.column, block.coefficients, place.c);
        at.marked += place.forward();
        visit(block, place, at);
      }
    }
  }
}

}  // namespace

template <class T>
void tail_forward(const Program& program, const Given<T>& given, int64_t dim, T* x, int64_t start, int64_t stop) {
  each_place(program, given, start, stop, [&](const Block& block, Place& place, const At& at) {
    for (int64_t j = 0; j < block.size; j++) {
      scatter(place.out[j] * at.sign + at.marked, x + at.first * dim + at.positions[j], dim, at.count);
    }
  });
}

template <class T>
void tail_backward(const Program& program, const Given<T>& given, int64_t dim, const T* g, int64_t width, T* grad,
                   int64_t start, int64_t stop) {
  each_place(program, given, start, stop, [&](const Block& block, Place& place, const At& at) {
    for (int64_t j = 0; j < block.size; j++) {
      place.g[j] = gather(g + at.first * dim + at.positions[j], dim, at.count) * at.sign;
    }
    place.backward();
    for (int64_t i = 0; i < block.coefficients; i++) {
      Lanes value = place.gc[i] + at.marked;
      if (program.strict) {  // nothing is learnt beyond the cut
        const Lanes c = gather(given.c + at.first * given.stride + at.column + i, given.stride, at.count);
        value = where(abs(c) <= program.largest, value, 0.0);
      }
      scatter(value, grad + at.first * width + at.column + i, width, at.count);
    }
  });
}

template void tail_forward(const Program&, const Given<float>&, int64_t, float*, int64_t, int64_t);
template void tail_forward(const Program&, const Given<double>&, int64_t, double*, int64_t, int64_t);
template void tail_backward(const Program&, const Given<float>&, int64_t, const float*, int64_t, float*, int64_t, int64_t);
template void tail_backward(const Program&, const Given<double>&, int64_t, const double*, int64_t, double*, int64_t,
                            int64_t);

}  // namespace rayhull::layer
