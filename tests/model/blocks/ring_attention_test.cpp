// Attention of ranks that share sequences, compared with the attention of one rank that has them whole.
#include "model/blocks/ring_attention.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "catch.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "core/half.hpp"
#include "model/context/document_starts.hpp"
#include "model/context/ring_exchange.hpp"

using namespace pipetrain;

namespace {

struct Case {
  SegmentShape shape;  // of whole sequences
  int ranks = 2;
  DType dtype = DType::f32;
  // Tokens of each document except a sequence's last, increasing by one from sequence to sequence; 0: one document.
  std::int64_t document = 0;
  Dropout dropout = {};
};

std::vector<float> draw(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// A rank's device, with tensors that are written and read as floats.
class RingRank {
 public:
  explicit RingRank(DType dtype) : dtype_(dtype), ops_(make_cpu_ops(*stream_)) { ops_->set_workspace(workspace_); }

  Tensor put(const std::vector<float>& values, std::int64_t cols) {
    const Tensor tensor = make({static_cast<std::int64_t>(values.size()) / cols, cols}, dtype_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype_ == DType::f32)
        tensor.as<float>()[i] = values[i];
      else
        tensor.as<std::uint16_t>()[i] = to_bf16(values[i]);
    }
    return tensor;
  }
  Tensor make(const Shape& shape, DType dtype) {
    Tensor tensor{nullptr, shape, dtype};
    buffers_.push_back(device_->allocate(tensor.bytes(), "test"));
    tensor.data = buffers_.back().data();
    return tensor;
  }
  float get(const Tensor& tensor, std::int64_t at) const {
    const auto i = static_cast<std::size_t>(at);
    return tensor.dtype == DType::f32 ? tensor.as<float>()[i] : from_bf16(tensor.as<std::uint16_t>()[i]);
  }
  void join(std::shared_ptr<Group> group) { ring_ = std::make_unique<RingExchange>(*device_, std::move(group), "ring"); }

  BlockContext context(const Case& of, int rank) {
    return {.ops = *ops_,
            .workspace = workspace_,
            .tp = {},
            .shape = {of.shape.batch, of.shape.queries / of.ranks},
            .dtype = dtype_,
            .rotary = {},
            .cp = {{rank, of.ranks}, ring_.get()}};
  }
  Ops& ops() { return *ops_; }
  void wait() {
    stream_->synchronize();
    if (ring_) ring_->stream().synchronize();
  }

 private:
  DType dtype_;
  std::unique_ptr<Device> device_ = make_cpu_device(0, 2);
  std::unique_ptr<Stream> stream_ = device_->make_stream("rank");
  Buffer memory_ = device_->allocate(std::size_t{8} << 20, "workspace");
  Arena workspace_{memory_.data(), memory_.bytes(), "workspace"};
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<RingExchange> ring_;
  std::vector<Buffer> buffers_;
};

struct Tensors {
  Tensor qkv, dout, out, log_sum_exp, dqkv;
  std::optional<Tensor> documents = {};
};

// Returns for each token the position in its sequence of its document's first token.
std::vector<std::int32_t> begins_of(const Case& of) {
  std::vector<std::int32_t> begins;
  for (std::int64_t token = 0; token < of.shape.tokens(); ++token) {
    const std::int64_t length = of.document + token / of.shape.queries, at = token % of.shape.queries;
    begins.push_back(static_cast<std::int32_t>(at - at % length));
  }
  return begins;
}

std::optional<Tensor> put(RingRank& rank, const std::vector<std::int32_t>& numbers) {
  const Tensor tensor = rank.make({std::ssize(numbers)}, DType::i32);
  std::copy(numbers.begin(), numbers.end(), tensor.as<std::int32_t>());
  return tensor;
}

void attend_whole(const Case& of, const Tensors& made, Ops& ops) {
  ops.attention(of.shape, {.q = made.qkv,
                           .kv = made.qkv,
                           .out = made.out,
                           .log_sum_exp = made.log_sum_exp,
                           .documents = made.documents,
                           .dropout = of.dropout});
  ops.attention_backward(of.shape, {.dout = made.dout,
                                    .q = made.qkv,
                                    .kv = made.qkv,
                                    .out = made.out,
                                    .log_sum_exp = made.log_sum_exp,
                                    .dq = made.dqkv,
                                    .dkv = made.dqkv,
                                    .documents = made.documents,
                                    .dropout = of.dropout});
}

void attend_in_ring(const Case& of, const Tensors& made, const SegmentShape& own, BlockContext context) {
  context.documents = made.documents;
  const SliceKeys keys{made.qkv};
  const SliceAttention attention{keys, made.out, made.log_sum_exp, of.dropout};
  ring_attention(context, own, attention);
  ring_attention_backward(context, own, attention, {.out = made.dout, .qkv = made.dqkv});
}

Tensors tensors_of(RingRank& rank, const SegmentShape& shape, const std::vector<float>& qkv, const std::vector<float>& dout) {
  const std::int64_t query_cols = shape.heads * shape.head_dim;
  Tensors made;
  made.qkv = rank.put(qkv, shape.packed_cols());
  made.dout = rank.put(dout, query_cols);
  made.out = rank.put(std::vector<float>(dout.size(), NAN), query_cols);
  made.log_sum_exp = rank.make({shape.batch, shape.heads, shape.queries}, DType::f32);
  made.dqkv = rank.put(std::vector<float>(qkv.size(), NAN), shape.packed_cols());
  return made;
}

// Returns the part's rows of whole sequences.
std::vector<float> rows_of(const Case& of, const ContextPart& part, const std::vector<float>& all) {
  const std::int64_t own = of.shape.queries / part.size;
  const std::int64_t cols = static_cast<std::int64_t>(all.size()) / of.shape.tokens();
  std::vector<float> some;
  for (std::int64_t sample = 0; sample < of.shape.batch; ++sample) {
    for (std::int64_t token = 0; token < own; ++token) {
      const auto from = all.begin() + (sample * of.shape.queries + part.position(token, own)) * cols;
      some.insert(some.end(), from, from + cols);
    }
  }
  return some;
}

// Returns the largest difference between a rank's rows and those of the whole.
double stray(const Case& of, int rank, const RingRank& one, const Tensor& whole, const RingRank& parted, const Tensor& part) {
  const std::int64_t own = of.shape.queries / of.ranks, cols = whole.cols();
  double most = 0;
  for (std::int64_t row = 0; row < part.rows(); ++row) {
    const std::int64_t from = (row / own * of.shape.queries + ContextPart{rank, of.ranks}.position(row % own, own)) * cols;
    for (std::int64_t i = 0; i < cols; ++i) {
      const double difference = std::abs(parted.get(part, row * cols + i) - one.get(whole, from + i));
      most = std::isnan(difference) ? INFINITY : std::max(most, difference);
    }
  }
  return most;
}

void check(const Case& of, double tolerance) {
  INFO(of.ranks << " ranks, batch " << of.shape.batch << ", sequence " << of.shape.queries << ", heads " << of.shape.heads
                << ", " << of.shape.kv_heads << " of keys, documents of " << of.document << ", " << of.dropout.dropped
                << " dropped");
  const auto qkv = draw(of.shape.tokens() * of.shape.packed_cols(), 1),
             dout = draw(of.shape.tokens() * of.shape.heads * of.shape.head_dim, 2);
  RingRank one(of.dtype);
  Tensors whole = tensors_of(one, of.shape, qkv, dout);
  if (of.document > 0) whole.documents = put(one, begins_of(of));
  attend_whole(of, whole, one.ops());
  one.wait();
  SegmentShape own = of.shape;
  own.queries /= of.ranks, own.keys /= of.ranks;
  auto groups = make_inprocess_groups(of.ranks);
  std::vector<std::unique_ptr<RingRank>> ranks;
  std::vector<Tensors> parts;
  for (int number = 0; number < of.ranks; ++number) {
    const auto at = static_cast<std::size_t>(number);
    RingRank& rank = *ranks.emplace_back(std::make_unique<RingRank>(of.dtype));
    rank.join(std::move(groups[at]));
    const ContextPart part{number, of.ranks};
    Tensors& made = parts.emplace_back(tensors_of(rank, own, rows_of(of, part, qkv), rows_of(of, part, dout)));
    if (of.document > 0) {
      std::vector<std::int32_t> begins(static_cast<std::size_t>(own.tokens())), origins(begins.size());
      split_documents({part}, of.shape.queries, begins_of(of), {begins, origins});
      made.documents = put(rank, begins);
    }
    attend_in_ring(of, made, own, rank.context(of, number));
  }
  for (auto& rank : ranks) rank->wait();
  for (int number = 0; number < of.ranks; ++number) {
    const auto at = static_cast<std::size_t>(number);
    INFO("rank " << number);
    CHECK(stray(of, number, one, whole.out, *ranks[at], parts[at].out) <= tolerance);
    CHECK(stray(of, number, one, whole.dqkv, *ranks[at], parts[at].dqkv) <= 4 * tolerance);
  }
}

}  // namespace

TEST_CASE("ranks that share sequences attend as one rank does, forward and backward") {
  for (const int ranks : {2, 3, 4}) {
    check({whole_sequences(1, 24 * ranks, {2, 2, 8}), ranks}, 2e-6);
    check({whole_sequences(2, 2 * ranks, {4, 2, 4}), ranks}, 2e-6);
    check({whole_sequences(2, 150 * ranks, {4, 1, 16}), ranks}, 2e-6);
    check({whole_sequences(2, 40 * ranks, {2, 1, 8}), ranks, DType::bf16}, 0.02);
  }
}

TEST_CASE("ranks that share sequences see no other document, and drop what one rank drops") {
  const Dropout dropout{.key = {3, 5}, .dropped = 20'000, .first_sample = 7, .first_plane = 1};
  for (const int ranks : {2, 3, 4}) {
    for (const std::int64_t document : {0, 1, 5, 17, 1000}) {
      for (const Dropout& drops : {Dropout{}, dropout}) {
        if (document == 0 && !drops.active()) continue;
        check({whole_sequences(2, 24 * ranks, {4, 2, 8}), ranks, DType::f32, document, drops}, 2e-6);
      }
    }
    check({whole_sequences(2, 150 * ranks, {2, 1, 16}), ranks, DType::f32, 70, dropout}, 2e-6);
    check({whole_sequences(2, 40 * ranks, {2, 1, 8}), ranks, DType::bf16, 9, dropout}, 0.04);
  }
}
