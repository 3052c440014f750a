#include "tail.hpp"

#include "coefficients.hpp"
#include "place.hpp"

#include <algorithm>

namespace rayhull::layer {

namespace {

// Every place of every kind for the samples start .. stop - 1, eight at a time: its coefficients are loaded and its points
// computed, then visit(block, place, at, fine) takes them; `fine` says which samples are certified.
template <class T, class Visit>
void each_place(const Program& program, const Given<T>& given, const GivenSides& sides, bool keeps, int64_t start,
                int64_t stop, Visit visit) {
  Memory memory;
  Coefficients<T> coefficients(program, given);
  for (int64_t kind = 0; kind < program.kinds; kind++) {
    const Block& block = program.blocks[kind];
    Place<T> place(program, block, memory, keeps);
    for (int64_t first = start; first < stop; first += LANES) {
      coefficients.see(first, std::min(LANES, stop - first));
      for (int64_t number = 0; number < block.count; number++) {
        At at{first, std::min(LANES, stop - first), block.start + number * block.coefficients, number,
              program.layout + block.places + number * block.size,
              block.signs < 0 ? 1.0 : program.numbers[block.signs + number], 0.0};
        at.marked = coefficients.load(at.column, block.coefficients, place.c);
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
    scatter_rows(place.out, block.size, x + at.first * dim, dim, at);
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
        const Lanes c = gather(given.rows + at.first * given.stride + at.column + i, given.stride, at.count);
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
