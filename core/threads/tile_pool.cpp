#include "core/threads/tile_pool.hpp"

#include <chrono>
#include <utility>

namespace pipetrain {
namespace {

// Operations follow each other within microseconds. A helper that slept between them would have to be woken for each one.
constexpr auto spin_time = std::chrono::microseconds(20);

template <class Done>
bool spin_until(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace

TilePool::TilePool(int helpers) {
  helpers_.reserve(static_cast<std::size_t>(helpers));
  try {
    for (int i = 0; i < helpers; ++i) helpers_.emplace_back([this] { help(); });
  } catch (...) {  // no more threads; the started ones must end before they are destroyed
    end_helpers();
    throw;
  }
}

TilePool::~TilePool() { end_helpers(); }

void TilePool::end_helpers() {
  stop_ = true;
  generation_.fetch_add(1);
  generation_.notify_all();
  for (auto& helper : helpers_) helper.join();
}

void TilePool::run(std::int64_t tiles, const std::function<void(std::int64_t)>& tile) {
  std::unique_lock lock(submit_mutex_, std::defer_lock);
  if (tiles <= 1 || helpers_.empty() || !lock.try_lock()) {
    for (std::int64_t i = 0; i < tiles; ++i) tile(i);
    return;
  }
  tiles_ = tiles;
  tile_ = &tile;
  next_.store(0, std::memory_order_relaxed);
  state_.store(open);
  generation_.fetch_add(1);
  generation_.notify_all();

  work_on_tiles();
  std::uint32_t inside = state_.fetch_and(~open) & ~open;
  if (inside != 0 && !spin_until([this] { return state_.load() == 0; })) {
    for (inside = state_.load(); inside != 0; inside = state_.load()) state_.wait(inside);
  }
  if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
}

void TilePool::work_on_tiles() {
  for (std::int64_t i = next_.fetch_add(1); i < tiles_; i = next_.fetch_add(1)) {
    try {
      (*tile_)(i);
    } catch (...) {
      const std::lock_guard lock(exception_mutex_);
      if (!exception_) exception_ = std::current_exception();
    }
  }
}

void TilePool::help() {
  std::uint32_t seen = 0;
  for (;;) {
    if (!spin_until([&] { return generation_.load() != seen; })) generation_.wait(seen);
    seen = generation_.load();
    if (stop_) return;
    std::uint32_t state = state_.load();
    while ((state & open) != 0 && !state_.compare_exchange_weak(state, state + one_helper)) {
    }
    if ((state & open) == 0) continue;
    work_on_tiles();
    if (state_.fetch_sub(one_helper) == one_helper) state_.notify_all();
  }
}

}  // namespace pipetrain
