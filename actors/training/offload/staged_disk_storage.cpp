#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "actors/training/offload/any_bytes.hpp"
#include "actors/training/offload/offload_storage.hpp"
#include "core/host_gate.hpp"
#include "files/direct_file.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t pieces = 2, most_piece_bytes = std::size_t{32} << 20;

std::size_t piece_length(std::size_t transfer) {
  const std::size_t whole =
      (transfer + OffloadStorage::granularity - 1) / OffloadStorage::granularity * OffloadStorage::granularity;
  return std::min(whole, most_piece_bytes);
}

// A part of a fetch or of a store. Numbers count from 1 in the order of enqueueing, separately for fetches and stores.
struct Move {
  std::uint64_t number = 0;
  std::size_t begin = 0, bytes = 0;  // in the file
  char* memory = nullptr;            // host memory
  std::uint64_t after = 0;           // for a fetch: the store that must be on the disk first
  Stream* stream = nullptr;          // the stream that waits for it
};

// The stores of one file that are not on the disk yet, in their order.
class PendingStores {
 public:
  void add(const Move& store) { stores_.push_back(store); }
  void written() { stores_.pop_front(); }
  // Returns the number of the last store that overlaps these bytes; 0: none does.
  std::uint64_t last_of(std::size_t begin, std::size_t bytes) const {
    const auto found = std::find_if(stores_.rbegin(), stores_.rend(), [&](const Move& store) {
      return store.begin < begin + bytes && begin < store.begin + store.bytes;
    });
    return found == stores_.rend() ? 0 : found->number;
  }
  bool empty() const { return stores_.empty(); }

 private:
  std::deque<Move> stores_;
};

class StagedDiskStorage final : public OffloadStorage {
 public:
  StagedDiskStorage(Device& device, const std::filesystem::path& folder, const StorageBytes& bytes)
      : file_(folder, bytes.all),
        any_(file_),
        piece_(piece_length(bytes.transfer)),
        memory_(device.allocate_host(staging_bytes(bytes.transfer), "transfers to a disk")),
        fetched_(make_host_gate(device)),
        stored_(make_host_gate(device)) {
    reader_ = std::thread([this] { read_all(); });
    writer_ = std::thread([this] { write_all(); });
  }
  ~StagedDiskStorage() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    reader_.join();
    writer_.join();
  }

  void fetch(Stream& stream, std::size_t begin, void* memory, std::size_t bytes) override {
    in_pieces(bytes, [&](std::size_t done, std::size_t own) {
      const Move move = enqueue_read({++fetches_, begin + done, own, staging(0, fetches_), 0, &stream});
      fetched_->wait(stream, static_cast<std::uint32_t>(move.number));
      stream.copy(static_cast<char*>(memory) + done, move.memory, own);
      stream.host_callback([this] { note([this] { ++taken_; }); });
    });
  }

  void store(Stream& stream, std::size_t begin, const void* memory, std::size_t bytes) override {
    in_pieces(bytes, [&](std::size_t done, std::size_t own) {
      const Move move{++stores_, begin + done, own, staging(1, stores_), 0, &stream};
      note([&] { pending_.add(move); });
      if (move.number > pieces) stored_->wait(stream, static_cast<std::uint32_t>(move.number - pieces));
      stream.copy(move.memory, static_cast<const char*>(memory) + done, own);
      stream.host_callback([this, move] { note([&] { to_write_.push_back(move); }); });
    });
  }

  void read(std::size_t begin, void* target, std::size_t bytes) override {
    wait_until_written();
    any_.read(begin, target, bytes);
  }
  void write(std::size_t begin, const void* source, std::size_t bytes) override {
    wait_until_written();
    any_.write(begin, source, bytes);
  }

 private:
  template <class Each>
  void in_pieces(std::size_t bytes, const Each& each) const {
    for (std::size_t done = 0; done < bytes; done += piece_) each(done, std::min(piece_, bytes - done));
  }
  // direction: 0 fetches, 1 stores.
  char* staging(std::size_t direction, std::uint64_t number) const {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data()) + granularity - 1;
    return reinterpret_cast<char*>(at / granularity * granularity) + (direction * pieces + number % pieces) * piece_;
  }

  // Changes the state that the threads wait for, and wakes them.
  template <class Change>
  void note(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  Move enqueue_read(Move move) {
    note([&] {
      move.after = pending_.last_of(move.begin, move.bytes);
      to_read_.push_back(move);
    });
    return move;
  }

  // Waits until the queue's first move is `ready` and takes it. Returns false at the end.
  bool next(std::deque<Move>& queue, Move& move, const std::function<bool(const Move&)>& ready) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || (!queue.empty() && ready(queue.front())); });
    if (ends_) return false;
    move = queue.front();
    queue.pop_front();
    return true;
  }

  // A failure also releases those who wait; the run learns of it from the stream.
  template <class Io>
  void attempt(const Move& move, const Io& io) {
    try {
      io();
    } catch (...) {
      note([this] { failure_ = std::current_exception(); });
      move.stream->fail(std::current_exception());
    }
  }

  void read_all() {
    const auto ready = [this](const Move& move) { return move.number <= taken_ + pieces && move.after <= written_; };
    for (Move move; next(to_read_, move, ready);) {
      attempt(move, [&] { file_.read(move.begin, move.memory, move.bytes); });
      fetched_->open(static_cast<std::uint32_t>(move.number));
    }
  }

  void write_all() {
    for (Move move; next(to_write_, move, [](const Move&) { return true; });) {
      attempt(move, [&] { file_.write(move.begin, move.memory, move.bytes); });
      note([&] { pending_.written(), written_ = move.number; });
      stored_->open(static_cast<std::uint32_t>(move.number));
    }
  }

  // Called while the streams are idle.
  void wait_until_written() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return pending_.empty(); });
    if (failure_) std::rethrow_exception(failure_);
  }

  DirectFile file_;
  AnyBytes any_;
  std::size_t piece_;
  Buffer memory_;
  std::unique_ptr<HostGate> fetched_, stored_;
  std::uint64_t fetches_ = 0, stores_ = 0;  // enqueued

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Move> to_read_, to_write_;
  PendingStores pending_;
  std::uint64_t taken_ = 0, written_ = 0;  // fetches that have left host memory; stores that are on the disk
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread reader_, writer_;
};

}  // namespace

std::size_t staging_bytes(std::size_t transfer) { return 2 * pieces * piece_length(transfer) + OffloadStorage::granularity; }

std::unique_ptr<OffloadStorage> make_staged_disk_storage(Device& device, const std::filesystem::path& folder,
                                                         const StorageBytes& bytes) {
  return std::make_unique<StagedDiskStorage>(device, folder, bytes);
}

}  // namespace pipetrain
