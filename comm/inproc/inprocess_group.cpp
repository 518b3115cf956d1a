#include "comm/inproc/inprocess_group.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "core/cpu_stream.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Where the members of a group meet: each publishes its two tensors, then all go on together.
class Meeting {
 public:
  struct Place {
    Tensor source, target;
  };

  explicit Meeting(int size) : places(static_cast<std::size_t>(size)) {}

  int size() const { return static_cast<int>(places.size()); }

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

  std::vector<Place> places;

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

template <class T>
void reduce_into(T* target, const T* source, std::int64_t count, Reduction reduction) {
  if (reduction == Reduction::sum) {
    for (std::int64_t i = 0; i < count; ++i) target[i] += source[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i] = std::max(target[i], source[i]);
  }
}

// Elements [begin, end) of every member's source, in rank order, to `out` (count of them).
template <class T>
void reduce_range(const std::vector<Meeting::Place>& places, std::int64_t begin, std::int64_t end, Reduction reduction,
                  T* out) {
  std::copy_n(places[0].source.as<T>() + begin, end - begin, out);
  for (std::size_t rank = 1; rank < places.size(); ++rank) {
    reduce_into(out, places[rank].source.as<T>() + begin, end - begin, reduction);
  }
}

// Reduces one block of all members' tensors in place: through a block on the stack, because the members' memory is the source.
template <class T>
void all_reduce_range(const std::vector<Meeting::Place>& places, std::int64_t begin, std::int64_t end, Reduction reduction) {
  constexpr std::int64_t block = 2048;
  T sums[block];
  for (std::int64_t at = begin; at < end; at += block) {
    const std::int64_t stop = std::min(at + block, end);
    reduce_range(places, at, stop, reduction, sums);
    for (const auto& place : places) std::copy_n(sums, stop - at, place.target.as<T>() + at);
  }
}

class InprocessGroup : public Group {
 public:
  InprocessGroup(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }

  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full) override {
    meet(stream, shard, full, [this, full] {
      const RowSplit split(full.rows(), size());
      for (int rank = 0; rank < size(); ++rank) {
        const Tensor source = place(rank).source;
        const Tensor target = full.row_range(split.begin(rank), split.end(rank));
        if (source.data != target.data && source.bytes() > 0) std::memcpy(target.data, source.data, source.bytes());
      }
    });
  }

  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard) override {
    meet(stream, full, shard, [this, full, shard] {
      const std::int64_t begin = RowSplit(full.rows(), size()).begin(rank_) * full.cols();
      const std::int64_t end = begin + shard.elements();
      if (full.dtype == DType::f64) {
        reduce_range(meeting_->places, begin, end, Reduction::sum, shard.as<double>());
      } else {
        reduce_range(meeting_->places, begin, end, Reduction::sum, shard.as<float>());
      }
    });
  }

  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override {
    meet(stream, tensor, tensor, [this, tensor, reduction] {
      const RowSplit split(tensor.elements(), size());
      if (tensor.dtype == DType::f64) {
        all_reduce_range<double>(meeting_->places, split.begin(rank_), split.end(rank_), reduction);
      } else {
        all_reduce_range<float>(meeting_->places, split.begin(rank_), split.end(rank_), reduction);
      }
    });
  }

  void abort(std::exception_ptr cause) override { meeting_->abort(std::move(cause)); }

 private:
  const Meeting::Place& place(int rank) const { return meeting_->places[static_cast<std::size_t>(rank)]; }

  // Everybody's memory may be read and written between the two arrivals, and only there.
  template <class Work>
  void meet(Stream& stream, const Tensor& source, const Tensor& target, Work work) {
    cpu_stream(stream).enqueue([this, source, target, work] {
      meeting_->places[static_cast<std::size_t>(rank_)] = {source, target};
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
