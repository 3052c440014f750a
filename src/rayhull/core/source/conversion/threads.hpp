// Tasks over threads: each takes the next number until there is none.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace rayhull {

// run(task, worker) for task = 0 .. tasks - 1. The calling thread is worker 0 and takes its share, so it may look at the
// clock. What a worker throws is thrown here.
template <class F>
void run_tasks(int64_t tasks, int threads, const F& run) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&](int worker) {
    try {
      for (int64_t task; (task = next++) < tasks;) run(task, worker);
    } catch (...) {
      next = tasks;
      const std::lock_guard<std::mutex> guard(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (int worker = 1; worker < threads && worker < tasks; worker++) others.emplace_back(work, worker);
  } catch (const std::system_error&) {
    // no more threads to be had: those there are do the work
  }
  work(0);
  for (std::thread& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace rayhull
