#include "comm/cuda/cuda_pieces.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/cuda_stream.hpp"
#include "core/event.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t calls_in_flight = 2;

}  // namespace

// Calls are counted from 1. Whatever a rank posts for call n may be overwritten at its call n + 2: by then every peer has left
// call n, because a rank leaves a call only when all peers have issued what they do in it.
class PieceMeeting {
 public:
  // One rank's half of a call: written by it before it counts up, read by its peers.
  struct Post {
    char* target = nullptr;                       // of the tensor that the peers write their pieces into
    std::unique_ptr<Event> begun;                 // that tensor is free, and in a gather this rank's shard is there
    std::vector<std::unique_ptr<Event>> arrived;  // by step: this rank's piece has reached the peer of the step
  };
  struct Rank {
    std::array<Post, calls_in_flight> posts;
    alignas(64) std::atomic<std::uint64_t> begun{0};  // calls whose target and first event are posted
    alignas(64) std::atomic<std::uint64_t> sent{0};   // calls whose pieces' events are recorded
  };

  explicit PieceMeeting(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Post& post(int rank, std::uint64_t call) { return this->rank(rank).posts[call % calls_in_flight]; }

  // Waits until the count reaches `call`; false after an abort. The peers are threads that do the same work, so they are near.
  bool wait(const std::atomic<std::uint64_t>& count, std::uint64_t call) const {
    constexpr int patience = 4096;
    for (int spins = 0; count.load(std::memory_order_acquire) < call; ++spins) {
      if (aborted_.load(std::memory_order_relaxed)) return false;
      if (spins > patience) std::this_thread::yield();
    }
    return true;
  }

  void abort(const std::exception_ptr& cause) {
    const std::lock_guard lock(mutex_);
    if (!cause_) cause_ = cause;
    aborted_ = true;
  }
  std::exception_ptr cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }

 private:
  std::vector<Rank> ranks_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::exception_ptr cause_;
};

std::shared_ptr<PieceMeeting> make_piece_meeting(int ranks) { return std::make_shared<PieceMeeting>(ranks); }

void abort(PieceMeeting& meeting, const std::exception_ptr& cause) { meeting.abort(cause); }

namespace {

// In step k a rank sends to rank + k, so that no two send to the same one at a time.
class CudaPieces final : public PiecewiseTransfer {
 public:
  CudaPieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device)
      : meeting_(std::move(meeting)), rank_(rank), size_(meeting_->size()), copies_(device, "copies to ranks") {
    for (auto& post : meeting_->rank(rank).posts) {
      post.begun = device.make_event();
      for (int step = 1; step < size_; ++step) post.arrived.push_back(device.make_event());
    }
    for (int step = 1; step < size_; ++step) made_.push_back(device.make_event());
    sent_ = device.make_event();
  }

  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use) override {
    const Tensor own_rows = full.row_range(rows.begin(rank_), rows.end(rank_));
    begin_call(stream, full.data);
    copies_.wait(*own().begun);
    use(rows.begin(rank_), rows.end(rank_));
    for (int step = 1; step < size_; ++step) {
      if (!send(stream, step, shard, full.row_range(0, rows.begin(rank_)).bytes())) return;
    }
    copies_.copy(own_rows.data, shard.data, shard.bytes());  // nothing where they are the same memory
    end_sending();
    for (int step = 1; step < size_; ++step) {
      const int source = from(step);
      if (!wait_for_piece(stream, step)) return;
      use(rows.begin(source), rows.end(source));
    }
    end_call(stream);
  }

  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                const std::function<void()>& meanwhile) override {
    const RowSplit rows(full.rows(), size_);
    begin_call(stream, received.data);
    for (int step = 1; step < size_; ++step) {
      make(rows.begin(to(step)), rows.end(to(step)));
      stream.record(made(step));
    }
    make(rows.begin(rank_), rows.end(rank_));
    for (int step = 1; step < size_; ++step) {
      const Tensor piece = full.row_range(rows.begin(to(step)), rows.end(to(step)));
      copies_.wait(made(step));
      if (!send(stream, step, piece, static_cast<std::size_t>(rank_) * piece.bytes())) return;
    }
    end_sending();
    if (meanwhile) meanwhile();
    for (int step = 1; step < size_; ++step) {
      if (!wait_for_piece(stream, step)) return;
    }
    end_call(stream);
  }

  void wait_until_idle() noexcept override {
    try {
      copies_.synchronize();
    } catch (...) {  // the compute stream has failed with it
    }
  }

 private:
  std::shared_ptr<PieceMeeting> meeting_;
  int rank_, size_;
  std::uint64_t call_ = 0;
  CudaStream copies_;
  std::vector<std::unique_ptr<Event>> made_;  // by step
  std::unique_ptr<Event> sent_;

  int to(int step) const { return (rank_ + step) % size_; }
  int from(int step) const { return (rank_ - step + size_) % size_; }
  PieceMeeting::Post& own() { return meeting_->post(rank_, call_); }
  Event& made(int step) { return *made_[static_cast<std::size_t>(step - 1)]; }
  static Event& arrived(const PieceMeeting::Post& post, int step) { return *post.arrived[static_cast<std::size_t>(step - 1)]; }

  void publish(std::atomic<std::uint64_t>& count) { count.store(call_, std::memory_order_release); }
  bool meet(Stream& stream, const std::atomic<std::uint64_t>& count) {
    if (meeting_->wait(count, call_)) return true;
    stream.fail(meeting_->cause());
    return false;
  }

  void begin_call(Stream& stream, void* target) {
    ++call_;
    own().target = static_cast<char*>(target);
    stream.record(*own().begun);
    publish(meeting_->rank(rank_).begun);
  }

  // The piece into the peer's target, at that many bytes.
  bool send(Stream& stream, int step, const Tensor& piece, std::size_t offset) {
    if (!meet(stream, meeting_->rank(to(step)).begun)) return false;
    const PieceMeeting::Post& peer = meeting_->post(to(step), call_);
    copies_.wait(*peer.begun);
    copies_.copy(peer.target + offset, piece.data, piece.bytes());
    copies_.record(arrived(own(), step));
    return true;
  }

  void end_sending() {
    copies_.record(*sent_);
    publish(meeting_->rank(rank_).sent);
  }

  bool wait_for_piece(Stream& stream, int step) {
    if (!meet(stream, meeting_->rank(from(step)).sent)) return false;
    stream.wait(arrived(meeting_->post(from(step), call_), step));
    return true;
  }

  // What this rank sent may be overwritten from here on.
  void end_call(Stream& stream) {
    stream.wait(*sent_);
    if (!copies_.begin()) stream.fail(copies_.failure());
  }
};

}  // namespace

std::unique_ptr<PiecewiseTransfer> make_cuda_pieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device) {
  return std::make_unique<CudaPieces>(std::move(meeting), rank, device);
}

}  // namespace pipetrain
