// Where a long computation stands, for another thread to read; and when it has to stop.
#pragma once

#include <atomic>
#include <cstdint>

namespace rayhull {

// Shared with Python, which reads the first four at any time and writes `stop`.
struct Progress {
  int64_t row, rays, pairs, bytes;  // rows done with, rays, pairs of rays of this row, memory they need
  int64_t stop;
};

struct Budget {
  int64_t max_rays, max_pairs, max_bytes;
};

class Watch {
 public:
  Watch(Progress& progress, Budget budget) : progress_(progress), budget_(budget) {}

  // Tells where the computation stands; says whether to stop, because it was told to or a bound is passed.
  bool look(int64_t row, int64_t rays, int64_t pairs, int64_t bytes) {
    if (stopped()) return true;
    store(progress_.row, row), store(progress_.rays, rays), store(progress_.pairs, pairs), store(progress_.bytes, bytes);
    if (rays > budget_.max_rays || pairs > budget_.max_pairs || bytes > budget_.max_bytes) store(progress_.stop, 1);
    return stopped();
  }

  bool stopped() const { return std::atomic_ref<int64_t>(progress_.stop).load(std::memory_order_relaxed) != 0; }

 private:
  static void store(int64_t& place, int64_t value) {
    std::atomic_ref<int64_t>(place).store(value, std::memory_order_relaxed);
  }

  Progress& progress_;
  Budget budget_;
};

}  // namespace rayhull
