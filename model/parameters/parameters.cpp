#include "model/parameters/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"
#include "model/parameters/block_plan.hpp"

namespace pipetrain {
namespace {

// Returns the sizes that the model splits over, such as "1, 2, 4 or 8".
std::string working_sizes(const ModelConfig& config) {
  std::vector<std::string> sizes;
  for (std::int64_t size = 1; size <= config.heads; ++size) {
    if (splits_over(config, size)) sizes.push_back(std::to_string(size));
  }
  const std::string last = sizes.back();
  sizes.pop_back();
  return sizes.empty() ? last : fmt::format("{} or {}", fmt::join(sizes, ", "), last);
}

void check_tensor_parallel(const ModelConfig& config, int tp_size) {
  if (tp_size < 1) throw Error(ErrorKind::input, {"tp", std::to_string(tp_size)}, "the number of devices must be at least 1");
  if (splits_over(config, tp_size)) return;
  const auto refuse = [&](std::int64_t count, const char* what) {
    throw Error(ErrorKind::input, {"tp", std::to_string(tp_size)},
                fmt::format("{} {} cannot be split over {} devices; use {}", count, what, tp_size, working_sizes(config)));
  };
  if (config.heads % tp_size != 0) refuse(config.heads, "attention heads");
  if (config.intermediate % tp_size != 0) refuse(config.intermediate, "columns of the MLP (intermediate size)");
  for (const std::int64_t inner : {config.experts.intermediate, config.experts.shared_intermediate})
    if (inner % tp_size != 0) refuse(inner, "columns of an expert (its intermediate size)");
  if (config.experts.biases && config.hidden % tp_size != 0)
    refuse(config.hidden, "biases of an expert's last matrix (hidden size)");
  refuse(config.kv_heads, "key-value heads");
}

void check_expert_parallel(const Experts& experts, int size) {
  if (size == 1) return;
  const auto refuse = [&](const std::string& text) { throw Error(ErrorKind::input, {"ep", std::to_string(size)}, text); };
  if (size < 1) refuse("the number of devices must be at least 1");
  if (experts.count == 0) refuse("the model has no routed experts; leave it out");
  if (experts.count % size == 0) return;
  std::vector<std::int64_t> sizes;
  for (std::int64_t divisor = 1; divisor <= experts.count; ++divisor)
    if (experts.count % divisor == 0) sizes.push_back(divisor);
  refuse(fmt::format("{} experts cannot be divided evenly over {} devices; use one of {}", experts.count, size,
                     fmt::join(sizes, ", ")));
}

// Gives every stored tensor its offsets: chunk by chunk, within a chunk by gradient kind.
class Placer {
 public:
  explicit Placer(ParameterLayout& layout) : layout_(layout) {}

  void place_chunk(const std::vector<Block>& blocks, const std::vector<BlockPlan>& plans, int chunk) {
    const std::size_t first = layout_.blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      layout_.blocks.push_back({blocks[i], chunk, {}});
      for (const StoredPlan& stored : plans[i].stored)
        layout_.blocks.back().tensors.push_back({stored.role, stored.shape, 0, 0, stored.group});
    }
    const std::size_t begin = layout_.grad_elements;
    const auto place_all = [&](GradientKind kind) {
      for (std::size_t i = 0; i < blocks.size(); ++i) place(layout_.blocks[first + i], plans[i], kind);
      return Region{begin, layout_.grad_elements};
    };
    layout_.shared_grads.push_back(place_all(GradientKind::shared));
    layout_.replicated_grads.push_back(place_all(GradientKind::replicated));
    layout_.zeroed_grads.push_back(place_all(GradientKind::summed));
    layout_.chunk_grads.push_back(place_all(GradientKind::product));
    for (std::size_t i = 0; i < blocks.size(); ++i) list_parameters(layout_.blocks[first + i], plans[i]);
  }

 private:
  void place(BlockParameters& block, const BlockPlan& plan, GradientKind kind) {
    for (std::size_t i = 0; i < block.tensors.size(); ++i) {
      StoredTensor& tensor = block.tensors[i];
      if (plan.stored[i].gradient != kind) continue;
      const std::size_t elements = align_elements(static_cast<std::size_t>(tensor.shape.elements()));
      tensor.grad_offset = layout_.grad_elements;
      layout_.grad_elements += elements;
      const StoredTensor* shared = is_tied_copy(plan, i) ? embedding_table() : nullptr;
      tensor.offset = shared != nullptr ? shared->offset : layout_.weight_elements;
      if (shared == nullptr) layout_.weight_elements += elements;
    }
  }

  static bool is_tied_copy(const BlockPlan& plan, std::size_t stored) {
    for (const Piece& piece : plan.pieces) {
      if (piece.stored == stored && piece.parameter.tied_copy) return true;
    }
    return false;
  }
  // Returns null when this stage does not hold the embedding.
  const StoredTensor* embedding_table() const {
    for (const BlockParameters& block : layout_.blocks) {
      if (block.block.kind == BlockKind::embedding) return block.find(TensorRole::token_table);
    }
    return nullptr;
  }

  void list_parameters(const BlockParameters& block, const BlockPlan& plan) {
    std::vector<std::size_t> used(block.tensors.size(), 0);
    for (const Piece& piece : plan.pieces) {
      const StoredTensor& tensor = block.tensors[piece.stored];
      Parameter parameter = piece.parameter;
      parameter.chunk = block.chunk;
      parameter.offset = tensor.offset + used[piece.stored];
      parameter.grad_offset = tensor.grad_offset + used[piece.stored];
      used[piece.stored] += static_cast<std::size_t>(parameter.local.elements());
      layout_.parameters.push_back(std::move(parameter));
    }
  }

  ParameterLayout& layout_;
};

// Returns the tensors of which the rank holds anything.
std::vector<TensorSpec> tensors_of_rank(const ModelConfig& config, const Block& block, const ExpertPart& experts) {
  std::vector<TensorSpec> tensors = block_tensors(config, block);
  if (experts.is_whole()) return tensors;
  std::erase_if(tensors, [&](const TensorSpec& tensor) {
    return tensor.expert >= 0 && !experts.holds(tensor.expert, config.experts.count);
  });
  for (TensorSpec& tensor : tensors)
    if (tensor.expert >= 0 && is_trained(tensor.group)) tensor.group = ParameterGroup::expert;
  return tensors;
}

}  // namespace

bool splits_over(const ModelConfig& config, std::int64_t ranks) {
  const Experts& experts = config.experts;
  return config.heads % ranks == 0 && config.intermediate % ranks == 0 && experts.intermediate % ranks == 0 &&
         experts.shared_intermediate % ranks == 0 && (!experts.biases || config.hidden % ranks == 0) &&
         (config.kv_heads % ranks == 0 || ranks % config.kv_heads == 0);
}

const StoredTensor* BlockParameters::find(TensorRole role) const {
  for (const StoredTensor& tensor : tensors) {
    if (tensor.role == role) return &tensor;
  }
  return nullptr;
}

std::vector<Block> blocks_of(const ModelConfig& config) {
  std::vector<Block> blocks{{BlockKind::embedding, 0}};
  const auto add_layer = [&](std::int64_t layer) {
    blocks.push_back({BlockKind::attention, layer});
    blocks.push_back({config.experts.routes(layer) ? BlockKind::experts : BlockKind::mlp, layer});
  };
  for (std::int64_t layer = 0; layer < config.layers; ++layer) add_layer(layer);
  if (config.mtp.is_trained()) {
    blocks.push_back({BlockKind::mtp, config.layers});
    add_layer(config.layers);
  }
  blocks.push_back({BlockKind::head, 0});
  return blocks;
}

namespace {

// True when both of two blocks of one kind, or neither, are among the layers and the parameters that have adapters.
bool have_like_adapters(const Adapter& adapter, const Block& a, const Block& b) {
  const auto is_adapted = [&](const Block& block) {
    return adapter.layers.empty() || std::binary_search(adapter.layers.begin(), adapter.layers.end(), block.layer);
  };
  const auto has = [&](const std::string& parameter) {
    return std::any_of(adapter.parameters.begin(), adapter.parameters.end(),
                       [&](const std::string& end) { return names_module(end, parameter); });
  };
  if (is_adapted(a) != is_adapted(b)) return false;
  return a.kind != BlockKind::experts || (has(gate_up_parameter(a.layer)) == has(gate_up_parameter(b.layer)) &&
                                          has(down_parameter(a.layer)) == has(down_parameter(b.layer)));
}

}  // namespace

std::vector<BlockCount> block_counts(const ModelConfig& config) {
  std::vector<BlockCount> counts;
  for (const Block& block : blocks_of(config)) {
    const auto found = std::find_if(counts.begin(), counts.end(), [&](const BlockCount& one) {
      return one.block.kind == block.kind && have_like_adapters(config.adapter, one.block, block);
    });
    if (found == counts.end())
      counts.push_back({block, 1});
    else
      ++found->blocks;
  }
  return counts;
}

ParameterLayout layout_parameters(const ModelConfig& config, const std::vector<std::vector<Block>>& chunks, int tp_rank,
                                  int tp_size, const ExpertPart& experts) {
  check_tensor_parallel(config, tp_size);
  check_expert_parallel(config.experts, experts.size);
  assert(tp_rank >= 0 && tp_rank < tp_size);
  ParameterLayout layout;
  Placer placer(layout);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    std::vector<BlockPlan> plans;
    for (const Block& block : chunks[chunk])
      plans.push_back(plan_block(tensors_of_rank(config, block, experts), tp_rank, tp_size));
    placer.place_chunk(chunks[chunk], plans, static_cast<int>(chunk));
  }
  return layout;
}

}  // namespace pipetrain
