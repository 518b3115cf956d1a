#include "model/parameters.hpp"

#include <fmt/format.h>

#include <cassert>
#include <numeric>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "core/process_group.hpp"

namespace pipetrain {
namespace {

// Aligned in a bf16 arena too, and so in an fp32 one.
std::size_t align_elements(std::size_t elements) { return align_up(elements * size_of(DType::bf16)) / size_of(DType::bf16); }

// "1, 2, 4 or 8": the sizes that divide all of the counts.
std::string working_sizes(std::int64_t common_divisor) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= common_divisor; ++size) {
    if (common_divisor % size == 0) sizes.push_back(size);
  }
  std::string text = std::to_string(sizes.front());
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    text += (i + 1 == sizes.size() ? " or " : ", ") + std::to_string(sizes[i]);
  }
  return text;
}

void check_tensor_parallel(const ModelConfig& config, int tp_size) {
  if (tp_size < 1) throw Error(ErrorKind::input, fmt::format("--tp {}: the number of devices must be at least 1", tp_size));
  const auto require = [&](std::int64_t count, const char* what) {
    if (count % tp_size == 0) return;
    const std::int64_t common = std::gcd(std::gcd(config.heads, config.kv_heads), config.intermediate);
    throw Error(ErrorKind::input, fmt::format("--tp {}: {} {} cannot be split over {} devices; use {}", tp_size, count, what,
                                              tp_size, working_sizes(common)));
  };
  require(config.heads, "attention heads");
  require(config.kv_heads, "key-value heads");
  require(config.intermediate, "columns of the MLP (intermediate size)");
}

// One logical tensor, and which stored tensor of its block it is stacked into.
struct Piece {
  Parameter parameter;
  std::size_t stored = 0;
};

// What one rank holds of one block, before it has a place.
struct BlockPlan {
  std::vector<Shape> stored;
  std::vector<Piece> pieces;  // stacked by rows inside a stored tensor, in this order
};

class Splitter {
 public:
  Splitter(const ModelConfig& config, int tp_rank, int tp_size) : config_(config), rank_(tp_rank), size_(tp_size) {}

  BlockPlan plan(const Block& block) const {
    BlockPlan plan;
    switch (block.kind) {
      case BlockKind::embedding:
        plan_embedding(plan);
        break;
      case BlockKind::attention:
        plan_attention(plan, block.layer);
        break;
      case BlockKind::mlp:
        plan_mlp(plan, block.layer);
        break;
      case BlockKind::head:
        plan_head(plan);
        break;
    }
    return plan;
  }

 private:
  static Parameter whole(const std::string& name, std::int64_t length) {
    Parameter parameter;
    parameter.name = name;
    parameter.full = parameter.local = {length};
    parameter.decays = false;
    return parameter;
  }
  Parameter rows(const std::string& name, std::int64_t full_rows, std::int64_t cols) const {
    const RowSplit split(full_rows, size_);
    Parameter parameter;
    parameter.name = name;
    parameter.full = {full_rows, cols};
    parameter.local = {split.count(rank_), cols};
    parameter.split_axis = size_ > 1 ? 0 : -1;
    parameter.begin = split.begin(rank_);
    return parameter;
  }
  Parameter columns(const std::string& name, std::int64_t full_rows, std::int64_t cols) const {
    const RowSplit split(cols, size_);
    Parameter parameter;
    parameter.name = name;
    parameter.full = {full_rows, cols};
    parameter.local = {full_rows, split.count(rank_)};
    parameter.split_axis = size_ > 1 ? 1 : -1;
    parameter.begin = split.begin(rank_);
    return parameter;
  }

  // Stores the parameters as one tensor, stacked by rows.
  static void store(BlockPlan& plan, const std::vector<Parameter>& parameters) {
    Shape shape = parameters.front().local;
    if (shape.rank() == 2) {
      std::int64_t total_rows = 0;
      for (const Parameter& parameter : parameters) total_rows += parameter.local[0];
      shape = {total_rows, shape[1]};
    }
    for (const Parameter& parameter : parameters) plan.pieces.push_back({parameter, plan.stored.size()});
    plan.stored.push_back(shape);
  }

  void plan_embedding(BlockPlan& plan) const {
    store(plan, {rows("model.embed_tokens.weight", config_.vocabulary, config_.hidden)});
  }
  void plan_attention(BlockPlan& plan, std::int64_t layer) const {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const std::int64_t hidden = config_.hidden;
    const std::int64_t query = config_.heads * config_.head_dim, key_value = config_.kv_heads * config_.head_dim;
    store(plan, {whole(prefix + "input_layernorm.weight", hidden)});
    store(plan,
          {rows(prefix + "self_attn.q_proj.weight", query, hidden), rows(prefix + "self_attn.k_proj.weight", key_value, hidden),
           rows(prefix + "self_attn.v_proj.weight", key_value, hidden)});
    store(plan, {columns(prefix + "self_attn.o_proj.weight", hidden, query)});
  }
  void plan_mlp(BlockPlan& plan, std::int64_t layer) const {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const std::int64_t hidden = config_.hidden, inner = config_.intermediate;
    store(plan, {whole(prefix + "post_attention_layernorm.weight", hidden)});
    store(plan, {rows(prefix + "mlp.gate_proj.weight", inner, hidden), rows(prefix + "mlp.up_proj.weight", inner, hidden)});
    store(plan, {columns(prefix + "mlp.down_proj.weight", hidden, inner)});
  }
  void plan_head(BlockPlan& plan) const {
    store(plan, {whole("model.norm.weight", config_.hidden)});
    const bool tied = config_.tied_embeddings;
    Parameter output = rows(tied ? "model.embed_tokens.weight" : "lm_head.weight", config_.vocabulary, config_.hidden);
    output.tied_copy = tied;
    store(plan, {output});
  }

  const ModelConfig& config_;
  int rank_, size_;
};

// Gives every stored tensor its place: chunk by chunk, in a chunk the replicated vectors first, then the embedding's table.
class Placer {
 public:
  explicit Placer(ParameterLayout& layout) : layout_(layout) {}

  void place_chunk(const std::vector<Block>& blocks, const std::vector<BlockPlan>& plans, int chunk) {
    const std::size_t first = layout_.blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      layout_.blocks.push_back({blocks[i], chunk, {}});
      for (const Shape& shape : plans[i].stored) layout_.blocks.back().tensors.push_back({shape, 0, 0});
    }
    const std::size_t begin = layout_.grad_elements;
    const auto place_all = [&](Kind kind) {
      for (std::size_t i = 0; i < blocks.size(); ++i) place(layout_.blocks[first + i], plans[i], kind);
      return Region{begin, layout_.grad_elements};
    };
    layout_.replicated_grads.push_back(place_all(Kind::vector));
    layout_.zeroed_grads.push_back(place_all(Kind::table));
    layout_.chunk_grads.push_back(place_all(Kind::matrix));
    for (std::size_t i = 0; i < blocks.size(); ++i) list_parameters(layout_.blocks[first + i], plans[i]);
  }

 private:
  enum class Kind { vector, table, matrix };

  static Kind kind_of(const BlockParameters& block, const StoredTensor& tensor) {
    if (tensor.shape.rank() == 1) return Kind::vector;
    return block.block.kind == BlockKind::embedding ? Kind::table : Kind::matrix;
  }

  void place(BlockParameters& block, const BlockPlan& plan, Kind kind) {
    for (std::size_t i = 0; i < block.tensors.size(); ++i) {
      StoredTensor& tensor = block.tensors[i];
      if (kind_of(block, tensor) != kind) continue;
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
  // Null when this stage does not hold the embedding.
  const StoredTensor* embedding_table() const {
    for (const BlockParameters& block : layout_.blocks) {
      if (block.block.kind == BlockKind::embedding) return &block.tensors.front();
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

}  // namespace

std::vector<Block> blocks_of(const ModelConfig& config) {
  std::vector<Block> blocks{{BlockKind::embedding, 0}};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    blocks.push_back({BlockKind::attention, layer});
    blocks.push_back({BlockKind::mlp, layer});
  }
  blocks.push_back({BlockKind::head, 0});
  return blocks;
}

ParameterLayout layout_parameters(const ModelConfig& config, const std::vector<std::vector<Block>>& chunks, int tp_rank,
                                  int tp_size) {
  check_tensor_parallel(config, tp_size);
  assert(tp_rank >= 0 && tp_rank < tp_size);
  const Splitter splitter(config, tp_rank, tp_size);
  ParameterLayout layout;
  Placer placer(layout);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    std::vector<BlockPlan> plans;
    for (const Block& block : chunks[chunk]) plans.push_back(splitter.plan(block));
    placer.place_chunk(chunks[chunk], plans, static_cast<int>(chunk));
  }
  return layout;
}

}  // namespace pipetrain
