#include "model/parameters/parameters.hpp"

#include <algorithm>
#include <map>

#include "catch.hpp"
#include "core/buffer.hpp"
#include "core/error.hpp"
#include "model/costs.hpp"
#include "model/parameters/block_plan.hpp"
#include "model/parameters/gradient_norm.hpp"

namespace pipetrain {
namespace {

ModelConfig grouped_query_config() {
  ModelConfig config = preset_config("tiny");
  config.kv_heads = 4;
  return config;
}

const Parameter& find(const ParameterLayout& layout, const std::string& name) {
  const auto found =
      std::find_if(layout.parameters.begin(), layout.parameters.end(), [&](const Parameter& p) { return p.name == name; });
  REQUIRE(found != layout.parameters.end());
  return *found;
}

std::string error_text(const ModelConfig& config, int tp_size) {
  try {
    layout_parameters(config, {blocks_of(config)}, 0, tp_size);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    REQUIRE(error.setting() != nullptr);
    CHECK(error.setting()->name == "tp");
    CHECK(error.setting()->value == std::to_string(tp_size));
    return error.what();
  }
  return "";
}

std::size_t elements(const Parameter& parameter) { return static_cast<std::size_t>(parameter.local.elements()); }

// Checks that no two of the ranges [offset, offset + size) overlap, and that all end within `limit`.
void check_disjoint(std::vector<std::pair<std::size_t, std::size_t>> ranges, std::size_t limit) {
  std::sort(ranges.begin(), ranges.end());
  std::size_t last = 0;
  for (const auto& [begin, size] : ranges) {
    CHECK(begin >= last);
    last = begin + size;
  }
  CHECK(last <= limit);
}

TEST_CASE("a vocabulary's rows are stored as whole vectors, many odd ones as blocks of them") {
  struct Case {
    std::int64_t rows, stored;
  };
  for (const auto& [rows, stored] : {Case{0, 8},
                                     {2, 8},
                                     {8, 8},
                                     {257, 264},
                                     {1001, 1008},
                                     {25129, 25216},
                                     {50257, 50304},
                                     {32000, 32000},
                                     {64128, 64128},
                                     {128256, 128256}}) {
    INFO(rows);
    CHECK(whole_vectors(rows) == stored);
  }
}

TEST_CASE("a model's blocks are embedding, attention and MLP of each layer, head") {
  ModelConfig config = preset_config("tiny");
  config.layers = 2;
  const std::vector<Block> expected{{BlockKind::embedding, 0}, {BlockKind::attention, 0}, {BlockKind::mlp, 0},
                                    {BlockKind::attention, 1}, {BlockKind::mlp, 1},       {BlockKind::head, 0}};
  CHECK(blocks_of(config) == expected);
}

TEST_CASE("every stored tensor is aligned and no parameters overlap, in both arenas") {
  ModelConfig config = grouped_query_config();
  config.vocabulary = 259;
  config.hidden = 72;
  config.head_dim = 9;
  config.tied_embeddings = GENERATE(false, true);
  const int tp_size = GENERATE(1, 2, 4);
  const int parts = GENERATE(1, 3);
  const auto chunks = partition_blocks(config, parts, 16);
  for (int rank = 0; rank < tp_size; ++rank) {
    const ParameterLayout layout = layout_parameters(config, chunks, rank, tp_size);
    for (const BlockParameters& block : layout.blocks) {
      for (const StoredTensor& tensor : block.tensors) {
        CHECK(tensor.offset * sizeof(float) % tensor_alignment == 0);
        CHECK(tensor.grad_offset * sizeof(float) % tensor_alignment == 0);
      }
    }
    std::vector<std::pair<std::size_t, std::size_t>> weights, grads;
    for (const Parameter& parameter : layout.parameters) {
      if (!parameter.tied_copy) weights.emplace_back(parameter.offset, elements(parameter));
      grads.emplace_back(parameter.grad_offset, elements(parameter));
    }
    check_disjoint(weights, layout.weight_elements);
    check_disjoint(grads, layout.grad_elements);
  }
}

TEST_CASE("a chunk's gradients are contiguous, and in them those of replicated parameters") {
  const ModelConfig config = grouped_query_config();
  const auto chunks = partition_blocks(config, 3, 128);
  const ParameterLayout layout = layout_parameters(config, chunks, 1, 4);
  REQUIRE(layout.chunk_grads.size() == 3);
  REQUIRE(layout.replicated_grads.size() == 3);
  REQUIRE(layout.zeroed_grads.size() == 3);
  for (const Parameter& parameter : layout.parameters) {
    const Region& all = layout.chunk_grads[static_cast<std::size_t>(parameter.chunk)];
    const Region& replicated = layout.replicated_grads[static_cast<std::size_t>(parameter.chunk)];
    const auto inside = [&](const Region& region) {
      return parameter.grad_offset >= region.begin && parameter.grad_offset + elements(parameter) <= region.end;
    };
    CHECK(inside(all));
    CHECK(inside(replicated) == (parameter.split_axis == -1));
    const Region& zeroed = layout.zeroed_grads[static_cast<std::size_t>(parameter.chunk)];
    CHECK(inside(zeroed) == (parameter.full.rank() == 1 || parameter.name == "model.embed_tokens.weight"));
    CHECK(parameter.decays == (parameter.full.rank() > 1));
  }
  CHECK(layout.chunk_grads.front().begin == 0);
  CHECK(layout.chunk_grads.back().end == layout.grad_elements);
}

TEST_CASE("the ranks' slices cover every logical tensor exactly once") {
  ModelConfig config = grouped_query_config();
  config.vocabulary = 257;
  const int tp_size = 4;
  std::map<std::string, std::int64_t> covered;
  std::map<std::string, Parameter> any;
  for (int rank = 0; rank < tp_size; ++rank) {
    for (const Parameter& parameter : layout_parameters(config, {blocks_of(config)}, rank, tp_size).parameters) {
      if (parameter.split_axis == -1) {
        CHECK(parameter.local == parameter.full);
        covered[parameter.name] = parameter.full.elements();
      } else {
        CHECK(parameter.begin == covered[parameter.name]);
        CHECK(parameter.local[1 - parameter.split_axis] == parameter.full[1 - parameter.split_axis]);
        covered[parameter.name] += parameter.local[parameter.split_axis];
      }
      any[parameter.name] = parameter;
    }
  }
  std::int64_t total = 0;
  for (const auto& [name, parameter] : any) {
    if (parameter.split_axis >= 0) CHECK(covered[name] == parameter.full[parameter.split_axis]);
    total += parameter.full.elements();
  }
  CHECK(total == parameter_count(config));
}

TEST_CASE("more ranks than key-value heads hold copies of them, which count once") {
  const ModelConfig config = grouped_query_config();  // 8 heads and 4 key-value heads of 16
  double counted = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, rank, 8);
    for (const char* name : {"model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight"}) {
      const Parameter& parameter = find(layout, name);
      CHECK(parameter.local == Shape{16, 128});
      CHECK(parameter.begin == rank / 2 * 16);
      CHECK(parameter.copies == 2);
      CHECK(parameter.copy == rank % 2);
    }
    CHECK(find(layout, "model.layers.1.self_attn.q_proj.weight").copies == 1);
    for (const std::size_t index : counted_parameters(layout, rank))
      counted += static_cast<double>(layout.parameters[index].local.elements());
  }
  CHECK(counted == static_cast<double>(parameter_count(config)));
}

TEST_CASE("a rank's q, k and v are stacked into one matrix, and gate and up") {
  const ModelConfig config = grouped_query_config();  // 8 heads and 4 key-value heads of 16
  const ParameterLayout layout = layout_parameters(config, {blocks_of(config)}, 1, 2);
  const BlockParameters& attention = layout.blocks[1];
  REQUIRE(attention.tensors.size() == 3);
  CHECK(attention.tensors[0].shape == Shape{128});
  CHECK(attention.tensors[1].shape == Shape{64 + 32 + 32, 128});
  CHECK(attention.tensors[2].shape == Shape{128, 64});
  const std::size_t qkv = attention.tensors[1].offset;
  const Parameter& q = find(layout, "model.layers.0.self_attn.q_proj.weight");
  CHECK(q.offset == qkv);
  CHECK(q.begin == 64);
  CHECK(find(layout, "model.layers.0.self_attn.k_proj.weight").offset == qkv + 64 * 128);
  CHECK(find(layout, "model.layers.0.self_attn.v_proj.weight").offset == qkv + 96 * 128);
  const Parameter& o = find(layout, "model.layers.0.self_attn.o_proj.weight");
  CHECK(o.split_axis == 1);
  CHECK(o.begin == 64);

  const BlockParameters& mlp = layout.blocks[2];
  CHECK(mlp.tensors[1].shape == Shape{352, 128});
  CHECK(find(layout, "model.layers.0.mlp.up_proj.weight").grad_offset == mlp.tensors[1].grad_offset + 176 * 128);
  CHECK(mlp.tensors[2].shape == Shape{128, 176});
}

TEST_CASE("a tie inside one stage shares the weight and keeps two gradients; between stages each has its copy") {
  ModelConfig config = grouped_query_config();
  config.tied_embeddings = true;
  const ParameterLayout one = layout_parameters(config, {blocks_of(config)}, 0, 1);
  const Parameter& table = one.parameters.front();
  const Parameter& output = one.parameters.back();
  CHECK(table.name == "model.embed_tokens.weight");
  CHECK(output.name == "model.embed_tokens.weight");
  CHECK_FALSE(table.tied_copy);
  CHECK(output.tied_copy);
  CHECK(output.offset == table.offset);
  CHECK(output.grad_offset != table.grad_offset);
  CHECK(one.grad_elements == one.weight_elements + 256 * 128);

  const auto stages = partition_blocks(config, 2, 128);
  const ParameterLayout last = layout_parameters(config, {stages[1]}, 0, 1);
  CHECK(last.parameters.back().tied_copy);
  CHECK(last.grad_elements == last.weight_elements);
}

TEST_CASE("sizes that tensor parallelism cannot split are refused with those that work") {
  CHECK(error_text(preset_config("tiny"), 3) == "tp 3: 8 attention heads cannot be split over 3 devices; use 1, 2, 4 or 8");
  ModelConfig twelve = grouped_query_config();
  twelve.heads = 12, twelve.intermediate = 360;
  CHECK(error_text(twelve, 6) == "tp 6: 4 key-value heads cannot be split over 6 devices; use 1, 2, 4 or 12");
  ModelConfig odd = preset_config("tiny");
  odd.intermediate = 355;
  CHECK(error_text(odd, 2) == "tp 2: 355 columns of the MLP (intermediate size) cannot be split over 2 devices; use 1");
  CHECK(error_text(odd, 0) == "tp 0: the number of devices must be at least 1");
  CHECK(error_text(odd, 1).empty());
}

}  // namespace
}  // namespace pipetrain
