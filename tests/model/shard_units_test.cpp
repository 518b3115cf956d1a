// The division of a rank's weights over replicas.
#include "model/parameters/shard_units.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "catch.hpp"
#include "model/families/family.hpp"
#include "model/named_model.hpp"

namespace pipetrain::test {
namespace {

ModelConfig model(const std::string& name, bool tied) {
  ModelConfig config = named_model(name, 2);
  config.tied_embeddings = tied;
  return config;
}

std::vector<std::vector<Block>> two_chunks(const ModelConfig& config) {
  const std::vector<Block> all = blocks_of(config);
  return {{all.begin(), all.begin() + 3}, {all.begin() + 3, all.end()}};
}

}  // namespace

TEST_CASE("replicas own every element once, in runs of whole norm blocks") {
  for (const std::string name : {"tiny", "gpt2", "llama3.2-1b"}) {
    for (const int tp : {1, 2}) {
      for (const int replicas : {1, 2, 3, 4}) {
        const ModelConfig config = model(name, name == "gpt2");
        const ParameterLayout layout = layout_parameters(config, two_chunks(config), tp - 1, tp);
        const auto units = shard_units(layout, replicas);
        INFO(name << " tp " << tp << ", " << replicas << " replicas");
        std::size_t at = 0;
        for (const ShardUnit& unit : units) {
          REQUIRE(unit.grads == at);
          at += unit.weights.size();
          REQUIRE(unit.cuts.size() == static_cast<std::size_t>(replicas) + 1);
          REQUIRE(std::is_sorted(unit.cuts.begin(), unit.cuts.end()));
          REQUIRE(unit.cuts.front() == 0);
          REQUIRE(static_cast<std::size_t>(unit.cuts.back()) == unit.weights.size());
        }
        REQUIRE(at == layout.grad_elements);
        std::map<std::size_t, std::size_t> reached;  // by parameter
        for (int replica = 0; replica < replicas; ++replica) {
          for (const HeldPart& part : held_parts(layout, units, replica)) {
            REQUIRE(part.begin == reached[part.parameter]);
            REQUIRE(part.begin % norm_block_elements == 0);
            reached[part.parameter] = part.end;
          }
        }
        for (std::size_t i = 0; i < layout.parameters.size(); ++i)
          REQUIRE(reached[i] == static_cast<std::size_t>(layout.parameters[i].local.elements()));
      }
    }
  }
}

TEST_CASE("replicas own equally much, up to about a block each") {
  for (const std::string name : {"gpt2", "llama2-7b"}) {
    for (const int replicas : {2, 3, 4, 8}) {
      const ModelConfig config = named_model(name, {});
      const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, 0, 1);
      const auto units = shard_units(layout, replicas);
      for (int replica = 0; replica < replicas; ++replica) {
        double own = 0;
        for (const ShardUnit& unit : units) own += unit.tied_copy ? 0 : static_cast<double>(unit.run(replica).size());
        INFO(name << ", " << replicas << " replicas, " << own / (static_cast<double>(layout.weight_elements) / replicas));
        CHECK(std::abs(own - static_cast<double>(layout.weight_elements) / replicas) <= 2.0 * norm_block_elements);
      }
    }
  }
}

TEST_CASE("two places of a tied table are cut alike, on one stage and on two") {
  const ModelConfig config = model("gpt2", true);
  const auto chunks = two_chunks(config);
  const auto table_cuts = [](const ParameterLayout& layout, TensorRole role) {
    for (const BlockParameters& block : layout.blocks) {
      const StoredTensor* tensor = block.find(role);
      if (tensor == nullptr) continue;
      for (const ShardUnit& unit : shard_units(layout, 3))
        if (unit.grads == tensor->grad_offset) return unit.cuts;
    }
    return std::vector<std::int64_t>{};
  };
  const ParameterLayout whole = layout_parameters(config, chunks, 0, 1);
  const ParameterLayout first = layout_parameters(config, {chunks[0]}, 0, 1);
  const ParameterLayout last = layout_parameters(config, {chunks[1]}, 0, 1);
  const auto cuts = table_cuts(whole, TensorRole::token_table);
  REQUIRE(cuts.size() == 4);
  CHECK(table_cuts(whole, TensorRole::output_weight) == cuts);
  CHECK(table_cuts(first, TensorRole::token_table) == cuts);
  CHECK(table_cuts(last, TensorRole::output_weight) == cuts);
}

}  // namespace pipetrain::test
