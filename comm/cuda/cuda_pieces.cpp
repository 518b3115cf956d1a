#include "comm/cuda/cuda_pieces.hpp"

#include <array>
#include <utility>

#include "comm/cuda/piece_meeting.hpp"
#include "core/cuda/cuda_stream.hpp"
#include "core/event.hpp"

namespace pipetrain {
namespace {

// In step k a rank sends to rank + k, so no two ranks send to the same one at a time. Two calls may run at once: one,
// and the one that its `meanwhile` makes. So each uses its own number after that.
class PeerCopies final : public CudaPieces {
 public:
  PeerCopies(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device)
      : meeting_(std::move(meeting)), rank_(rank), size_(meeting_->size()), copies_(device, "copies to ranks") {
    for (int step = 1; step < size_; ++step) made_.push_back(device.make_event());
    for (auto& sent : sent_) sent = device.make_event();
  }

  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use,
              const std::function<void()>& meanwhile) override {
    const Tensor own_rows = full.row_range(rows.begin(rank_), rows.end(rank_));
    const std::uint64_t call = ++calls_;
    if (!begin_call(call, stream, full)) return;
    copies_.wait(meeting_->event(rank_, call, 0));
    use(rows.begin(rank_), rows.end(rank_));
    for (int step = 1; step < size_; ++step) {
      if (!send(call, stream, step, shard, full.row_range(0, rows.begin(rank_)).bytes())) return;
    }
    copies_.copy(own_rows.data, shard.data, shard.bytes());  // does nothing where both are the same memory
    end_sending(call);
    if (meanwhile) meanwhile();
    for (int step = 1; step < size_; ++step) {
      const int source = from(step);
      if (!wait_for_piece(call, stream, step)) return;
      use(rows.begin(source), rows.end(source));
    }
    end_call(call, stream);
  }

  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const Work& make,
                const std::function<void()>& meanwhile) override {
    const RowSplit rows(full.rows(), size_);
    const std::uint64_t call = ++calls_;
    if (!begin_call(call, stream, received)) return;
    for (int step = 1; step < size_; ++step) {
      make(rows.begin(to(step)), rows.end(to(step)));
      stream.record(made(step));
    }
    make(rows.begin(rank_), rows.end(rank_));
    for (int step = 1; step < size_; ++step) {
      const Tensor piece = full.row_range(rows.begin(to(step)), rows.end(to(step)));
      copies_.wait(made(step));
      if (!send(call, stream, step, piece, static_cast<std::size_t>(rank_) * piece.bytes())) return;
    }
    end_sending(call);
    if (meanwhile) meanwhile();
    for (int step = 1; step < size_; ++step) {
      if (!wait_for_piece(call, stream, step)) return;
    }
    end_call(call, stream);
  }

  // This waits until all ranks have begun the same call, so when a third call begins, all have ended the first.
  void shift(Stream& stream, const Tensor& source, const Tensor& target) override {
    if (size_ == 1) return stream.copy(target.data, source.data, source.bytes());
    const std::uint64_t call = ++calls_;
    if (!begin_call(call, stream, target)) return;
    for (int step = 1; step < size_; ++step) {
      if (!meet(call, stream, meeting_->posts(to(step)).begun)) return;
    }
    const int next = to(1);
    wait_for_event(call, stream, next, 0);
    stream.copy(meeting_->reach(next, meeting_->post(next, call).target), source.data, source.bytes());
    post_event(call, stream, 1);
    meeting_->posts(rank_).sent.store(call, std::memory_order_release);
    static_cast<void>(wait_for_piece(call, stream, 1));
  }

  void together(Stream& stream, const std::function<void()>& enqueue) override {
    if (size_ == 1) return enqueue();
    const std::uint64_t call = ++calls_;
    post_event(call, stream, 0);
    meeting_->posts(rank_).begun.store(call, std::memory_order_release);
    for (int step = 1; step < size_; ++step) {
      if (!meet(call, stream, meeting_->posts(from(step)).begun)) return;
      wait_for_event(call, stream, from(step), 0);
    }
    if (!cuda_stream(stream).begin()) return;  // it failed in between, and may not have waited for all
    enqueue();
    post_event(call, stream, 1);
    meeting_->posts(rank_).sent.store(call, std::memory_order_release);
    for (int step = 1; step < size_; ++step) {
      if (!meet(call, stream, meeting_->posts(from(step)).sent)) return;
      wait_for_event(call, stream, from(step), 1);
    }
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
  std::uint64_t calls_ = 0;  // begun
  CudaStream copies_;
  std::vector<std::unique_ptr<Event>> made_;  // by step
  std::array<std::unique_ptr<Event>, piece_calls_in_flight> sent_;

  int to(int step) const { return (rank_ + step) % size_; }
  int from(int step) const { return (rank_ - step + size_) % size_; }
  Event& made(int step) { return *made_[static_cast<std::size_t>(step - 1)]; }
  Event& sent(std::uint64_t call) { return *sent_[call % piece_calls_in_flight]; }

  void post_event(std::uint64_t call, Stream& stream, int number) {
    CudaRecordable& event = meeting_->event(rank_, call, number);
    stream.record(event);
    meeting_->post(rank_, call).records[static_cast<std::size_t>(number)] = event.recorded();
  }
  void wait_for_event(std::uint64_t call, Stream& stream, int peer, int number) {
    CudaRecordable& event = meeting_->event(peer, call, number);
    event.expect(meeting_->post(peer, call).records[static_cast<std::size_t>(number)]);
    stream.wait(event);
  }
  bool meet(std::uint64_t call, Stream& stream, const std::atomic<std::uint64_t>& count) {
    if (meeting_->wait(count, call)) return true;
    stream.fail(meeting_->cause());
    return false;
  }

  bool begin_call(std::uint64_t call, Stream& stream, const Tensor& target) {
    try {
      meeting_->post(rank_, call).target = meeting_->place_of(target);
    } catch (...) {
      stream.fail(std::current_exception());
      return false;
    }
    post_event(call, stream, 0);
    meeting_->posts(rank_).begun.store(call, std::memory_order_release);
    return true;
  }

  // Sends the piece into the peer's target, at this offset.
  bool send(std::uint64_t call, Stream& stream, int step, const Tensor& piece, std::size_t offset) {
    const int peer = to(step);
    if (!meet(call, stream, meeting_->posts(peer).begun)) return false;
    wait_for_event(call, copies_, peer, 0);
    copies_.copy(meeting_->reach(peer, meeting_->post(peer, call).target) + offset, piece.data, piece.bytes());
    post_event(call, copies_, step);
    return true;
  }

  void end_sending(std::uint64_t call) {
    copies_.record(sent(call));
    meeting_->posts(rank_).sent.store(call, std::memory_order_release);
  }

  bool wait_for_piece(std::uint64_t call, Stream& stream, int step) {
    if (!meet(call, stream, meeting_->posts(from(step)).sent)) return false;
    wait_for_event(call, stream, from(step), step);
    return true;
  }

  // The memory that this rank sent may be overwritten from here on.
  void end_call(std::uint64_t call, Stream& stream) {
    stream.wait(sent(call));
    if (!copies_.begin()) stream.fail(copies_.failure());
  }
};

}  // namespace

std::unique_ptr<CudaPieces> make_cuda_pieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device) {
  return std::make_unique<PeerCopies>(std::move(meeting), rank, device);
}

}  // namespace pipetrain
