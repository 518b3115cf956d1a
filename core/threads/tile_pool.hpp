// The helper threads of a CPU device: they share the tiles of one operation with the thread that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pipetrain {

class TilePool {
 public:
  // Throws std::system_error when this many threads cannot be started.
  explicit TilePool(int helpers);
  ~TilePool();
  TilePool(const TilePool&) = delete;
  TilePool& operator=(const TilePool&) = delete;

  // Returns the number of threads: the helpers and the thread that runs an operation.
  unsigned threads() const { return static_cast<unsigned>(helpers_.size()) + 1; }

  // Calls tile(i) for i in [0, tiles) on this thread and the helpers; returns when all have finished, throwing the
  // first exception of a tile. While another thread is inside, the caller runs its tiles alone.
  void run(std::int64_t tiles, const std::function<void(std::int64_t)>& tile);

 private:
  void help();
  void end_helpers();
  void work_on_tiles();

  // A job is open while bit 0 of state_ is set; the other bits count helpers inside it. A helper enters only an open
  // job, so a late one never touches a job that has ended.
  static constexpr std::uint32_t open = 1, one_helper = 2;
  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> next_{0};
  std::int64_t tiles_ = 0;
  const std::function<void(std::int64_t)>* tile_ = nullptr;
  std::mutex exception_mutex_;
  std::exception_ptr exception_;
  std::mutex submit_mutex_;
  std::vector<std::thread> helpers_;
};

}  // namespace pipetrain
