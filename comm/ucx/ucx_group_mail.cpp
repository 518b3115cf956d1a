#include "comm/ucx/ucx_group_mail.hpp"

#include <chrono>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// After an abort: how long messages in flight may take before the connections are cut.
constexpr std::chrono::seconds still_mail_limit{1};
// After a broken connection: how long to wait for the abort that follows from it.
constexpr std::chrono::seconds abort_limit{10};
// More than a part of any tensor has.
constexpr std::uint32_t most_pieces = 1 << 20;

}  // namespace

UcxGroupMail::UcxGroupMail(UcxWorker& worker, UcxPeers& peers, std::uint32_t number, std::vector<int> processes)
    : worker_(worker), peers_(peers), number_(number), processes_(std::move(processes)), calls_(processes_.size(), 0) {}

void UcxGroupMail::send(Batch& batch, UcxGroupHeader header, const void* data, std::size_t bytes) {
  header.group = number_;
  add(batch);
  worker_.post([this, &batch, header, data, bytes] {
    if (closed_) return finish(batch, false);
    const int to = process(static_cast<int>(header.to));
    ++moving_[to];
    peers_.send(to, {.message = UcxMessage::group_data,
                     .header = peers_.header(header),
                     .data = data,
                     .bytes = bytes,
                     .done = [this, &batch, to] {
                       --moving_[to];
                       finish(batch, true);
                     }});
  });
}

void UcxGroupMail::expect(Batch& batch, UcxGroupHeader header, const Target& target) {
  header.group = number_;
  add(batch);
  worker_.post([this, &batch, header, target] {
    if (closed_) return finish(batch, false);
    const auto kept = kept_.find(header);
    if (kept == kept_.end()) {
      expected_.emplace(header, Waiting{&batch, target});
      return;
    }
    UcxPayload payload = std::move(kept->second);
    kept_.erase(kept);
    if (payload.bytes() != target.bytes) {
      peers_.count_dropped();
      expected_.emplace(header, Waiting{&batch, target});
      return;
    }
    receive(process(static_cast<int>(header.from)), payload, {&batch, target});
  });
}

void UcxGroupMail::take(std::span<const std::byte> bytes, UcxPayload& payload) {
  const auto header = UcxGroupHeader::read(bytes);
  if (closed_ || !header || !may_come(*header)) return peers_.count_dropped();
  const auto waiting = expected_.find(*header);
  if (waiting == expected_.end()) {
    if (!kept_.try_emplace(*header, payload.keep()).second) peers_.count_dropped();
    return;
  }
  if (payload.bytes() != waiting->second.target.bytes) return peers_.count_dropped();
  const Waiting known = waiting->second;
  expected_.erase(waiting);
  receive(process(static_cast<int>(header->from)), payload, known);
}

// A member can be at most one call ahead of another one, because each call needs all members.
bool UcxGroupMail::may_come(const UcxGroupHeader& header) const {
  if (header.to >= processes_.size() || header.from >= processes_.size() || header.piece >= most_pieces) return false;
  const std::uint64_t done = calls_[header.to];
  return processes_[header.to] != processes_[header.from] && header.call > done && header.call - done <= 2;
}

void UcxGroupMail::receive(int from, UcxPayload& payload, const Waiting& waiting) {
  ++moving_[from];
  payload.receive(waiting.target.data, waiting.target.memory, [this, from, batch = waiting.batch](bool came) {
    --moving_[from];
    finish(*batch, came);
  });
}

void UcxGroupMail::add(Batch& batch) {
  const std::lock_guard lock(mutex_);
  ++batch.left_;
}

// The batch may be destroyed once the lock is released.
void UcxGroupMail::finish(Batch& batch, bool came) {
  const std::lock_guard lock(mutex_);
  if (!came) batch.failed_ = true;
  if (--batch.left_ == 0) changed_.notify_all();
}

void UcxGroupMail::wait(Batch& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cause_ || batch.left_ == 0; });
  if (!cause_ && !batch.failed_) return;
  // The abort that follows a lost process knows more of the cause than this object does.
  if (!changed_.wait_for(lock, abort_limit, [this] { return cause_ != nullptr; })) {
    give_up(std::make_exception_ptr(
        Error(ErrorKind::peer_lost, "a connection broke while ranks of different processes moved tensors")));
  }
  wait_after_abort(lock, batch);
  std::rethrow_exception(cause_);
}

void UcxGroupMail::settle(Batch& batch) noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return cause_ || batch.left_ == 0; });
  wait_after_abort(lock, batch);
}

void UcxGroupMail::wait_after_abort(std::unique_lock<std::mutex>& lock, const Batch& batch) {
  const auto done = [&] { return batch.left_ == 0; };
  if (changed_.wait_for(lock, still_mail_limit, done)) return;
  worker_.post([this] {
    for (const auto& [process, transfers] : moving_) {
      if (transfers > 0) peers_.cut(process);
    }
  });
  changed_.wait(lock, done);
}

void UcxGroupMail::finished(int member, std::uint64_t calls) {
  worker_.post([this, member, calls] { calls_[static_cast<std::size_t>(member)] = calls; });
}

void UcxGroupMail::abort(std::exception_ptr cause) {
  const std::lock_guard lock(mutex_);
  if (!cause_) give_up(std::move(cause));
}

void UcxGroupMail::give_up(std::exception_ptr cause) {
  cause_ = std::move(cause);
  changed_.notify_all();
  worker_.post([this] { close(); });
}

void UcxGroupMail::close() {
  closed_ = true;
  kept_.clear();
  for (const auto& [header, waiting] : std::exchange(expected_, {})) finish(*waiting.batch, false);
}

}  // namespace pipetrain
