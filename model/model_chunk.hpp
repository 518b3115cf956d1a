// ModelChunk is a range of blocks that a stage computes together; ChunkSlot holds the values of one microbatch in it.
#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/blocks/relocation.hpp"
#include "model/blocks/weight_gradients.hpp"
#include "model/stage_model.hpp"

namespace pipetrain {

struct ChunkBlock {
  std::unique_ptr<BlockCompute> compute;
  Block block;
  std::size_t index = 0;  // its index in ParameterLayout::blocks
  Recompute recompute = Recompute::none;
  std::vector<Tensor> bound = {};  // its weights at the last use

  bool is_routed() const { return block.kind == BlockKind::experts; }
};

// The values that a chunk keeps of one microbatch, and the arguments of its forward that the backward repeats.
class ChunkSlot final : public ActivationSlot {
 public:
  enum class State { empty, forwarded, pending };

  ChunkSlot(int chunk_index, const std::vector<ChunkBlock>& chunk_blocks) : chunk(chunk_index) {
    for (const ChunkBlock& block : chunk_blocks) blocks.push_back(block.compute->make_saved());
  }

  void place_saved(void* data, std::size_t bytes) {
    saved = Arena(data, bytes, "saved activations");
    memory = data;
  }
  // The saved values have been copied to `data`.
  void move_saved(void* data, std::size_t bytes) {
    assert(state == State::forwarded);
    const Relocation moved{memory, bytes, data};
    for (Tensor& input : inputs) moved.move(input);
    moved.move(final_hidden);
    moved.move(counts);
    for (const auto& block : blocks) block->relocate(moved);
    memory = data;
  }
  void keep_arguments(const ForwardArgs& args) {
    draws = args.draws;
    documents = args.documents.data == nullptr ? std::nullopt : std::optional(args.documents);
    origins = args.origins.data == nullptr ? std::nullopt : std::optional(args.origins);
    slice = args.slice;
  }
  bool is_last_slice() const { return slice && slice->last; }

  int chunk;
  Arena saved = Arena::measuring(), pending = Arena::measuring();  // until memory is set
  void* memory = nullptr;  // the memory of saved; a different one once the values have moved
  std::vector<std::unique_ptr<BlockCompute::Saved>> blocks;
  std::vector<Tensor> inputs;          // [Tr, H], the input of each block
  Tensor final_hidden;                 // [Tr, H] with a further prediction: ForwardArgs::final_hidden
  Tensor counts;                       // StageEdge::counts() i32 with routed experts: RouterContext::counts after the chunk
  std::vector<KeptGradient> kept;      // from I until W
  std::vector<std::size_t> kept_ends;  // the end of each block's gradients, from the chunk's last block to its first
  std::optional<DropoutDraws> draws;
  std::optional<Tensor> documents, origins;
  std::optional<SliceArgs> slice;
  State state = State::empty;
};

struct ModelChunk {
  int index = 0;
  std::vector<ChunkBlock> blocks;
  ActivationBytes bytes;
  Accumulate accumulate = Accumulate::no;  // for the next microbatch's gradients
  bool begins_model = false, ends_model = false, predicts_further = false;

  std::unique_ptr<ChunkSlot> make_slot() const { return std::make_unique<ChunkSlot>(index, blocks); }
};

}  // namespace pipetrain
