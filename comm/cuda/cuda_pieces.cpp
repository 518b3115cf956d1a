#include "comm/cuda/cuda_pieces.hpp"

#include <utility>

#include "comm/cuda/piece_meeting.hpp"
#include "core/cuda_stream.hpp"
#include "core/event.hpp"

namespace pipetrain {
namespace {

// In step k a rank sends to rank + k, so that no two send to the same one at a time.
class CudaPieces final : public PiecewiseTransfer {
 public:
  CudaPieces(std::shared_ptr<PieceMeeting> meeting, int rank, Device& device)
      : meeting_(std::move(meeting)), rank_(rank), size_(meeting_->size()), copies_(device, "copies to ranks") {
    for (int step = 1; step < size_; ++step) made_.push_back(device.make_event());
    sent_ = device.make_event();
  }

  void gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows, const Work& use) override {
    const Tensor own_rows = full.row_range(rows.begin(rank_), rows.end(rank_));
    if (!begin_call(stream, full)) return;
    copies_.wait(meeting_->event(rank_, call_, 0));
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
    if (!begin_call(stream, received)) return;
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
  PiecePost& own() { return meeting_->post(rank_, call_); }
  Event& made(int step) { return *made_[static_cast<std::size_t>(step - 1)]; }

  void post_event(Stream& stream, int number) {
    CudaRecordable& event = meeting_->event(rank_, call_, number);
    stream.record(event);
    own().records[static_cast<std::size_t>(number)] = event.recorded();
  }
  void wait_for_event(Stream& stream, int peer, int number) {
    CudaRecordable& event = meeting_->event(peer, call_, number);
    event.expect(meeting_->post(peer, call_).records[static_cast<std::size_t>(number)]);
    stream.wait(event);
  }
  void publish(std::atomic<std::uint64_t>& count) { count.store(call_, std::memory_order_release); }
  bool meet(Stream& stream, const std::atomic<std::uint64_t>& count) {
    if (meeting_->wait(count, call_)) return true;
    stream.fail(meeting_->cause());
    return false;
  }

  bool begin_call(Stream& stream, const Tensor& target) {
    ++call_;
    try {
      own().target = meeting_->place_of(target);
    } catch (...) {
      stream.fail(std::current_exception());
      return false;
    }
    post_event(stream, 0);
    publish(meeting_->posts(rank_).begun);
    return true;
  }

  // The piece into the peer's target, at that many bytes.
  bool send(Stream& stream, int step, const Tensor& piece, std::size_t offset) {
    const int peer = to(step);
    if (!meet(stream, meeting_->posts(peer).begun)) return false;
    wait_for_event(copies_, peer, 0);
    copies_.copy(meeting_->reach(peer, meeting_->post(peer, call_).target) + offset, piece.data, piece.bytes());
    post_event(copies_, step);
    return true;
  }

  void end_sending() {
    copies_.record(*sent_);
    publish(meeting_->posts(rank_).sent);
  }

  bool wait_for_piece(Stream& stream, int step) {
    if (!meet(stream, meeting_->posts(from(step)).sent)) return false;
    wait_for_event(stream, from(step), step);
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
