#include "actors/training/copies/staged_transfers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/loading_threads.hpp"
#include "core/threads/on_threads.hpp"

namespace pipetrain {
namespace {

// A thread of the host moves some 8 GB/s and a device fills pieces at 50, but steps need threads of the host too.
constexpr unsigned most_threads = 4;
constexpr std::size_t share_bytes = std::size_t{4} << 20;  // of a piece that one thread moves at a time

}  // namespace

// The parts that are left.
class StagedTransfers::Source {
 public:
  explicit Source(const std::vector<Part>& parts) : parts_(parts) { skip(); }
  bool ends() const { return next_ == parts_.size(); }
  const void* target() const { return static_cast<const std::byte*>(parts_[next_].target) + done_; }  // of the next part
  // Takes as much of the next part.
  Part take(std::size_t most) {
    const Part& part = parts_[next_];
    const std::size_t bytes = std::min(most, part.bytes - done_);
    const Part taken{static_cast<const std::byte*>(part.source) + done_, static_cast<std::byte*>(part.target) + done_, bytes};
    done_ += bytes;
    skip();
    return taken;
  }

 private:
  void skip() {
    for (; !ends() && done_ == parts_[next_].bytes; ++next_) done_ = 0;
  }

  const std::vector<Part>& parts_;
  std::size_t next_ = 0, done_ = 0;
};

std::size_t StagedTransfers::piece_bytes(std::size_t bytes) {
  return std::clamp(align_up(bytes), tensor_alignment, most_locked_bytes / 2);
}

StagedTransfers::StagedTransfers(Device& device, std::size_t bytes, std::shared_ptr<const LockedChunks> locked)
    : locked_(std::move(locked)),
      piece_bytes_(piece_bytes(bytes)),
      loading_threads_(loading_threads(device)),
      stream_(device.make_stream("snapshot")) {
  for (Piece& piece : pieces_) {
    piece.memory = device.allocate_host(piece_bytes_, "pieces of copies of a state");
    piece.moved = device.make_event();
  }
}

StagedTransfers::~StagedTransfers() {
  try {
    wait();
  } catch (...) {  // those who wait for the copies have it
  }
}

void StagedTransfers::read(std::vector<Part> parts, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    ++started_;
  }
  worker_.post([this, parts = std::move(parts), done = std::move(done)] {
    try {
      copy(parts);
      if (done) done();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    note(&StagedTransfers::ended_);
  });
}

void StagedTransfers::note(std::size_t StagedTransfers::*count) {
  const std::lock_guard lock(mutex_);
  ++(this->*count);
  changed_.notify_all();
}

void StagedTransfers::copy(const std::vector<Part>& parts) {
  Source source(parts);
  std::size_t next = 0;
  fill(pieces_[next], source);
  for (bool more = true; more; next = 1 - next) {
    more = !source.ends();
    if (more) fill(pieces_[1 - next], source);
    pieces_[next].moved->synchronize();
    if (const auto cause = stream_->failure()) std::rethrow_exception(cause);
    if (!more) note(&StagedTransfers::read_);
    empty(pieces_[next]);
  }
}

LockedChunks::Extent StagedTransfers::extent(const void* memory, std::size_t bytes) const {
  return locked_ ? locked_->extent(memory, bytes) : LockedChunks::Extent{bytes, false};
}

// Parts with locked targets count as well. So other streams' copies wait for two pieces at most, and when a process is killed,
// the device has nothing left to write long before another process goes on with the copies.
void StagedTransfers::fill(Piece& piece, Source& source) {
  piece.parts.clear();
  auto* const memory = static_cast<std::byte*>(piece.memory.data());
  for (std::size_t used = 0; used < piece_bytes_ && !source.ends();) {
    const LockedChunks::Extent target = extent(source.target(), piece_bytes_ - used);
    Part part = source.take(target.bytes);
    stream_->copy(target.is_locked ? part.target : memory + used, part.source, part.bytes);
    part.source = memory + used;
    used += part.bytes;
    if (!target.is_locked) piece.parts.push_back(part);
  }
  stream_->record(*piece.moved);
}

void StagedTransfers::empty(const Piece& piece) const {
  move_on_threads(std::min(most_threads, loading_threads_), piece.parts);
}

void StagedTransfers::move_on_threads(unsigned threads, const std::vector<Part>& parts) const {
  std::vector<Part> shares;
  Source source(parts);
  while (!source.ends()) shares.push_back(source.take(share_bytes));
  on_threads(threads, shares.size(), [&](std::size_t i) { std::memcpy(shares[i].target, shares[i].source, shares[i].bytes); });
}

void StagedTransfers::wait_until_read() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return read_ == started_ || ended_ == started_; });
}

void StagedTransfers::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ == started_; });
  if (failure_) std::rethrow_exception(failure_);
}

void StagedTransfers::write(void* target, const void* source, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(target);
  for (std::size_t next = 0; bytes > 0;) {
    const auto [count, is_locked] = extent(from, std::min(bytes, piece_bytes_));
    if (is_locked) {
      stream_->copy(to, from, count);
    } else {
      Piece& piece = pieces_[next];
      piece.moved->synchronize();
      move_on_threads(loading_threads_, {{from, piece.memory.data(), count}});
      stream_->copy(to, piece.memory.data(), count);
      stream_->record(*piece.moved);
      next = 1 - next;
    }
    from += count, to += count, bytes -= count;
  }
  stream_->synchronize();
}

}  // namespace pipetrain
