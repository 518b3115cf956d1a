// A dropout site drops in a part of each sequence what it drops there in the whole.
#include "model/blocks/dropout_site.hpp"

#include <memory>
#include <vector>

#include "catch.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "core/device.hpp"

using namespace pipetrain;

namespace {

constexpr std::int64_t batch = 3, sequence = 24, hidden = 20;

class DropoutRank {
 public:
  DropoutRank() { ops_->set_workspace(workspace_); }

  // Drops in this rank's rows of a microbatch of ones: `tokens` of each sequence, spread over the group.
  std::vector<float> drop(const SequencePart& part, std::int64_t tokens, const TensorParallel& tp) {
    SliceContext slice{.first = part.first};
    const BlockContext context{.ops = *ops_,
                               .workspace = workspace_,
                               .tp = tp,
                               .shape = {batch, tokens},
                               .rotary = {},
                               .draws = DropoutDraws{.seed = 3, .step = 5, .first_sample = 7},
                               .cp = {part.context},
                               .slice = part.first == 0 ? nullptr : &slice};
    std::vector<float> ones(static_cast<std::size_t>(context.shard_rows() * hidden), 1), out(ones.size());
    const Shape shape{context.shard_rows(), hidden};
    DropoutSite("layers.2.mlp", 0.3).drop(context, {ones.data(), shape, DType::f32}, {out.data(), shape, DType::f32});
    stream_->synchronize();
    return out;
  }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device(0, 2);
  std::unique_ptr<Stream> stream_ = device_->make_stream("rank");
  Buffer memory_ = device_->allocate(std::size_t{1} << 16, "workspace");
  Arena workspace_{memory_.data(), memory_.bytes(), "workspace"};
  std::unique_ptr<Ops> ops_ = make_cpu_ops(*stream_);
};

}  // namespace

TEST_CASE("slices of sequences, and the parts that ranks share of them, drop what whole sequences drop there") {
  DropoutRank one;
  const std::vector<float> whole = one.drop({}, sequence, {});
  for (const int cp : {1, 2}) {
    for (const int tp : {1, 3}) {
      const auto groups = make_inprocess_groups(tp);
      std::int64_t first = 0;
      for (const std::int64_t length : {12, 4, 8}) {
        for (int member = 0; member < cp; ++member) {
          const SequencePart part{{member, cp}, first};
          const std::int64_t tokens = length / cp;
          for (int rank = 0; rank < tp; ++rank) {
            INFO("cp " << cp << ", tp " << tp << ", " << length << " tokens from " << first);
            const TensorParallel shards{groups[static_cast<std::size_t>(rank)].get(), tp > 1};
            std::vector<float> expected;
            for (std::int64_t row = 0; row < shards.shard_rows(batch * tokens); ++row) {
              const std::int64_t token = shards.shard_begin(batch * tokens) + row;
              const auto from = whole.begin() + (token / tokens * sequence + part.position(token % tokens, tokens)) * hidden;
              expected.insert(expected.end(), from, from + hidden);
            }
            CHECK(one.drop(part, tokens, shards) == expected);
          }
        }
        first += length;
      }
    }
  }
}
