// Memory for one block of eight samples, cut into the arrays that the tail works on.
#pragma once

#include "products.hpp"
#include "tail.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>

namespace rayhull::layer {

// One piece for all kinds of blocks, one after another. What is in it is unknown until it is written.
class Memory {
 public:
  Lanes* of(int64_t size) {
    if (size > size_) data_.reset(new Lanes[size]), size_ = size;
    return data_.get();
  }

 private:
  std::unique_ptr<Lanes[]> data_;
  int64_t size_ = 0;
};

// n coordinates, m rows of the dual steps, r rays. A step that is left out copies nothing: its array is the one before.
struct Arrays {
  Lanes *c, *gc;                          // coefficients, their gradient
  Lanes *u, *y, *z, *x, *base, *out, *g;  // (n) along lines, rays, steps; before a clamp; closed, finished; the gradient
  Lanes *values, *weights, *gw;           // (r) of the rays, (n) of a closed form
  Lanes *last, *seen, *ga;                // (m) multipliers, right-hand sides, their gradient
  Lanes *low, *high, *glow, *ghigh;       // (n) bounds
  Lanes* scratch;                         // as long as any product

  Arrays(const Program& program, const Block& block, Memory& memory) {
    cut(block, memory);
    if (block.conic == NO_RAYS) y = u;
    if (block.step == NO_STEP && !block.equal_rank) z = y;
    if (block.scale == NO_SCALE && block.base < 0 && block.following.from == NO_SIDES) base = z;
    if (block.finish == NO_FINISH) out = base;
    state(program.numbers, block);
  }

 private:
  void cut(const Block& block, Memory& memory) {
    const int64_t n = block.size, m = block.step_rows, k = block.coefficients;
    const int64_t r = std::max(n, block.rays_count);
    const int64_t rows = std::max({block.shrink.rows, block.loose.rows, block.tight.rows, m, r});
    const int64_t ranks = std::max({block.rank, block.hull_rank, block.equal_rank, block.clean_rank});
    Lanes** arrays[] = {&c,       &gc,  &u,    &y,    &z,  &x,   &base, &out,  &g,     &values,
                        &weights, &gw,  &last, &seen, &ga, &low, &high, &glow, &ghigh, &scratch};
    const int64_t lengths[] = {k, k, n, n, n, n, n, n, n, r, r, r, m, m, m, n, n, n, n, std::max(rows, ranks)};
    int64_t total = 0;
    for (int64_t length : lengths) total += length;
    Lanes* next = memory.of(total);
    for (size_t i = 0; i < std::size(arrays); i++) *arrays[i] = next, next += lengths[i];
  }

  // Right-hand sides and bounds as the program states them.
  void state(const double* numbers, const Block& block) {
    constexpr double INFINITE = std::numeric_limits<double>::infinity();
    const int64_t n = block.size;
    fill(seen, block.step_rows, 0.0), fill(low, n, -INFINITE), fill(high, n, INFINITE);
    if (block.step == GRAM || block.step == POINTS) {
      for (int64_t i = 0; i < block.step_rows; i++) seen[i] = numbers[block.seen + i];
    }
    for (int64_t j = 0; j < (block.low < 0 ? 0 : n); j++) low[j] = numbers[block.low + j], high[j] = numbers[block.high + j];
  }
};

}  // namespace rayhull::layer
