#include "tail.hpp"

#include "gather.hpp"
#include "place.hpp"

#include <algorithm>
#include <limits>

namespace rayhull::layer {

namespace {

constexpr double NOT_A_NUMBER = std::numeric_limits<double>::quiet_NaN();

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
// computed, then visit(block, place, at, fine) takes them; `fine` says which samples are certified.
template <class T, class Visit>
void each_place(const Program& program, const Given<T>& given, const GivenSides& sides, bool keeps, int64_t start,
                int64_t stop, Visit visit) {
  Memory memory;
  for (int64_t kind = 0; kind < program.kinds; kind++) {
    const Block& block = program.blocks[kind];
    Place<T> place(program, block, memory, keeps);
    for (int64_t first = start; first < stop; first += LANES) {
      for (int64_t number = 0; number < block.count; number++) {
        At at{first, std::min(LANES, stop - first), block.start + number * block.coefficients, number,
              program.layout + block.places + number * block.size,
              block.signs < 0 ? 1.0 : program.numbers[block.signs + number], 0.0};
        at.marked = load(program, given, first, at.count, at.column, block.coefficients, place.c);
        const Mask certified = place.take(sides, at);
        at.marked += place.forward(at.count);
        visit(block, place, at, certified & place.proven());
      }
    }
  }
}

void add_certified(Mask fine, const At& at, bool* certified) {
  const Lanes yes = where(fine, 1.0, 0.0);
  for (int64_t lane = 0; lane < at.count; lane++) certified[at.first + lane] &= yes.get(lane) > 0.0;
}

}  // namespace

template <class T>
void tail_forward(const Program& program, const Given<T>& given, const GivenSides& sides, int64_t dim, T* x,
                  bool* certified, int64_t start, int64_t stop) {
  const auto visit = [&](const Block& block, Place<T>& place, const At& at, Mask fine) {
    for (int64_t j = 0; j < block.size; j++) {
      scatter(place.out[j] * at.sign + at.marked, x + at.first * dim + at.positions[j], dim, at.count);
    }
    if (certified) add_certified(fine, at, certified);
  };
  each_place(program, given, sides, false, start, stop, visit);
}

template <class T>
void tail_backward(const Program& program, const Given<T>& given, const GivenSides& sides, int64_t dim, const T* g,
                   int64_t width, T* grad, int64_t start, int64_t stop) {
  const auto visit = [&](const Block& block, Place<T>& place, const At& at, Mask) {
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
    place.give_back(sides, at);
  };
  each_place(program, given, sides, true, start, stop, visit);
}

template void tail_forward(const Program&, const Given<float>&, const GivenSides&, int64_t, float*, bool*, int64_t, int64_t);
template void tail_forward(const Program&, const Given<double>&, const GivenSides&, int64_t, double*, bool*, int64_t,
                           int64_t);
template void tail_backward(const Program&, const Given<float>&, const GivenSides&, int64_t, const float*, int64_t, float*,
                            int64_t, int64_t);
template void tail_backward(const Program&, const Given<double>&, const GivenSides&, int64_t, const double*, int64_t,
                            double*, int64_t, int64_t);

}  // namespace rayhull::layer
