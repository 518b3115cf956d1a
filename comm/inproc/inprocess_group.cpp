#include "comm/inproc/inprocess_group.hpp"

#include <atomic>
#include <cstring>
#include <mutex>

#include "comm/cpu_rank_sum.hpp"
#include "comm/sent_rows.hpp"
#include "core/cpu_stream.hpp"

namespace pipetrain {
namespace {

// The meeting point of a group's members: each publishes its tensors, then all continue together.
class Meeting {
 public:
  struct Published {
    Tensor source, target;
    const RowExchange* exchange = nullptr;
  };

  explicit Meeting(int size) : published(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(published.size()); }

  // Returns when every member has arrived; throws the cause of an abort.
  void arrive() {
    const std::uint32_t round = round_.load();
    if (aborted_) rethrow();
    if (arrived_.fetch_add(1) + 1 == size()) {
      arrived_ = 0;
      round_.fetch_add(1);
      round_.notify_all();
    } else {
      while (round_.load() == round) round_.wait(round);
    }
    if (aborted_) rethrow();
  }

  void abort(std::exception_ptr cause) {
    {
      const std::lock_guard lock(mutex_);
      if (!cause_) cause_ = std::move(cause);
    }
    aborted_ = true;
    round_.fetch_add(1);
    round_.notify_all();
  }

  std::vector<Published> published;

 private:
  [[noreturn]] void rethrow() {
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(cause_);
  }

  std::atomic<int> arrived_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::exception_ptr cause_;
};

class InprocessGroup : public Group {
 public:
  InprocessGroup(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }

  using Group::all_gather, Group::reduce_scatter;

  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& split) override {
    meet(stream, shard, full, [this, full, split] {
      for (int rank = 0; rank < size(); ++rank) {
        const Tensor source = published_by(rank).source;
        const Tensor target = full.row_range(split.begin(rank), split.end(rank));
        if (source.data != target.data && source.bytes() > 0) std::memcpy(target.data, source.data, source.bytes());
      }
    });
  }

  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& split) override {
    meet(stream, full, shard, [this, full, shard, split] {
      const std::int64_t begin = split.begin(rank_) * full.cols(), end = split.end(rank_) * full.cols();
      auto* target = static_cast<std::byte*>(shard.data);
      reduce_in_rank_order({from_every_source(begin), {&target, 1}, end - begin, full.dtype, Reduction::sum});
    });
  }

  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    meet(stream, tensor, tensor, [this, tensor, reduction] {
      const RowSplit split(tensor.elements(), size());
      std::vector<std::byte*> targets;
      for (const auto& [source, target, exchange] : meeting_->published) targets.push_back(element(target, split.begin(rank_)));
      reduce_in_rank_order({from_every_source(split.begin(rank_)), targets, split.count(rank_), tensor.dtype, reduction});
    });
  }

  void shift(Stream& stream, const Tensor& source, const Tensor& target) override {
    meet(stream, source, target, [this, target] {
      const Tensor& from = published_by((rank_ + size() - 1) % size()).source;
      if (from.bytes() > 0) std::memcpy(target.data, from.data, from.bytes());
    });
  }

  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const RowSplit& split) override {
    meet(stream, full, received, [this, received, split] {
      const std::int64_t own = split.count(rank_);
      for (int rank = 0; rank < size() && own > 0; ++rank) {
        const Tensor source = published_by(rank).source.row_range(split.begin(rank_), split.end(rank_));
        std::memcpy(received.row_range(rank * own, (rank + 1) * own).data, source.data, source.bytes());
      }
    });
  }

  void all_to_all(Stream& stream, const RowExchange& exchange) override {
    cpu_stream(stream).enqueue([this, exchange] {
      meeting_->published[static_cast<std::size_t>(rank_)].exchange = &exchange;
      meeting_->arrive();
      receive_rows(exchange);
      meeting_->arrive();
    });
  }

  void abort(std::exception_ptr cause) override { meeting_->abort(std::move(cause)); }

 private:
  // Copies the rows that every member has for this one.
  void receive_rows(const RowExchange& exchange) {
    auto* const received = exchange.received.as<std::int32_t>();
    received[0] = 0;
    for (int rank = 0; rank < size(); ++rank) {
      const RowExchange& other = *published_by(rank).exchange;
      const auto* const offsets = other.offsets.as<std::int32_t>();
      const std::int32_t begin = offsets[rank_], end = offsets[rank_ + 1];
      for (std::size_t i = 0; i < exchange.rows.size(); ++i) {
        const Tensor to = exchange.rows[i].target.row_range(received[rank], received[rank] + end - begin);
        copy_sent_rows(other.rows[i], begin, end, to.data);
      }
      received[rank + 1] = received[rank] + end - begin;
    }
  }

  const Meeting::Published& published_by(int rank) const { return meeting_->published[static_cast<std::size_t>(rank)]; }

  static std::byte* element(const Tensor& tensor, std::int64_t index) {
    return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(index) * size_of(tensor.dtype);
  }

  // Returns every member's source from this element on, in rank order.
  std::vector<const std::byte*> from_every_source(std::int64_t begin) const {
    std::vector<const std::byte*> sources;
    for (const auto& [source, target, exchange] : meeting_->published) sources.push_back(element(source, begin));
    return sources;
  }

  // Members may read and write each other's memory only between the two arrivals.
  template <class Work>
  void meet(Stream& stream, const Tensor& source, const Tensor& target, Work work) {
    cpu_stream(stream).enqueue([this, source, target, work] {
      meeting_->published[static_cast<std::size_t>(rank_)] = {source, target, nullptr};
      meeting_->arrive();
      work();
      meeting_->arrive();
    });
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> make_inprocess_groups(int size) {
  auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Group>> groups;
  for (int rank = 0; rank < size; ++rank) groups.push_back(std::make_unique<InprocessGroup>(meeting, rank));
  return groups;
}

}  // namespace pipetrain
