// A program comes from outside: whether every place that it names lies in its arrays.
#include "functions.hpp"
#include "tail.hpp"

namespace rayhull::layer {

bool fits(const Block& b, const int64_t* layout, int64_t layout_size, int64_t numbers_size, int64_t coefficients,
          int64_t dim) {
  constexpr int64_t most = int64_t(1) << 24;
  const int64_t counts[] = {b.count, b.size, b.coefficients, b.start, b.columns, b.rank, b.hull_rank, b.rays_count,
                            b.steps, b.step_rows, b.equalities, b.equal_rank, b.clean_rank, b.shrink.rows, b.loose.rows,
                            b.tight.rows};
  for (int64_t count : counts) {
    if (count < 0 || count > most) return false;
  }
  const int64_t n = b.size, m = b.step_rows, r = b.rays_count;
  const auto in = [&](int64_t place, int64_t length) { return place >= 0 && place <= numbers_size - length; };
  const auto may = [&](bool needed, int64_t place, int64_t length) { return !needed || in(place, length); };
  const auto gauge = [&](const Gauge& g, bool needed) {
    if (!needed) return g.rows == 0 && g.upper < 0;
    return may(g.rows, g.matrix, g.rows * n) && may(g.offset >= 0, g.offset, g.rows) && may(g.upper >= 0, g.upper, n) &&
           may(g.upper >= 0, g.lower, n) && may(g.upper_offset >= 0, g.upper_offset, n) &&
           may(g.lower_offset >= 0, g.lower_offset, n) && (g.rows > 0 || g.upper >= 0);
  };
  if (n < 1 || b.places < 0 || b.places > layout_size - b.count * n) return false;
  for (int64_t i = 0; i < b.count * n; i++) {
    if (layout[b.places + i] < 0 || layout[b.places + i] >= dim) return false;
  }
  const bool lines = b.linear >= 0 && b.linear < LINEARS && (b.linear == NO_LINES || b.linear == MATRIX || b.columns == n) &&
                     (b.linear != NO_LINES || b.columns == 0) && may(b.linear == DIAGONAL, b.matrix, n) &&
                     may(b.linear == MATRIX, b.matrix, b.columns * n) && may(b.linear == WITHOUT, b.matrix, n * b.rank) &&
                     (b.linear == WITHOUT || b.rank == 0);
  const bool own_chain = b.conic == CHAIN || b.conic == CURVE;
  const int64_t links = b.conic == CURVE ? n - 1 : n;  // of a chain
  const bool increments = !own_chain || (links > 1 && r == n && b.linear == NO_LINES && in(b.rays, links - 1) &&
                                         in(b.slacks, b.conic == CURVE ? 5 : 4));
  bool path = may(b.conic == ORDER, b.slacks, 2);
  const int64_t entries = own_chain || b.conic == POOLED ? links : b.conic == ORDER ? 2 * r : 0;
  path &= entries == 0 || (b.path_index >= 0 && b.path_index <= layout_size - entries);
  for (int64_t i = 0; path && i < entries; i++) {
    path = layout[b.path_index + i] >= 0 && layout[b.path_index + i] < links;
  }
  const bool rays = b.conic >= 0 && b.conic < CONICS && b.function >= 0 && b.function < FUNCTIONS &&
                    may(b.conic == OWN || b.conic == ROWS, b.rays, r * n) && may(b.conic == ROWS, b.rows, r * n) &&
                    may(b.conic == SHIFT, b.rays, n) && may(b.conic == SHIFT, b.rows, 2 * n) &&
                    may(b.conic == SHIFT, b.slacks, 2) && ((b.conic != SHIFT && b.conic != POOLED) || r == n) &&
                    may(b.conic == ROWS && b.slacks >= 0, b.slacks, r) && increments && path && (b.function != SOFTMAX || (b.conic == OWN && r > 0)) &&
                    b.coefficients == b.columns + (b.conic == OWN || own_chain ? r : 0) && (b.conic != NO_RAYS || r == 0);
  const bool dual = b.step == GRAM || b.step == POINTS;
  const bool clamps = b.step == CLAMP || (b.step == POINTS && b.low >= 0);
  const bool steps = b.step >= 0 && b.step < STEPS && b.equalities <= m && may(dual, b.step_matrix, m * n) &&
                     may(dual, b.back, m * n) && may(b.step == GRAM, b.turn, m * m) && may(dual, b.seen, m) &&
                     may(dual, b.length, 1) && may(dual, b.momenta, b.steps) && may(clamps, b.low, n) &&
                     may(clamps, b.high, n) && (clamps || b.low < 0) && (dual || (m == 0 && b.steps == 0));
  const int64_t scale_numbers[] = {0, 0, 3, 1}, finish_numbers[] = {0, 2, 7};
  const bool closing = b.scale >= 0 && b.scale < SCALES && in(b.scale_numbers, scale_numbers[b.scale]) &&
                       gauge(b.shrink, b.scale == SHRINK || b.scale == STRICT_SHRINK) && may(b.base >= 0, b.base, n);
  const bool finish = b.finish >= 0 && b.finish < FINISHES && in(b.finish_numbers, finish_numbers[b.finish]) &&
                      (b.finish != INTERVAL || n == 1) &&
                      may(b.finish == PULL, b.from, n) && may(b.finish == PULL, b.along, n) &&
                      gauge(b.loose, b.loose.rows > 0 || b.loose.upper >= 0) &&
                      gauge(b.tight, b.tight.rows > 0 || b.tight.upper >= 0);
  return lines && rays && steps && closing && finish && may(b.signs >= 0, b.signs, b.count) &&
         may(b.point >= 0, b.point, n) && may(b.hull_rank, b.hull, n * b.hull_rank) && may(b.equal_rank, b.equal, n * b.equal_rank) &&
         may(b.clean_rank, b.clean, n * b.clean_rank) && may(b.clean_rank, b.origin, n) &&
         b.start + b.count * b.coefficients <= coefficients;
}

bool fits(const Following& f, const Block& b, const int64_t* layout, int64_t layout_size, int64_t numbers_size,
          int64_t b_width, bool strict) {
  if (f.from == NO_SIDES) return true;
  constexpr int64_t most = int64_t(1) << 24;
  const bool of_sample = f.from == OF_SAMPLE;
  if (f.from < 0 || f.from >= BASES || f.rows < 0 || f.rows > most || f.still < 0 || f.still > most) return false;
  const int64_t n = b.size, all = f.rows + 2 * n;
  const auto in = [&](int64_t place, int64_t length) { return place >= 0 && place <= numbers_size - length; };
  const auto indices = [&](int64_t place, int64_t length, int64_t least, int64_t end) {
    if (place < 0 || place > layout_size - length) return false;
    for (int64_t i = 0; i < length; i++) {
      if (layout[place + i] < least || layout[place + i] >= end) return false;
    }
    return true;
  };
  const bool rows = in(f.rhs, f.rows) && indices(f.columns_index, b.count * f.rows, 0, b_width) &&
                    (of_sample ? in(f.matrix, f.rows * n) && in(f.sizes, f.rows * n) : in(f.at_base, f.rows));
  const bool bounds = (f.upper < 0 || in(f.upper, n)) && (f.lower < 0 || in(f.lower, n)) && (f.upper < 0) == (f.lower < 0);
  const bool maps = indices(f.step_index, b.step_rows, -1, all) && in(f.step_units, b.step_rows) &&
                    indices(f.gauge_index, b.shrink.rows, 0, f.rows) && in(f.gauge_slack, b.shrink.rows) &&
                    indices(f.still_index, f.still, 0, all) && in(f.margins, 4) &&
                    (f.leak_index == -1 || indices(f.leak_index, n, 0, n)) && (!f.points || in(b.point, n));
  const bool kinds = (b.scale == SHRINK || b.scale == NO_SCALE) && b.finish == NO_FINISH && b.conic == NO_RAYS && b.clean_rank == 0;
  const bool proofs = !strict || (of_sample && in(f.steep, f.rows) && in(f.proof, f.rows));
  return rows && bounds && maps && proofs && (!of_sample || kinds);
}

}  // namespace rayhull::layer
