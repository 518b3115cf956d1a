// The layouts of parameter groups, compared with that of all parameters.
#include "model/parameters/parameter_groups.hpp"

#include <algorithm>
#include <string>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/named_model.hpp"
#include "model/parameters/arena_views.hpp"
#include "model/parameters/grouped_parameters.hpp"

namespace pipetrain::test {
namespace {

ModelConfig group_model(const std::string& name, bool tied, const TrainedParts& trained) {
  ModelConfig config = named_model(name, 2);
  config.tied_embeddings = tied;
  config.trained = trained;
  return config;
}

ParameterLayout ends_layout(const ModelConfig& config, int tp_rank, int tp) {
  const std::vector<Block> all = blocks_of(config);
  return layout_parameters(config, {{all.begin(), all.begin() + 3}, {all.begin() + 3, all.end()}}, tp_rank, tp);
}

void check_same_regions(const std::vector<Region>& a, const std::vector<Region>& b) {
  CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end(),
                   [](const Region& one, const Region& other) { return one.begin == other.begin && one.end == other.end; }));
}

void check_same_layout(const ParameterLayout& a, const ParameterLayout& b) {
  CHECK(a.weight_elements == b.weight_elements);
  CHECK(a.grad_elements == b.grad_elements);
  check_same_regions(a.chunk_grads, b.chunk_grads);
  check_same_regions(a.replicated_grads, b.replicated_grads);
  check_same_regions(a.zeroed_grads, b.zeroed_grads);
  REQUIRE(a.blocks.size() == b.blocks.size());
  for (std::size_t i = 0; i < a.blocks.size(); ++i) {
    CHECK(a.blocks[i].block == b.blocks[i].block);
    CHECK(a.blocks[i].chunk == b.blocks[i].chunk);
    CHECK(std::equal(a.blocks[i].tensors.begin(), a.blocks[i].tensors.end(), b.blocks[i].tensors.begin(),
                     b.blocks[i].tensors.end(), [](const StoredTensor& one, const StoredTensor& other) {
                       return one.role == other.role && one.shape == other.shape && one.offset == other.offset &&
                              one.grad_offset == other.grad_offset && one.group == other.group;
                     }));
  }
  CHECK(std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                   [](const Parameter& one, const Parameter& other) {
                     return one.name == other.name && one.local == other.local && one.offset == other.offset &&
                            one.grad_offset == other.grad_offset;
                   }));
}

std::size_t stored_elements(const ParameterLayout& layout, ParameterGroup group) {
  std::size_t elements = 0;
  for (const BlockParameters& block : layout.blocks) {
    for (const StoredTensor& tensor : block.tensors) {
      if (tensor.group == group) elements += align_elements(static_cast<std::size_t>(tensor.shape.elements()));
    }
  }
  return elements;
}

}  // namespace

TEST_CASE("a layout of one trained group is the layout of its group, offset by offset", "[groups]") {
  for (const std::string name : {"tiny", "gpt2", "llama3.2-1b"}) {
    for (const int tp : {1, 2}) {
      INFO(name << " tp " << tp);
      const ParameterLayout whole = ends_layout(group_model(name, name == "gpt2", {}), tp - 1, tp);
      const auto groups = group_layouts(whole);
      REQUIRE(groups.size() == 1);
      CHECK(groups[0].group == ParameterGroup::dense);
      check_same_layout(groups[0].layout, whole);
      for (std::size_t i = 0; i < whole.parameters.size(); ++i) CHECK(groups[0].index_of(i) == i);
    }
  }
}

TEST_CASE("frozen tensors have arenas of their own, without gradients, and leave no gap in those of the others", "[groups]") {
  for (const std::string name : {"tiny", "gpt2"}) {
    for (const int tp : {1, 2}) {
      INFO(name << " tp " << tp);
      const ParameterLayout whole =
          ends_layout(group_model(name, false, {.blocks = true, .embeddings = false, .head = false}), tp - 1, tp);
      const auto groups = group_layouts(whole);
      REQUIRE(groups.size() == 2);
      const GroupLayout &dense = groups[0], &frozen = groups[1];
      CHECK(frozen.group == ParameterGroup::frozen);
      CHECK(frozen.layout.grad_elements == 0);
      CHECK(frozen.layout.weight_elements == stored_elements(whole, ParameterGroup::frozen));
      CHECK(dense.layout.weight_elements == stored_elements(whole, ParameterGroup::dense));
      CHECK(dense.layout.grad_elements == dense.layout.weight_elements);
      CHECK(dense.layout.weight_elements + frozen.layout.weight_elements == whole.weight_elements);
      CHECK(dense.layout.chunk_grads.front().begin == 0);
      CHECK(dense.layout.chunk_grads.back().end == dense.layout.grad_elements);
      CHECK(dense.layout.blocks.front().tensors.empty());
      for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
        const auto in_dense = dense.index_of(i), in_frozen = frozen.index_of(i);
        REQUIRE(in_dense.has_value() != in_frozen.has_value());
        const Parameter& own = in_dense ? dense.layout.parameters[*in_dense] : frozen.layout.parameters[*in_frozen];
        CHECK(own.name == whole.parameters[i].name);
        CHECK(own.begin == whole.parameters[i].begin);
        CHECK(in_frozen.has_value() == (own.name.find(name == "tiny" ? ".layers." : ".h.") == std::string::npos));
      }
    }
  }
}

TEST_CASE("a frozen table that is tied is stored once", "[groups]") {
  const ParameterLayout whole =
      ends_layout(group_model("gpt2", true, {.blocks = true, .embeddings = false, .head = false}), 0, 1);
  const ParameterLayout frozen = group_layouts(whole).back().layout;
  const StoredTensor *table = find_tensor(frozen, TensorRole::token_table),
                     *head = find_tensor(frozen, TensorRole::output_weight);
  REQUIRE(table != nullptr);
  REQUIRE(head != nullptr);
  CHECK(table->offset == head->offset);
}

TEST_CASE("blocks get the tensors of all groups in the order of the whole layout", "[groups]") {
  ParameterLayout whole = ends_layout(group_model("gpt2", false, {}), 0, 1);
  for (BlockParameters& block : whole.blocks) {
    for (std::size_t i = 0; i < block.tensors.size(); i += 2) block.tensors[i].group = ParameterGroup::frozen;
  }
  for (Parameter& parameter : whole.parameters) {
    for (const BlockParameters& block : whole.blocks) {
      for (const StoredTensor& tensor : block.tensors) {
        const std::size_t end = tensor.grad_offset + static_cast<std::size_t>(tensor.shape.elements());
        if (parameter.grad_offset >= tensor.grad_offset && parameter.grad_offset < end) parameter.group = tensor.group;
      }
    }
  }
  const auto groups = group_layouts(whole);
  REQUIRE(groups.size() == 2);
  std::vector<float> dense(groups[0].layout.weight_elements), frozen(groups[1].layout.weight_elements);
  const auto tensor = [](std::vector<float>& values) {
    return Tensor{values.data(), {static_cast<std::int64_t>(values.size())}, DType::f32};
  };
  ResidentParameters dense_store(groups[0].layout, tensor(dense)), frozen_store(groups[1].layout, tensor(frozen));
  GroupedParameters all(whole, {{groups[0], dense_store}, {groups[1], frozen_store}});
  for (std::size_t block = 0; block < whole.blocks.size(); ++block) {
    const auto& tensors = all.acquire(block);
    REQUIRE(tensors.size() == whole.blocks[block].tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CHECK(tensors[i].shape == whole.blocks[block].tensors[i].shape);
      const auto& arena = i % 2 == 0 ? frozen : dense;
      CHECK((tensors[i].as<float>() >= arena.data() && tensors[i].as<float>() < arena.data() + arena.size()));
    }
    all.release(block);
  }
}

TEST_CASE("trained parts have a text that is read back, and none that leaves nothing to train or half of a tie", "[groups]") {
  for (const TrainedParts& trained : {TrainedParts{}, TrainedParts{true, false, false}, TrainedParts{false, true, true}}) {
    CHECK(read_trained_parts(to_string(trained)) == trained);
    CHECK_NOTHROW(check_trained_parts(trained, true));
  }
  CHECK(to_string(TrainedParts{}) == "all");
  CHECK_FALSE(read_trained_parts("").has_value());
  CHECK_FALSE(read_trained_parts("head,blocks").has_value());
  CHECK_NOTHROW(check_trained_parts({true, false, true}, false));
  CHECK_THROWS_AS(check_trained_parts({true, false, true}, true), Error);
  CHECK_THROWS_AS(check_trained_parts({false, false, false}, false), Error);
}

}  // namespace pipetrain::test
