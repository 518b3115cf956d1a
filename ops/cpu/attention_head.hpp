// Attention of one head on one thread: a tile of the work of ops/cpu/attention.cpp. Shapes: D columns of queries and keys, V of
// values; queries and keys are segments of one sequence's positions, possibly the same segment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/arguments/all.hpp"
#include "ops/cpu/rows.hpp"

namespace pipetrain::cpu {

// A matrix of floats inside a larger one.
struct Head {
  float* data;
  std::int64_t stride;
  float* row(std::int64_t at) const { return data + at * stride; }
};

struct Heads {
  Head q, k, v;
};

// The location of a head in a packed tensor of any activation type: its rows and columns.
struct HeadLocation {
  const Tensor& packed;
  std::int64_t first_row, first_col, rows, dim;
  char* row(std::int64_t at) const { return element_at(packed, (first_row + at) * packed.cols() + first_col); }
};

// A head as floats for the duration of a tile: read in place, or widened into memory of the thread.
class WideHead {
 public:
  explicit WideHead(const HeadLocation& location)
      : location_(location),
        there_(location.packed.dtype == DType::f32),
        wide_(there_ ? 0 : location.rows * location.dim),
        head_(there_ ? Head{reinterpret_cast<float*>(location.row(0)), location.packed.cols()}
                     : Head{wide_.data(), location.dim}) {}

  const WideHead& load() const {
    if (there_) return *this;
    for (std::int64_t row = 0; row < location_.rows; ++row)
      widen(location_.packed.dtype, location_.row(row), location_.dim, head_.row(row));
    return *this;
  }
  // Rounds the values back into the tensor if they were widened.
  void store() const {
    if (there_) return;
    for (std::int64_t row = 0; row < location_.rows; ++row)
      narrow(location_.packed.dtype, head_.row(row), location_.dim, location_.row(row));
  }
  operator Head() const { return head_; }

 private:
  HeadLocation location_;
  bool there_;
  Floats wide_;
  Head head_;
};

// Returns a query head's rows in q or in a tensor of that shape.
inline HeadLocation query_head(const SegmentShape& shape, const Tensor& packed, std::int64_t batch, std::int64_t head) {
  return {packed, batch * shape.queries, head * shape.head_dim, shape.queries, shape.head_dim};
}
// Returns a query head's rows in the output, or in a tensor of that shape.
inline HeadLocation output_head(const SegmentShape& shape, const Tensor& output, std::int64_t batch, std::int64_t head) {
  return {output, batch * shape.queries, head * shape.value_dim(), shape.queries, shape.value_dim()};
}

// Sight says which keys the queries of one sequence attend to, and which of their probabilities are dropped.
class Sight {
 public:
  // documents: for these queries, as in Positions, or null. sample: the sequence's number in the microbatch.
  Sight(const SegmentShape& shape, const std::int32_t* documents, const Dropout& dropout, std::int64_t sample)
      : shape_(shape),
        documents_(documents),
        dropout_(dropout),
        sample_(dropout.first_sample + static_cast<std::uint32_t>(sample)) {}

  const SegmentShape& shape() const { return shape_; }
  // A query attends to the keys [begin, end), or to none if they are equal; in a sparse pattern to some of them. Neither bound
  // decreases from one query to the next.
  std::int64_t begin(std::int64_t query) const {
    std::int64_t first = document(query);
    if (!shape_.is_sparse()) first += shape_.window_begin(shape_.first_query + query - first);
    return std::clamp(first - shape_.first_key, std::int64_t{0}, end(query));
  }
  // Calls see(begin, end) with the ranges of keys that a query attends to, in rising order, none of them empty.
  template <class See>
  void for_each_range(std::int64_t query, const See& see) const {
    const std::int64_t last = end(query), first = document(query), position = shape_.first_query + query - first;
    const auto clipped = [&](std::int64_t from, std::int64_t to) {
      const std::int64_t begin = std::max(first + from - shape_.first_key, std::int64_t{0});
      const std::int64_t end = std::min(first + to - shape_.first_key, last);
      if (begin < end) see(begin, end);
    };
    const std::int64_t window = shape_.window_begin(position), sinks = std::min(shape_.sinks, window);
    clipped(0, sinks);
    for (std::int64_t at = shape_.period - shape_.stripe; shape_.period > 0 && at < window; at += shape_.period)
      clipped(std::max(at, sinks), std::min(at + shape_.stripe, window));
    clipped(window, position + 1);
  }
  std::int64_t end(std::int64_t query) const {
    return std::clamp(query + 1 + shape_.first_query - shape_.first_key, std::int64_t{0}, shape_.keys);
  }
  bool drops() const { return dropout_.active(); }
  // Writes the dropout factors of this query's probabilities for the keys first, first + 1, ...
  void factors(std::int64_t head, std::int64_t query, std::int64_t first, std::int64_t count, float* out) const;

 private:
  // Returns the first position of the query's document.
  std::int64_t document(std::int64_t query) const { return documents_ == nullptr ? 0 : documents_[query]; }

  const SegmentShape& shape_;
  const std::int32_t* documents_;
  Dropout dropout_;
  std::uint32_t sample_;
};

// The forward or backward of one head of one sequence.
struct HeadTask {
  const Sight& sight;
  std::int64_t head;
};

// Writes out [queries, V] and log_sum_exp [queries], unless that is null. A query without keys gets zeros and -infinity.
void forward_head(const HeadTask& task, const Heads& in, Head out, float* log_sum_exp);

struct HeadOutputs {
  Head dout, out;
  const float* log_sum_exp;
};
// Computes one query head's share: writes dq, or adds to it; adds to dk and dv.
void backward_head(const HeadTask& task, const Heads& in, const HeadOutputs& of, const Heads& grad,
                   Accumulate accumulate_dq = Accumulate::no);

}  // namespace pipetrain::cpu
