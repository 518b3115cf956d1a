#include "core/threads/on_threads.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace pipetrain {

void on_threads(unsigned threads, std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(threads);  // may throw only before threads are started
  try {
    for (unsigned i = 1; i < std::min<std::size_t>(threads, count); ++i) others.emplace_back(run);
  } catch (const std::exception&) {  // no more threads, or no memory for one: the started ones do the work
  }
  run();
  for (auto& other : others) other.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pipetrain
