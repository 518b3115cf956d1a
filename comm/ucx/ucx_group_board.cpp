#include <utility>

#include "comm/ucx/ucx_group.hpp"

namespace pipetrain {

UcxGroupBoard::UcxGroupBoard(const std::vector<int>& members) {
  for (const int member : members) entries_[member];
}

template <class Ready>
void UcxGroupBoard::wait(std::unique_lock<std::mutex>& lock, Ready ready) {
  changed_.wait(lock, [&] { return cause_ || ready(); });
  if (cause_) std::rethrow_exception(cause_);
}

void UcxGroupBoard::bring(int member, const void* source, std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  entries_[member].source = source;
  entries_[member].brought = call;
  changed_.notify_all();
}

void UcxGroupBoard::add(int member, const void* result, std::uint64_t call) {
  const std::lock_guard lock(mutex_);
  entries_[member].result = result;
  entries_[member].added = call;
  changed_.notify_all();
}

void UcxGroupBoard::leave(int member, std::uint64_t call) {
  std::unique_lock lock(mutex_);
  entries_[member].left = call;
  changed_.notify_all();
  wait(lock, [&] {
    for (const auto& [other, entry] : entries_) {
      if (entry.left < call) return false;
    }
    return true;
  });
}

const void* UcxGroupBoard::source(int member, std::uint64_t call) {
  std::unique_lock lock(mutex_);
  const Entry& entry = entries_[member];
  wait(lock, [&] { return entry.brought >= call; });
  return entry.source;
}

const void* UcxGroupBoard::result(int member, std::uint64_t call) {
  std::unique_lock lock(mutex_);
  const Entry& entry = entries_[member];
  wait(lock, [&] { return entry.added >= call; });
  return entry.result;
}

void UcxGroupBoard::abort(std::exception_ptr cause) {
  const std::lock_guard lock(mutex_);
  if (!cause_) cause_ = std::move(cause);
  changed_.notify_all();
}

}  // namespace pipetrain
